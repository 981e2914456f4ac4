"""``python -m tests.crash.changes --seeds N``: settings, partitions and versions that change while workers die, in memory; prints the faults.

It ends at the first byte in which what was published differs from an oracle that applies the same changes at the same offsets.
"""

import argparse
import logging
import sys

from tests.driver.test_changing import BASES, FAULTS, campaign


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="campaigns of each family")
    seeds = parser.parse_args().seeds
    logging.disable(logging.CRITICAL)
    for seed in range(1, seeds + 1):
        for base in BASES:
            campaign(base, seed)
        sys.stdout.write(f"{seed * len(BASES) * FAULTS:,} faults, {seed} campaigns of each of {len(BASES)} families: 0 bytes differ\n")  # fmt: skip
        sys.stdout.flush()


if __name__ == "__main__":
    main()
