"""Predictions on a real broker: records with and without a label are told once, whatever becomes of the workers."""

import json
import time

from explain_client import Predictions
from tests.broker.harness import Factory, mixed_records

ASKED = {
    "EXPLAIN_PREDICTIONS__ENABLED": "true",
    "EXPLAIN_PREDICTIONS__MOST": "1",
    "EXPLAIN_RECORD__UNLABELLED": "predict",
    "EXPLAIN_RECORD__ID": "id",
    "EXPLAIN_MODEL__NAME": "linear",
    "EXPLAIN_COMMIT__MAX_RECORDS": "10",
}


def gaps(count: int, seed: int, partitions: int = 2) -> list[tuple[int, bytes | None]]:
    """Records of which every third has no label, each with an id."""
    made: list[tuple[int, bytes | None]] = []
    for index, (partition, value) in enumerate(mixed_records(partitions, count, seed)):
        x = {**json.loads(value or b""), "id": f"{seed}-{index}"}
        if index % 3 == 0:
            del x["label"]
        made.append((partition, json.dumps(x).encode()))
    return made


def test_workers_that_are_killed_tell_every_prediction_once_and_the_client_reads_them(
    pipeline: Factory,
) -> None:
    line = pipeline(2, **ASKED)
    line.environment["EXPLAIN_KAFKA__GROUP_INSTANCE_ID"] = line.name
    line.feed(gaps(240, 0))
    process = line.worker(SIDECAR_CRASH_POINT="send_offsets.before:5")
    line.wait_for(lambda: not process.running(), 300)
    assert "crash point" in process.log()
    process = line.worker()
    line.wait_for(lambda: process.log().count("running from") == 2, 300)
    time.sleep(0.2)
    process.kill()
    line.feed(gaps(120, 1))
    line.run_to_end()
    line.verify()
    with Predictions(line.broker.bootstrap_servers, line.topics["predictions"], follow=False) as stream:
        found = list(stream)
    assert len(found) == 360 == len({(one.partition, one.offset) for one in found})
    given = {json.loads(value or b"")["id"]: json.loads(value or b"") for value in
             [value for _, value in [*gaps(240, 0), *gaps(120, 1)]]}  # fmt: skip
    assert {one.id for one in found} == set(given)
    assert all((one.label is None) == ("label" not in given[one.id]) for one in found)
    told = json.loads(line.cli("tail", "--predictions", "--from-beginning", "--json", "--until-caught-up").stdout.splitlines()[-1])  # fmt: skip
    assert told["id"] in given
