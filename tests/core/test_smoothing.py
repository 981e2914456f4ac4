"""Smoothed means against their weights written out, and their standard errors against simulation."""

import math

import numpy as np
import pytest

from explain_core.bands import half_width
from explain_core.engine.smoothing import (
    BLOCK,
    CUBES,
    FINE,
    KEPT,
    MEAN,
    NEAR,
    NEWEST,
    OPEN_2,
    SIZE,
    SQUARES,
    VALUE,
    N,
)
from explain_core.losses import FOREIGN, codes_of, get, names_of
from explain_core.models import empty
from explain_core.models.empty import EmptyModel, Performance, mean_prediction
from explain_core.smoothing import Smoother, alpha_of
from explain_core.state import StateError

RNG = np.random.Generator(np.random.PCG64(0))


def smoothed(deltas, alpha):
    smoother = Smoother(deltas.shape[1:], alpha)
    for delta in deltas:
        smoother.update(delta)
        if smoother.n % BLOCK == 0:
            smoother.end_block()
    return smoother


def weights(n, alpha):
    w = np.ones(n) if alpha is None else (1.0 - alpha) ** np.arange(n)[::-1]
    return w / w.sum()


@pytest.mark.parametrize("alpha", [None, 0.01, 0.3, 1e-12])
@pytest.mark.parametrize("n", [2, 3, 70, 230])
def test_value_and_variance_are_those_of_the_weights_written_out(alpha, n):
    """std² = F Σ_k (Σ w² in block k) v_k, v_k being the variance of a block about its own mean."""
    deltas = RNG.normal(5.0, 2.0, size=(n, 2, 3))
    smoother, w = smoothed(deltas, alpha), weights(n, alpha)
    np.testing.assert_allclose(smoother.value, np.einsum("t,tij->ij", w, deltas), rtol=1e-12)
    blocks = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    variance = sum((w[k] ** 2).sum() * deltas[k].var(axis=0, ddof=1) for k in blocks)
    factor = smoother.dependence
    np.testing.assert_allclose(smoother.std, np.sqrt(factor * variance), rtol=1e-9)
    begun = 1.0 if alpha is None else -math.expm1(n * math.log1p(-alpha))
    np.testing.assert_allclose(smoother.raw, begun * smoother.value, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0])
def test_raw_value_is_the_recursion_from_zero(alpha):
    deltas = RNG.normal(size=(40, 4))
    raw = np.zeros(4)
    for delta in deltas:
        raw = (1.0 - alpha) * raw + alpha * delta
    smoother = smoothed(deltas, alpha)
    np.testing.assert_allclose(smoother.raw, raw, rtol=1e-12)
    np.testing.assert_allclose(smoother.value, raw / (1.0 - (1.0 - alpha) ** 40), rtol=1e-12)


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 5), (0.1, 400), (0.01, 50)])
def test_sum_of_squared_weights_has_the_closed_form_of_the_paper(alpha, n):
    """α/(2−α) · (1+q)/(1−q), which tends to the α/(2−α) of iPFI Thm 3 and iSAGE Thm 3.3."""
    smoother, q = smoothed(RNG.normal(size=(n, 1)), alpha), (1.0 - alpha) ** n
    assert smoother.shares[0] == pytest.approx(alpha / (2 - alpha) * (1 + q) / (1 - q))


def test_the_mean_of_a_column_that_is_met_late_begins_with_its_first_observation():
    deltas = RNG.normal(size=(30, 1, 2))
    late = Smoother((1, 1), 0.1)
    for delta in deltas[:20]:
        late.update(delta[:, :1])
    late.grow(2)
    assert np.isnan(late.std[0, 1])
    for delta in deltas[20:]:
        late.update(delta)
    always, own = smoothed(deltas[:, :, :1], 0.1), smoothed(deltas[20:, :, 1:], 0.1)
    for name in ("value", "raw", "std"):
        both = np.concatenate([getattr(always, name), getattr(own, name)], axis=1)
        np.testing.assert_array_equal(getattr(late, name), both)
    assert late.n == 30


