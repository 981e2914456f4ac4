"""What may happen to a worker at one of its client calls."""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from explain_sidecar.settings import Settings
from tests.driver.driver import AWAY_SECONDS, Driver
from tests.driver.log import Where
from tests.driver.process import Client, Fault, Process
from tests.driver.producer import Producer

MANY = 10_000
"""More calls than a worker of these tests makes."""

PRODUCER = ("init_transactions", "send_offsets_to_transaction", "commit_transaction", "abort_transaction")
"""Calls whose answer can get lost, though the broker has done what was asked."""

Kind = Callable[[Driver], Fault]


class Moment(NamedTuple):
    """A call of a worker to which nothing happens. ``open``: its transaction is. ``new``: the cluster is another than at the call before."""

    number: int
    name: str
    open: bool
    new: bool


When = Callable[[Moment], bool]
"""Whether a fault at this moment is another than those before it."""


def some(which: int) -> When:
    """Each call after which the cluster is another, and one in five of the others: of five faults each has others."""
    return lambda moment: moment.new or moment.number % 5 == which


def new(moment: Moment) -> bool:
    """For a worker that is killed: nothing of it remains but what it did to the cluster."""
    return moment.new


def in_transaction(moment: Moment) -> bool:
    """For what ends a transaction: without one nothing happens."""
    return moment.open


def at(*names: str) -> When:
    return lambda moment: moment.name in names


def noted(driver: Driver) -> tuple[dict[int, Fault], list[Moment]]:
    """What happens at a worker's calls to note them, up to ``Driver.finish``, and the list of what it has noted."""
    found: list[Moment] = []
    before: list[object] = [None]

    def note(client: Client) -> None:
        state, calls = driver.cluster.state(), client.process.calls
        transaction = driver.cluster.transactions.get(_transactional_id(driver, client))
        is_open = transaction is not None and transaction.open
        found.append(Moment(len(calls) - 1, calls[-1], is_open, state != before[0]))
        before[0] = state

    return dict.fromkeys(range(MANY), note), found


def at_each(
    kind: Kind, when: When, began: Callable[[], Any], end: Callable[[Any], None], slot: int = 0
) -> Iterator[tuple[Any, str]]:
    """A run for each call of a worker at which this happens, after one in which nothing does: the driver, and what was called.

    Each begins as ``began`` says, with this worker or before it, and goes on as ``end`` does."""

    def run(happens: dict[int, Fault], driver: Driver) -> Process:
        if slot in driver.workers:
            process: Process = driver.workers[slot].process
            process.faults.update(happens)
        else:
            process = driver.start(slot, faults=happens).process
        end(driver)
        return process

    driver = began()
    happens, moments = noted(driver)
    run(happens, driver)
    assert driver.differences() == [] and driver.ended == []
    number = 0
    for number, name, *_ in filter(when, moments):
        driver = began()
        process = run({number: kind(driver)}, driver)
        assert process.calls[number] == name and number not in process.faults
        yield driver, f"{name}, call {number}"
    assert number, "nothing happened"


def nothing(driver: Driver) -> Fault:
    return lambda client: None


def kill(driver: Driver) -> Fault:
    """SIGKILL. The state before a call is that after the call before: what a worker did not hear of is among it."""
    return lambda client: driver.kill(_slot(driver, client))


def lose_answer(driver: Driver) -> Fault:
    def fault(client: Client) -> None:
        client.lost = True

    return fault


def refuse_message(driver: Driver) -> Fault:
    """The next message is not delivered in time, so that its transaction can only be aborted."""

    def fault(client: Client) -> None:
        client.refused = KafkaError(KafkaError._MSG_TIMED_OUT)

    return fault


def forget_offset(driver: Driver) -> Fault:
    """The next message is stored at an offset that Kafka does not say, as after a retry."""

    def fault(client: Client) -> None:
        client.unknown = True

    return fault


def another_joins(driver: Driver) -> Fault:
    """A second worker begins, and gets its share; the first hears of it at its next poll."""

    def fault(client: Client) -> None:
        driver.start(1)
        driver.turn(1, 5)

    return fault


def another_leaves(driver: Driver) -> Fault:
    """The second worker of ``two`` stops."""
    return lambda client: driver.stop(1)


def late_end(driver: Driver) -> Fault:
    """A forgotten EndTxn(commit) of an earlier transaction arrives: it commits what is open now, whole or not."""

    def fault(client: Client) -> None:
        name = _transactional_id(driver, client)
        if name in driver.cluster.transactions:
            driver.cluster.late_end(name, driver.cluster.transactions[name].epoch)

    return fault


