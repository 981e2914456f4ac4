"""``python -m benchmarks.moving``: a sidecar with eight forests moves to another cluster, where the records have other offsets, by two commands: how long, and are the models equal?"""

from __future__ import annotations

import json
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from river.datasets import Phishing

from benchmarks import KEY_FILE
from benchmarks.pipeline import Pipeline
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.snapshots.files import read_file
from explain_sidecar.snapshots.signatures import read_keys
from explain_sidecar.snapshots.snapshot import load_parts

PARTITIONS, RECORDS, LOST = 8, 8_000, 800
FOREST = {
    "EXPLAIN_MODEL__FACTORY": "river.forest:ARFClassifier",
    "EXPLAIN_EXPLAINERS": '[{"kind": "ipfi"}]',
    "EXPLAIN_EXPLAIN__EVERY": "10",
    "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(KEY_FILE),
}


def models(line: Pipeline, file: Path) -> list[Any]:
    """The model of each partition in a file of states."""
    found = [load_parts(snapshot) for snapshot, _ in read_file(file, read_keys(line.settings.checkpoint))]
    return [None if data.explained is None else data.explained.model for data in found]


def main() -> None:
    rows = islice(cycle(Phishing()), RECORDS)
    records = [
        (i % PARTITIONS, json.dumps({**x, "place": i, "label": bool(y)}).encode())
        for i, (x, y) in enumerate(rows)
    ]
    with Broker() as here, Broker() as there, tempfile.TemporaryDirectory() as folder:
        old = Pipeline(here, "flights", PARTITIONS, dict(FOREST))
        new = Pipeline(there, "flights", PARTITIONS, dict(FOREST))
        old.feed(records)
        new.feed(records[LOST:])  # a copy whose first records retention has taken: all offsets are lower
        old.run_to_end()
        file, again = Path(folder, "state"), Path(folder, "again")
        started = time.monotonic()
        old.cli("state", "export", str(file))
        exported = time.monotonic()
        new.cli("state", "import", str(file), "--yes")
        ended = time.monotonic()
        new.cli("state", "export", str(again))
        pairs = zip(models(old, file), models(new, again), strict=True)
        equal = sum(before is not None and before == after for before, after in pairs)
        print(
            f"{PARTITIONS} forests after {RECORDS:,} records, {file.stat().st_size:,} bytes: export {exported - started:.1f} s, "
            f"import {ended - exported:.1f} s; {equal} of {PARTITIONS} models are equal"
        )


if __name__ == "__main__":
    main()
