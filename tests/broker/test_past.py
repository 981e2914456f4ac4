"""When the past does not fit: each row of the table fails with its remedy, or recovers exactly; nothing wrong is published."""

import hashlib
import json
import time

import pytest
from confluent_kafka import OFFSET_INVALID, Producer

from benchmarks import KEY_FILE
from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.kafka.recovery import SUPERSEDED_SECONDS
from tests.broker.harness import Factory, Pipeline, delete_before, group_of, mixed_records


def rewind_snapshot(line: Pipeline, records: int = 200) -> None:
    """Fold on without a new snapshot at the end: killed, so that a restart has something to replay."""
    line.feed(mixed_records(1, records, seed=1))
    process = line.worker()
    total = len(line.inputs[0])
    line.wait_for(lambda: line.committed()[0].offset == total)
    process.kill()
    pointer = Pointer.decode(line.committed()[0].metadata)
    assert pointer is not None and pointer.next_offset < total


def test_retention_that_overtook_the_snapshot_fails_and_says_what_was_lost(line: Pipeline) -> None:
    rewind_snapshot(line)
    delete_before(line, 400)
    log = line.fails()
    assert "records 300 to 399, which a replay needs," in log
    assert "the log starts at 400, the snapshot is at 300, the committed offset is 500" in log
    assert "explain-sidecar reset --partition 0 --keep all --yes" in log


