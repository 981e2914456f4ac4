"""``dead-letters show`` and ``replay``, and ``check``."""

import json
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from explain_sidecar.commands import dead_letters
from tests.broker.harness import Factory, Pipeline, mixed_records

BAD = (b"{", b"[1]", None, b'{"a": 1}', b"{")


def with_letters(memory: Factory) -> Pipeline:
    line = memory(2, EXPLAIN_RECORD__DELETES="dead_letter")
    line.feed(((i % 2, value) for i, value in enumerate(BAD)), headers=[("own", b"1"), ("empty", b"")])
    line.run_to_end()
    return line


def test_show_counts_by_class_and_prints_every_payload_as_json(memory: Factory) -> None:
    line: Any = with_letters(memory)
    said = [text for text in line.workers[-1].log().splitlines() if "could not be used" in text]
    assert len(
        said
    ) == 5 and f"class missing_label; it went to the topic '{line.topics['dead_letters']}'" in "".join(
        said[:4]
    )
    assert "folded 5 records; " in said[4] and "; 5 of them could not be used" in said[4]
    assert "`explain-sidecar dead-letters show` has the others" in " ".join(
        line.cli("tail", "--until-caught-up").stdout.split()
    )
    table = line.cli("dead-letters", "show", "--limit", "1").stdout
    counts = {cells[0]: cells[1] for row in table.split("\n\n")[0].splitlines() if (cells := row.split())}
    assert counts == {
        "class": "records",
        "not_json": "2",
        "not_object": "1",
        "null_value": "1",
        "missing_label": "1",
    }
    newest = [row for row in table.split("\n\n")[1].splitlines() if row.strip() and not row.startswith(" ")]
    assert len(newest) == 2  # the heading and one letter, however its cells are folded
    rows = [json.loads(text) for text in line.cli("dead-letters", "show", "--json").stdout.splitlines()]
    assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == [
        (i % 2, str(i // 2), None if value is None else value.decode())
        for i, value in sorted(enumerate(BAD), key=lambda item: (item[0] % 2, item[0]))
    ]
    assert all(row["headers"] == {"own": "1", "empty": ""} and row["message"] for row in rows)
    only = line.cli("dead-letters", "show", "--json", "--class", "not_json").stdout.splitlines()
    assert [json.loads(text)["class"] for text in only] == ["not_json"] * 2
    none = line.cli("dead-letters", "show", "--class", "no_json").stdout
    assert (
        none
        == "there are no dead letters of class no_json, but of missing_label, not_json, not_object, null_value\n"
    )


def test_replay_gives_each_record_back_once_as_it_was(memory: Factory) -> None:
    line = with_letters(memory)
    before = len(line.read(line.topics["records"]))
    refused = line.cli("dead-letters", "replay", status=1)
    assert "5 records to write" in refused.stdout and "add --yes" in refused.stderr
    assert len(line.read(line.topics["records"])) == before
    assert "done" in line.cli("dead-letters", "replay", "--yes").stdout
    written = [
        m
        for m in line.read(line.topics["records"])
        if (m.offset() or 0) >= len(line.inputs[m.partition() or 0])
    ]
    assert sorted((m.partition(), m.key(), m.value() or b"") for m in written) == sorted(
        (i % 2, b"k%d" % (i % 2), value or b"") for i, value in enumerate(BAD)
    )
    assert all(m.headers() == [("own", b"1"), ("empty", b"")] for m in written)
    assert "0 records to write" in line.cli("dead-letters", "replay").stdout
    line.run_to_end()  # they are as bad as before
    log = line.cluster.log(line.topics["dead_letters"], 0)  # type: ignore[attr-defined]
    before, log.low = log.low, log.high - 1
    said = line.cli("dead-letters", "replay", status=1).stderr
    log.low = before
    assert (
        f"dead letters of partition 0 before offset {log.high - 1} are gone" in said
        and "partition 1" not in said
    )
    typo = line.cli("dead-letters", "replay", "--class", "no_json", "--yes", status=1).stderr
    assert "--class: 'no_json' is none of missing_label, not_json, not_object, null_value, of which there are dead letters to replay" in typo  # fmt: skip
    again = line.cli("dead-letters", "replay", "--class", "null_value", "--yes").stdout
    assert (
        "1 records to write" in again
        and "4 of other classes, masked, or too large to be kept, are passed over" in again
    )
    assert "0 records to write" in line.cli("dead-letters", "replay").stdout
    assert "10 records to write" in line.cli("dead-letters", "replay", "--from-beginning", status=1).stdout


def test_replay_into_a_topic_with_fewer_partitions_says_so_and_loses_nothing(memory: Factory) -> None:
    line = with_letters(memory)
    records = line.topics["records"]
    line.admin.delete_topics([records])[records].result()
    line.create(records, partitions=1)
    for arguments in ([], ["--yes"]):
        said = line.cli("dead-letters", "replay", *arguments, status=1).stderr
        assert (
            f"topics.records: {records!r} has no partition 1, and 2 dead letters came from where none is now"
            in said
        )
        assert f"kafka-topics --alter --topic {records} --partitions 2" in said
    assert line.read(records) == []
    line.admin.create_partitions([NewPartitions(records, 2)], request_timeout=10)[records].result()
    assert "5 records to write" in line.cli("dead-letters", "replay", "--yes").stdout
    assert len(line.read(records)) == 5


def test_of_two_replays_at_the_same_time_one_gives_the_records_back(
    memory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = memory(1, EXPLAIN_RECORD__DELETES="dead_letter")
    line.feed((0, value) for value in BAD)
    line.run_to_end()

    def reach(point: str) -> None:
        monkeypatch.setattr(dead_letters, "reach", lambda point: None)
        line.cli("dead-letters", "replay", "--yes")

    monkeypatch.setattr(dead_letters, "reach", reach)
    said = line.cli("dead-letters", "replay", "--yes", status=1).stderr
    assert "another `dead-letters replay` was begun meanwhile" in said
    assert len(line.read(line.topics["records"])) == 2 * len(BAD)


def own_topics(line: Pipeline) -> set[str]:
    return {name for name in line.admin.list_topics(timeout=10).topics if not name.startswith("__")}


def test_check_finds_what_run_needs_and_changes_nothing(memory: Factory) -> None:
    line = memory(3)
    line.feed(mixed_records(3, 300, bad_every=30))
    topics = own_topics(line)
    found = json.loads(line.cli("check", "--json").stdout)
    results: dict[str, Any] = {check["what"]: check["ok"] for check in found["checks"]}
    for what in ("model", "broker", "topics.records", "topics.explanations", "rights", "sample"):
        assert results[what] is True, found
    kinds = {feature["feature"]: feature["kind"] for feature in found["features"]}
    assert kinds == {"a": "number", "b": "number", "color": "string", "c": "number", "late": "boolean"}
    assert set(found["labels"]) == {"0", "1"}
    assert sum(found["labels"].values()) + sum(int(check["detail"].partition(";")[0]) for check in found["checks"] if check["what"].startswith("bad record")) == 100  # fmt: skip
    assert own_topics(line) == topics
    assert all(place.offset < 0 for place in line.committed().values())
    assert results["snapshots"] is None, found  # nothing signs them
    assert "labels: " in line.cli("check").stdout


def test_check_fails_where_run_could_not_work_and_says_what_to_do(memory: Factory) -> None:
    line = memory(1)
    line.feed(mixed_records(1, 20))
    for environment, what, detail in (
        ({"EXPLAIN_TOPICS__RECORDS": "absent"}, "topics.records", "topics create"),
        ({"EXPLAIN_MODEL__FACTORY": "no.such:Model"}, "model", "no.such"),
        (
            {
                "EXPLAIN_MODEL__FACTORY": "river.naive_bayes:GaussianNB",
                "EXPLAIN_RECORD__FEATURES": '["a", "b"]',
            },
            "snapshots",
            "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE",
        ),
        ({"EXPLAIN_MODEL__FACTORY": "river.linear_model:LogisticRegression"}, "fold", "record.features"),
        ({"EXPLAIN_RECORD__LABEL": "outcome"}, "sample", "0 of the newest 20"),
        ({"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "stopped", "no broker answered"),
    ):
        run = partial(Pipeline.cli, line) if what == "stopped" else line.cli  # as a process of its own
        done = run("check", "--json", status=1, **environment)
        failed = {
            check["what"]: check["detail"]
            for check in json.loads(done.stdout)["checks"]
            if check["ok"] is False
        }
        assert list(failed) == [what] and detail in failed[what]
        assert f"checks failed: {what}" in done.stderr
    line.run_to_end()
    assert "ok" in line.cli("check").stdout


def test_check_and_show_obey_nothing_that_records_hold(memory: Factory) -> None:
    line = memory(1)
    hostile = "a\x1b]0;PWNED\x07\x1b[2J\r\nforged [/x]"
    values = [json.dumps({hostile: i, "label": f"{i % 2}{hostile}"}).encode() for i in range(50)]
    values += [hostile.encode(), json.dumps({"label": {hostile: 1}, hostile: hostile}).encode()]
    line.feed((0, value) for value in values)
    line.run_to_end()
    for command in (["check"], ["dead-letters", "show"]):
        done = line.cli(*command)
        printed = done.stdout + done.stderr
        assert all(one.isprintable() for one in printed.replace("\n", ""))
        assert not [text for text in printed.splitlines() if text.startswith("forged")]
    assert r"a\x1b]0;PWNED\x07\x1b[2J\r\nforged [/x]" in line.cli("check").stdout