def test_the_third_moment_of_a_block_is_that_written_out():
    deltas = np.random.Generator(np.random.PCG64(7)).exponential(size=(70, 2, 3))
    third = ((deltas - deltas.mean(axis=0)) ** 3).sum(axis=0)
    np.testing.assert_allclose(smoothed(deltas, 0.01).cells[CUBES], third, rtol=1e-9)


def test_the_error_is_unknown_until_there_are_two_observations():
    smoother = smoothed(np.ones((1, 2)), 0.1)
    assert np.isnan(smoother.std).all()
    assert (smoother.value == 1.0).all()
    smoother.update(np.ones(2))
    assert (smoother.std == 0.0).all()


def test_normal_and_chebyshev_bands_have_the_stated_width():
    assert half_width("normal", 0.95) == pytest.approx(1.959963984540054)
    assert half_width("chebyshev", 0.9) == pytest.approx(0.1**-0.5)


def test_a_window_has_the_alpha_of_equal_mean_age():
    assert alpha_of(1) == 1.0
    assert alpha_of(1999) == pytest.approx(0.001)
    with pytest.raises(ValueError, match=r"window: 0\.5 is not a number of records"):
        alpha_of(0.5)


def mean_of(predictions, alpha):
    model = EmptyModel(alpha)
    for prediction in predictions:
        model = model.after(prediction)
    return model.prediction


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_the_empty_model_is_the_weighted_mean_of_the_predictions(alpha):
    numbers, w = [1.0, 5.0, -2.0, 4.0], weights(4, alpha)
    assert mean_of(numbers, alpha) == pytest.approx(w @ numbers)
    p = [{"a": 1.0}, {"a": 0.5, "b": 0.5}, {"b": 1.0}, {"c": 0.4, "a": 0.6}]
    expected = {label: w @ [frequencies.get(label, 0.0) for frequencies in p] for label in "abc"}
    assert mean_of(p, alpha) == pytest.approx(expected)


def test_the_empty_model_renormalises_what_predictions_without_a_class_leave():
    """The weights are those of all four predictions: the two without a class are not made up for one by one."""
    w = weights(4, 0.2)
    mean = mean_of([{}, {"a": 1.0}, {}, {"b": 1.0}], 0.2)
    assert mean == pytest.approx({"a": w[1] / (w[1] + w[3]), "b": w[3] / (w[1] + w[3])})
    assert mean_of([{}, {}], 0.2) == {}
    assert EmptyModel(0.2).prediction == {}


def test_the_mean_prediction_counts_an_absent_class_as_zero():
    assert mean_prediction([{"a": 1.0}, {"b": 1.0}]) == {"a": 0.5, "b": 0.5}
    assert mean_prediction([1.0, 2.0, 6.0]) == 3.0


@pytest.mark.parametrize("classes", [True, False])
def test_compiled_performance_has_the_bits_of_pythons(classes, monkeypatch):
    known = [get(name) for name in names_of("classification" if classes else "regression")]
    losses = [loss for loss in known if codes_of([loss]) != FOREIGN]
    performances = [Performance(losses, 0.05) for _ in range(2)]
    rng = np.random.default_rng(7)
    for i in range(300):
        if i == 150:  # a snapshot in mid-stream
            stored = performances[0].state()
            performances[0] = Performance(performances[0].losses, 0.05)
            performances[0].restore(stored)
        p = rng.dirichlet([1.0, 1.0, 1.0]).tolist()
        labels = ["c", "b", "a"] if 200 < i < 210 else ["b", "a", "c"]  # another order for a while
        labels = labels if i > 100 else labels[:2]  # a class that no prediction names until then
        prediction = dict(zip(labels, p, strict=False)) if classes else p[0]
        y = "abc"[rng.integers(3 if i > 30 else 2)] if classes else float(rng.normal())
        own = []
        for performance, available in zip(performances, (True, False), strict=True):
            if not available:
                monkeypatch.setattr(empty, "codes_of", lambda losses: np.full(len(losses), FOREIGN))
            own.append(performance.update(y, prediction))
            monkeypatch.undo()
        assert own[0] == own[1]
        assert performances[0].state() == performances[1].state()
    assert performances[0]._labels and not performances[1]._labels


