"""The embedded broker: what it promises to the tests, the demo and ``explain-sidecar kafka run``."""

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.broker.jars import KAFKA_VERSION, kafka_jars
from explain_sidecar.errors import UserError
from tests.brokers import BRIEF_SESSION, WAIT_SECONDS, wait_for


def produce(broker: Broker, topic: str, messages: list[tuple[bytes, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for key, value in messages:
        producer.produce(topic, value, key, 0)
    assert producer.flush(WAIT_SECONDS) == 0


def consume(broker: Broker, topic: str) -> list[tuple[bytes, bytes]]:
    """Everything that is committed in partition 0, from its start to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    partition = TopicPartition(topic, 0)
    low, high = consumer.get_watermark_offsets(partition, WAIT_SECONDS)
    consumer.assign([TopicPartition(topic, 0, low)])
    found = []
    while low < high and consumer.position([partition])[0].offset < high:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None
            found.append((message.key(), message.value()))
    consumer.close()
    return found


def is_alive(pid: int) -> bool:
    # A zombie that its reaper has not collected yet is dead.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def crash_by_itself(broker: Broker) -> None:
    pid = broker.pid
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: not is_alive(pid))
    broker.stop()


def stop_beside_a_fork(broker: Broker) -> None:
    """In order, though a forked process lives on."""
    fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(WAIT_SECONDS,), daemon=True)
    fork.start()
    broker.stop()
    assert fork.is_alive() and broker.pid == 0
    fork.kill()


def test_records_survive_crashes_and_a_stop_and_a_start_on_the_same_port(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", config=BRIEF_SESSION) as own:
        port, topic, records = own.port, "records", [(b"k", b"first")]
        admin = AdminClient({"bootstrap.servers": own.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_SECONDS)
        produce(own, topic, records)
        for end in (Broker.kill, crash_by_itself, stop_beside_a_fork):
            pid = own.pid
            end(own)
            assert not is_alive(pid)
            own.start()
            assert own.port == port
            records.append((b"k", end.__name__.encode()))
            produce(own, topic, records[-1:])
        assert consume(own, topic) == records


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = Broker(port=port)
        with pytest.raises(UserError, match=f"port {port} is in use"):
            other.start()
    assert not other.data.exists()


def test_a_broker_that_cannot_start_names_its_log_and_the_reason() -> None:
    broken = Broker(config={"process.roles": "broker,janitor"})
    with pytest.raises(UserError, match="janitor") as raised:
        broken.start()
    assert str(broken.log) in str(raised.value)
    assert "janitor" in broken.log.read_text()
    broken.stop()
    assert not broken.data.exists()


def test_kafka_run_prints_where_it_listens_ends_cleanly_and_takes_its_folder_up_again(tmp_path: Path) -> None:
    code = f"from explain_sidecar.broker.embedded import *; run_foreground(None, Path({str(tmp_path)!r}))"
    for how in (signal.SIGINT, signal.SIGTERM):
        runner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert runner.stdout is not None
        name, _, address = runner.stdout.readline().strip().partition("=")
        assert name == "bootstrap.servers"
        admin = AdminClient({"bootstrap.servers": address})
        topics = admin.list_topics(timeout=WAIT_SECONDS).topics
        if how == signal.SIGINT:
            admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(WAIT_SECONDS)
        else:
            assert "kept" in topics
        runner.send_signal(how)
        assert runner.communicate(timeout=WAIT_SECONDS) == ("", None)
        assert runner.returncode == 0
        clean = tmp_path / "log" / ".kafka_cleanshutdown"
        assert clean.exists()
        clean.unlink()


def test_an_altered_jar_is_refused(tmp_path: Path) -> None:
    good = kafka_jars()[0]
    folder = tmp_path / f"kafka-{KAFKA_VERSION}"
    shutil.copytree(good.parent, folder)
    assert [jar.name for jar in kafka_jars(cache=tmp_path)] == [jar.name for jar in kafka_jars()]
    altered = folder / good.name
    altered.write_bytes(altered.read_bytes()[:-1] + b"!")
    with pytest.raises(
        UserError,
        match=f"{altered}: its sha256 is .* altered, damaged or removed; remove the folder {folder}",
    ):
        kafka_jars(cache=tmp_path)


def test_a_download_that_was_cut_off_is_continued_by_one_process_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = tmp_path / f"kafka-{KAFKA_VERSION}.unfinished"
    shutil.copytree(kafka_jars()[0].parent, unfinished)
    missing = min(unfinished.glob("*.jar"), key=lambda jar: jar.stat().st_size)
    missing.unlink()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(kafka_jars, cache=tmp_path) for _ in range(2)]
    assert all(missing.name in [jar.name for jar in outcome.result()] for outcome in both)
    assert capsys.readouterr().err.count("downloading 1 jars") == 1
    (tmp_path / f"kafka-{KAFKA_VERSION}" / missing.name).unlink()
    with pytest.raises(UserError, match="damaged or removed; remove the folder"):
        kafka_jars(cache=tmp_path)


def test_a_version_without_pins_is_said_to_be_unverified_and_then_pinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What both versions need is there; the others are downloaded.
    shutil.copytree(kafka_jars()[0].parent, tmp_path / "kafka-4.2.0.unfinished")
    found = kafka_jars("4.2.0", tmp_path)
    assert "kafka_2.13-4.2.0.jar" in [jar.name for jar in found]
    assert "no checksums are pinned for Kafka 4.2.0" in capsys.readouterr().err
    found[0].write_bytes(b"altered")
    with pytest.raises(UserError, match="altered, damaged or removed"):
        kafka_jars("4.2.0", tmp_path)
    (found[0].parent / "sha256").unlink()
    with pytest.raises(UserError, match="sha256 was removed: remove the folder"):
        kafka_jars("4.2.0", tmp_path)


def test_a_version_that_does_not_exist_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Apache Kafka 0\.0\.0 cannot be downloaded"):
        kafka_jars("0.0.0", tmp_path)


def test_two_processes_are_never_given_the_same_port() -> None:
    program = (
        "from explain_sidecar.broker import embedded\n"
        "embedded._PORTS = range(31_900, 31_904)\n"
        "print(embedded.free_port(), embedded.free_port(), flush=True)\n"
        "input()\n"
    )
    found: list[str] = []
    with ExitStack() as both:
        for _ in range(2):
            process = both.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            both.callback(process.kill)
            assert process.stdout is not None
            found += process.stdout.readline().split()
    assert sorted(found) == ["31900", "31901", "31902", "31903"]
