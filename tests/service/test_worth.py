"""A model that is worse than no model says so, wherever it is asked; the default one says what it is made of."""

import io
import math
import random

import orjson
import pytest
from rich.console import Console

from explain_client import Alarm, Explanation, Stories
from explain_sidecar.commands import tail
from explain_sidecar.fold.metrics import measure
from explain_sidecar.http.partition import ShownVersion
from explain_sidecar.http.sentences import sentence
from tests.folds import fold, fold_with_restores, messages, new_state, settings
from tests.service.test_alarms import ONE
from tests.service.test_windows import stream

KNOWN = {
    "model": {"factory": "tests.models:calibrated", "static": True},
    "explainers": ONE,
    "emit": {"every": 50},
}
TURNED = [*stream(600, flips_at=300), *stream(600, seed=2)]
"""What the model knows, its opposite from record 300 on, and what it knows again from record 600 on."""


def noise(n, task):
    """Nothing tells the label."""
    rng = random.Random(5)
    label = {
        "binary": lambda: int(rng.random() < 0.2),
        "multiclass": lambda: rng.randrange(4),
        "regression": lambda: rng.gauss(10, 3),
    }[task]
    return [{"a": rng.gauss(0, 1), "b": rng.choice("xyz"), "label": label()} for _ in range(n)]


@pytest.fixture(scope="module")
def turned():
    state = new_state(**KNOWN)
    found = messages(fold(state, TURNED[:600]))
    worse = state.explained.worth.since
    assert worse is not None
    return state, found, worse


def test_the_message_says_since_when_and_names_no_drivers_and_a_notice_says_it_once(turned):
    _, found, worse = turned
    before = [message for message in found if message["model"]["worse_since"] is None]
    after = found[len(before) :]
    assert len(before) >= 6 and after
    assert {message["model"]["worse_since"]["offset"] for message in after} == {after[0]["offset"]}
    assert after[0]["offset"] == worse.offset and after[0]["timestamp"] == worse.timestamp
    assert [driven for message in after for driven in message["drivers"]["ipfi"].values()] == [None] * len(
        after
    )
    told = [notice for message in found for notice in message["notices"]]
    assert len(told) == 1 and told == after[0]["notices"]
    assert told[0].startswith("the model is worse than no model: cross_entropy ")
    assert told[0].endswith("without any feature; its importances say nothing")
    explanation = Explanation.from_json(fold_last(turned))
    assert explanation.worse_since and explanation.worse_since.offset == worse.offset
    assert explanation.driven() is None


def fold_last(turned):
    return orjson.dumps(turned[1][-1])


def printed(message):
    """What tail shows."""
    out = io.StringIO()
    Console(file=out, width=300).print(tail.view(settings(**KNOWN), {3: message}))
    return out.getvalue()


def test_an_alarm_about_an_importance_that_says_nothing_says_so_and_no_story_tells_it():
    alarms = {"enabled": True, "warm_up": 200, "baseline": 200}
    found = fold(new_state(**KNOWN, alarms=alarms), stream(1_600, flips_at=1_000))
    raised = [Alarm.from_json(output.value) for output in found if output.destination == "alarms"]
    assert [(alarm.subject, alarm.void) for alarm in raised] == [
        ("loss", False),
        ("gain", False),
        ("importance", True),
    ]
    assert raised[-1].sentence.endswith(" It says nothing: the model was worse than no model.")
    stories = Stories()
    assert [len(stories.add(alarm)) for alarm in raised] == [1, 1, 0]
    assert [[told.subject for told in story.alarms] for story in stories] == [["loss", "gain"]]


def test_it_says_so_when_the_model_is_better_again():
    found = messages(fold(new_state(**KNOWN), TURNED))
    assert found[-1]["model"]["worse_since"] is None
    told = [notice for message in found for notice in message["notices"]]
    assert len(told) == 2 and told[1].startswith(
        "the model is no longer worse than no model, as it was since offset "
    )


