"""explain_client: what it yields, where it begins and goes on, and what it says when it cannot."""

import asyncio
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic, OffsetSpec

from explain_client import (
    ChainError,
    ClientError,
    Drifts,
    Explanation,
    Explanations,
    Position,
    SchemaError,
    latest,
    recent,
)
from explain_client.messages import Row
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.kafka.clients import KAFKA, Kafka
from tests.broker.memory import EXAMPLES, alone, kafka_in, run_example
from tests.brokers import wait_for
from tests.driver.log import Cluster
from tests.folds import fold, settings, values

Name = Callable[[str], str]
Example = Callable[..., str]


def explained(partition: int, count: int, epoch: int = 0) -> list[bytes]:
    """The messages of a partition that has explained ``count`` times."""
    outputs = fold(PartitionState(settings(), partition, epoch=epoch), values(10 * count, seed=partition + 1))
    return [output.value or b"" for output in outputs]


class Topic:
    """An explanations topic, written in transactions as the sidecar writes it."""

    def __init__(self, kafka: Kafka, servers: str, name: str) -> None:
        self.servers, self.name = servers, name
        self.admin = kafka.admin({"bootstrap.servers": servers})
        self.admin.create_topics([NewTopic(name, 2, 1, config={})], request_timeout=30)[name].result()
        transactional = {"transactional.id": name, "transaction.timeout.ms": 60_000}
        self.producer = kafka.producer({"bootstrap.servers": servers, **transactional})
        self.producer.init_transactions(30)

    def write(self, partition: int, messages: Sequence[bytes], commit: bool = True) -> None:
        self.producer.begin_transaction()
        for value in messages:
            self.producer.produce(self.name, value, None, partition)
        self.producer.flush(30)
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(30)
        assert wait_for(
            lambda: self._end(partition, "READ_COMMITTED") == self._end(partition, "READ_UNCOMMITTED")
        )

    def _end(self, partition: int, isolation: str) -> int:
        """The end is another one for readers of committed records until Kafka has marked how a transaction ended."""
        asked = {TopicPartition(self.name, partition): OffsetSpec.latest()}
        level = IsolationLevel[isolation]
        (end,) = self.admin.list_offsets(asked, isolation_level=level, request_timeout=30).values()
        return end.result().offset

    def read(self, **arguments: object) -> list[bytes]:
        with Explanations(self.servers, self.name, follow=False, **arguments) as stream:  # type: ignore[arg-type]
            return [message.raw for message in stream]


