"""Named places at which a test lets a worker crash, stop or stall; without the environment variable nothing happens there.

``SIDECAR_CRASH_POINT=commit.before:3`` ends the process by SIGKILL when it comes before a commit for the third time;
``commit.before:3:stop`` stops it by SIGSTOP, ``commit.before:3:stall=2.5`` holds its loop for 2.5 s, or until SIGUSR2 comes,
while the Kafka client's threads go on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

VARIABLE = "SIDECAR_CRASH_POINT"

POINTS = (
    "produce.before",
    "produce.after",
    "reset.before",
    "send_offsets.before",
    "send_offsets.after",
    "commit.before",
    "commit.after",
    "snapshot.between_chunks",
    "restore",
    "replay",
    "rebalance.assign",
    "rebalance.revoke",
    "dead_letters.read",
)


def armed(wanted: str) -> Callable[[str], None]:
    """The function to call at each point, for ``name:count[:action]``. Raises ``ValueError`` for anything else."""
    name, _, rest = wanted.partition(":")
    count, _, action = rest.partition(":")
    verb, _, seconds = action.partition("=")
    if name not in POINTS or not count.isdecimal() or verb not in ("", "stop", "stall"):
        raise ValueError(
            f"{VARIABLE}={wanted!r}: give name:count[:stop|:stall=SECONDS], name one of {', '.join(POINTS)}"
        )
    left = int(count)

    def reach(point: str) -> None:
        nonlocal left
        if point != name:
            return
        left -= 1
        if left == 0:
            released = threading.Event()
            if verb == "stall":
                signal.signal(signal.SIGUSR2, lambda *_: released.set())
            os.write(2, f"crash point {name} reached\n".encode())
            if verb == "stall":
                released.wait(float(seconds))
            else:
                os.kill(os.getpid(), signal.SIGSTOP if verb else signal.SIGKILL)

    return reach


def _nothing(point: str) -> None:
    pass


reach: Callable[[str], None] = armed(os.environ[VARIABLE]) if VARIABLE in os.environ else _nothing
