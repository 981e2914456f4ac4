"""``python -m explain_sidecar.worker``: the process of one worker, started by ``run`` with its environment pinned."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from explain_sidecar.collector import settle
from explain_sidecar.errors import AGAIN, SettingsError, UserError
from explain_sidecar.join.copies import JoinOfCopies, join_of
from explain_sidecar.join.stage import JoinStage
from explain_sidecar.kafka.errors import Fatal
from explain_sidecar.kafka.report import report_each_second
from explain_sidecar.logs import set_up_logging
from explain_sidecar.settings import Settings, load_settings
from explain_sidecar.terminal import plain

if TYPE_CHECKING:
    from explain_sidecar.kafka.loop import Worker

HANG_SECONDS = 45.0
"""A loop that shows no sign of life for this long hangs, in a client call or in code of the model; the process is ended so that it can start anew.
Each call is given 10 s at the most, and the one that is known not to keep to it is left alone after 6 s (transaction.py). A hung
worker would remain a live member of the group, and its partitions would stand still."""

STOP_SECONDS = 25.0
"""How long a stop may take while Kafka does not answer; what is not committed is folded again later."""

ORPHAN_SECONDS = 8.0
"""How long a worker may take to stop whose supervisor is gone: its successor may have started already, under the same name."""

LEAVE_SECONDS = 2.0
"""How long leaving in order may then take: an abort is called again for as long as the loop is called alive."""

log = logging.getLogger(__name__)


class Life:
    """Signs of life of the loop, and the watchdog: without one for so long the process prints where each thread is, and ends by SIGALRM.

    The timer is the operating system's. It needs no lock of the interpreter, which compiled code may hold for good.
    """

    def __init__(self) -> None:
        self.seen = time.monotonic()
        self._stop_by: float | None = None
        self._limit = HANG_SECONDS
        faulthandler.enable()  # a fault in a library's compiled code says where, too
        faulthandler.register(signal.SIGALRM, chain=True)

    def __call__(self) -> None:
        """The loop lives. Raises ``UserError`` where a stop has taken too long."""
        self.seen = now = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self._limit)
        if self._stop_by is not None and now > self._stop_by:
            self._stop_by = now + LEAVE_SECONDS
            raise UserError(
                f"stopped without a last commit: Kafka did not answer for {STOP_SECONDS:g} s; nothing is lost"
            )

    def stop(self) -> None:
        self._stop_by = time.monotonic() + STOP_SECONDS
        self._limit = STOP_SECONDS
        signal.setitimer(signal.ITIMER_REAL, self._limit)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--until-caught-up", action="store_true")
    parser.add_argument("--reports", type=int, help="File descriptor to report to, once a second.")
    parser.add_argument("--stage", choices=("fold", "join"), default="fold")
    arguments = parser.parse_args()
    with suppress(OSError):  # what top shows of a fork, on Linux
        Path("/proc/self/comm").write_text(f"{arguments.stage} {arguments.slot}")
    life = Life()
    # Before anything can wait: a client that is being made asks a broker that is gone again and again.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        settings = load_settings(arguments.config)
        set_up_logging(settings.log, worker=arguments.slot)
        worker = _stage(arguments.stage, settings, arguments.slot, life)

        def stop(number: int, frame: FrameType | None) -> None:
            worker.stopping = True
            life.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        life()
        if arguments.reports is not None:
            to_supervisor = (worker.report, lambda: life.seen, worker.totals.moved, arguments.reports)
            threading.Thread(target=report_each_second, args=to_supervisor, daemon=True).start()
        worker.run(arguments.until_caught_up)
    except UserError as error:
        sys.stderr.write(plain(f"error: {error}", keep="\n") + "\n")
        return 2 if isinstance(error, SettingsError) else AGAIN if isinstance(error, Fatal) else 1
    except Exception:
        log.exception("a defect of the sidecar; nothing that is not committed was published")
        return 1
    return 0


def _stage(name: str, settings: Settings, slot: int, life: Life) -> Worker | JoinStage | JoinOfCopies:
    if name == "join":
        settle()
        return join_of(settings, slot, life)
    from explain_sidecar.kafka.loop import Worker

    settle()
    return Worker(settings, slot, life)


def _end_with_parent() -> None:
    """The supervisor holds the other end of stdin: when it is gone, however it went, so is the worker soon, whatever it waits for."""
    while os.read(0, 1_024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)
    log.error(
        "the supervisor is gone, and Kafka has not answered for %g s; ending the process", ORPHAN_SECONDS
    )
    os._exit(1)


def end(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    # librdkafka's threads may outlive a failed client; nothing is left to do for them.
    os._exit(code)


if __name__ == "__main__":
    end(main())
