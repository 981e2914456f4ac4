"""OAUTHBEARER: tokens of a function of the user's and of an OIDC server, which live for seconds while a worker runs on."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from explain_sidecar.broker.embedded import Broker
from tests.broker.harness import Pipeline, mixed_records
from tests.broker.tokens import SECONDS, unsigned
from tests.brokers import LONG_SESSION
from tests.loopback import serving

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    listener = "listener.name.sasl_plaintext.oauthbearer"
    config = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.sasl.jaas.config": LOGIN,
        f"{listener}.connections.max.reauth.ms": "3000",  # a connection must show a new token so often
    }
    with Broker(config=config | LONG_SESSION, listener="SASL_PLAINTEXT") as running:
        yield running


def come(broker: Broker, oauth: str | None, **config: str) -> dict[str, str]:
    own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **config}
    named = {} if oauth is None else {"EXPLAIN_KAFKA__OAUTH": oauth}
    address = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.second_servers}
    return {**address, "EXPLAIN_KAFKA__CONFIG": json.dumps(own), **named}


def outlives(line: Pipeline, environment: dict[str, str]) -> None:
    """A worker folds on while several tokens expire, one after the other."""
    worker = line.worker(**environment)
    for part in range(4):
        line.feed(mixed_records(2, 100, seed=part))
        line.wait_for(line.folded)
        time.sleep(SECONDS)
    assert worker.stop() == 0, worker.log()
    line.verify()


def test_tokens_of_a_function_are_renewed_for_every_client(guarded: Broker, tmp_path: Path) -> None:
    line, calls = Pipeline(guarded, "function", 2), tmp_path / "calls"
    environment = come(guarded, "tests.broker.tokens:token", **{"sasl.oauthbearer.config": str(calls)})
    outlives(line, environment)
    assert calls.read_text().count("asked") > 6
    for command in (["check"], ["topics", "show"], ["checkpoint", "show"]):
        assert line.cli(*command, **environment).stdout


def test_tokens_of_an_oidc_server_are_renewed(guarded: Broker) -> None:
    line, asked = Pipeline(guarded, "oidc", 2), []

    def answer(path: str, body: bytes) -> tuple[int, bytes]:
        asked.append((path, body))
        token, _ = unsigned()
        return 200, json.dumps(
            {"access_token": token, "token_type": "Bearer", "expires_in": SECONDS}
        ).encode()

    with serving(answer) as address:
        config = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "sidecar",
            "sasl.oauthbearer.client.secret": "a-secret-that-nobody-may-see",
            "sasl.oauthbearer.token.endpoint.url": f"{address}/token",
            "sasl.oauthbearer.scope": "kafka",
        }
        environment = come(guarded, None, **config)
        outlives(line, environment)
        shown = line.cli("config", "show", **environment)
    assert len(asked) > 6 and {path for path, _ in asked} == {"/token"}
    assert "a-secret-that-nobody-may-see" not in shown.stdout


@pytest.mark.parametrize(
    ("oauth", "message"),
    [
        ("tests.broker.tokens:refused", "the role may not be assumed"),
        ("tests.broker.tokens:milliseconds", "it must be seconds"),
        ("tests.broker.tokens:nothing", "kafka.oauth: 'tests.broker.tokens:nothing' cannot be imported"),
        ("nowhere", "kafka.oauth"),
    ],
)
def test_a_source_that_gives_no_token_is_named(guarded: Broker, oauth: str, message: str) -> None:
    line = Pipeline(guarded, f"none-{oauth.rpartition(':')[2]}", 1)
    status = 2 if "refused" not in oauth and "milli" not in oauth else 1
    done = line.cli("topics", "show", status=status, **come(guarded, oauth))
    assert message in done.stderr and "Traceback" not in done.stderr
