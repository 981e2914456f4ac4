"""What is large, many or out of order comes through, or is refused with its remedy; `benchmarks.limits` measures the same at full size."""

import json
import random

from confluent_kafka.admin import NewPartitions

from explain_sidecar.fold.records import InputRecord
from tests.broker import raw
from tests.broker.harness import Factory, Pipeline, configure, mixed_records


def padded(size: int) -> bytes:
    """A good record of so many bytes, most of them no feature."""
    record = b'{"a":1.5,"label":1,"payload":"'
    return record + random.Random(1).randbytes(size).hex().encode()[: size - len(record) - 2] + b'"}'


def test_a_record_that_its_dead_letter_has_no_room_for_stops_the_worker_until_it_has(
    memory: Factory,
) -> None:
    line = memory(1)
    process = line.worker()
    line.wait_for(lambda: "running from" in process.log())
    configure(line, "dead_letters", max_message_bytes="5000")
    line.feed([*mixed_records(1, 40), (0, random.Random(2).randbytes(6_000)), *mixed_records(1, 40, seed=1)])
    assert process.wait(60) == 1, process.log()
    refused = f"to topic {line.topics['dead_letters']!r}"
    assert refused in process.log() and "raise max.message.bytes of that topic" in process.log()
    log = line.fails()  # at the start, before it reads anything
    assert "takes messages of 5000 bytes and the largest may have 1064972" in log
    assert "emit.max_bytes" not in log  # which may not be so small
    configure(line, "dead_letters", max_message_bytes="66384")
    assert "or set emit.max_bytes to 50000 at the most" in line.fails()
    configure(line, "dead_letters", max_message_bytes="1064972")
    line.run_to_end()
    line.verify()


def feed_with_headers(line: Pipeline, *records: raw.Headers) -> None:
    """Good records, but for their headers."""
    log, produced = line.inputs[0], []
    for headers, (_, value) in zip(records, mixed_records(1, len(records)), strict=True):
        readable, unreadable = [], 0
        for name, content in headers:
            try:
                readable.append((name.decode(), content))
            except UnicodeDecodeError:
                unreadable += 1
        timestamp = 1_700_000_000_000 + 1_000 * len(log)
        log.append(InputRecord(len(log), timestamp, b"k0", value, tuple(readable), unreadable))
        produced.append((b"k0", value or b"", timestamp, headers))
    raw.produce(line.broker.bootstrap_servers, line.topics["records"], 0, produced)


def test_a_record_of_a_megabyte_is_folded_and_one_too_large_or_with_header_names_of_any_bytes_is_dead_lettered(
    pipeline: Factory,
) -> None:
    """The largest that Kafka takes; and with the headers that can be read."""
    line = pipeline(1, EXPLAIN_RECORD__FEATURES='["a","b","color"]', EXPLAIN_EMIT__EVERY="1")
    few, rng = list(mixed_records(1, 40)), random.Random(3)
    limit = 1_048_588 - 100  # of a batch with the frame around the record
    line.feed([*few, (0, padded(1_000_000)), *few, (0, padded(limit)), (0, b"\xff" * limit), *few])
    line.run_to_end()
    published = line.published()
    assert [value for _, value, _ in published["dead_letters"][0]] == [padded(limit), b"\xff" * limit]
    assert len(published["explanations"][0]) == 121

    def headers() -> raw.Headers:
        # librdkafka ends a name at its first zero.
        names = (rng.randbytes(rng.randrange(4)).replace(b"\0", b"0") for _ in range(rng.randrange(4)))
        return [(name, rng.choice([None, b"", rng.randbytes(3)])) for name in names]

    first = [(b"own", b"1"), (b"\xff\xfebad", b"2"), (b"\xc3\xa9", None), (b"\x80", None), (b"", b"")]
    feed_with_headers(line, first, [(b"\xed\xa0\x80", b"a surrogate")], [(b"\xc3\xa9", b"no fault")])
    line.run_to_end()
    feed_with_headers(line, *(headers() for _ in range(300)))
    line.run_to_end(EXPLAIN_COMMIT__MAX_RECORDS="7")
    line.verify()
    letters = [dict(headers) for _, _, headers in line.published()["dead_letters"][0][2:]]
    assert {letter["__explain.errors.class"] for letter in letters} == {b"bad_header"} and len(letters) > 100
    assert (letters[0]["own"], letters[0]["é"], letters[0][""]) == (b"1", None, b"")
    shown = line.cli("dead-letters", "show", "--json").stdout.splitlines()
    assert [json.loads(row)["headers"] for row in shown[2:4]] == [{"own": "1", "é": None, "": ""}, {}]