def test_records_deleted_before_they_were_folded_fail(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    delete_before(line, 350)
    assert "records 300 to 349, which were never folded," in line.fails()


def test_a_topic_deleted_and_created_again_fails(line: Pipeline) -> None:
    line.admin.delete_topics([line.topics["records"]])[line.topics["records"]].result()
    line.wait_for(lambda: line.topics["records"] not in line.admin.list_topics(timeout=5).topics)
    line.create(line.topics["records"], retention_ms="-1")
    line.inputs[0] = []
    line.feed(mixed_records(1, 500))
    assert "was deleted and created again" in line.fails()


def test_an_offset_that_an_operator_moved_back_fails(line: Pipeline) -> None:
    metadata = line.committed()[0].metadata
    line.commit(0, 100, metadata)
    assert "beyond the committed offset 100; the offset was moved back" in line.fails()


def test_an_offset_of_the_past_that_kafka_answers_with_doubles_nothing(pipeline: Factory) -> None:
    _is_behind(pipeline(1), bad_every=10)


def test_an_offset_of_the_past_is_seen_by_the_dead_letters_alone(pipeline: Factory) -> None:
    _is_behind(pipeline(1, EXPLAIN_EMIT__EVERY="1000"), bad_every=10)


def test_an_offset_of_the_past_is_seen_by_the_drift_messages_alone(pipeline: Factory) -> None:
    drift = {"EXPLAIN_DRIFT__ENABLED": "true", "EXPLAIN_DRIFT__WINDOW": "150"}
    _is_behind(pipeline(1, EXPLAIN_EMIT__EVERY="1000", **drift), count=300)


def test_an_offset_of_the_past_with_only_a_snapshot_after_it_goes_on(pipeline: Factory) -> None:
    _is_behind(pipeline(1, EXPLAIN_EMIT__EVERY="1000"))


def _is_behind(line: Pipeline, count: int = 100, bad_every: int = 0) -> None:
    """Move the committed offset back behind what was published last, and neighbours of ours publish after it."""
    line.feed(mixed_records(1, count, bad_every=bad_every))
    line.run_to_end()
    before = line.committed()[0]
    line.feed(mixed_records(1, count, seed=1, bad_every=bad_every))
    line.run_to_end()
    line.verify()
    producer = Producer({"bootstrap.servers": line.broker.bootstrap_servers})
    for name in ("explanations", "drift", "dead_letters"):
        for _ in range(100):
            producer.produce(line.topics[name], b'{"app_id":"another"}', partition=0)
    producer.flush()
    line.commit(0, before.offset, before.metadata)
    line.feed(mixed_records(1, count, seed=2, bad_every=bad_every))
    line.run_to_end()
    found = line.published()
    for name, expected in line.oracle().items():
        assert [message for message in found[name][0] if b"another" not in message[1]] == expected[0]


def test_an_offset_without_our_metadata_fails(line: Pipeline) -> None:
    line.commit(0, 100)
    assert "is not ours: it has no pointer to a snapshot" in line.fails()


def test_an_expired_group_goes_on_after_the_last_published_message(line: Pipeline) -> None:
    line.feed([(0, b"bad")])
    rewind_snapshot(line)
    line.feed([(0, b"{")])
    line.feed(mixed_records(1, 45, seed=2))
    process = line.worker()
    total = len(line.inputs[0])
    line.wait_for(lambda: line.committed()[0].offset == total)
    process.kill()
    line.wait_for(lambda: not group_of(line).members, 30)
    for future in line.admin.delete_consumer_groups([line.name]).values():
        future.result()
    assert line.committed()[0].offset == OFFSET_INVALID
    line.feed(mixed_records(1, 100, seed=3))
    assert "no committed offset: recovering" in line.run_to_end().log()
    line.verify()


@pytest.mark.parametrize("deleted", [0, 40])
def test_explanations_without_offset_and_snapshot_are_reproduced_or_refused(
    line: Pipeline, deleted: int
) -> None:
    """As after the first transaction of a partition, if it is committed in part."""
    for future in line.admin.delete_consumer_groups([line.name]).values():
        future.result()
    line.admin.delete_topics([line.topics["checkpoints"]])[line.topics["checkpoints"]].result()
    line.wait_for(lambda: line.topics["checkpoints"] not in line.admin.list_topics(timeout=5).topics)
    line.feed(mixed_records(1, 100, seed=1))
    if deleted:
        delete_before(line, deleted)
        assert "gives another state than the one that published" in line.fails()
    else:
        line.run_to_end()
        line.verify()


def test_a_checkpoint_topic_that_was_emptied_fails(line: Pipeline) -> None:
    topic = line.topics["checkpoints"]
    line.admin.delete_topics([topic])[topic].result()
    line.wait_for(lambda: topic not in line.admin.list_topics(timeout=5).topics)
    assert "that topic was emptied or created again" in line.fails()
    said = line.cli("reset", "--partition", "0", "--keep", "all", "--yes", status=1).stderr
    assert "no snapshot is whole, so that nothing can be kept" in said
    line.cli("reset", "--partition", "0", "--from", "earliest", "--yes")
    line.run_to_end()
    assert line.explanations()[30]["epoch"] == 1


def test_a_snapshot_behind_an_open_transaction_of_another_program_is_waited_for(line: Pipeline) -> None:
    first = line.worker()
    line.wait_for(lambda: "running from" in first.log())
    other = Producer(
        {"bootstrap.servers": line.broker.bootstrap_servers, "transactional.id": f"other-{line.name}"}
    )
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
    time.sleep(SUPERSEDED_SECONDS)
    assert second.running() and "reset" not in second.log()
    other.abort_transaction(30)
    assert second.wait() == 0, second.log()
    line.verify()


def test_changed_settings_fail_with_their_difference(line: Pipeline) -> None:
    log = line.fails(EXPLAIN_SEED="7", EXPLAIN_EMIT__EVERY="20")
    assert "seed: was the default, is 7" in log
    assert "emit.every: was 10, is 20" in log
    assert "run --new-model" in log


def test_settings_that_the_fold_does_not_depend_on_may_change(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end(
        EXPLAIN_COMMIT__INTERVAL_MS="7", EXPLAIN_CHECKPOINT__MAX_AGE="5", EXPLAIN_LOG__LEVEL="debug"
    )
    line.verify()


def test_changed_settings_begin_a_new_epoch_where_that_is_wished(line: Pipeline) -> None:
    before = line.published()["explanations"][0]
    line.feed(mixed_records(1, 100, seed=1))
    line.environment |= {"EXPLAIN_SEED": "7", "EXPLAIN_CHECKPOINT__ON_MISMATCH": "reset"}
    line.run_to_end()
    new = [json.loads(value) for _, value, _ in line.published()["explanations"][0][len(before) :]]
    assert [(m["epoch"], m["seq"], m["offset"], m["records"]) for m in new] == [
        (1, k, 309 + 10 * k, 10 * k + 10) for k in range(10)
    ]
    assert new[0]["notices"] == ["settings changed: epoch 1 begins at offset 300"]
    assert new[1]["notices"] == []
    line.feed(mixed_records(1, 100, seed=2))
    line.run_to_end()
    assert len(line.published()["explanations"][0]) == len(before) + 20


def test_a_replay_that_diverges_fails_and_names_both_sides(pipeline: Factory) -> None:
    line = unpredictable(pipeline)
    log = line.fails()
    assert "the replay up to offset 500 gives another state than the one that published" in log
    assert "recovery.on_divergence=continue, recovery.partition=0, recovery.offset=500" in log


def test_a_divergence_accepted_by_name_is_said_in_the_next_message(pipeline: Factory) -> None:
    line = unpredictable(pipeline)
    accept = {"EXPLAIN_RECOVERY__ON_DIVERGENCE": "continue", "EXPLAIN_RECOVERY__PARTITION": "0"}
    line.fails(**accept, EXPLAIN_RECOVERY__OFFSET="499")
    before = line.explanations()
    line.feed(mixed_records(1, 20, seed=5))
    line.run_to_end(**accept, EXPLAIN_RECOVERY__OFFSET="500")
    after = line.explanations()[len(before) :]
    assert after[0]["notices"] == ["an operator accepted that the replay up to offset 500 diverged"]
    assert [m["seq"] for m in line.explanations()] == list(range(52))
    _check_chain(line)
    line.feed(mixed_records(1, 20, seed=6))
    line.run_to_end()


def unpredictable(pipeline: Factory) -> Pipeline:
    """A model whose predictions depend on the process, killed so that a restart must replay."""
    unpredictable = {
        "EXPLAIN_MODEL__FACTORY": "tests.broker.custom_models:Unpredictable",
        "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(KEY_FILE),
    }
    line = pipeline(1, **unpredictable)
    line.feed(mixed_records(1, 300))
    line.run_to_end()
    rewind_snapshot(line)
    return line


def _check_chain(line: Pipeline) -> None:
    """Verify the digests as a foreign reader would, from the documentation alone."""
    previous = hashlib.blake2b(
        f"{line.name}/{line.topics['records']}/0/0/explanations".encode(), digest_size=16
    ).digest()
    for _, value, _ in line.published()["explanations"][0]:
        assert value is not None
        body = value[: value.rindex(b',"digest":"')]
        previous = hashlib.blake2b(previous + body, digest_size=16).digest()
        assert json.loads(value)["digest"] == previous.hex()


def test_the_digest_chain_verifies_across_restarts(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    _check_chain(line)


@pytest.mark.parametrize("damage", ["altered", "truncated", "missing", "manifest"])
def test_a_damaged_snapshot_is_detected_before_anything_is_loaded(line: Pipeline, damage: str) -> None:
    stored = line.read(line.topics["checkpoints"])
    pointer = Pointer.decode(line.committed()[0].metadata)
    assert pointer is not None
    chunk = next(m for m in stored if m.offset() == pointer.first_chunk)
    manifest = next(m for m in stored if m.offset() == pointer.manifest)
    value = chunk.value()
    changed = {
        "altered": bytes([value[0]]) + bytes([value[1] ^ 1]) + value[2:],
        "truncated": value[:-1],
        "missing": None,
        "manifest": value,
    }[damage]
    body = (
        manifest.value()
        if damage != "manifest"
        else manifest.value().replace(b'"records":300', b'"records":"x"')
    )
    placed: list[int] = []
    producer = Producer({"bootstrap.servers": line.broker.bootstrap_servers})
    for key, new in ((chunk.key(), changed), (manifest.key(), body)):
        producer.produce(
            line.topics["checkpoints"],
            new,
            key,
            partition=0,
            on_delivery=lambda _, m: placed.append(m.offset()),
        )
        producer.flush()
    moved = {**json.loads(line.committed()[0].metadata), "first_chunk": placed[0], "manifest": placed[1]}
    line.commit(0, 300, json.dumps(moved))
    shown = json.loads(line.cli("checkpoint", "show", "--json").stdout)[0]["state"]
    expected = {
        "altered": "sha256 is not the manifest's",
        "truncated": "it is torn",
        "missing": "it is torn",
        "manifest": "checkpoint manifest: records",
    }
    assert expected[damage] in shown
    log = line.fails()
    assert expected[damage] in log and "reset --partition 0 --keep all --yes" in log
    # The one command that the message names goes on with the newest state that is whole.
    done = line.cli("reset", "--partition", "0", "--keep", "all", "--yes").stdout
    assert "keeps: the state of epoch 0 at offset 300" in done
    line.feed(mixed_records(1, 20, seed=1))
    line.run_to_end()
    carried = line.explanations()[30]["carried"]
    assert (carried["from_epoch"], carried["offset"], carried["begun"]) == (0, 300, [])


def test_a_manifest_signed_with_another_key_is_refused(pipeline: Factory, tmp_path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("the-first-key-of-the-sidecar\n")
    line = pipeline(1, EXPLAIN_CHECKPOINT__HMAC_KEY_FILE=str(keys))
    line.feed(mixed_records(1, 100))
    line.run_to_end()
    keys.write_text("a-new-key-that-signs-from-now\nthe-first-key-of-the-sidecar\n")
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    keys.write_text("a-key-that-has-never-been-used\n")
    assert "fits none of the keys" in line.fails()
    line.verify()


def test_a_sidecar_without_a_key_gets_one(pipeline: Factory, tmp_path) -> None:
    """Its unsigned snapshot is accepted only as long as the setting says so."""
    keys = tmp_path / "keys"
    keys.write_text("the-first-key-of-the-sidecar\n")
    line = pipeline(1)
    line.feed(mixed_records(1, 100))
    assert "can falsify a model" in line.run_to_end().log()
    line.environment["EXPLAIN_CHECKPOINT__HMAC_KEY_FILE"] = str(keys)
    assert "it has no signature" in line.fails()
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end(EXPLAIN_CHECKPOINT__ALLOW_UNSIGNED="true")
    line.feed(mixed_records(1, 100, seed=2))
    line.run_to_end()
    line.verify()
