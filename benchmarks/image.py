"""``python -m benchmarks.image``: the container image's bytes over its base, and its cold start to the first explanation.

Needs a Docker engine, and the image (``make image``). The start is that of a container, with a read-only file system, beside a
broker that runs and whose topic has records: from the request to start it until a reader has the first explanation. The broker has had
a group and a transaction before, as one in use has; for the first of them it makes topics of its own, which the first figure has besides.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from statistics import median

import docker
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from river.datasets import Phishing

from explain_client.testing import IMAGE, ExplainSidecarContainer
from explain_sidecar.kafka.clients import group_of

BASE = "python:3.11-slim-bookworm"
MODELS: dict[str, dict[str, object]] = {
    "default model, new cluster": {},
    "default model": {},
    "logistic pipeline": {"model.name": "linear"},
    "Hoeffding adaptive tree": {"model.factory": "river.tree:HoeffdingAdaptiveTreeClassifier"},
}


class Timed(ExplainSidecarContainer):
    """Its records are there before it starts; ``used``: whether its broker has had a group and a transaction by then."""

    started, used = 0.0, True

    def _make_records_topic(self) -> None:
        super()._make_records_topic()
        self.send({**x, "label": int(y)} for x, y in islice(Phishing(), 500))
        if self.used:
            servers = {"bootstrap.servers": self.bootstrap_servers}
            Producer(servers | {"transactional.id": "another"}).init_transactions()
            group_of(AdminClient(servers), "another")
        self.started = time.monotonic()


def main(image: str, rounds: int) -> None:
    images = docker.from_env().images
    size, base = (images.get(name).attrs["Size"] for name in (image, BASE))
    print(f"{image}: {size:,} bytes, {size - base:,} over {BASE}")
    for name, settings in MODELS.items():
        seconds, cpu, memory = [], [], []
        for _ in range(rounds):
            timed = Timed(settings, image=image)
            timed.used = "new cluster" not in name
            with timed as sidecar:
                sidecar.expect(1)
                seconds.append(time.monotonic() - sidecar.started)
                assert sidecar.container is not None
                stats = sidecar.container.get_wrapped_container().stats(stream=False)
                cpu.append(stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9)
                memory.append(stats["memory_stats"]["usage"] / 1e6)
        print(f"cold start to the first explanation, {name}: {median(seconds):.1f} s "
              f"({min(seconds):.1f}–{max(seconds):.1f}), {median(cpu):.1f} s of CPU time, {median(memory):.0f} MB as Docker counts them")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default=IMAGE)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.image, arguments.rounds)
