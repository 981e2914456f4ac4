"""Two models compared: the interval holds however often you look, and what both models share cancels out."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from explain_core.comparison import Comparison, PairedDifferences, better, sentence
from explain_core.confidence import DOUBLINGS, WARM_UP, ConfidenceSequence, Interval
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.losses import get
from explain_core.reservoirs import make_reservoir
from explain_core.state import StateError


def fed(values: Any, **arguments: Any) -> ConfidenceSequence:
    sequence = ConfidenceSequence(**arguments)
    for value in values:
        sequence.add(float(value))
    return sequence


def ever_wrong(rows: Any, **arguments: Any) -> int:
    """Of sequences with mean 0 those whose interval does not hold 0 after some record."""
    wrong = 0
    for row in rows.tolist():
        sequence = ConfidenceSequence(**arguments)
        for value in row:
            sequence.add(value)
            if sequence.excludes_zero:
                wrong += 1
                break
    return wrong


def test_an_interval_looked_at_after_every_record_seldom_excludes_the_truth() -> None:
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(150, 1_200))
    volatile = normal * np.where(np.arange(1_200) % 400 < 200, 0.1, 3.0)
    # 20 % of intervals may be wrong at some time; more than 43 of 150 would be five standard errors above.
    assert ever_wrong(normal, confidence=0.8) <= 43
    assert ever_wrong(volatile, confidence=0.8) <= 43
    assert ever_wrong(normal, confidence=0.001) > 0


def test_an_interval_holds_the_mean_of_what_was_expected_also_where_that_changes() -> None:
    rng = np.random.default_rng(2)
    means = np.where(np.arange(4_000) < 2_000, 0.3, -0.1)
    for row in means + rng.normal(size=(5, 4_000)):
        interval = fed(row).interval
        expected = means[WARM_UP:].mean()
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low < expected < interval.high
        assert interval.high - interval.low < 0.3


def test_a_true_difference_is_found_and_the_interval_narrows() -> None:
    rng = np.random.default_rng(3)
    values = 0.1 + rng.normal(size=40_000)
    early, late = fed(values[:500]).interval, fed(values).interval
    assert better(early) is None
    assert better(late) == "model"
    assert (late.high or 0.0) - (late.low or 0.0) < 0.1


def test_the_limit_of_a_value_is_known_before_it() -> None:
    sequence = fed([0.01, -0.01] * 100)
    before = sequence.interval.limit
    sequence.add(1e6)
    after = sequence.interval
    assert before == pytest.approx(0.04)
    assert after.clipped == 1
    assert after.value == pytest.approx(0.04 / 101)


def test_a_limit_that_cuts_off_much_grows_and_only_so_often() -> None:
    rng = np.random.default_rng(4)
    sequence = fed([*rng.normal(size=100) * 0.01, *rng.normal(size=3_000)])
    interval = sequence.interval
    assert interval.limit is not None
    assert interval.limit > 1.0
    assert interval.clipped < 300
    wild = fed([*[0.01, -0.01] * 50, *[1e95, -1e95] * 500]).state()
    assert wild.doublings == DOUBLINGS


def test_a_stated_limit_counts_from_the_first_value_and_stays() -> None:
    interval = fed([5.0, 0.5, -0.5], limit=2.0).interval
    assert interval.n == 3
    assert interval.limit == 2.0
    assert interval.clipped == 1
    assert interval.value == pytest.approx(2.0 / 3.0)
    with pytest.raises(ValueError, match="limit"):
        ConfidenceSequence(limit=-1.0)
    with pytest.raises(ValueError, match="confidence"):
        ConfidenceSequence(confidence=1.0)


def test_models_that_always_lose_the_same_are_not_compared() -> None:
    assert fed([0.0] * 500).interval == Interval(None, None, None, 0, 0, None)
    with pytest.raises(ValueError, match="finite"):
        fed([float("nan")])


@pytest.mark.parametrize(
    "change",
    [
        {"variation": -1.0},
        {"total": float("inf")},
        {"n": 10_000},
        {"clipped": 10_000},
        {"first": 0.0},
        {"total": 1e9},
        {"variation": 1e300, "first": 1e-300},
    ],
)
def test_a_state_of_no_sequence_is_refused(change: dict[str, Any]) -> None:
    state = msgspec.structs.replace(fed(np.arange(300.0)).state(), **change)
    with pytest.raises(StateError):
        ConfidenceSequence().restore(state)
    with pytest.raises(StateError, match="limit"):
        ConfidenceSequence(limit=2.0).restore(fed(np.arange(300.0)).state())


def rows(n: int, seed: int = 6) -> list[tuple[dict[str, float], float]]:
    rng = np.random.default_rng(seed)
    found = []
    for a, b, noise in rng.normal(size=(n, 3)).tolist():
        found.append(({"a": a, "b": b}, 2.0 * a + b + 0.1 * noise))
    return found


def own(x: Any) -> float:
    return 2.0 * float(x["a"])


def challenger(x: Any) -> float:
    return 2.0 * float(x["a"]) + 0.5 * float(x["b"])


def compared(records: Any, **arguments: Any) -> Comparison:
    comparison = Comparison(own, challenger, task="regression", alpha=0.005, **arguments)
    for x, y in records:
        comparison.update(x, y)
    return comparison


def test_two_models_are_compared_by_loss_and_by_importance() -> None:
    comparison = compared(rows(3_000), estimators=["ipfi", "isage"])
    assert better(comparison.loss()) == "challenger"
    assert comparison.sentence().startswith("the challenger loses less than the model, by 0.7")
    first, second = comparison.performances
    assert first.of("squared")[0] > second.of("squared")[0]
    for name in ("ipfi", "isage"):
        difference = comparison.importance(name)
        assert difference.n == 2_900
        cells = difference.importance()
        assert cells["b"].low > 0.3
        assert cells["b"].steady


def test_what_both_models_share_cancels_out() -> None:
    """Both use a alike; each importance of a errs by more than 0.1, the difference, of the same draws, by far less than if the draws were others'."""
    reservoir = make_reservoir("geometric", 100, 1)
    records = rows(2_500)

    def made(model: Any, reservoir: Any = reservoir) -> IncrementalPFI:
        return IncrementalPFI(model, task="regression", reservoir=reservoir, alpha=0.005)

    other = make_reservoir("geometric", 100, 2)
    first, second, apart = made(own), made(lambda x: 2.0 * x["a"] + 0.01 * x["b"]), made(own, other)
    paired = PairedDifferences([], {"ipfi": (first, second)})
    for x, y in records:
        for each in (first, second, apart):
            each.explain_one(x, y)
        paired.update([], [])
        reservoir.add(x)
        other.add(x)
    difference = paired.importance("ipfi").importance()["a"]
    alone = apart.explanation.importance()["a"].value - first.explanation.importance()["a"].value
    assert abs(difference.value) < 0.02
    assert abs(difference.value) < abs(alone) / 5.0
    assert difference.std < first.explanation.importance()["a"].std / 10.0


