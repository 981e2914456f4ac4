"""SASL/SCRAM over TLS with ACLs: the least rights are enough, a missing one is named, and no secret is shown."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

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
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

from explain_core.packing import zstd
from tests.broker.harness import Pipeline, mixed_records
from tests.brokers import LONG_SESSION, GuardedBroker

PASSWORD = "correct-horse-battery-staple"
HMAC_KEY = "a-key-for-manifests-that-nobody-may-see"
HTTP_TOKEN = "a-token-for-the-dashboard-that-nobody-may-see"


Certificate = tuple[Path, Path]
"""A key store with a certificate for 127.0.0.1 that signs itself, and the certificate as PEM."""


def certificate(folder: Path, name: str) -> Certificate:
    key, who = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
    )
    now, address = datetime.now(UTC), x509.IPAddress(ip_address("127.0.0.1"))
    builder = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False).sign(key, SHA256())
    store, pem, secret = (
        folder / f"{name}.p12",
        folder / f"{name}.pem",
        BestAvailableEncryption(PASSWORD.encode()),
    )
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, made, None, secret))
    pem.write_bytes(made.public_bytes(Encoding.PEM))
    return store, pem


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    """Of the broker, of a client that it trusts, and of a stranger."""
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("broker", "sidecar", "stranger")}


@pytest.fixture(scope="module")
def fortress(certificates: dict[str, Certificate]) -> Iterator[GuardedBroker]:
    """Who comes by the first listener is the administrator, as the tests are; the sidecar comes by another."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=sidecar",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "ssl.keystore.location": str(certificates["broker"][0]),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.truststore.location": str(certificates["sidecar"][1]),
        "ssl.truststore.type": "PEM",
    }
    with GuardedBroker("SASL_SSL", "SSL", config=config | LONG_SESSION) as running:
        yield running


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
        "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": line.broker.servers["SASL_SSL"],
        "EXPLAIN_KAFKA__CONFIG": json.dumps(config),
    }


def prepared(broker: GuardedBroker, name: str) -> Pipeline:
    line = Pipeline(broker, name, 2)
    line.feed(mixed_records(2, 300, bad_every=20))
    line.cli("topics", "create")
    return line


def with_the_least_rights(fortress: GuardedBroker, pem: Path, tmp_path: Path) -> None:
    """They are enough, and secrets stay secret."""
    keys = tmp_path / "keys"
    keys.write_text(f"{HMAC_KEY}\n")
    line = prepared(fortress, "least")
    for right in least_rights(line):
        allow(line.admin, line.name, *right)
    environment = {
        **user(line, pem),
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


def test_the_least_rights_are_enough_secrets_stay_secret_and_a_right_that_is_missing_is_named(
    fortress: GuardedBroker, certificates: dict[str, Certificate], tmp_path: Path
) -> None:
    pem = certificates["broker"][1]
    checked: dict[str, str] = {}

    def log_without(setting: str) -> str:
        line = prepared(fortress, f"without-{setting.replace('_', '-')}")
        gone = {
            "group": (line.name, AclOperation.READ),
            "transactional_id": (f"{line.name}-", AclOperation.WRITE),
        }.get(setting) or (line.topics[setting], AclOperation.WRITE)
        for kind, name, operation in least_rights(line):
            if (name, operation) != gone:
                allow(line.admin, line.name, kind, name, operation)
        known = user(line, pem)
        if setting != "group":
            checked[setting] = " ".join(line.cli("check", status=1, **known).stdout.split())
        return line.fails(**known)

    with ThreadPoolExecutor(3) as pool:
        enough = pool.submit(with_the_least_rights, fortress, pem, tmp_path)
        logs = list(pool.map(log_without, ("explanations", "checkpoints", "transactional_id", "group")))
    enough.result()
    for log, right in zip(logs[:3], ("output topics", "output topics", "transactional ids"), strict=True):
        assert f"grant this user WRITE on the {right}" in log
    for log in logs:
        assert "uthorization failed" in log
        assert [text for text in log.splitlines() if text.startswith("error: ")] == log.splitlines()[-1:]
    assert "roup authorization failed" in logs[3]
    assert "WRITE on the transactional ids" in checked["transactional_id"]
    assert "gave the transactional id" in checked["explanations"]
    assert "missing: WRITE on explanations-without-explanations" in checked["explanations"]


def test_a_certificate_of_the_client_is_enough_and_what_is_wrong_with_others_is_told_apart(
    fortress: GuardedBroker, certificates: dict[str, Certificate]
) -> None:
    def by_certificate(name: str) -> dict[str, str]:
        own = {
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates["broker"][1]),
            "ssl.keystore.location": str(certificates[name][0]),
            "ssl.keystore.password": PASSWORD,
        }
        return {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": fortress.servers["SSL"],
            "EXPLAIN_KAFKA__CONFIG": json.dumps(own),
        }

    line = prepared(fortress, "credentials")
    log = line.run_to_end(**by_certificate("sidecar")).log()
    line.verify()
    stranger = line.cli("topics", "show", status=1, **by_certificate("stranger"))
    assert "TLS failed" in stranger.stderr or "no broker answered" in stranger.stderr
    assert PASSWORD not in log + stranger.stderr
    wrong = user(line, certificates["broker"][1], password="not-the-password")
    for command in (["run"], ["topics", "show"], ["checkpoint", "show"]):
        refused = line.cli(*command, status=1, **wrong)
        assert "the broker refused the credentials" in refused.stderr and "sasl.password" in refused.stderr
        assert "not-the-password" not in refused.stdout + refused.stderr
    assert "not-the-password" not in line.cli("config", "show", **wrong).stdout
    unknown = line.cli("topics", "show", status=1, **user(line, certificates["stranger"][1]))
    assert "TLS failed" in unknown.stderr
    assert "ssl.ca.location" in unknown.stderr
