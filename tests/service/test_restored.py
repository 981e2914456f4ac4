"""What is explained does not depend on when the process started, whatever it has met before."""

import random

import pytest

from explain_sidecar.snapshots.snapshot import encode
from tests.folds import fold, messages, new_state, restored, settings, values
from tests.fuzz.partitions import SECTIONS, labelled_later
from tests.streams import nominal_stream

RECORDS, EVERY, FOLLOWED = 720, 90, 50
EAGER = {"grace_period": 20, "delta": 0.1, "tau": 0.25}
QUICK = {"drift_window_threshold": 30, **EAGER}


def one_weight(rng):
    """Now and then a value of one feature has the weight of a value of another."""
    x = {"a": rng.gauss(0, 1), "hue": rng.choice(["red", "blue"]), "hue_mix": rng.choice(["1", "2"])}
    return x | ({"hue": "mix_1"} if rng.random() < 0.02 else {})


def name_of_a_number(rng):
    """Now and then a category has the weight of a number."""
    x = {"hue_red": rng.gauss(0, 1), "hue": rng.choice(["green", "blue"])}
    return x | ({"hue": "red"} if rng.random() < 0.02 else {})


def seldom_there(rng):
    """A category, and a number, that are absent for longer than the reservoir remembers."""
    x = {"hue": rng.choice(["red", "blue"]), "size": rng.choice("SML")}
    odd, number = rng.random() < 0.01, rng.random() < 0.01
    return x | ({"odd": rng.choice("xyz")} if odd else {}) | ({"n": rng.gauss(0, 1)} if number else {})


def strings_alone(rng):
    x = {"hue": rng.choice(["red", "blue"]), "size": rng.choice("SML")}
    return x | ({"odd": rng.choice("xyz")} if rng.random() < 0.01 else {})


def drawn(features):
    def stream(n, seed):
        rng = random.Random(seed)
        return [features(rng) | {"label": rng.randrange(2)} for _ in range(n)]

    return stream


def concepts(n, seed):
    """Trees split, prune, wake leaves that no split could better, and drift; categories come late, values are missing."""
    return [x | {"label": y} for x, y in nominal_stream(n, seed)]


def categories(n, seed):
    return [x | {"label": y} for x, y in nominal_stream(n, seed, numbers=False)]


CASES = {
    "a weight of two values": (drawn(one_weight), {}),
    "a category with the name of a number": (drawn(name_of_a_number), {}),
    "values seldom there": (drawn(seldom_there), {}),
    "whose way depends on the type": (drawn(seldom_there), {"factory": "tests.models:floats_and_strings"}),
    "one-hot encoder alone": (drawn(strings_alone), {"factory": "tests.models:one_hot"}),
    "tree": (categories, {"factory": "river.tree:HoeffdingTreeClassifier", "params": EAGER}),
    "adaptive tree": (concepts, {"factory": "river.tree:HoeffdingAdaptiveTreeClassifier", "params": QUICK}),
    "forest": (concepts, {"factory": "river.forest:ARFClassifier", "params": {"n_models": 3}}),
    "forest on categories": (
        categories,
        {"factory": "river.forest:ARFClassifier", "params": {"n_models": 3, **EAGER}},
    ),
    "bagging": (concepts, {"factory": "tests.models:bagging"}),
}


@pytest.mark.parametrize(("stream", "model"), CASES.values(), ids=CASES)
def test_a_restored_state_explains_as_the_one_that_went_on(stream, model):
    given = stream(RECORDS, 1)
    known, state = (
        settings(model=model),
        new_state(model=model),
    )  # each tenth record has a message, which tells of all before
    snapshots, outputs = {}, []
    for start in range(0, RECORDS, EVERY):
        snapshots[start] = encode(state)
        outputs += fold(state, given[start : start + EVERY])
    assert state.explained.evaluator.fallbacks < RECORDS - 100, "compiled code explained next to nothing"
    for start, raw in snapshots.items():
        assert (
            fold(restored(raw, known), given[start : start + FOLLOWED])
            == outputs[start // 10 : (start + FOLLOWED) // 10]
        )


@pytest.mark.parametrize(("stream", "model"), CASES.values(), ids=CASES)
def test_it_is_what_the_model_says_copy_by_copy(stream, model):
    given = stream(300, 2)
    fast, plain = (
        messages(fold(new_state(model=model, explain={"evaluator": name}), given))
        for name in ("auto", "generic")
    )
    assert [message["importance"] for message in fast] == [message["importance"] for message in plain]


@pytest.mark.parametrize(
    ("name", "start"), [("default", 90), ("segments", 90), ("curves, and predictions that wait", 205)]
)
def test_a_feature_that_comes_up_with_the_last_record_of_a_block_leaves_a_state_that_is_restored(name, start):
    sections = SECTIONS[name]
    state, known = new_state(**sections), settings(**sections)
    given = labelled_later(values(start + 30)) if "predictions" in sections else values(start + 30)
    fold(state, given[:start])
    for offset, value in enumerate(given[start:]):
        fold(state, [value | {f"late {offset}": 1.0}])
        raw = encode(state)
        assert encode(restored(raw, known)) == raw