def test_the_difference_is_that_of_the_two_importances() -> None:
    comparison = compared(rows(1_234), estimators=["isage"])
    (first, second), difference = comparison.explanations("isage"), comparison.importance()
    assert np.allclose(difference.values, second.values - first.values, rtol=0.0, atol=1e-9)


def pairs_of(reservoir: Any) -> dict[str, Any]:
    return {
        "ipfi": [
            IncrementalPFI(model, task="regression", reservoir=reservoir, alpha=0.01, seed=1)
            for model in (own, challenger)
        ],
        "isage": [
            IncrementalSAGE(model, task="regression", reservoir=reservoir, alpha=0.01, seed=2)
            for model in (own, challenger)
        ],
    }


def test_a_state_of_other_losses_or_estimators_is_refused() -> None:
    state = PairedDifferences([get("brier")], {}).state()
    with pytest.raises(StateError, match="losses"):
        PairedDifferences([get("brier"), get("hinge")], {}).restore(state)
    with pytest.raises(StateError, match="estimators"):
        PairedDifferences([get("brier")], pairs_of(make_reservoir("geometric", 5))).restore(state)


def test_estimators_that_draw_differently_are_refused() -> None:
    first = IncrementalPFI(own, task="regression", seed=1)
    second = IncrementalPFI(challenger, task="regression", seed=1)
    with pytest.raises(ValueError, match="same seed, losses and reservoir"):
        PairedDifferences([], {"ipfi": (first, second)})


def test_the_sentence_names_no_winner_where_the_interval_holds_0() -> None:
    unclear = Interval(0.001, -0.009, 0.011, 5_000, 0, 1.0)
    assert better(unclear) is None
    assert "no difference seen" in sentence(unclear, "brier")
    assert "one of 0.010 would have been seen" in sentence(unclear, "brier")
    assert sentence(Interval(0.5, 0.4, 0.6, 9, 0, 1.0), "brier", "old", "new").startswith(
        "old loses less than new"
    )


def test_a_loss_with_a_largest_value_is_compared_without_cutting() -> None:
    bounded, known = PairedDifferences([get("brier"), get("cross_entropy")], {}), {"brier": 0.5}
    stated = PairedDifferences([get("brier")], {}, limits=known)
    for paired in (bounded, stated):
        paired.update([0.0] * len(paired.state().losses), [2.0] * len(paired.state().losses))
    assert bounded.loss("brier").value == 2.0
    assert bounded.loss("cross_entropy").value is None
    assert stated.loss("brier") == stated.loss("brier")._replace(value=0.5, clipped=1, limit=0.5)
