"""Credentials pass through kafka.config; wrong ones are named within ten seconds, and never shown."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.broker.harness import Pipeline, mixed_records
from tests.brokers import LONG_SESSION, GuardedBroker

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_sidecar="right-password";'


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    config = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # on the first listener, that of the tests themselves
        "allow.everyone.if.no.acl.found": "true",
    }
    with GuardedBroker("SASL_PLAINTEXT", config | LONG_SESSION) as running:
        yield running


def credentials(broker: GuardedBroker, password: str) -> dict[str, str]:
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "sidecar",
        "sasl.password": password,
    }
    return {
        "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.second_servers,
        "EXPLAIN_KAFKA__CONFIG": json.dumps(config),
    }


def test_right_credentials_pass_through_to_every_client(guarded: GuardedBroker) -> None:
    line = Pipeline(guarded, "right", 2)
    line.feed(mixed_records(2, 100))
    line.run_to_end(**credentials(guarded, "right-password"))
    line.verify()


def test_check_names_the_rights_that_are_missing(guarded: GuardedBroker) -> None:
    line = Pipeline(guarded, "rights", 1)
    line.feed(mixed_records(1, 20))
    line.cli("topics", "create")
    user = credentials(guarded, "right-password")
    assert json.loads(line.cli("check", "--json", **user).stdout)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        rule = AclBinding(
            ResourceType.TOPIC,
            line.topics["explanations"],
            ResourcePatternType.LITERAL,
            "User:sidecar",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        line.admin.create_acls([rule])[rule].result()
    checks = json.loads(line.cli("check", "--json", status=1, **user).stdout)["checks"]
    failed = {check["what"]: check["detail"] for check in checks if check["ok"] is False}
    assert failed == {"rights": f"missing: WRITE on {line.topics['explanations']}"}


@pytest.mark.parametrize("command", [["run"], ["topics", "show"], ["checkpoint", "show"]])
def test_wrong_credentials_are_named_and_not_shown(guarded: GuardedBroker, command: list[str]) -> None:
    line = Pipeline(guarded, f"wrong-{command[0]}", 1)
    done = line.cli(*command, status=1, **credentials(guarded, "wrong-password"))
    assert "the broker refused the credentials" in done.stderr
    assert "sasl.password" in done.stderr
    assert "wrong-password" not in done.stdout + done.stderr
    shown = line.cli("config", "show", **credentials(guarded, "wrong-password"))
    assert "wrong-password" not in shown.stdout + shown.stderr
