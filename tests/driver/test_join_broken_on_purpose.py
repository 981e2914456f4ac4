"""Protections of the join, switched off one at a time: what they are for must then be seen.

Those of the fold: test_broken_on_purpose.py.
"""

from collections.abc import Callable
from typing import Any

import pytest

from explain_sidecar.errors import UserError
from explain_sidecar.join.partition import JoinPartition
from explain_sidecar.join.store import restore
from explain_sidecar.kafka.sent import Keyed
from explain_sidecar.kafka.transaction import Transaction
from tests.crash.sabotage import SABOTAGE
from tests.driver import faults
from tests.driver.driver import Stuck
from tests.driver.join import JoinDriver
from tests.driver.test_join import began, end

TOUCHED: list[tuple[Any, str]] = [
    (Transaction, "commit"),
    (Transaction, "abort"),
    (JoinPartition, "changes"),
    (JoinPartition, "_begin"),
]


def local_store_before_the_commit() -> None:
    changes = JoinPartition.changes

    def broken(self: JoinPartition) -> list[Keyed]:
        found = changes(self)
        assert self._local is not None
        restore(self._local, self._changes, self._encoded_checkpoint(), self._who)
        return found

    JoinPartition.changes = broken  # type: ignore[method-assign]


def nothing_on_the_changelog() -> None:
    changes = JoinPartition.changes

    def broken(self: JoinPartition) -> list[Keyed]:
        return changes(self)[-1:]

    JoinPartition.changes = broken  # type: ignore[method-assign]


def offsets_not_compared_with_the_changelog() -> None:
    begin = JoinPartition._begin

    def broken(self: JoinPartition) -> None:
        if self._saved is not None:
            self._committed = list(self._saved.offsets)
        begin(self)

    JoinPartition._begin = broken  # type: ignore[method-assign]


def at_each(kind: faults.Kind, name: str, lost: bool = False) -> list[str]:
    """A fault at each call of a name; what goes wrong in the first run in which anything does. ``lost``: the disks too."""

    def on(driver: JoinDriver) -> None:
        if lost:
            driver.turn(0, 30)
            if not driver.workers:
                driver.stores.clear()
        end(driver)

    try:
        for driver, _ in faults.at_each(kind, faults.at(name), began, on):
            found = driver.differences() + [text for text in driver.ended if "instance id" not in text]
            if found:
                return found
    except (Stuck, UserError) as error:
        return [str(error)]
    return []


def moved_back() -> list[str]:
    """An operator sets the group's offsets back: what was joined must not be joined again."""
    driver = began()
    driver.start()
    driver.turn(0, 40)
    driver.kill(0)
    group = driver.cluster.groups["app-join"]
    for partition, (offset, metadata) in list(group.committed.items()):
        group.committed[partition] = (max(0, offset - 1), metadata)
    driver.start()
    for _ in range(60):
        if 0 in driver.workers:
            driver.turn(0)
            driver.cluster.clock.sleep(1)
    return (
        []
        if any("moved them" in text for text in driver.ended)
        else ["nobody says that the offsets were moved"]
    )


BROKEN: dict[str, tuple[Callable[[], None], Callable[[], list[str]]]] = {
    "offsets outside the transaction": (
        SABOTAGE["offsets_outside_the_transaction"],
        lambda: at_each(faults.kill, "commit_transaction"),
    ),
    "aborted outputs not sent again": (
        SABOTAGE["aborted_outputs_not_sent_again"],
        lambda: at_each(faults.refuse_message, "produce"),
    ),
    "the local store is written before the commit": (
        local_store_before_the_commit,
        lambda: at_each(faults.kill, "commit_transaction"),
    ),
    "nothing on the changelog": (
        nothing_on_the_changelog,
        lambda: at_each(faults.kill, "commit_transaction", lost=True),
    ),
    "offsets are not compared with the changelog": (offsets_not_compared_with_the_changelog, moved_back),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_protection_of_the_join_is_for_happens_without_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off, scenario = BROKEN[name]
    assert scenario() == []
    for owner, attribute in TOUCHED:
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))  # restored afterwards
    switch_off()
    assert scenario() != []
