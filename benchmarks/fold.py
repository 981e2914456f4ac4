"""The fold of the service in a plain loop, as a process that ``benchmarks.service`` starts: no Kafka, no snapshots.

Settings come from the environment, as a worker's do; one JSON object on stdout says what was measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from explain_core.engine.stream import LONGEST
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings, load_settings
from explain_sidecar.snapshots.snapshot import load, take


def timed(settings: Settings, values: list[bytes], partitions: int) -> dict[str, Any]:
    """Seconds from the first record to the last, dealt out to partitions in turn, and the fold digest of each."""
    states = [PartitionState(settings, partition) for partition in range(partitions)]
    started, on_cpu = time.perf_counter(), time.thread_time()
    for partition, state in enumerate(states):
        for _ in folds(state, values[partition::partitions]):
            pass
    seconds, cpu_seconds = time.perf_counter() - started, time.thread_time() - on_cpu
    digests = [state.fold_digest.hex() for state in states]
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "digests": digests}


def folds(state: PartitionState, values: list[bytes]) -> Iterator[int]:
    """Fold values as a worker does, in blocks; yields how many each time."""
    records = [InputRecord(offset, 0, None, value) for offset, value in enumerate(values, state.next_offset)]
    place = 0
    while place < len(records):
        folded, _ = state.fold(records[place : place + LONGEST])
        if not folded:
            state.step(records[place])
        place += len(folded) or 1
        yield len(folded) or 1


def held(settings: Settings, values: list[bytes], partitions: int) -> dict[str, Any]:
    """Resident bytes that each of several partitions adds once all have folded every record; its snapshot, and a load of it."""
    warm = PartitionState(settings, partitions)  # what is allocated once is no partition's
    for offset, value in enumerate(values[:500]):
        warm.step(InputRecord(offset, 0, None, value))
    _through_a_snapshot(warm, settings)
    del warm
    before = _resident()
    states = [PartitionState(settings, partition) for partition in range(partitions)]
    for offset, value in enumerate(values):
        for state in states:
            state.step(InputRecord(offset, 0, None, value))
    grown = (_resident() - before) / partitions
    return {"resident": grown, **_through_a_snapshot(states[0], settings)}


def _through_a_snapshot(state: PartitionState, settings: Settings) -> dict[str, float]:
    started = time.thread_time()
    snapshot = take(state, settings.app_id, settings.topics.records, "topic-id", fold_settings(settings))
    taken = time.thread_time()
    load(snapshot, settings)
    return {
        "snapshot": snapshot.size,
        "take_seconds": taken - started,
        "load_seconds": time.thread_time() - taken,
    }


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["timed", "held"])
    parser.add_argument("--records", type=Path, required=True, help="file of one JSON record a line")
    parser.add_argument("--partitions", type=int, required=True)
    arguments = parser.parse_args()
    measure = {"timed": timed, "held": held}[arguments.what]
    values = arguments.records.read_bytes().splitlines()
    print(json.dumps(measure(load_settings(), values, arguments.partitions)))


if __name__ == "__main__":
    main()