def test_it_survives_a_restart_at_any_record():
    whole = fold(new_state(**KNOWN), TURNED[:700])
    assert (
        fold_with_restores(KNOWN, TURNED[:700], [100, 620, 700]) == whole
    )  # it is worse from record 599 to 649


def test_metric_tail_sentence_and_overview_say_it_and_draw_no_driver(turned):
    state, found, _ = turned
    assert measure(state)["model_worse"] == [([""], 1.0)]
    title, said, *rest = printed(found[-1]).splitlines()
    assert (
        "worse by" in title
        and said.startswith("The model is worse than no model since 2023-11-14")
        and not rest
    )
    newest = Explanation.from_json(fold_last(turned))
    shown = ShownVersion(0, newest)
    shown.history.add(newest)
    said = sentence(shown, ("ipfi", "cross_entropy"))
    assert said.startswith("The model is worse than no model since 2023-11-14 22:13 UTC")
    assert said.endswith("; its importances say nothing.")


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_default_is_never_worse_where_nothing_tells_the_label_and_says_so_by_its_weights(task):
    state = new_state(task=task, model={"name": "mixture"}, emit={"every": 100})
    found = messages(fold(state, noise(2_000, task)))
    assert all(message["model"]["worse_since"] is None for message in found)
    weights = found[-1]["model"]["weights"]
    assert list(weights) == ["none", "linear", "forest"] and sum(weights.values()) == pytest.approx(1.0)
    assert max(weights, key=weights.get) == "none"
    assert measure(state)["model_weight"] == [([name], weight) for name, weight in weights.items()]
    assert ", no model ." in printed(found[-1])


def test_a_loss_out_of_all_proportion_is_worse_before_a_band_could_tell():
    """A line that diverges, as a user's may: its errors are so far apart that no band lies below 0."""
    diverging = {"factory": "river.linear_model:LinearRegression", "params": {"intercept_lr": 0.3}}
    rng = random.Random(1)
    rows = [{"a": rng.gauss(0, 30), "label": rng.gauss(0, 1)} for _ in range(200)]
    found = messages(fold(new_state(task="regression", model=diverging, emit={"every": 50}), rows))
    assert found[-1]["performance"]["squared"]["model"] > 10 * found[-1]["performance"]["squared"]["empty"]
    assert found[-1]["model"]["worse_since"] is not None


@pytest.mark.parametrize("name", ["mixture", "linear", "tree"])
def test_where_numbers_lie_says_nothing_of_what_a_model_is_worth(name: str) -> None:
    def shifted(by: float) -> list[dict]:
        rng = random.Random(5)
        records = [{"a": rng.gauss(0, 1), "b": rng.choice("xyz")} for _ in range(600)]
        return [{**x, "label": by + x["a"] + (x["b"] == "x") + rng.gauss(0, 0.1)} for x in records]

    lasting = [{"kind": "ipfi", "reservoir": {"size": 20}}]
    near, far = (
        messages(
            fold(new_state(model={"name": name, "task": "regression"}, explainers=lasting), shifted(by))
        )[-1]
        for by in (0.0, 20_000.0)
    )
    assert far["model"]["worse_since"] is near["model"]["worse_since"] is None
    of_near, of_far = (message["performance"]["squared"] for message in (near, far))
    assert of_near["model"] < of_near["empty"]
    for part in ("model", "empty", "mean_prediction"):
        assert of_far[part] == pytest.approx(of_near[part], rel=0.5)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("factory", "labels"),
    [("calibrated", (0, 1)), ("calibrated", (False, True)), ("in_words", ("no", "yes"))],
)
def test_a_function_predicts_the_labels_of_the_records_whichever_comes_first(
    factory: str, labels: tuple, first: int
) -> None:
    known = {"model": {"factory": f"tests.models:{factory}", "static": True}, "explainers": ONE}
    records = [{"a": a, "label": labels[a > 1]} for a in ((i + 2 * first) % 4 for i in range(200))]
    last = messages(fold_with_restores(known, records, [1, 90, 200]))[-1]
    assert last["performance"]["cross_entropy"]["model"] == pytest.approx(-math.log(0.9))
    assert last["model"]["worse_since"] is None
