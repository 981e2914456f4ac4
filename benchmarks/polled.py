"""``python -m benchmarks.polled``: the service's worker, which says at its end how it polled and what memory it took."""

import json
import os
import resource
import sys
import time
from typing import Any

import explain_sidecar.kafka.loop
from explain_sidecar.kafka.clients import ErrorLog, Kafka, group_consumer
from explain_sidecar.settings import Settings
from explain_sidecar.worker import main


class Polled:
    """The group's consumer, with the longest time in seconds between two of its polls."""

    longest = 0.0

    def __init__(self, settings: Settings, slot: int, errors: ErrorLog, kafka: Kafka) -> None:
        self._consumer = group_consumer(settings, slot, errors, kafka)
        self._seen = time.monotonic()

    def poll(self, *arguments: Any) -> Any:
        return self._watched(self._consumer.poll, arguments)

    def consume(self, *arguments: Any) -> Any:
        return self._watched(self._consumer.consume, arguments)

    def _watched(self, call: Any, arguments: tuple[Any, ...]) -> Any:
        Polled.longest = max(Polled.longest, time.monotonic() - self._seen)
        try:
            return call(*arguments)
        finally:
            self._seen = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


if __name__ == "__main__":
    explain_sidecar.kafka.loop.group_consumer = Polled  # type: ignore[assignment, attr-defined]
    code = main()
    resident = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"longest_between_polls": Polled.longest, "resident": resident}), flush=True)
    sys.stderr.flush()
    os._exit(code)
