"""Two sidecars over the same records and with the same output topics: each is what it would be alone."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from explain_client import ClientError, Drifts, Explanations, latest, merge, recent
from explain_sidecar.http.feed import Feed
from tests.broker.harness import Pipeline, Published, mixed_records
from tests.broker.memory import MEMORY, MemoryPipeline, alone
from tests.brokers import wait_for

BAD_RECORDS = 8

DRIFT = {"EXPLAIN_DRIFT__ENABLED": "true", "EXPLAIN_DRIFT__WINDOW": "60"}


@pytest.fixture(scope="module")
def shared() -> Iterator[list[Any]]:
    """Both were run to the end, stopped and started again, while records came."""
    first = MemoryPipeline(MEMORY, "shared", 2, dict(DRIFT))
    second = copy.copy(first)
    second.environment = {**first.environment, "EXPLAIN_APP_ID": "shared.2", "EXPLAIN_SEED": "5"}
    records = list(mixed_records(2, 400))
    first.feed(records[:150])
    first.feed((i % 2, b"bad") for i in range(BAD_RECORDS))
    first.run_to_end()
    second.run_to_end()  # the other's dead letters are the last messages that it finds
    first.feed(records[150:])
    second.run_to_end()
    first.run_to_end()
    with pytest.MonkeyPatch.context() as patch:
        alone(patch, first.cluster)
        yield [first, second]


def of_app(line: Pipeline) -> dict[str, dict[int, Published]]:
    """What the output topics contain of a sidecar."""

    def app_id(value: Any, headers: Any) -> str:
        named = dict(headers).get("__explain.app_id")
        return named.decode() if named else json.loads(value)["app_id"]

    return {
        name: {
            partition: [entry for entry in log if app_id(*entry[1:]) == line.settings.app_id]
            for partition, log in logs.items()
        }
        for name, logs in line.published().items()
    }


def count(streams: dict[str, dict[int, Published]], name: str) -> int:
    return sum(map(len, streams[name].values()))


def test_each_publishes_to_the_byte_what_it_publishes_alone(shared: list[Pipeline]) -> None:
    oracles = [line.oracle() for line in shared]
    for line, oracle in zip(shared, oracles, strict=True):
        assert of_app(line) == oracle
    for name in shared[0].settings.outputs:
        assert count(shared[0].published(), name) == sum(count(oracle, name) for oracle in oracles) > 0


def test_the_client_reads_one_of_them(shared: list[Pipeline]) -> None:
    servers = shared[0].broker.bootstrap_servers
    topics = shared[0].topics
    for line in shared:
        app_id, oracle = line.settings.app_id, line.oracle()
        for kind, name in ((Explanations, "explanations"), (Drifts, "drift")):
            with kind(servers, topics[name], app_id=app_id, follow=False) as stream:
                assert sorted(message.raw for message in stream) == sorted(
                    value or b"" for log in oracle[name].values() for _, value, _ in log
                )
        newest = latest(servers, topics["explanations"], app_id=app_id)
        assert {number: message.raw for number, message in newest.items()} == {
            number: log[-1][1] for number, log in oracle["explanations"].items()
        }
        assert merge(recent(servers, topics["explanations"], app_id=app_id)).weights
    with pytest.raises(
        ClientError, match=r"sidecars shared\S*, shared\S* write to it; give the app_id of one"
    ):
        latest(servers, topics["explanations"])
    with Explanations(servers, topics["explanations"], follow=False) as stream:
        both = list(stream)
    with pytest.raises(ValueError, match="give those of one app_id"):
        merge(both)


def test_the_commands_and_the_dashboard_show_one_of_them(shared: list[MemoryPipeline]) -> None:
    for line in shared:
        explanations = line.oracle()["explanations"].values()
        tail = line.cli("tail", "--json", "--until-caught-up").stdout.splitlines()
        assert sorted(tail) == sorted((value or b"").decode() for log in explanations for _, value, _ in log)
        letters = line.cli("dead-letters", "show", "--json").stdout.splitlines()
        assert len(letters) == BAD_RECORDS
        _check_dashboard(line, [json.loads(log[-1][1] or b"")["digest"] for log in explanations])


def _check_dashboard(line: MemoryPipeline, newest: list[str]) -> None:
    """The dashboard comes to know the newest explanation of each partition, all dead letters, and no break of a chain."""
    feed = Feed(line.settings)
    with line.in_place_of_kafka(), feed.following():
        assert wait_for(lambda: _newest(feed) == newest)
        assert wait_for(lambda: feed.letter_classes.total() >= BAD_RECORDS)
        assert wait_for(lambda: all(partition.lag == 0 for partition in feed.partitions.values()))
        assert feed.letter_classes.total() == BAD_RECORDS
        assert [partition.broken for partition in feed.partitions.values()] == [None, None]


def _newest(feed: Feed) -> list[str]:
    links = [partition.links for partition in feed.partitions.values()]
    return [of_partition["explanations"].digest for of_partition in links if "explanations" in of_partition]


def test_each_replays_its_own_dead_letters(shared: list[Pipeline]) -> None:
    for line in shared:
        before = len(line.read(line.topics["records"]))
        assert f"{BAD_RECORDS} records to write" in line.cli("dead-letters", "replay", "--yes").stdout
        assert "0 records to write" in line.cli("dead-letters", "replay").stdout
        assert len(line.read(line.topics["records"])) == before + BAD_RECORDS
