"""What the compiled evaluator of linear models explains does not depend on when the process started, whatever it has met before."""

import random

import pytest

from explain_core.evaluation.kernels import AVAILABLE
from service.snapshot import encode
from tests.folds import fold, messages, new_state, restored, settings

RECORDS, EVERY, FOLLOWED = 900, 60, 50


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


STREAMS = [
    (one_weight, None),
    (name_of_a_number, None),
    (seldom_there, None),
    (seldom_there, "tests.models:floats_and_strings"),
    (strings_alone, "tests.models:one_hot"),
]


@pytest.mark.parametrize(("features", "factory"), STREAMS, ids=[f"{f.__name__} {m}" for f, m in STREAMS])
def test_a_restored_state_explains_as_the_one_that_went_on(features, factory):
    rng = random.Random(1)
    given = [features(rng) | {"label": rng.randrange(2)} for _ in range(RECORDS)]
    model = {"model": {"factory": factory}} if factory else {}
    known, state = settings(**model, emit={"every": 1}), new_state(**model, emit={"every": 1})
    snapshots, outputs = {}, []
    for start in range(0, RECORDS, EVERY):
        snapshots[start] = encode(state)
        outputs += fold(state, given[start : start + EVERY])
    assert not AVAILABLE or state.evaluator.fallbacks < RECORDS - 100, (
        "compiled code explained next to nothing"
    )
    for start, raw in snapshots.items():
        assert (
            fold(restored(raw, known), given[start : start + FOLLOWED]) == outputs[start : start + FOLLOWED]
        )


@pytest.mark.parametrize(("features", "factory"), STREAMS, ids=[f"{f.__name__} {m}" for f, m in STREAMS])
def test_it_is_what_the_model_says_copy_by_copy(features, factory):
    rng = random.Random(2)
    given = [features(rng) | {"label": rng.randrange(2)} for _ in range(300)]
    model = {"model": {"factory": factory}} if factory else {}
    fast, plain = (
        messages(fold(new_state(**model, explain={"evaluator": name}), given)) for name in ("auto", "generic")
    )
    for one, other in zip(fast, plain, strict=True):
        for kind, losses in one["importance"].items():
            for loss, players in losses.items():
                values = {name: player["value"] for name, player in players.items()}
                expected = other["importance"][kind][loss]
                assert values == pytest.approx({name: expected[name]["value"] for name in values}, abs=1e-12)
