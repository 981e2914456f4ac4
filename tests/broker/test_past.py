"""When the past does not fit: what takes a broker's own offsets, groups and transactions. Everything else: tests/driver/test_past.py."""

import json
import time

from confluent_kafka import OFFSET_INVALID, Producer

from benchmarks import KEY_FILE
from explain_sidecar.kafka.checkpoints import Pointer
from explain_sidecar.kafka.recovery import SUPERSEDED_SECONDS
from tests.broker.harness import Factory, Pipeline, group_of, mixed_records


def rewind_snapshot(line: Pipeline, records: int = 200) -> None:
    """Fold on without a new snapshot at the end: killed, so that a restart has something to replay."""
    line.feed(mixed_records(1, records, seed=1))
    process = line.worker()
    total = len(line.inputs[0])
    line.wait_for(lambda: line.committed()[0].offset == total)
    process.kill()
    pointer = Pointer.decode(line.committed()[0].metadata)
    assert pointer is not None and pointer.next_offset < total


def test_an_offset_of_the_past_that_kafka_answers_with_doubles_nothing(pipeline: Factory) -> None:
    """Nor do neighbours hide what was published since."""
    line = pipeline(1)
    line.feed(mixed_records(1, 100, bad_every=10))
    line.run_to_end()
    before = line.committed()[0]
    line.feed(mixed_records(1, 100, seed=1, bad_every=10))
    line.run_to_end()
    producer = Producer({"bootstrap.servers": line.broker.bootstrap_servers})
    for name in ("explanations", "dead_letters"):
        for _ in range(100):
            producer.produce(line.topics[name], b'{"app_id":"another"}', partition=0)
    producer.flush()
    line.commit(0, before.offset, before.metadata)
    line.feed(mixed_records(1, 100, seed=2, bad_every=10))
    line.run_to_end()
    found = line.published()
    for name, expected in line.oracle().items():
        assert [message for message in found[name][0] if b"another" not in message[1]] == expected[0]


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


def test_a_damaged_snapshot_is_detected_before_anything_is_loaded(line: Pipeline) -> None:
    pointer = Pointer.decode(line.committed()[0].metadata)
    assert pointer is not None
    stored = {message.offset(): message for message in line.read(line.topics["checkpoints"])}
    chunk, manifest = stored[pointer.first_chunk], stored[pointer.manifest]
    altered = bytes([chunk.value()[0], chunk.value()[1] ^ 1]) + chunk.value()[2:]
    placed: list[int] = []
    producer = Producer({"bootstrap.servers": line.broker.bootstrap_servers})
    for key, value in ((chunk.key(), altered), (manifest.key(), manifest.value())):
        producer.produce(
            line.topics["checkpoints"],
            value,
            key,
            partition=0,
            on_delivery=lambda _, m: placed.append(m.offset()),
        )
        producer.flush()
    moved = {**json.loads(line.committed()[0].metadata), "first_chunk": placed[0], "manifest": placed[1]}
    line.commit(0, 300, json.dumps(moved))
    expected = "sha256 is not the manifest's"
    assert expected in json.loads(line.cli("checkpoint", "show", "--json").stdout)[0]["state"]
    log = line.fails()
    assert expected in log and "reset --partition 0 --keep all --yes" in log
    # The one command that the message names goes on with the newest state that is whole.
    done = line.cli("reset", "--partition", "0", "--keep", "all", "--yes").stdout
    assert "keeps: the state of epoch 0 at offset 300" in done
    line.feed(mixed_records(1, 20, seed=1))
    line.run_to_end()
    carried = line.explanations()[30]["carried"]
    assert (carried["from_epoch"], carried["offset"], carried["begun"]) == (0, 300, [])