@pytest.fixture
def on_kafka(broker: Broker, unique_name: Name) -> Topic:
    return Topic(KAFKA, broker.bootstrap_servers, unique_name("explanations"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    alone(monkeypatch, cluster)
    return cluster


@pytest.fixture
def topic(unique_name: Name, cluster: Cluster) -> Topic:
    """In memory."""
    return Topic(kafka_in(cluster), "memory:9092", unique_name("explanations"))


def test_it_yields_every_committed_explanation_in_order_and_no_aborted_one(topic: Topic) -> None:
    first, second = explained(0, 6), explained(1, 4)
    topic.write(0, first[:3], commit=False)
    topic.write(0, first[:4])
    topic.write(1, second)
    topic.write(0, first[4:], commit=False)
    topic.write(0, first[4:])
    with Explanations(topic.servers, topic.name, follow=False) as stream:
        found = list(stream)
    for partition, expected in enumerate((first, second)):
        assert [message.raw for message in found if message.partition == partition] == expected


def test_it_follows_and_async_for_yields_the_same(on_kafka: Topic) -> None:
    sent = explained(0, 6)
    on_kafka.write(0, sent[:2])

    async def follow() -> list[bytes]:
        found: list[bytes] = []
        async with Explanations(on_kafka.servers, on_kafka.name) as stream:
            with pytest.raises(TimeoutError):  # a wait that is given up loses nothing
                async with asyncio.timeout(2):
                    async for message in stream:
                        found.append(message.raw)
            await asyncio.to_thread(on_kafka.write, 0, sent[2:])
            async for message in stream:
                found.append(message.raw)
                if len(found) == len(sent):
                    return found
        return found

    assert asyncio.run(follow()) == sent


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_partition_that_the_topic_gains_is_read_from_its_beginning(
    start: Any, on_kafka: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explain_client.stream.LOOK_SECONDS", 0.5)
    first, gained = explained(0, 3), explained(2, 3)
    with Explanations(on_kafka.servers, on_kafka.name, start=start) as stream:
        on_kafka.write(0, first)
        assert [message.raw for message in itertools.islice(stream, 3)] == first
        asked = on_kafka.admin.create_partitions([NewPartitions(on_kafka.name, 3)], request_timeout=30)
        asked[on_kafka.name].result()
        for client in (on_kafka.admin, on_kafka.producer):

            def led(client: Any = client) -> bool:
                known = client.list_topics(on_kafka.name, timeout=5).topics[on_kafka.name].partitions
                return 2 in known and known[2].leader >= 0

            assert wait_for(led)
        on_kafka.write(2, gained)
        assert [message.raw for message in itertools.islice(stream, 3)] == gained
        assert stream.position.partitions.keys() >= {0, 2}


def test_a_position_goes_on_where_it_was_and_knows_the_chain(topic: Topic) -> None:
    sent = explained(0, 8)
    topic.write(0, sent[:5])
    with Explanations(topic.servers, topic.name, follow=False) as stream:
        assert [next(stream).raw for _ in range(3)] == sent[:3]
        text = stream.position.to_json()
    assert topic.read(start=Position.from_json(text)) == sent[3:5]
    assert topic.read(start=stream.position) == sent[3:5]
    with Explanations(topic.servers, topic.name, follow=False) as stream:
        list(stream)
    topic.write(0, sent[6:])  # sent[5] is lost while nobody reads
    with pytest.raises(ChainError, match="seq 6: 1 messages are missing before it"):
        topic.read(start=stream.position)


def test_it_starts_at_the_end_or_at_the_time_of_publishing(topic: Topic, cluster: Cluster) -> None:
    sent = explained(0, 6)
    topic.write(0, sent[:2], commit=False)  # nobody is given these
    topic.write(0, sent[:3])
    assert topic.read(start="latest") == []
    with Explanations(topic.servers, topic.name, start="latest") as stream:
        cluster.clock.sleep(1)
        between = datetime.fromtimestamp(cluster.clock.time(), UTC)
        topic.write(0, sent[3:])
        assert [message.raw for message in itertools.islice(stream, 3)] == sent[3:]
    assert topic.read(start=between) == sent[3:]
    assert topic.read(start=datetime.now(UTC) - between) == sent[3:]
    assert topic.read(start=datetime.now(UTC) - between + timedelta(hours=1)) == sent
    assert topic.read(start=between + timedelta(hours=1)) == []


def test_a_broken_chain_is_raised_or_logged_or_left_alone(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    sent = explained(0, 5)
    broken = [*sent[:2], *sent[3:]]
    topic.write(0, broken)
    with pytest.raises(
        ChainError, match="seq 3: 1 messages are missing before it; with verify='warn' reading goes on"
    ):
        topic.read()
    assert topic.read(verify="warn") == broken
    assert [record.getMessage() for record in caplog.records if "missing" in record.getMessage()]
    caplog.clear()
    assert topic.read(verify="off") == broken
    assert not caplog.records


def test_a_group_gets_again_what_the_body_did_not_finish_and_still_verifies(
    topic: Topic, unique_name: Name
) -> None:
    sent, group = explained(0, 8), unique_name("group")
    topic.write(0, sent[:5])
    with (
        pytest.raises(ZeroDivisionError),
        Explanations(topic.servers, topic.name, follow=False, group_id=group) as stream,
    ):
        for message in stream:
            if message.seq == 3:
                raise ZeroDivisionError
    assert topic.read(group_id=group) == sent[3:5]
    assert topic.read(group_id=group) == []
    topic.write(0, sent[6:])
    with pytest.raises(ChainError, match="seq 6: 1 messages are missing"):
        topic.read(group_id=group)


def test_a_position_that_retention_has_deleted_is_named_with_what_goes_on_from_there(
    topic: Topic, cluster: Cluster
) -> None:
    sent = explained(0, 6)
    topic.write(0, sent)
    group = f"{topic.name}-group"
    with Explanations(topic.servers, topic.name, follow=False, group_id=group) as stream:
        position = next(stream) and next(stream) and stream.position
    log = cluster.log(topic.name, 0)
    log.low = 4
    reset = f"kafka-consumer-groups --group {group} --topic {topic.name}:0 --reset-offsets --to-earliest"
    for how, remedy in (({"group_id": group}, reset), ({"start": position}, "start='earliest'")):
        with pytest.raises(ClientError, match="the messages in between are lost") as said:
            topic.read(**how)
        assert remedy in str(said.value)
    assert topic.read(start="earliest") == sent[4:]
    cluster.groups[group].committed[topic.name, 0] = log.low, ""
    assert topic.read(group_id=group) == sent[4:]


def test_the_latest_is_found_behind_aborted_messages_and_the_window_has_its_records(topic: Topic) -> None:
    first, second = explained(0, 40), explained(1, 1)
    topic.write(0, first)
    topic.write(0, first * 5, commit=False)
    topic.write(1, second)
    topic.write(1, explained(1, 2, epoch=1))
    newest = latest(topic.servers, topic.name)
    assert (newest[0].raw, newest[1].epoch, newest[1].seq) == (first[-1], 1, 1)
    found = recent(topic.servers, topic.name, window=150)
    assert [message.raw for message in found if message.partition == 0] == first[-15:]
    assert [(message.epoch, message.seq) for message in found if message.partition == 1] == [(1, 0), (1, 1)]


def test_a_topic_without_explanations_has_no_latest(topic: Topic) -> None:
    assert latest(topic.servers, topic.name) == {}
    assert topic.read() == []


def test_where_no_broker_answers_is_named() -> None:
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1: no broker answered within 8 s \(.*refused"):
        latest("127.0.0.1:1", "explanations")


def test_what_is_at_fault_is_named(topic: Topic, unique_name: Name) -> None:
    with pytest.raises(ClientError, match="has the sidecar run yet"):
        Explanations(topic.servers, unique_name("none")).__enter__()
    topic.write(0, [explained(0, 1)[0].replace(b"explanation/1", b"explanation/2", 1)])
    with pytest.raises(SchemaError, match="schema 'explanation/2', and this explain-client reads"):
        topic.read()
    topic.write(0, [b"of somebody else", *explained(0, 1)])
    for newest in (latest, recent):
        with pytest.raises(SchemaError, match=rf"^topic '{topic.name}' partition 0 offset 0: schema"):
            newest(topic.servers, topic.name)

    async def by_hand() -> list[str]:
        found = []
        async with Explanations(topic.servers, topic.name, follow=False) as stream:
            for _ in range(3):
                try:
                    found.append((await anext(stream)).schema)
                except SchemaError as error:
                    found.append(str(error).partition(": ")[0])
        return found

    places = [f"topic '{topic.name}' partition 0 offset {offset}" for offset in (0, 2)]
    assert asyncio.run(by_hand()) == [*places, "explanation/1"]
    with Explanations(topic.servers, topic.name, start="latest", follow=False) as stream:
        assert list(stream) == []
    topic.admin.delete_topics([topic.name])[topic.name].result()
    with pytest.raises(ClientError):
        latest(topic.servers, topic.name)


@pytest.fixture
def example(topic: Topic, capfd: pytest.CaptureFixture[str]) -> Example:
    """Runs an example on the topic, and gives what it and what it started have printed."""

    def run(name: str, *arguments: str) -> str:
        run_example(name, topic.servers, topic.name, *arguments)
        return capfd.readouterr().out

    return run


def test_the_example_names_one_leader_once_there_are_bands(topic: Topic, example: Example) -> None:
    sections = {
        "explainers": [{"kind": "ipfi", "alpha": 0.01, "reservoir": {"size": 10}}],
        "emit": {"every": 100},
        "record": {"features": ["a", "b"]},
    }
    given = [{**value, "label": value["a"] > 0} for value in values(1_500, seed=1)]
    sent = [output.value or b"" for output in fold(PartitionState(settings(**sections), 0), given)]
    topic.write(0, sent[:4])
    assert example("alert_on_change.py", "--until-caught-up") == ""
    topic.write(0, sent[4:])
    (line,) = example("alert_on_change.py", "--until-caught-up").splitlines()
    assert line.endswith("partition 0: a leads")
    # Another sidecar on the topic has leaders of its own.
    given = [{**value, "b": value["a"], "a": value.get("b", 0.0)} for value in given]
    other = settings(app_id="other", **sections)
    topic.write(0, [output.value or b"" for output in fold(PartitionState(other, 0), given)])
    lines = example("alert_on_change.py", "--until-caught-up").splitlines()
    assert [text[-7:] for text in lines] == ["a leads", "b leads"]


@pytest.mark.parametrize(
    ("name", "more"),
    [("alert_on_change.py", []), ("retrain_on_drift.py", ["--", "true"]), ("audit_log.py", ["{folder}"])],
)
def test_an_example_says_in_words_that_its_topic_is_missing(
    topic: Topic, name: str, more: list[str], tmp_path: Path
) -> None:
    more = [argument.format(folder=tmp_path) for argument in more]
    with pytest.raises(SystemExit, match=r"topic .nowhere. is not on .*; has the sidecar run yet"):
        run_example(name, topic.servers, "nowhere", *more)


def drifted(flip: bool) -> list[bytes]:
    """The drift messages of a partition whose concept is turned round halfway, or not."""
    given = values(1_200, seed=5)
    half = len(given) // 2
    given[half:] = [{**record, "label": record["label"] is not flip} for record in given[half:]]
    drift = {"enabled": True, "window": 300}
    outputs = fold(PartitionState(settings(drift=drift), int(flip)), given)
    return [output.value or b"" for output in outputs if output.destination == "drift"]


def test_the_example_retrains_on_a_change_of_the_concept_and_on_nothing_else(
    topic: Topic, example: Example
) -> None:
    sent = {partition: drifted(bool(partition)) for partition in (0, 1)}
    for partition, messages in sent.items():
        topic.write(partition, messages)
    with Drifts(topic.servers, topic.name, follow=False) as stream:
        found = list(stream)
    assert sorted(message.raw for message in found) == sorted(sent[0] + sent[1])
    real = [change for change in found if "concept" in change.causes]
    assert {change.partition for change in real} == {1}
    for failing in (sys.executable, "-c", "raise SystemExit(3)"), ("no-such-command",):
        with pytest.raises(SystemExit, match="comes again at the next start"):
            example("retrain_on_drift.py", "--until-caught-up", "--", *failing)
    command = ("--until-caught-up", "--", sys.executable, "-c", "import sys; print('retrain', *sys.argv[1:])")
    lines = example("retrain_on_drift.py", *command).splitlines()
    assert [line for line in lines if line.startswith("retrain")] == [
        f"retrain records 1 {real[0].target.last_offset + 1}"
    ]
    assert example("retrain_on_drift.py", *command) == ""  # the group has seen them


def test_the_example_writes_an_audit_log_that_pandas_reads_and_goes_on_in_it(
    topic: Topic, example: Example, tmp_path: Path
) -> None:
    import pandas as pd

    sent = explained(0, 6)
    for part in (sent[:4], sent[4:]):
        topic.write(0, part)
        example("audit_log.py", str(tmp_path))
    frame = pd.read_parquet(tmp_path)
    assert sorted(frame.seq.unique()) == list(range(6))
    assert not frame.duplicated(["partition", "seq", "estimator", "loss", "feature"]).any()
    assert sorted(frame.digest.unique()) == sorted(Explanation.from_json(value).digest for value in sent)


def test_the_audit_log_of_rows_has_each_once_with_real_times(
    topic: Topic, example: Example, tmp_path: Path
) -> None:
    import pandas as pd

    chosen = settings(rows={"enabled": True}, emit={"every": 100, "periods": [500]})
    given = [out for out in fold(PartitionState(chosen, 0), values(1_000)) if out.destination == "rows"]
    sent = [out.value or b"" for out in given]
    half = len(sent) // 2
    for part in (sent[:half], sent[half:]):
        topic.write(0, part)
        example("audit_log.py", str(tmp_path), "--rows")
    assert example("audit_log.py", str(tmp_path), "--rows") == ""
    expected = [Row.from_json(value) for value in sent]
    frame = pd.read_parquet(tmp_path).sort_values("seq")
    assert half > 3 and frame.digest.tolist() == [row.digest for row in expected]
    assert frame.until.tolist() == [row.until for row in expected]
    assert frame["sum"].tolist() == [row.sum for row in expected]


def test_the_audit_log_of_rows_refuses_a_topic_of_explanations(
    topic: Topic, example: Example, tmp_path: Path
) -> None:
    topic.write(0, explained(0, 3))
    with pytest.raises(SystemExit, match="schema 'explanation/1', and this explain-client reads 'row/1'"):
        example("audit_log.py", str(tmp_path), "--rows")
    assert not list(tmp_path.glob("*.parquet"))


def test_installed_alone_it_reads_beside_a_foreign_package_named_service(
    on_kafka: Topic, tmp_path: Path
) -> None:
    on_kafka.write(0, explained(0, 3))
    source = shutil.copytree(
        EXAMPLES.parent, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info")
    )
    python = str(tmp_path / "alone" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    known = [f"{name}=={metadata.version(name)}" for name in ("confluent-kafka", "orjson", "setuptools")]
    for command in (
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "alone")],
        [*pip, *known],
        [*pip, "--no-build-isolation", str(source)],
    ):
        subprocess.run(command, check=True, timeout=120)
    foreign = (
        tmp_path / "alone" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "explain_sidecar"
    )
    foreign.mkdir()
    (foreign / "__init__.py").write_text("name = 'foreign'")
    code = f"""
import datetime, explain_sidecar, explain_client, sys
from importlib.metadata import distributions
print(sorted(found.name for found in distributions()), explain_sidecar.name, sys.modules.keys() & {{"pydantic", "numpy", "explain_core"}})
for _ in range(2):
    ago = datetime.timedelta(hours=1)
    with explain_client.Explanations({on_kafka.servers!r}, {on_kafka.name!r}, follow=False, group_id={on_kafka.name!r}, start=ago) as stream:
        print([explanation.seq for explanation in stream])
try:
    explain_client.to_pandas([])
except explain_client.ClientError as error:
    print(error)
"""
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "['confluent-kafka', 'explain-client', 'orjson', 'setuptools'] foreign set()",
        "[0, 1, 2]",
        "[]",
        "to_pandas needs pandas: pip install 'explain-client[pandas]'",
    ], done.stderr
