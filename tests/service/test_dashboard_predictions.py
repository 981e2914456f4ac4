"""Single predictions that the dashboard's server looks up by the id of their record, from messages that a fold has made."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from explain_client import Prediction
from explain_sidecar.http import predictions
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.partition import Partition
from explain_sidecar.http.server import address, bind, serving
from explain_sidecar.http.views import Page, ViewSelection
from explain_sidecar.settings.operation import HttpSettings
from tests.feeds import PREDICTED, predicted, settings

VALUES = [output.value for output in predicted() if output.destination == "predictions"]


def site(*, partitions: int = 1, upto: int | None = None, **environment: str) -> Dashboard:
    """A dashboard that has read the predictions of its first partition."""
    made = Dashboard(settings(**PREDICTED | environment))
    made.feed.partitions = {number: Partition(number) for number in range(partitions)}
    for value in VALUES[:upto]:
        made.feed.prediction(0, value)
    return made


def asked(made: Dashboard, query: str) -> tuple[int, dict[str, Any]]:
    """What the endpoint answers over HTTP."""
    sock = bind(http := HttpSettings(port=0))
    with serving(made.routes, sock, http):
        try:
            with urllib.request.urlopen(f"{address(sock)}api/predictions{query}", timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)


def offsets(made: Dashboard, wanted: str) -> list[int]:
    return [one["offset"] for one in made.feed.look_up(wanted)[1]["predictions"]]


def test_an_id_is_answered_with_its_message_and_the_clients_sentence() -> None:
    status, body = asked(site(), "?id=r50")
    (found,) = body["predictions"]
    message = Prediction.from_json(VALUES[50])
    assert (status, body["problem"], found.pop("sentence")) == (200, None, message.sentence())
    assert found == json.loads(VALUES[50]) and found["id"] == "r50" and found["reasons"]


def test_once_the_label_has_come_it_is_first_and_the_reasons_of_the_events_own_time_follow() -> None:
    made = site(upto=61)
    assert offsets(made, "r40") == [40]
    made.feed.prediction(0, VALUES[61])
    _, body = made.feed.look_up("r40")
    settled, event = body["predictions"]
    assert (settled["offset"], event["offset"], event["label"]) == (61, 40, None)
    assert settled["label"] in ("true", "false") and settled["losses"] and event["reasons"]
    assert settled["earlier"]["offset"] == 40 and settled["earlier"]["losses"]
    assert "the prediction of offset 40 had a log loss" in settled["sentence"]


def test_of_one_id_the_newest_are_shown_over_all_partitions() -> None:
    made = site(partitions=2)
    for shift in range(predictions.FOUND + 1):
        late = {"offset": 1_000 + shift, "seq": shift, "partition": 1, "timestamp": 1_800_000_000_000 + shift}
        made.feed.prediction(1, json.dumps(json.loads(VALUES[50]) | late).encode())
    assert offsets(made, "r50") == [1_005, 1_004, 1_003, 1_002, 1_001]


def test_what_is_kept_is_bounded_by_number_and_by_bytes_and_shared_by_the_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predictions, "MOST", 20)
    made = site()
    assert offsets(made, "r41") == [] and len(made.feed.partitions[0].predictions) == 20
    assert (offsets(made, "r42"), offsets(made, "r41"), offsets(made, "r60")) == ([42], [], [60])
    assert offsets(made, "r40") == [61]  # what came before its label is no longer kept
    status, body = asked(made, "?id=r1")
    assert status == 404 and body["predictions"] == [] and "newest 20," in body["problem"]
    assert "explain-sidecar tail --predictions --from-beginning --json" in body["problem"]
    assert len(site(partitions=4).feed.partitions[0].predictions) == 5
    monkeypatch.setattr(predictions, "MOST_BYTES", sum(map(len, VALUES[-7:])))
    made = site()
    assert (offsets(made, "r55"), offsets(made, "r54")) == ([55], [])
    assert len(site(partitions=2).feed.partitions[0].predictions) == 3
    monkeypatch.setattr(predictions, "MOST_BYTES", 10)
    assert len(site().feed.partitions[0].predictions) == 0


@pytest.mark.parametrize(
    ("query", "environment", "status", "words"),
    [
        ("", {}, 400, "Give the id of a record; the newest 61 predictions"),
        ("?id=", {}, 400, "Give the id of a record"),
        ("?id=" + 51 * "x", {}, 400, "51 characters; ids have 50 at the most (record.max_string)"),
        ("?id=" + 50 * "x", {}, 404, "among the newest 61"),
        ("?id=R1", {}, 404, "No prediction of this id"),
        ("?id=r1", {"EXPLAIN_PREDICTIONS__ENABLED": "false"}, 404, "set predictions.enabled"),
    ],
)
def test_what_cannot_be_looked_up_is_said(
    query: str, environment: dict[str, str], status: int, words: str
) -> None:
    found, body = asked(site(**environment), query)
    assert (found, body["predictions"]) == (status, []) and words in body["problem"]
    assert "r1" not in body["problem"]  # no id is told


def test_records_without_an_id_cannot_be_looked_up() -> None:
    made = Dashboard(settings(EXPLAIN_PREDICTIONS__ENABLED="true"))
    status, body = made.feed.look_up("r1")
    assert status == 404 and "set record.id" in body["problem"]


def test_messages_of_others_are_left_out_and_the_chain_is_checked() -> None:
    made = site(upto=20)
    assert made.feed.partitions[0].verified == 20
    made.feed.prediction(0, json.dumps(json.loads(VALUES[20]) | {"app_id": "another"}).encode())
    assert offsets(made, "r20") == [] and made.feed.partitions[0].broken is None
    made.feed.prediction(0, json.dumps(json.loads(VALUES[20]) | {"offset": "x"}).encode())
    assert "predictions partition 0" in (made.feed.notice or "")
    made.feed.prediction(0, VALUES[21])
    assert "missing before it" in (made.feed.partitions[0].broken or "") and offsets(made, "r21") == [21]


def test_the_view_begins_with_the_sentence_or_with_what_to_do() -> None:
    made = site()
    for output in predicted():
        if output.destination == "explanations":
            made.feed.explanation(0, output.value)

    def page(**query: str) -> dict[str, Any]:
        return Page(made.feed, ViewSelection.of({"view": "predictions", **query})).next()

    message = Prediction.from_json(VALUES[50])
    found = page(id="r50")
    assert found["sentence"] == f"P{message.sentence()[1:]}."
    assert [one["offset"] for one in found["lookup"]["predictions"]] == [50]
    assert page(id="none")["sentence"] == page(id="none")["lookup"]["problem"]
    assert page()["sentence"].startswith("Give the id of a record")
    assert "lookup" not in Page(made.feed, ViewSelection("importance", id="r50")).next()