def test_names_are_let_in_until_an_explanation_is_as_large_as_kafka_takes_it(memory: Factory) -> None:
    line = memory(1, EXPLAIN_EXPLAIN__EVERY="200", EXPLAIN_EMIT__EVERY="5")
    rng = random.Random(1)

    def named(count: int) -> tuple[int, bytes]:
        names = (rng.randbytes(450).hex() for _ in range(count))  # which no compression makes small
        return 0, json.dumps({**dict.fromkeys(names, 1), "label": rng.randrange(2)}).encode()

    few = list(mixed_records(1, 50))
    line.feed([*few, named(300), *few, *(named(13) for _ in range(20)), *few, named(1), *few])
    process = line.worker()
    line.wait_for(lambda: line.committed()[0].offset > 60)
    process.kill()
    line.run_to_end()
    line.verify()
    published = line.published()
    letters = [dict(headers) for _, _, headers in published["dead_letters"][0]]
    assert {letter["__explain.errors.class"] for letter in letters} == {b"names_too_long"}
    assert letters[0]["__explain.errors.offset"] == b"50" and 5 < len(letters) < 20, len(letters)
    largest = max(len(value or b"") for _, value, _ in published["explanations"][0])
    assert (
        100_000 < largest < 1_048_588
    )  # room is left for what a message need not have: the longest numbers, drivers, periods


def test_event_time_that_leaps_back_changes_nothing_but_the_times_and_is_counted_by_drift_windows(
    memory: Factory,
) -> None:
    drift = {"EXPLAIN_DRIFT__ENABLED": "true", "EXPLAIN_DRIFT__PERIOD": "60", "EXPLAIN_DRIFT__BOOTSTRAP": "2"}
    line = memory(1, EXPLAIN_RECORD__TIMESTAMP="when", EXPLAIN_EMIT__EVERY="1", **drift)
    hours = {150: -1, 170: 24 * 365, 200: -24 * 365 * 40, 220: 0}
    leap, times = 0, []
    records = []
    for index, (_, value) in enumerate(mixed_records(1, 400)):
        leap = hours.get(index, leap)
        times.append(1_000 * (1_700_000_000 + index + 3_600 * leap))
        records.append((0, json.dumps({**json.loads(value or b""), "when": times[-1]}).encode()))
    line.feed(records)
    line.run_to_end(EXPLAIN_COMMIT__MAX_RECORDS="50")
    line.verify()
    assert [explanation["timestamp"] for explanation in line.explanations()] == times
    windows = [json.loads(value or b"")["target"] for _, value, _ in line.published()["drift"][0]]
    assert windows and sum(window["late"] for window in windows) > 0


def test_thousands_of_categories_are_folded_restored_and_folded_on(memory: Factory) -> None:
    line = memory(1, EXPLAIN_EXPLAIN__EVERY="50", EXPLAIN_EMIT__EVERY="500")
    new = (
        (0, json.dumps({"shop": f"s{i}", "city": f"c{i % 7}", "label": i % 2}).encode()) for i in range(2_000)
    )
    line.feed(new)
    line.run_to_end()
    line.feed(mixed_records(1, 100))
    assert "restored a snapshot of" in line.run_to_end().log()
    line.verify()


def test_partitions_gained_where_outputs_may_not_grow_stop_the_worker_and_lose_nothing(
    memory: Factory,
) -> None:
    line = memory(1)
    line.feed(mixed_records(1, 100))
    line.run_to_end()
    process = line.worker(EXPLAIN_TOPICS__CREATE="false")
    line.wait_for(lambda: "running from" in process.log())
    line.admin.create_partitions([NewPartitions(line.topics["records"], 2)], request_timeout=10)
    assert process.wait() == 1, process.log()
    assert "has 1 partitions and" in process.log() and "they must be equal" in process.log()
    line.partitions, line.inputs[1] = 2, []
    line.feed(mixed_records(2, 200, seed=1))
    line.run_to_end()
    line.verify()
