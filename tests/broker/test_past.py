"""When the past does not fit: what costs a command. What a worker does by itself: tests/driver/test_past.py."""

import json

import pytest

from explain_sidecar.commands import stopped
from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.kafka.recovery import SUPERSEDED_SECONDS
from tests.broker.harness import delete_before, mixed_records
from tests.broker.memory import MemoryPipeline as Pipeline


def test_a_checkpoint_topic_that_was_emptied_is_made_again_from_a_file(line: Pipeline, tmp_path) -> None:
    """Or nothing of the state is left, and that is said."""
    file, topic = str(tmp_path / "state"), line.topics["checkpoints"]
    line.cli("state", "export", file)
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    line.admin.delete_topics([topic])[topic].result()
    line.wait_for(lambda: topic not in line.admin.list_topics(timeout=5).topics)
    delete_before(line, 50)
    assert "that topic was emptied or created again, and no older snapshot is left" in line.fails()
    lost = line.cli("reset", "--partition", "0", status=1).stdout
    assert "after an unknown number of records (snapshot at offset none, committed offset 400)" in lost
    said = line.cli("reset", "--partition", "0", "--keep", "all", "--yes", status=1).stderr
    assert "no snapshot is whole, so that nothing can be kept" in said and "state import" in said
    # The file is of offset 300: what came after it is learnt, and explained once more.
    assert "here: epoch 1 from offset 300" in line.cli("state", "import", file, "--yes").stdout
    line.run_to_end()
    first = next(message for message in line.explanations() if message["epoch"] == 1)
    assert (first["carried"]["offset"], first["carried"]["begun"], first["offset"]) == (300, [], 309)


def test_a_snapshot_behind_an_open_transaction_of_another_program_is_waited_for(
    line: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped, "DECIDE_SECONDS", 0.1)
    first = line.worker()
    line.wait_for(lambda: "running from" in first.log())
    other = line.kafka.producer({"transactional.id": f"other-{line.name}", "transaction.timeout.ms": 60_000})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(line.topics["checkpoints"], b"other", b"other", partition=0)
    assert other.flush(30) == 0
    line.feed(mixed_records(1, 100, seed=1))
    line.wait_for(line.folded)
    assert first.stop() == 0, first.log()
    assert "transaction is open" in line.cli("reset", "--partition", "0", status=1).stderr
    second = line.worker(until_caught_up=True)
    line.wait_for(lambda: "another program's transaction is open since offset" in second.log())
    until = line.kafka.clock.monotonic() + SUPERSEDED_SECONDS
    line.wait_for(lambda: line.kafka.clock.monotonic() > until)
    assert second.running() and "reset" not in second.log()
    other.abort_transaction(30)
    assert second.wait() == 0, second.log()
    line.verify()


def test_after_an_offset_that_is_not_ours_no_record_is_learnt_twice(line: Pipeline) -> None:
    line.feed(mixed_records(1, 5, seed=1))
    line.run_to_end()
    assert line.explanations()[-1]["offset"] == 299
    line.commit(0, 100, "")
    assert "is not ours" in line.fails()
    done = line.cli("reset", "--partition", "0", "--keep", "all", "--yes").stdout
    assert "from offset 305 " in done and "learns twice" not in done
    line.feed(mixed_records(1, 20, seed=2))
    line.run_to_end()
    assert line.explanations()[30]["carried"]["offset"] == 305


def test_a_damaged_snapshot_whose_records_are_gone_costs_one_command(line: Pipeline) -> None:
    """Kept is the newest state that is whole; what lies between it and the committed offset is learnt or not, as is wished."""
    first = Pointer.decode(line.committed()[0].metadata)
    assert first is not None and first.next_offset == 300
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    stored = line.read(line.topics["checkpoints"])
    pointer = Pointer.decode(line.committed()[0].metadata)
    assert pointer is not None and pointer.next_offset == 400
    (chunk,) = (m for m in stored if m.offset() == pointer.first_chunk)
    (manifest,) = (m for m in stored if m.offset() == pointer.manifest)
    older = [m for m in stored if m.offset() <= first.manifest]  # a slow machine takes more on its way
    topic = line.topics["checkpoints"]
    line.admin.delete_topics([topic])[topic].result()
    line.wait_for(lambda: topic not in line.admin.list_topics(timeout=5).topics)
    line.create(topic, cleanup_policy="compact")
    # As from a backup that was made before: what is older is whole, and of the newest one a byte is another.
    placed = [
        line.append("checkpoints", m.key(), m.value()[:-1] + b"?" if m is chunk else m.value())
        for m in (*older, chunk, manifest)
    ]
    moved = {**json.loads(line.committed()[0].metadata), "first_chunk": placed[-2], "manifest": placed[-1]}
    line.commit(0, 400, json.dumps(moved))
    delete_before(line, 310)
    (shown,) = json.loads(line.cli("checkpoint", "show", "--json").stdout)
    assert "sha256 is not the manifest's" in shown["state"]
    log = line.fails()
    assert "sha256 is not the manifest's" in log and "records 300 to 309, which a replay needs," in log
    assert "reset --partition 0 --keep all --yes" in log
    said = line.cli("reset", "--partition", "0", "--keep", "all", status=1).stdout
    assert "has learnt up to offset 300, and it goes on at 400" in said
    line.cli("reset", "--partition", "0", "--keep", "all", "--from", "state", "--yes")
    line.run_to_end()
    began = next(message for message in line.explanations() if message["epoch"] == 1)
    assert (began["carried"]["offset"], began["carried"]["begun"], began["offset"]) == (310, [], 319)
