"""`reset` begins a new epoch, and refuses to where anything else is at work."""

from collections.abc import Callable
from typing import Any

import pytest

from explain_sidecar.commands import reset
from tests.broker.harness import delete_before, mixed_records
from tests.broker.memory import MemoryPipeline as Pipeline

Meanwhile = Callable[[Callable[[], Any]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """What happens while a reset is about to commit."""

    def during(happens: Callable[[], Any]) -> None:
        def reach(point: str) -> None:
            monkeypatch.setattr(reset, "reach", lambda point: None)
            happens()

        monkeypatch.setattr(reset, "reach", reach)

    return during


def test_a_reset_after_the_loss_begins_a_new_epoch_from_what_is_there(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    delete_before(line, 350)
    before = line.oracle()["explanations"][0][:30]
    refused = line.cli("reset", "--partition", "0", status=1)
    assert "the model and its explanations after 300 records" in refused.stdout
    assert "nothing was done" in refused.stderr
    assert (
        "epoch 1 with a new model, from offset 350" in line.cli("reset", "--partition", "0", "--yes").stdout
    )
    line.run_to_end()
    assert line.published()["explanations"][0] == before + line.oracle(epoch=1, start=350)["explanations"][0]


def test_reset_is_refused_while_the_sidecar_runs(line: Pipeline) -> None:
    process = line.worker()
    line.wait_for(lambda: "running from" in process.log())
    assert "stop the sidecar first" in line.cli("reset", "--partition", "0", "--yes", status=1).stderr
    process.stop()


def test_a_second_reset_at_the_same_time_is_refused(line: Pipeline, meanwhile: Meanwhile) -> None:
    said = []
    meanwhile(lambda: said.append(line.cli("reset", "--partition", "0", "--yes", status=1).stderr))
    line.cli("reset", "--partition", "0", "--yes")
    assert len(said) == 1 and "or another reset" in said[0]
    before = len(line.explanations())
    line.feed(mixed_records(1, 20, seed=1))
    line.run_to_end()
    assert [(m["epoch"], m["seq"]) for m in line.explanations()[before:]] == [(1, 0), (1, 1)]


def test_a_worker_that_joins_during_a_reset_makes_it_fail(line: Pipeline, meanwhile: Meanwhile) -> None:
    workers = []

    def joins() -> None:
        workers.append(line.worker())
        group = line.cluster.groups[line.name]
        line.wait_for(lambda: len(group.members) == 2 and group.rebalancing_since is None)

    meanwhile(joins)
    said = line.cli("reset", "--partition", "0", "--yes", status=1).stderr
    assert "the reset was aborted and nothing was changed" in said
    line.feed(mixed_records(1, 100, seed=1))
    line.wait_for(line.folded)
    (worker,) = workers
    assert worker.stop() == 0, worker.log()
    line.verify()


def test_a_reset_passes_over_manifests_that_cannot_be_read(line: Pipeline) -> None:
    """They stop a worker that needs one, and a reset is the remedy that its message names."""
    key = f"{line.name}/{line.topic_id}/0/manifest".encode()
    for value in (b"\xff", b"[" * 100_000, b'{"schema": "checkpoint/4", "epoch": 1e300}'):
        line.append("checkpoints", key, value)
    for future in line.admin.delete_consumer_groups([line.name]).values():
        future.result()
    log = line.fails()
    assert (
        "checkpoint manifest: it was altered: " in log
        and "explain-sidecar reset --partition 0 --keep all --yes" in log
    )
    before = len(line.explanations())
    done = line.cli("reset", "--partition", "0", "--yes").stdout
    assert "the newest manifest on" in done and "cannot be used and counts as none" in done
    line.feed(mixed_records(1, 20, seed=1))
    line.run_to_end()
    assert [(m["epoch"], m["seq"]) for m in line.explanations()[before:]] == [(1, 0), (1, 1)]


def test_reset_can_fold_the_whole_topic_again(line: Pipeline) -> None:
    assert (
        "records 0 to 299 are explained again"
        in line.cli("reset", "--partition", "0", "--yes", "--from", "earliest").stdout
    )
    line.run_to_end()
    assert line.published()["explanations"][0] == (
        line.oracle()["explanations"][0] + line.oracle(epoch=1)["explanations"][0]
    )
