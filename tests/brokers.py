"""What the brokers of the tests are started with, and how long a test waits for one.

``python -m tests.brokers`` lets Java keep what it has loaded and compiled of Kafka, by which a broker starts in half of the time.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from explain_sidecar.broker import embedded

KEPT = Path(__file__).parents[1] / ".venv" / "broker.aot"

WAIT_SECONDS = 60

BRIEF_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""For a broker that is killed: it may register again only when its old session is over; the default is 9 s."""

LONG_SESSION = {"broker.session.timeout.ms": "120000"}
"""For one that lives on: a machine that keeps it waiting does not shut it out. While it is out no topic can be created."""


if KEPT.exists():
    embedded.JVM += (f"-XX:AOTCache={KEPT}", "-Xlog:aot*=off")


class GuardedBroker(embedded.Broker):
    """A broker with more listeners, such as "SASL_PLAINTEXT", each reached at its address in ``servers``; their keys and passwords are properties of ``config``."""

    def __init__(self, *listeners: str, config: Mapping[str, str]) -> None:
        super().__init__(config=config)
        self.servers = {listener: f"127.0.0.1:{embedded.free_port()}" for listener in listeners}

    def _properties(self) -> dict[str, str]:
        properties = super()._properties()
        for listener, address in self.servers.items():
            for name in ("listeners", "advertised.listeners"):
                properties[name] += f",{listener}://{address}"
            properties["listener.security.protocol.map"] += f",{listener}:{listener}"
        return properties


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether the condition has come to hold in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return held


if __name__ == "__main__":
    KEPT.unlink(missing_ok=True)
    embedded.JVM += (f"-XX:AOTCacheOutput={KEPT}",)  # of its last end, which is in order
    with embedded.Broker():
        pass
