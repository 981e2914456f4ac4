"""A partition that waits for the model of a version, on Kafka itself: it stops reading, and goes on where it stopped."""

import json
from pathlib import Path

from tests.broker.harness import Factory
from tests.versions import EXPLAINERS, misattributed, records, write


def test_a_partition_is_held_until_its_model_is_there_and_goes_on_where_it_stopped(
    pipeline: Factory, tmp_path: Path
) -> None:
    models = {"pattern": write(tmp_path, "v1"), "unknown": "wait"}
    line = pipeline(
        2,
        EXPLAIN_MODELS=json.dumps(models),
        EXPLAIN_RECORD__MODEL_VERSION="served_by",
        EXPLAIN_EXPLAINERS=json.dumps(EXPLAINERS),
        EXPLAIN_EMIT__EVERY="5",
        EXPLAIN_LOG__FORMAT="json",
    )
    orders = ["v1"] * 20 + ["v2"] * 30 + ["v1"] * 10, ["v1"] * 60
    for partition, order in enumerate(orders):
        line.feed((partition, json.dumps(x).encode()) for x in records(order, seed=partition))
    worker = line.worker()
    line.wait_for(lambda: "held until the model's version 'v2' can be loaded" in worker.log(), 90)
    line.wait_for(lambda: [place.offset for _, place in sorted(line.committed().items())] == [20, 60], 30)
    write(tmp_path, "v2")
    line.wait_for(line.folded, 60)
    worker.kill()
    for partition, order in enumerate(orders):
        line.feed((partition, json.dumps(x).encode()) for x in records(order, seed=partition + 2))
    line.run_to_end()
    line.verify()
    for partition, log in line.inputs.items():
        explanations = [value for _, value, _ in line.published()["explanations"][partition]]
        assert len(explanations) == 24 and not misattributed(
            line.settings, partition, [record.value for record in log], explanations
        )
