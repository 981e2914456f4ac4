"""What `tail` prints."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from explain_client import Drift, Explanation, Prediction
from explain_sidecar.commands import tail
from explain_sidecar.errors import UserError
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings
from tests import folds
from tests.client.test_client import example
from tests.feeds import newest, settings
from tests.told import alarm_of


def test_tail_calls_a_partition_by_its_label_else_by_its_only_key() -> None:
    def shown(message: dict[str, Any], **environment: str) -> str:
        console = Console(width=200, file=io.StringIO())
        console.print(tail.view(settings(**environment), {0: message}))
        return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]

    message = newest()
    assert shown(message).startswith("records k: 686 ")
    assert shown(message | {"keys": None}).startswith("records partition 0: ")
    del message["keys"]  # as messages of before
    assert shown(message).startswith("records partition 0: ")
    assert shown(message, EXPLAIN_PARTITION_LABELS__0="JFK").startswith("records JFK: ")
    assert Explanation.from_json(json.dumps(message).encode()).keys is None


@pytest.mark.parametrize(
    ("alpha", "said"), [(0.001, "~2,000 records"), (0.02, "~100 records"), (None, "all records")]
)
def test_tail_says_over_how_many_records_each_value_is(alpha: float | None, said: str) -> None:
    """The sentence below the table is about another number of them."""
    message = newest()
    message["estimators"]["ipfi"]["alpha"] = alpha
    console = Console(width=200, file=io.StringIO())
    console.print(tail.view(settings(), {0: message}))
    assert said in console.file.getvalue()  # type: ignore[attr-defined]


def test_numbers_of_any_size_and_long_names_can_be_read_in_the_table() -> None:
    """A name is not cut off where others begin alike, and a number has no decimals that say nothing."""
    message, console = newest(), Console(width=110, file=io.StringIO())
    cells = message["importance"]["ipfi"]["cross_entropy"]
    cells["signal"] |= {"value": 3_086_826_943.9, "low": -84_217_077.0, "high": 9_006_161_316.2}
    cells["the.first.words.of.a.path.to.a.field.zip"] = cells["signal"]
    console.print(tail.view(settings(), {0: message}))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "+3.09e+09 [-8.42e+07, +9.01e+09]" in shown and "…" not in shown
    assert "the.first.words.of.a.path.to.a" in shown and ".field.zip" in shown


def test_tail_names_the_version_what_was_served_and_the_skew() -> None:
    message = newest()
    message["version"] = {"name": "7", "sha256": "0" * 64, "records": 100}
    message["performance"]["cross_entropy"]["served"] = 0.1234
    message["skew"] = {"checked": 1000, "differing": 12, "largest": 0.25, "tolerance": 0.001}
    console = Console(width=300, file=io.StringIO())
    console.print(tail.view(settings(), {0: message}))
    shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert shown.startswith("records k, version 7: 686 records") and ", served 0.123" in shown
    assert "12 of 1,000 served predictions are not the model's, by up to 0.25" in shown


def test_tail_says_what_drove_the_model_over_each_period(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = folds.settings(emit={"every": 100, "periods": [1000, "day"]})
    outputs = folds.fold(PartitionState(chosen, 0), folds.values(2_100))
    stream = [output.value for output in outputs if output.destination == "explanations"]
    for value in stream:
        tail._periods(chosen, Explanation.from_json(value), "1000", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(" UTC, " in line and "over 1,000 records" in line for line in lines)
    assert [line.split(" UTC, ")[1].split(":")[0] for line in lines] == ["iPFI", "iSAGE"] * 2
    for value in stream:
        tail._periods(chosen, Explanation.from_json(value), "1000", as_json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["name"] for row in rows} == {"1000"} and {row["estimator"] for row in rows} == {
        "performance",
        "ipfi",
        "isage",
    }


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"record": {"unlabelled": "predict"}, "explain": {"estimated_loss": True}},
            "log loss of records without a label: not estimated yet",
        ),
        (
            {"challenger": {"name": "linear", "shift_every": 1}},
            "no difference seen in how the model and the challenger use features",
        ),
    ],
)
def test_tail_says_what_options_add(sections: dict[str, Any], said: str) -> None:
    chosen = folds.settings(**sections)
    (*_, last) = folds.messages(folds.fold(PartitionState(chosen, 0), folds.values(200)))
    lines = [str(line) for line in tail.view(chosen, {0: last}).renderables]  # type: ignore[attr-defined]
    assert any(said in line for line in lines)


def test_a_period_that_is_not_kept_is_refused_in_words() -> None:
    with pytest.raises(
        UserError, match=r"--periods month: emit\.periods has 1000, day, week, alarm, all; choose one of them"
    ):
        tail.tail(settings(), periods="month")


HOSTILE = "[/x][link=http://evil]a\x1b]0;PWNED\x07\x1b[2J\x9b31m\r\nforged\u202e"
SHOWN = r"[/x][link=http://evil]a\x1b]0;PWNED\x07\x1b[2J\x9b31m\r\nforged\u202e"


def test_nothing_that_names_keys_or_values_hold_is_obeyed_by_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {"alarms": {"enabled": True}, "emit": {"every": 20, "periods": ["100"]}}
    by = [{"kind": "ipfi"}, {"kind": "ipfi", "name": "[/y]", "by": HOSTILE}]
    known = Settings(explainers=by, **sections)
    state = PartitionState(known, 0)
    outputs = [
        output
        for i in range(3_000)
        for output in state.step(
            InputRecord(
                i,
                i,
                HOSTILE.encode(),
                json.dumps(
                    {HOSTILE: f"{i % 2}{HOSTILE}", "b": i % 7, "label": (i % 2 == 0) ^ (i > 2_000)}
                ).encode(),
            )
        )
    ]
    for topic in ("explanations", "alarms"):
        sent = [output.value for output in outputs if output.destination == topic]
        assert sent
        read = [Sent(content, topic) for content in sent]
        monkeypatch.setattr(tail, "messages", lambda *_, read=read, **__: iter(read))
        tail.tail(known, **({} if topic == "explanations" else {topic: True}))
        if topic == "explanations":
            tail.tail(known, periods="100")
    printed = capsys.readouterr().out
    assert SHOWN[:30] in printed and all(one.isprintable() for one in printed.replace("\n", ""))
    assert not [line for line in printed.splitlines() if line.startswith("forged")]


def test_a_story_is_told_again_only_where_it_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loss = {"subject": "loss", "feature": None, "estimator": None, "loss": "brier", "cause": 1}
    first = alarm_of(**loss, seq=0, before=0.4, after=0.9)
    gain = alarm_of(**loss | {"subject": "gain"}, seq=1, before=0.4, after=0.2)  # goes with the loss
    feature = alarm_of(seq=2, cause=1, feature="usage", before=0.1, after=0.3)
    come = [part for one in (first, gain, feature) for part in (Sent(one.raw, "alarms"), None)]
    monkeypatch.setattr(tail, "messages", lambda *_, **__: iter(come))
    tail.tail(Settings(alarms={"enabled": True}, topics={"alarms": "alarms"}), alarms=True)
    _, *told = capsys.readouterr().out.splitlines()
    assert ["usage" in line for line in told] == [False, True]


@pytest.mark.parametrize("output", ["explanations", "drift", "predictions"])
def test_what_is_no_message_is_passed_over_with_a_warning(
    output: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = {kind: json.dumps(example(kind)).encode() for kind in (Explanation, Drift, Prediction)}
    kind = next(kind for kind in known if kind.called[1] == output)
    damaged = json.dumps(example(kind) | {"offset": None}).encode()
    come = [Sent(content, output) for content in (damaged, known[kind])]
    monkeypatch.setattr(tail, "messages", lambda *_, **__: iter(come))
    topics = {name: name for name in ("explanations", "drift", "predictions")}
    chosen = Settings(topics=topics, predictions={"enabled": True})
    with caplog.at_level("WARNING", "explain_sidecar"):
        tail.tail(chosen, drift=output == "drift", predictions=output == "predictions")
    assert f"{output} partition 0 offset 7: not {kind.called[0]}: TypeError: offset is None" in caplog.text
    assert "JFK" in capsys.readouterr().out


def test_a_loss_that_is_not_known_is_said_to_be_so() -> None:
    message = newest()
    message["performance"]["cross_entropy"]["model"] = None
    console = Console(file=io.StringIO(), width=200)
    console.print(tail.view(settings(), {0: message}))
    assert "log loss unknown, without features 0." in console.file.getvalue()  # type: ignore[attr-defined]


class Sent:
    """A message of a partition."""

    def __init__(self, content: bytes, topic: str) -> None:
        self.value = lambda: content
        self.topic = lambda: topic
        self.partition = lambda: 0
        self.offset = lambda: 7
