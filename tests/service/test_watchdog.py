"""A loop that hangs in a client call is ended, so that its partitions go to a worker that lives."""

import pytest

from explain_sidecar import worker
from explain_sidecar.errors import UserError


class Ended(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes while the watchdog sleeps, up to an hour."""
    now = [1_000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        assert now[0] < 1_000 + 3_600, "the watchdog never ended the process"

    def end(status: int) -> None:
        assert status == 70
        raise Ended

    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(worker.time, "sleep", sleep)
    monkeypatch.setattr(worker.os, "_exit", end)
    monkeypatch.setattr(worker.faulthandler, "dump_traceback", lambda: None)
    return now


def test_a_loop_that_hangs_is_ended_within_a_minute(
    clock: list[float],
) -> None:
    life = worker.Life()
    with pytest.raises(Ended):
        life.watch()
    assert worker.HANG_SECONDS < clock[0] - 1_000 < worker.HANG_SECONDS + 2


def test_a_loop_that_hangs_while_it_is_told_to_stop_is_ended_within_the_time_a_platform_grants(
    clock: list[float],
) -> None:
    life = worker.Life()
    life.stop()
    with pytest.raises(Ended):
        life.watch()
    assert worker.STOP_SECONDS < clock[0] - 1_000 < 30


def test_a_loop_that_lives_but_gets_no_answer_stops_with_a_message(clock: list[float]) -> None:
    life = worker.Life()
    life()
    life.stop()
    clock[0] += worker.STOP_SECONDS + 1
    with pytest.raises(UserError, match="stopped without a last commit"):
        life()
    life()  # it may leave in order

    clock[0] += worker.LEAVE_SECONDS + 1
    with pytest.raises(UserError, match="stopped without a last commit"):
        life()  # and does not wait for ever for a broker that is gone
