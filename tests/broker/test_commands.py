"""The commands as a user types them: the main job from a CSV file on a real broker, supervised workers, and what is said when something cannot be done."""

import asyncio
import csv
import functools
import json
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks import KEY_FILE
from explain_client import Drift
from explain_client.words import of_loss
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.pinned import worker_environment
from explain_sidecar.wire.schemas import schemas
from tests.broker.harness import Factory, Pipeline, Process, mixed_records, workers_of
from tests.broker.memory import run_example
from tests.brokers import wait_for
from tests.service.test_windows import stream

SCHEMAS = {name: json.loads(text) for name, text in schemas().items()}


def closed(schema: Any) -> Any:
    """The schema without the room that it leaves for fields of later versions."""
    if isinstance(schema, list):
        return [closed(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    tight = (
        {"additionalProperties": False} if schema.get("type") == "object" and "properties" in schema else {}
    )
    return {**tight, **{name: closed(value) for name, value in schema.items()}}


@functools.cache
def validator(name: str) -> Any:
    import jsonschema

    schema = closed(SCHEMAS[f"{name}.schema.json"])
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def check(name: str, value: object) -> None:
    validator(name).validate(value)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """800 rows whose group depends on `signal` alone."""
    path = tmp_path / "table.csv"
    rng = random.Random(3)
    rows = [
        {"noise": rng.random(), "signal": rng.gauss(0, 1), "color": rng.choice(["red", "blue"])}
        for _ in range(800)
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "group"])
        writer.writeheader()
        writer.writerows(row | {"group": "A" if row["signal"] > 0 else "B"} for row in rows)
    return path


def test_from_a_csv_file_to_explanations_that_name_what_drives_the_model(
    pipeline: Factory, table: Path
) -> None:
    line = pipeline(4, EXPLAIN_RECORD__LABEL="group", EXPLAIN_COMMIT__MAX_RECORDS="20")
    line.cli("produce", "--input", str(table), "--label", "group")
    line.cli("run", "--until-caught-up", "--workers", "2")
    messages = [
        json.loads(text) for text in line.cli("tail", "--json", "--until-caught-up").stdout.splitlines()
    ]
    assert sum(len([m for m in messages if m["partition"] == p]) for p in range(4)) == 4 * 20
    for message in messages:
        check("explanation", message)
        assert message["rejected"] == 0
    for last in (m for m in messages if m["records"] == 200):
        for estimator in ("ipfi", "isage"):
            values = {
                name: cell["value"] for name, cell in last["importance"][estimator]["cross_entropy"].items()
            }
            assert max(values, key=values.__getitem__) == "signal", values
    assert line.read(line.topics["dead_letters"]) == []
    tail = Process(["-m", "explain_sidecar.cli", "tail", "--json"], line.environment)
    line.wait_for(lambda: tail.log().count('"records":200,') == 4)
    before = tail.log().count('"schema"')
    assert 4 <= before < len(messages)  # the newest alone
    line.cli("run", "--until-caught-up")
    assert len(line.read(line.topics["explanations"])) == len(messages)
    line.cli("produce", "--input", str(table), "--label", "group")
    line.cli("run", "--until-caught-up")
    line.wait_for(lambda: tail.log().count('"schema"') == before + len(messages))
    tail.signal(signal.SIGINT)
    assert tail.wait() == 130
    shown = json.loads(line.cli("checkpoint", "show", "--json", "--clean").stdout)
    assert [(row["state"], row["records"]) for row in shown] == [("verified", 400)] * 4
    table = line.cli("tail", "--until-caught-up").stdout
    assert "400 records" in " ".join(table.split()) and table.endswith("\n")
    latest, verified = asyncio.run(asyncio.wait_for(told(line, "latest", "verify"), 120))
    assert latest["problem"] is None
    assert {row["partition"]: row["records"] for row in latest["partitions"]} == dict.fromkeys(range(4), 400)
    assert [(chain["verified"], chain["broken"]) for chain in verified["chains"]] == [(40, None)] * 4
    said = line.cli("run", status=1, EXPLAIN_SEED="5").stderr  # of the worker, whose supervisor adds nothing
    assert said.count("error: ") == 1 and "seed" in said


async def told(line: Pipeline, *tools: str) -> list[Any]:
    """What an assistant is told, which starts ``explain-sidecar mcp`` and speaks to it over stdin and stdout."""
    from mcp import Client, StdioServerParameters

    arguments = ["-P", "-m", "explain_sidecar.cli", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=line.environment)
    async with Client(server) as client:
        found = [await client.call_tool(tool, {}) for tool in tools]
    assert not any(answer.is_error for answer in found)
    return [answer.structured_content for answer in found]


def test_every_message_fits_its_schema(memory: Factory) -> None:
    line = memory(2, EXPLAIN_DRIFT='{"enabled": true, "window": 60, "bootstrap": 20}')
    line.feed(mixed_records(2, 600, bad_every=20), headers=[("own", b"1")])
    line.run_to_end()
    for record in (entry for log in line.inputs.values() for entry in log):
        if _is_good(record):
            check("record", json.loads(record.value or b""))
    for message in line.explanations():
        check("explanation", message)
    drift = line.read(line.topics["drift"])
    assert len(drift) == 4
    for message in drift:
        check("drift", json.loads(message.value() or b""))
        assert Drift.from_json(message.value() or b"").target.records == 60
    letters = line.read(line.topics["dead_letters"])
    assert len(letters) > 10
    for letter in letters:
        headers = {
            name: value.decode() for name, value in letter.headers() or [] if name.startswith("__explain")
        }
        check("dead-letter-headers", headers)
    manifests = [m for m in line.read(line.topics["checkpoints"]) if (m.key() or b"").endswith(b"/manifest")]
    assert manifests
    for manifest in manifests:
        check("checkpoint-manifest", json.loads(manifest.value() or b""))


def _is_good(record: InputRecord) -> bool:
    return record.value is not None and record.value.startswith(b'{"a": ') and b'"b"' in record.value


def test_the_supervisor_starts_what_is_killed_again_stops_its_workers_in_order_and_they_do_not_outlive_it(
    pipeline: Factory,
) -> None:
    """Each worker is killed, the process that forks them, and the supervisor; no partition waits for the session timeout."""
    line = pipeline(2)
    supervisor = Process(["-m", "explain_sidecar.cli", "run", "--workers", "2"], line.environment)
    line.wait_for(lambda: set(re.findall(r"running from .* worker=(\d)", supervisor.log())) == {"0", "1"})
    for slot in (0, 1):
        before = workers_of(supervisor)[slot]
        before.kill()
        line.wait_for(lambda: f"worker {slot} was ended by signal 9" in supervisor.log())  # noqa: B023
        line.wait_for(lambda: before.pid != workers_of(supervisor).get(slot, before).pid)  # noqa: B023
        line.feed(mixed_records(2, 200, seed=slot))
        line.wait_for(line.folded)
    log = supervisor.log()
    assert "stays a member" not in log and "could not be freed" not in log
    assert "(1 of 10 times within 10 minutes), and nothing is lost" in log
    (forks,) = psutil.Process(supervisor.pid).children()
    forks.kill()
    line.feed(mixed_records(2, 100, seed=2))
    line.wait_for(line.folded)
    supervisor.signal(signal.SIGINT)
    assert supervisor.wait() == 0, supervisor.log()
    orphaned = Process(["-m", "explain_sidecar.cli", "run"], line.environment)
    line.wait_for(lambda: orphaned.log().count("running from") >= 2)
    orphaned.kill()
    line.wait_for(lambda: orphaned.log().count("released") >= 2, 30)
    line.run_to_end()
    line.verify()


def test_a_worker_ends_with_its_supervisor_though_it_waits_for_a_broker_that_is_silent(
    memory: Factory,
) -> None:
    line = memory(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        environment = {**line.environment, "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": address}
        supervisor = Process(["-m", "explain_sidecar.cli", "run"], environment)
        assert wait_for(lambda: psutil.Process(supervisor.pid).children() and 0 in workers_of(supervisor))
        orphan = workers_of(supervisor)[0]
        supervisor.kill()
        orphan.wait(30)
    assert "no broker answered" not in supervisor.log()  # by which it would end later


UNRUNNABLE = [
    ({"EXPLAIN_MODEL__FACTORY": "no.such:Model"}, "model.factory"),
    ({"EXPLAIN_MODEL__FACTORY": "river.tree:NoSuchTree"}, "model.factory"),
    (
        {"EXPLAIN_MODEL__FACTORY": "river.forest:ARFClassifier", "EXPLAIN_MODEL__PARAMS": '{"trees": 3}'},
        "model.params",
    ),
    (
        {"EXPLAIN_REGISTRY__URL": "http://127.0.0.1:1"},
        "registry.url http://127.0.0.1:1: no answer that can be used",
    ),
    (
        {
            "EXPLAIN_RECORD__WEIGHT": "w",
            "EXPLAIN_MODEL__FACTORY": "tests.broker.custom_models:Failing",
            "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(KEY_FILE),
        },
        "record.weight",
    ),
    ({"EXPLAIN_TOPICS__RECORDS": "no-such-topic"}, "topics.records"),
]


@pytest.mark.parametrize(("environment", "message"), UNRUNNABLE)
def test_what_cannot_start_says_why_in_one_message(
    memory: Factory, environment: dict[str, str], message: str
) -> None:
    line = memory(1)
    line.feed(mixed_records(1, 10))
    log = line.fails(**environment)
    assert f"error: {message}" in log and log.count("error: ") == 1


def test_a_model_that_fails_is_named_once_with_the_reset_that_keeps_it_and_nothing_wrong_is_published(
    memory: Factory,
) -> None:
    line = memory(1)
    line.feed(mixed_records(1, 200))
    failing = {
        "EXPLAIN_MODEL__FACTORY": "tests.broker.custom_models:Failing",
        "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": str(KEY_FILE),
    }
    said = line.fails(**failing)
    assert (
        "partition 0 offset 99: the model (Failing) failed: ZeroDivisionError: the model divides by zero"
        in said
    )
    assert said.count("error: ") == 1
    assert len(line.read(line.topics["explanations"])) <= 9
    # The remedy keeps what was learnt, and passes over the record and those behind it.
    arguments = ["reset", "--partition", "0", "--keep", "all", "--from", "latest", "--yes"]
    assert f"explain-sidecar {' '.join(arguments)}" in said
    done = line.cli(*arguments, **failing).stdout
    assert "carried over: schemas, labels, model" in done and "from offset 200" in done


@pytest.mark.parametrize(
    ("servers", "config", "status", "message"),
    [
        ("", {}, 2, "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"),
        ("127.0.0.1:1", {}, 1, "no broker answered"),
        (
            "127.0.0.1:1",
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            1,
            "kafka.config",
        ),
    ],
)
def test_without_a_broker_that_answers_it_says_so_within_ten_seconds_and_starts_none(
    servers: str, config: dict[str, str], status: int, message: str
) -> None:
    environment = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": servers} if servers else {}
    environment["EXPLAIN_KAFKA__CONFIG"] = json.dumps(config)
    done = Process(["-m", "explain_sidecar.cli", "run"], environment)
    assert done.wait(60) == status, done.log()
    assert message in done.log() and "Traceback" not in done.log()


def test_topics_are_created_with_the_settings_they_need_and_shown(memory: Factory) -> None:
    line = memory(1)
    records = line.topics["records"] + "-new"
    line.environment["EXPLAIN_TOPICS__RECORDS"] = records
    assert "--partitions" in line.cli("topics", "create", status=1).stderr
    assert "missing" in line.cli("topics", "show", status=1).stderr
    line.cli("topics", "create", "--partitions", "3")
    assert (
        "is there already, with 3; leave the option out"
        in line.cli("topics", "create", "--partitions", "4", status=1).stderr
    )
    rows = {row["setting"]: row for row in json.loads(line.cli("topics", "show", "--json").stdout)}
    assert {row["partitions"] for row in rows.values()} == {3}
    assert rows["topics.checkpoints"]["cleanup.policy"] == "compact"
    assert rows["topics.records"]["cleanup.policy"] == "delete"


def test_produce_keeps_types_and_keys_together_leaves_out_empty_cells_and_refuses_what_is_no_csv(
    memory: Factory, tmp_path: Path
) -> None:
    line = memory(1)
    path = tmp_path / "mixed.csv"
    path.write_text("n,x,flag,name,code,y\n1,0.5,true,ann,7,1\n2,,False,bob,A7,0\n")
    line.cli("produce", "--input", str(path), "--label", "y")
    values = [json.loads(m.value() or b"") for m in line.read(line.topics["records"])]
    assert values == [
        {"n": 1, "x": 0.5, "flag": True, "name": "ann", "code": "7", "label": 1},
        {"n": 2, "flag": False, "name": "bob", "code": "A7", "label": 0},
    ]
    assert (
        "--label z: mixed.csv has no such column"
        in line.cli("produce", "--input", str(path), "--label", "z", status=1).stderr
    )
    line = memory(4)
    path.write_text("k,y\n" + "".join(f"{'abcde'[i % 5]},{i % 2}\n" for i in range(24)))
    line.cli("produce", "--input", str(path), "--label", "y", "--key", "k")
    places = {(m.key(), m.partition()) for m in line.read(line.topics["records"])}
    assert len(places) == 5 and len({partition for _, partition in places}) > 1  # each key in one
    path.write_text("a,b\n1\n")
    assert "row 2" in line.cli("produce", "--input", str(path), "--label", "b", status=1).stderr


def test_check_names_what_the_settings_look_for_where_no_record_has_it(memory: Factory) -> None:
    line = memory(1, EXPLAIN_RECORD__ROOT="data", EXPLAIN_RECORD__ID="id", EXPLAIN_RECORD__WEIGHT="w")
    line.feed((0, json.dumps({"id": n, "w": 2, "data": {"a": 1, "label": n % 2}}).encode()) for n in range(9))
    for unlabelled in ("reject", "predict"):
        label = {"EXPLAIN_RECORD__UNLABELLED": unlabelled, "EXPLAIN_RECORD__LABEL": "label" if unlabelled == "reject" else "y"}  # fmt: skip
        body = json.loads(line.cli("check", "--json", **label).stdout)
        found = {one["what"]: one["detail"] for one in body["checks"] if one["what"].startswith("record.")}
        assert found["record.id"] == "'id' is in no record of the sample; its path begins at record.root, 'data'"  # fmt: skip
        assert "'w' is absent or 1 in every record" in found["record.weight"]
        assert ("record.label" in found) == (unlabelled == "predict") != bool(body["labels"])


def test_check_says_what_time_the_newest_record_has_and_doubts_seconds(memory: Factory) -> None:
    line = memory(1, EXPLAIN_RECORD__TIMESTAMP="at")

    def times(*values: Any) -> str:
        rows = [json.dumps({"at": at, "a": 1, "label": at_ % 2}).encode() for at_, at in enumerate(values)]
        line.feed((0, row) for row in rows)
        (found,) = [
            one for one in json.loads(line.cli("check", "--json").stdout)["checks"] if one["what"] == "times"
        ]
        return f"{found['ok']} {found['detail']}"

    assert times(1_368_511_500, 1_368_511_400).startswith(
        "None times: the newest is 1368511500, and times are"
    )
    assert times("2013-05-14T06:05", 1_368_511_500_000 - 1) == "True the newest is of 2013-05-14 06:05 UTC"


def test_produce_names_a_bad_rate_and_topic_and_identifiers_among_the_features_alone(
    memory: Factory, tmp_path: Path
) -> None:
    line = memory(1)
    path = tmp_path / "ids.csv"
    path.write_text("at,who,x,y\n" + "".join(f"t{i},w{i},{i % 3},{i % 2}\n" for i in range(200)))
    do = functools.partial(line.cli, "produce", "--input", str(path), "--label", "y")
    assert "--rate nan: write a number" in do("--rate", "nan", status=1).stderr
    assert "--topic 'a b': a topic's name has" in do("--topic", "a b", status=1).stderr
    line.environment["EXPLAIN_RECORD__TIMESTAMP"] = "at"
    said = do().stderr
    assert "column who: nearly each" in said and "column at" not in said
    line.environment["EXPLAIN_RECORD__FEATURES"] = '["x"]'
    assert "column" not in do().stderr


def test_the_rows_before_one_that_does_not_fit_the_schema_are_written(
    memory: Factory, tmp_path: Path
) -> None:
    line = memory(1)
    path, schema = tmp_path / "rows.jsonl", tmp_path / "row.json"
    path.write_text('{"a": 1, "y": 1}\n{"a": 2, "y": 0}\n{"a": "x", "y": 1}\n')
    schema.write_text('{"properties": {"a": {"type": "integer"}}}')
    line.environment["EXPLAIN_RECORD"] = json.dumps(
        {"format": "json_schema", "framing": "none", "schema_file": str(schema), "label": "y"}
    )
    refused = line.cli("produce", "--input", str(path), "--label", "y", status=1).stderr
    assert "row 3 does not fit" in refused and "2 rows were written" in refused
    assert len(line.read(line.topics["records"])) == 2


@pytest.mark.parametrize(("loss", "named"), [("zero_one", "error rate"), ("cross_entropy", "log loss")])
def test_tail_says_why_the_risk_changed_with_the_loss_by_the_name_for_people(
    memory: Factory, loss: str, named: str
) -> None:
    sections = json.dumps({"enabled": True, "window": 100, "bootstrap": 20, "loss": loss})
    line = memory(1, EXPLAIN_DRIFT=sections)
    line.feed(mixed_records(1, 450))
    line.run_to_end()
    lines = line.cli("tail", "--drift", "--until-caught-up").stdout.splitlines()
    assert [text.partition(": ")[0] for text in lines] == [
        f"{line.topics['records']} k0 offset {offset}" for offset in (299, 399)
    ]
    found = [
        json.loads(text)
        for text in line.cli("tail", "--drift", "--until-caught-up", "--json").stdout.splitlines()
    ]
    told = [text.partition(": ")[2] for text in lines]
    assert told == [of_loss(message["sentence"], loss) for message in found]
    assert all(text.startswith(named) and "from window" in text for text in told)


def test_tail_and_the_alertmanager_tell_each_story_once_alike_with_its_cause_and_what_people_know_of_it(
    memory: Factory, capfd: pytest.CaptureFixture[str]
) -> None:
    line = memory(
        1,
        EXPLAIN_ALARMS='{"enabled": true, "one_in": 10000, "warm_up": 100, "baseline": 300}',
        EXPLAIN_DRIFT='{"enabled": true, "on_alarm": true, "window": 200, "bootstrap": 20}',
        EXPLAIN_TOPICS__CONTROL="known",
        EXPLAIN_MODEL__NAME="linear",
    )
    line.feed((0, json.dumps(row).encode()) for row in stream(1_300, flips_at=1_000))
    line.run_to_end()
    first, *told = line.cli("tail", "--alarms", "--until-caught-up").stdout.splitlines()
    assert first == "At most one change in 10,000 records is told by chance alone."
    alarms = [
        json.loads(text)
        for text in line.cli("tail", "--alarms", "--until-caught-up", "--json").stdout.splitlines()
    ]
    assert len(told) == len({alarm["cause"] for alarm in alarms}) < len(alarms)
    (loss,) = (text for text in told if "log loss rose by at least" in text)
    assert loss.startswith(f"{line.topics['records']} k0: Since ") and ": the concept changed" in loss
    topics = [part for name in ("drift", "explanations") for part in (f"--{name}", line.topics[name])]
    run_example(
        "alertmanager.py", line.broker.bootstrap_servers, line.topics["alarms"], *topics, "--until-caught-up"
    )
    (alerts,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert sorted(
        f"{told[0].partition(': ')[0]}: {alert['annotations']['summary']}" for alert in alerts
    ) == sorted(told)
    line.create("known")
    producer = line.kafka.producer({})
    for seen in ({"partition": 0, "epoch": 0, "cause": alarm["cause"], "why": "on it"} for alarm in alarms):
        producer.produce("known", json.dumps({"acknowledged": seen}).encode())
    producer.produce("known", b"{")
    producer.flush()
    known = line.cli("tail", "--alarms", "--until-caught-up")
    assert f"{loss} Acknowledged: on it." in known.stdout.splitlines()
    assert "known partition 0 offset" in known.stderr and "not a control message" in known.stderr


def test_the_new_group_protocol_gives_the_same_stream_and_no_name_waits_for_the_end_of_a_dead_process_session(
    pipeline: Factory,
) -> None:
    """Of one that nobody supervised, and of a worker that is killed; as members for as long as they live, and as static ones."""
    new = {"EXPLAIN_KAFKA__GROUP_PROTOCOL": "consumer"}
    lines = [pipeline(2, **new), pipeline(2, **new, EXPLAIN_KAFKA__GROUP_INSTANCE_ID="stable")]
    found = json.loads(lines[0].cli("check", "--json").stdout)["checks"]
    (session,) = [check for check in found if check["what"] == "group protocol"]
    assert "an instance that dies wait for 45 s" in session["detail"]
    holds = """
import os, signal, sys
from explain_sidecar.kafka.clients import group_consumer, ErrorLog
from explain_sidecar.settings import load_settings
settings = load_settings()
consumer = group_consumer(settings, 0, ErrorLog())
consumer.subscribe([settings.topics.records])
while len(consumer.assignment()) < 2:
    consumer.poll(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    supervisors = []
    for line in lines:
        line.feed(mixed_records(2, 100))
        dead = subprocess.run([sys.executable, "-c", holds], env=worker_environment() | line.environment)
        assert dead.returncode == -signal.SIGKILL
        run = ["-m", "explain_sidecar.cli", "run", "--workers", "2"]
        supervisors.append(Process(run, line.environment))
    for line, supervisor in zip(lines, supervisors, strict=True):
        line.wait_for(lambda: set(re.findall(r"running from .* worker=(\d)", supervisor.log())) == {"0", "1"})  # noqa: B023
        workers_of(supervisor)[0].kill()
        line.feed(mixed_records(2, 400, seed=1))
    assert "was a member of its group twice" in supervisors[0].log()
    # Kafka refuses a second static member, whose end frees the name.
    assert supervisors[1].log().count("could not go on, as it says above; it is started again") == 1
    for line, supervisor in zip(lines, supervisors, strict=True):
        line.wait_for(line.folded, seconds=44)  # less than the brokers' 45 s
        log = supervisor.log()
        assert "stays a member" not in log and "could not be freed" not in log
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0, supervisor.log()
        line.verify()
    assert "done" in lines[0].cli("reset", "--partition", "0", "--yes").stdout
