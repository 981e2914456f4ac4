"""A join of events and labels by id written with Quix Streams, exactly-once; ``benchmarks.join`` runs it beside the sidecar's.

An event waits in the state of its id, which lies in RocksDB and in a changelog topic, until its label comes; then both are published
and the event is deleted. Nothing expires, nothing is counted, and the second label of an event is passed over. It ends after ``--count``
records, and prints the seconds from the first of them to the last commit, and those of the thread on the CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from quixstreams import Application, State
from quixstreams.checkpointing import Checkpoint


def step(record: dict[str, Any], key: bytes, timestamp: int, headers: Any, state: State) -> Any:
    if "label" not in record:
        label = state.get("label")
        if label is None:
            state.set("event", record)
            return None
        state.delete("label")
        return record | {"label": label}
    event = state.get("event")
    if event is None:
        state.set("label", record["label"])
        return None
    state.delete("event")
    return event | {"label": record["label"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where RocksDB keeps the state")
    parser.add_argument("--count", type=int, required=True, help="records of both topics")
    arguments = parser.parse_args()
    first: list[float] = []
    last = [0.0, 0.0]
    left = arguments.count
    commit = Checkpoint.commit

    def timed(self: Checkpoint, *others: Any, **named: Any) -> None:
        commit(self, *others, **named)
        last[:] = time.perf_counter(), time.thread_time()

    def processed(topic: str, partition: int, offset: int) -> None:
        nonlocal left
        if not first:
            first[:] = time.perf_counter(), time.thread_time()
        left -= 1
        if left == 0:
            application.stop()

    Checkpoint.commit = timed
    application = Application(
        broker_address=arguments.servers,
        consumer_group="quix-join",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=1.0,
        state_dir=arguments.folder,
        on_message_processed=processed,
        loglevel="WARNING",
    )
    events, labels = (application.topic(name, value_deserializer="json") for name in ("events", "labels"))
    joined = application.topic("quix-joined", value_serializer="json")
    frame = application.dataframe(events).concat(application.dataframe(labels))
    frame = frame.apply(step, stateful=True, metadata=True)
    frame.filter(lambda result: result is not None).to_topic(joined)
    application.run()
    wall, cpu = (end - begin for begin, end in zip(first, last, strict=True))
    sys.stdout.write(f"{wall:.3f} s, {cpu:.3f} s of them on the CPU\n")


if __name__ == "__main__":
    main()
