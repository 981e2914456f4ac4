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


def test_tokens_of_a_function_and_of_an_oidc_server_are_renewed_for_every_client(
    guarded: GuardedBroker, tmp_path: Path
) -> None:
    """A worker of each folds on while several tokens expire, one after the other."""
    lines = [Pipeline(guarded, name, 2) for name in ("function", "oidc")]
    calls, asked = tmp_path / "calls", list[str]()
    with oidc_server(SECONDS, asked.append) as config:
        own = {"sasl.oauthbearer.config": str(calls)}
        by_function = come(guarded.servers[LISTENER], "tests.broker.tokens:token", **own)
        by_oidc = come(guarded.servers[LISTENER], None, **config)
        workers = [
            line.worker(**environment)
            for line, environment in zip(lines, (by_function, by_oidc), strict=True)
        ]
        for part in range(4):
            for line in lines:
                line.feed(mixed_records(2, 100, seed=part))
            for line in lines:
                line.wait_for(line.folded)
            time.sleep(SECONDS)
        for line, worker in zip(lines, workers, strict=True):
            assert worker.stop() == 0, worker.log()
            line.verify()
        shown = lines[1].cli("config", "show", **by_oidc)
    assert len(asked) > 6 and set(asked) == {"/token"}
    assert SECRET not in shown.stdout
    assert calls.read_text().count("asked") > 6
    for command in (["check"], ["topics", "show"], ["checkpoint", "show"]):
        assert lines[0].cli(*command, **by_function).stdout


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
