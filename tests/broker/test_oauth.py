"""OAUTHBEARER: tokens of a function of the user's and of an OIDC server, which live for seconds while a worker runs on."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness import Pipeline, Process, mixed_records
from tests.broker.tokens import LISTENER, SECONDS, SECRET, come, guarded_broker, oidc_server
from tests.brokers import GuardedBroker


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    with guarded_broker(3.0) as running:
        yield running


def outlives(line: Pipeline, environment: dict[str, str]) -> None:
    """A worker folds on while several tokens expire, one after the other."""
    worker = line.worker(**environment)
    for part in range(4):
        line.feed(mixed_records(2, 100, seed=part))
        line.wait_for(line.folded)
        time.sleep(SECONDS)
    assert worker.stop() == 0, worker.log()
    line.verify()


def test_tokens_of_a_function_are_renewed_for_every_client(guarded: GuardedBroker, tmp_path: Path) -> None:
    line, calls = Pipeline(guarded, "function", 2), tmp_path / "calls"
    environment = come(
        guarded.servers[LISTENER], "tests.broker.tokens:token", **{"sasl.oauthbearer.config": str(calls)}
    )
    outlives(line, environment)
    assert calls.read_text().count("asked") > 6
    for command in (["check"], ["topics", "show"], ["checkpoint", "show"]):
        assert line.cli(*command, **environment).stdout


def test_tokens_of_an_oidc_server_are_renewed(guarded: GuardedBroker) -> None:
    line, asked = Pipeline(guarded, "oidc", 2), list[str]()
    with oidc_server(SECONDS, asked.append) as config:
        environment = come(guarded.servers[LISTENER], None, **config)
        outlives(line, environment)
        shown = line.cli("config", "show", **environment)
    assert len(asked) > 6 and set(asked) == {"/token"}
    assert SECRET not in shown.stdout


@pytest.mark.parametrize(
    ("oauth", "message"),
    [
        ("tests.broker.tokens:refused", "the role may not be assumed"),
        ("tests.broker.tokens:milliseconds", "it must be seconds"),
        ("tests.broker.tokens:nothing", "kafka.oauth: 'tests.broker.tokens:nothing' cannot be imported"),
        ("nowhere", "kafka.oauth"),
    ],
)
def test_a_source_that_gives_no_token_is_named(oauth: str, message: str) -> None:
    environment = come("127.0.0.1:1", oauth)  # where no broker is, nor is one asked
    done = Process(["-m", "explain_sidecar.cli", "topics", "show"], environment)
    assert done.wait(60) == (1 if oauth.endswith(("refused", "milliseconds")) else 2)
    assert message in done.log() and "Traceback" not in done.log()
