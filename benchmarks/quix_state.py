"""A Quix Streams application, exactly-once, whose partitions hold a state of a given size; ``benchmarks.recovery`` kills it.

The state is a counter that every record changes, and bytes in place of a model, stored with every ``EVERY``-th record as
the sidecar would snapshot them. It lies in RocksDB and in a changelog topic. Each line on stdout is a JSON object: what has
happened, at which second since 1970.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from quixstreams import Application, State, message_context

EVERY = 500
COMMIT_SECONDS = 0.1
"""As the sidecar has it by default."""

STEPS = {"Beginning recovery check": "assigned", "Recovery process complete": "restored"}


def say(what: str, partition: int = -1) -> None:
    sys.stdout.write(json.dumps({"at": time.time(), "what": what, "partition": partition}) + "\n")
    sys.stdout.flush()


class Steps(logging.Handler):
    """Passes on what Quix Streams says of its recovery."""

    def emit(self, record: logging.LogRecord) -> None:
        for begin, what in STEPS.items():
            if record.getMessage().startswith(begin):
                say(what)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, required=True, help="size of the state of a partition")
    parser.add_argument("--folder", type=Path, required=True, help="where RocksDB keeps it")
    arguments = parser.parse_args()
    blob = random.Random(0).randbytes(arguments.bytes)
    seen: set[int] = set()

    def step(record: dict[str, Any], state: State) -> dict[str, Any] | None:
        count = state.get("records", 0)
        if count % EVERY == 0:
            state.set_bytes("model", blob)
        state.set("records", count + 1)
        partition = message_context().partition
        if partition not in seen:
            seen.add(partition)
            say("running", partition)
        return None if count % 100 else {"records": count}

    name = os.environ["EXPLAIN_APP_ID"]
    application = Application(
        broker_address=os.environ["EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"],
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=COMMIT_SECONDS,
        state_dir=arguments.folder,
        consumer_extra_config={"session.timeout.ms": 10_000},
        # One name through all restarts, as the sidecar has it: a successor ends the transaction that was left open.
        producer_extra_config={"transactional.id": name},
        loglevel="INFO",
    )
    logging.getLogger("quixstreams").addHandler(Steps())
    records = application.topic(os.environ["EXPLAIN_TOPICS__RECORDS"], value_deserializer="json")
    results = application.topic(os.environ["EXPLAIN_TOPICS__EXPLANATIONS"], value_serializer="json")
    frame = application.dataframe(records).apply(step, stateful=True)
    frame.filter(lambda result: result is not None).to_topic(results)
    say("start")
    application.run()


if __name__ == "__main__":
    main()