def test_performance_is_the_smoothed_loss_of_the_model_and_of_the_empty_model():
    performance = Performance([get("brier"), get("zero_one")], 0.5)
    assert performance.update("a", {"a": 1.0}) == [0.0, 0.0]
    assert performance.update("b", {"a": 1.0}) == [2.0, 1.0]
    assert performance.update("b", {"b": 1.0}) == [0.0, 0.0]
    w = weights(3, 0.5)  # y0 is {a: 1}, {a: 1}, then {a: 3/7, b: 4/7}
    # The labels before are none, one a, and a half and one b; half an observation more of each, and of the label's.
    frequencies = [0.0, 2 * (1.5 / 2) ** 2, 2 * (1 / 2.5) ** 2]
    assert performance.of("brier") == pytest.approx(
        (w @ [0, 2, 0], w @ frequencies, w @ [0, 2, 2 * (3 / 7) ** 2])
    )
    assert performance.of("zero_one") == pytest.approx((w @ [0, 1, 0], w @ [0, 1, 0], w @ [0, 1, 0]))


@pytest.mark.parametrize("scale", [1.0, 1e30, 1e70])
@pytest.mark.parametrize("alpha", [None, 0.01])
def test_a_smoother_of_numbers_of_any_size_is_restored_at_any_time(alpha, scale):
    smoother = Smoother((1, 2), alpha)
    for _ in range(15 * BLOCK):
        smoother.update(scale * RNG.normal(size=(1, 2)) ** 3)
        if smoother.n % BLOCK == 0:
            smoother.end_block()
        if smoother.n % 97 == 0 or smoother.n % BLOCK < 2:
            other = Smoother((1, 2), alpha)
            other.restore(smoother.state(), 2)
            np.testing.assert_array_equal(other.cells, smoother.cells)


def test_ratios_of_blocks_that_jump_again_and_again_stay_within_what_a_state_may_hold():
    smoother = Smoother((1, 1), 0.01)
    for i in range(1, 100 * BLOCK + 1):
        smoother.update(np.full((1, 1), 1e60 if (i - 1) // BLOCK % 2 else RNG.normal(0.0, 1e-12)))
        if i % BLOCK == 0:
            smoother.end_block()
            if i == 30 * BLOCK:  # some 5,000 blocks later
                smoother.cells[[FINE, NEAR]] = 9e99
            other = Smoother((1, 1), 0.01)
            other.restore(smoother.state(), 1)


@pytest.mark.parametrize(
    "part, row, value",
    [
        ("cells", VALUE, 1e80),
        ("cells", MEAN, np.nan),
        ("cells", SQUARES, 1e200),
        ("cells", SQUARES, -1.0),
        ("cells", NEWEST, 1e300),
        ("sums", SIZE, 60.0),
        ("sums", SIZE, 49.5),
        ("sums", N, 150.5),
        ("sums", OPEN_2, 4e9),
        ("sums", OPEN_2, 51.0),
        ("sums", KEPT, 55.0),
    ],
)
def test_a_state_that_no_records_lead_to_is_refused_and_not_stored_as_one_that_is_refused_later(
    part, row, value
):
    smoother = smoothed(RNG.normal(size=(150, 1, 1)), 0.1)
    getattr(smoother, part)[row] = value
    with pytest.raises(StateError, match="smoother"):
        Smoother((1, 1), 0.1).restore(smoother.state(), 1)
