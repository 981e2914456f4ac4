"""The client's examples act on what is there, and on nothing else."""

import json
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from explain_client import Drift, Explanation, Importance, Importances
from tests.feeds import newest, outputs

alert = import_module("explain_client.examples.alert_on_change")
retrain = import_module("explain_client.examples.retrain_on_drift")


class Explained:
    """An explanation of features with such values, errors of .1 and bands of ± ``half`` each."""

    def __init__(self, values, settled=True, half=0.196):
        self._cells = {
            f"f{i}": Importance(float(v), 0.1, *((v - half, v + half) if settled else (None, None)), settled)
            for i, v in enumerate(values)
        }

    def importance(self):
        return Importances(self._cells)


def test_equally_important_features_have_no_leader_however_often_one_looks():
    rng = np.random.Generator(np.random.PCG64(0))
    named = [
        any(alert.leader(Explained(1 + 0.1 * rng.normal(size=5)), look) for look in range(1, 101))
        for _ in range(300)
    ]
    assert sum(named) <= 3


def test_a_feature_that_is_far_ahead_leads_once_the_bands_are_settled():
    assert alert.leader(Explained([1.0, 3.0, 1.0]), 1) == "f1"
    assert alert.leader(Explained([1.0, 3.0, 1.0], settled=False), 1) is None
    assert (
        alert.leader(Explained([1.0, 3.0, 1.0], half=0.8), 1) is None
    )  # a band that is wider than its error
    assert alert.leader(Explained([1.0]), 1) is None
    assert alert.leader(Explained([]), 1) is None


def changed(**parts):
    found = [json.loads(output.value) for destination, output in outputs() if destination == "drift"]
    body = next(message for message in found if message["change"])
    for path, value in parts.items():
        place = body["change"]
        *way, last = path.split("__")
        for key in way:
            place = place[key]
        place[last] = value
    return Drift.from_json(json.dumps(body).encode())


def test_only_a_concept_that_made_the_model_worse_calls_for_training():
    worse = {"causes": ["concept"], "change": 0.1, "joint__concept__value": 0.1}
    assert retrain.calls_for_training(changed(**worse))
    assert not retrain.calls_for_training(changed(**worse | {"change": -0.1}))
    assert not retrain.calls_for_training(changed(**worse | {"joint__concept__value": -0.05}))
    assert not retrain.calls_for_training(changed(**worse | {"causes": ["inputs"]}))


def test_the_records_to_train_on_begin_with_the_onset_or_else_after_the_window():
    drift = changed()
    assert retrain.begins(drift) == drift.target.last_offset + 1
    body = json.loads(drift.raw) | {"alarm": {"seq": 3, "offset": drift.offset, "cause": 1}}
    assert retrain.begins(Drift.from_json(json.dumps(body).encode())) == drift.target.first_offset


class Stream(list):
    """Messages in the place of a reader of a topic."""

    def __enter__(self):
        return self

    def __exit__(self, *ended):
        pass


def test_a_change_is_said_at_the_first_look_after_warming_up_and_at_the_next_only_if_it_is_due(
    monkeypatch, capsys
):
    known = Explanation.from_json(json.dumps(newest()).encode())
    loss, cells = next(iter(known.importances["ipfi"].items()))
    first, second, *_ = cells

    def led(name, explained, status="ready"):
        values = {feature: float(feature == name) for feature in cells}
        found = {feature: Importance(v, 0.01, v - 0.02, v + 0.02, True) for feature, v in values.items()}
        numbers = {"importances": {"ipfi": {loss: found}}, "estimators": {"ipfi": {"alpha": 0.01}}}
        return replace(known, status=status, explained=explained, **numbers)

    stream = Stream(
        [led(second, 10, "warming"), led(first, 20), led(second, 219), led(second, 220), led(second, 500)]
    )
    monkeypatch.setattr(alert, "Explanations", lambda *_, **__: stream)
    monkeypatch.setattr("sys.argv", ["alert_on_change.py", "servers", "topic", "--until-caught-up"])
    alert.main()
    said = [text.partition(": ")[2] for text in capsys.readouterr().out.splitlines()]
    assert said == [f"{first} leads", f"{second} leads (it was {first})"]


@pytest.mark.parametrize(("numbers", "trained"), [([5, 6, 7], [5, 7]), ([5, 7], [5, 7])])
def test_the_second_finding_of_a_change_that_two_windows_share_trains_nothing(numbers, trained, monkeypatch):
    worse = changed(causes=["concept"], change=0.1, joint__concept__value=0.1)
    drifts = [
        replace(worse, target=replace(worse.target, number=number, last_offset=number)) for number in numbers
    ]
    run = []
    monkeypatch.setattr(
        retrain, "Drifts", lambda *_, **__: Stream([*drifts, replace(drifts[0], partition=9)])
    )
    monkeypatch.setattr(
        retrain, "subprocess", SimpleNamespace(run=lambda command, check: run.append(command))
    )
    monkeypatch.setattr("sys.argv", ["retrain_on_drift.py", "servers", "topic", "train"])
    retrain.main()
    topic = worse.topic
    assert run == [
        *(["train", topic, "0", str(number + 1)] for number in trained),
        ["train", topic, "9", str(numbers[0] + 1)],
    ]
