"""Protections switched off, one at a time, in the process of a test's worker: what they protect from must then be seen."""

import dataclasses
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

import explain_sidecar.snapshots.snapshot
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.kafka import clients
from explain_sidecar.kafka.lifecycle import OwnedPartition
from explain_sidecar.kafka.past import Past
from explain_sidecar.kafka.recovery import Target
from explain_sidecar.kafka.transaction import Transaction
from explain_sidecar.kafka.watch import TopicWatch
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import Snapshot


def offsets_outside_the_transaction() -> None:
    commit = Transaction.commit

    def broken(self: Transaction, offsets: list[TopicPartition], group: Consumer, **others: Any) -> None:
        group.commit(offsets=offsets, asynchronous=False)
        commit(self, [], group, **others)

    Transaction.commit = broken  # type: ignore[method-assign]


def metadata_of_a_consumer_that_never_joined() -> None:
    commit, initialise = Transaction.commit, Transaction.__init__

    def starting(
        self: Any, settings: Settings, name: str, errors: Any, alive: Any, kafka: clients.Kafka, *others: Any
    ) -> None:
        initialise(self, settings, name, errors, alive, kafka, *others)
        self.stranger = clients.reading_consumer(settings, group=settings.app_id, kafka=kafka)

    def broken(self: Any, offsets: list[TopicPartition], group: Consumer, **others: Any) -> None:
        commit(self, offsets, self.stranger)

    Transaction.__init__ = starting  # type: ignore[method-assign]
    Transaction.commit = broken  # type: ignore[method-assign]


def no_digest_check() -> None:
    def broken(self: OwnedPartition, target: Target, state: PartitionState) -> None:
        self.committed_offset = target.offset

    OwnedPartition._diverged = broken  # type: ignore[method-assign]


def no_chain_check() -> None:
    differences = Target.differences

    def broken(self: Target, state: PartitionState) -> list[str]:
        return differences(dataclasses.replace(self, chains={}), state)

    Target.differences = broken  # type: ignore[method-assign]


def no_checksum() -> None:
    def broken(snapshot: Snapshot) -> bytes:
        return b"".join(snapshot.chunks)

    explain_sidecar.snapshots.snapshot.verify = broken


def restore_without_replay() -> None:
    def broken(self: OwnedPartition, position: int) -> None:
        assert self.state is not None and self._target is not None
        self.state.next_offset = self.committed_offset = self._target.offset
        self._target = None
        self._run()

    OwnedPartition._after_replay = broken  # type: ignore[method-assign]


def aborted_outputs_not_sent_again() -> None:
    abort = Transaction.abort

    def broken(self: Transaction) -> None:
        abort(self)
        self.kept, self.kept_bytes = [], 0

    Transaction.abort = broken  # type: ignore[method-assign]


def earliest_with_deleted_records() -> None:
    made = clients._made

    def broken(client: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
        return made(client, {k: "earliest" if k == "auto.offset.reset" else v for k, v in config.items()})

    clients._made = broken


def no_check_of_outputs() -> None:
    Past.visible = lambda self, *since: {}  # type: ignore[method-assign]


def no_repair_of_outputs() -> None:
    """Nobody looks at the outputs: what was committed counts as published."""
    no_check_of_outputs()
    OwnedPartition._is_visible = lambda self, *message: True  # type: ignore[method-assign]


def no_new_producer() -> None:
    """After a broken connection the same producer goes on, with its epoch."""
    Transaction._renew = lambda self: None  # type: ignore[method-assign]


def no_watch_of_topics() -> None:
    def broken(self: TopicWatch, asked: object = None) -> None:
        pass

    TopicWatch.look = TopicWatch.confirm = broken  # type: ignore[method-assign]


SABOTAGE: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        offsets_outside_the_transaction,
        metadata_of_a_consumer_that_never_joined,
        no_digest_check,
        no_chain_check,
        no_checksum,
        restore_without_replay,
        aborted_outputs_not_sent_again,
        earliest_with_deleted_records,
        no_check_of_outputs,
        no_repair_of_outputs,
        no_new_producer,
        no_watch_of_topics,
    )
}