def both(first: Kind, second: Kind) -> Kind:
    """Two faults at the same call."""

    def kind(driver: Driver) -> Fault:
        def fault(client: Client) -> None:
            first(driver)(client)
            second(driver)(client)

        return fault

    return kind


def delayed_end(calls: int) -> Kind:
    """The connection breaks in a commit, and librdkafka asks again; the first EndTxn arrives some calls later, and the worker is killed."""

    def kind(driver: Driver) -> Fault:
        def fault(client: Client) -> None:
            assert isinstance(client, Producer)
            name, epoch = client.config["transactional.id"], client.epoch
            client.breaks()

            def arrives(later: Client) -> None:
                driver.cluster.late_end(name, epoch)
                kill(driver)(later)

            client.process.faults[len(client.process.calls) + calls] = arrives

        return fault

    return kind


def torn(places: Collection[Where]) -> Kind:
    """The broker dies amid the end of a transaction: its offsets are committed, and in some partitions it stays open for good."""

    def kind(driver: Driver) -> Fault:
        def fault(client: Client) -> None:
            assert isinstance(client, Producer)
            client.flush(0)
            driver.cluster.end(client.config["transactional.id"], commit=True, torn=places)
            client.breaks()

        return fault

    return kind


def transaction_expires(driver: Driver) -> Fault:
    """The worker's process stalls while its client goes on: Kafka ends the transaction that is open, and fences it."""
    return lambda client: driver.cluster.clock.sleep(AWAY_SECONDS)


def another_takes_over(driver: Driver) -> Fault:
    """The process stands still, clients and all, until another has folded what there is: then it wakes up in its call."""

    def fault(client: Client) -> None:
        slot = _slot(driver, client)
        driver.workers[slot].process.paused = True
        if 1 not in driver.workers:
            driver.start(1)
        for _ in range(40):
            driver.cluster.clock.sleep(AWAY_SECONDS / 40)
            driver.turn(1)
        driver.turn(1, 20)
        driver.workers[slot].process.paused = False

    return fault


def group_is_forgotten(driver: Driver) -> Fault:
    """The coordinator forgets the group, as under KIP-848 after its broker's restart: the consumers of its members give up."""

    def fault(client: Client) -> None:
        if driver.settings.app_id in driver.cluster.groups:
            driver.cluster.groups[driver.settings.app_id].forget()

    return fault


def same_name_begins(driver: Driver) -> Fault:
    """A second worker under the same transactional id."""

    def fault(client: Client) -> None:
        slot = _slot(driver, client)
        running = driver.workers.pop(slot)
        driver.start(slot)
        driver.turn(slot, 5)
        driver.workers[slot + 10] = driver.workers.pop(slot)
        driver.workers[slot] = running

    return fault


def _transactional_id(driver: Driver, client: Client) -> str:
    return f"{driver.settings.app_id}-{driver.settings.instance_id}-{_slot(driver, client)}"


def _slot(driver: Driver, client: Client) -> int:
    return next(slot for slot, worker in driver.workers.items() if worker.process is client.process)


FAULTS = {
    "killed in a call": kill,
    "answer lost": lose_answer,
    "not delivered": refuse_message,
    "offset unknown": forget_offset,
    "expired": transaction_expires,
    "late end": late_end,
    "late end and killed": both(late_end, kill),
    "late end and not delivered": both(late_end, refuse_message),
}


AT_CALLS: dict[str, tuple[Kind, When]] = {
    "killed": (kill, new),
    "the answer is lost": (lose_answer, at(*PRODUCER)),
    "a message is not delivered": (refuse_message, at("produce")),
    "a late end, and killed": (both(late_end, kill), in_transaction),
}
"""What is tried at one call after the other where the whole of ``test_every_call`` would take too long, and at which calls."""


def run_under_faults(
    settings: Settings, records: Mapping[int, Sequence[bytes | None]], seed: int, **driven: Any
) -> Driver:
    """Feed each partition its records bit by bit to two workers, with a random fault at a random call, until all is folded."""
    driver, rng = Driver(settings, partitions=len(records), tick=1e-3, **driven), random.Random(seed)
    left = dict(records)
    while any(left.values()):
        for partition, rows in left.items():
            driver.feed(partition, list(rows[:35]))
            left[partition] = rows[35:]
        slot = rng.randrange(2)
        if slot not in driver.workers:
            driver.start(slot)
        else:
            process = driver.workers[slot].process
            process.faults[len(process.calls) + rng.randrange(60)] = rng.choice(list(FAULTS.values()))(driver)
        for slot in range(2):
            driver.turn(slot, rng.randrange(1, 8))
    driver.finish()
    return driver
