"""Schedules that nobody would think of: records, workers that come, go, die and stand still, and faults at any of their calls."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.driver.driver import Driver, values
from tests.driver.faults import FAULTS

SLOTS = st.integers(0, 2)
NEXT = st.integers(0, 60)
"""How many calls from now a fault is."""

STEPS = st.one_of(
    st.tuples(st.just("turn"), SLOTS, st.integers(1, 8)),
    st.tuples(st.just("turn"), SLOTS, st.integers(1, 8)),  # twice as often as anything else
    st.tuples(st.just("feed"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("start"), SLOTS, st.just(0)),
    st.tuples(st.just("stop"), SLOTS, st.just(0)),
    st.tuples(st.just("kill"), SLOTS, st.just(0)),
    st.tuples(st.just("pause"), SLOTS, st.just(0)),
    st.tuples(st.just("resume"), SLOTS, st.just(0)),
    st.tuples(st.just("wait"), st.just(0), st.integers(1, 12)),
    st.tuples(st.just("killed in a call"), SLOTS, NEXT),
    st.tuples(st.just("answer lost"), SLOTS, NEXT),
    st.tuples(st.just("not delivered"), SLOTS, NEXT),
    st.tuples(st.just("offset unknown"), SLOTS, NEXT),
    st.tuples(st.just("expired"), SLOTS, NEXT),
    st.tuples(st.just("late end"), SLOTS, NEXT),
    st.tuples(st.just("late end and killed"), SLOTS, NEXT),
    st.tuples(st.just("late end and not delivered"), SLOTS, NEXT),
)


def happen(driver: Driver, step: str, which: int, count: int) -> None:
    running = driver.workers.get(which)
    if step == "feed":
        driver.feed(which, values(count, driver.ends()[which]))
    elif step == "start":
        if running is None:
            driver.start(which)
    elif step == "wait":
        driver.cluster.clock.sleep(count)
        driver.cluster.pass_time()
    elif step == "turn":
        driver.turn(which, count)
    elif step == "stop":
        driver.stop(which)
    elif step == "kill":
        driver.kill(which)
    elif running is not None and step in ("pause", "resume"):
        running.process.paused = step == "pause"
    elif running is not None:
        process = running.process
        process.faults[len(process.calls) + count] = FAULTS[step](driver)


@settings(
    max_examples=120, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(tick=st.sampled_from([1e-5, 1e-3, 0.02]), schedule=st.lists(STEPS, min_size=10, max_size=60))
def test_whatever_happens_the_same_bytes_are_published(
    tick: float, schedule: list[tuple[str, int, int]]
) -> None:
    driver = Driver(partitions=3, tick=tick)
    for partition in range(3):
        driver.feed(partition, values(6, partition))
    driver.start(0)
    for step in schedule:
        happen(driver, *step)
    driver.finish()
    assert driver.differences() == []
    assert driver.committed() == driver.ends()
    assert all("duplicate instance id" in reason for reason in driver.ended), driver.ended
