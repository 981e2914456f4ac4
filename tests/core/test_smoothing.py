"""Smoothed means against their weights written out, and their standard errors against simulation."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from explain_core.losses import get
from explain_core.models import empty
from explain_core.models.empty import EmptyModel, Performance, mean_prediction
from explain_core.smoothing import FEW, RARER, SLOWER, Smoother, _mixing, alpha_of, half_width

RNG = np.random.Generator(np.random.PCG64(0))


def smoothed(deltas, alpha, memory=None):
    smoother = Smoother(deltas.shape[1:], alpha, memory)
    for delta in deltas:
        smoother.update(delta)
    return smoother


def weights(n, alpha):
    w = np.ones(n) if alpha is None else (1.0 - alpha) ** np.arange(n)[::-1]
    return w / w.sum()


@pytest.mark.parametrize("alpha", [None, 0.01, 0.3, 1e-12])
@pytest.mark.parametrize("n", [2, 3, 70])
def test_value_and_variance_are_those_of_the_weights_written_out(alpha, n):
    deltas = RNG.normal(5.0, 2.0, size=(n, 2, 3))
    smoother, w = smoothed(deltas, alpha), weights(n, alpha)
    mean = np.einsum("t,tij->ij", w, deltas)
    variance = np.einsum("t,tij->ij", w, (deltas - mean) ** 2) / (1.0 - (w * w).sum())
    np.testing.assert_allclose(smoother.value, mean, rtol=1e-12)
    np.testing.assert_allclose(smoother.variance, variance, rtol=1e-10)
    np.testing.assert_allclose(smoother.std, np.sqrt(variance * (w * w).sum()), rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0])
def test_raw_value_is_the_recursion_from_zero(alpha):
    deltas = RNG.normal(size=(40, 4))
    raw = np.zeros(4)
    for delta in deltas:
        raw = (1.0 - alpha) * raw + alpha * delta
    smoother = smoothed(deltas, alpha)
    np.testing.assert_allclose(smoother.raw, raw, rtol=1e-12)
    np.testing.assert_allclose(smoother.value, raw / (1.0 - (1.0 - alpha) ** 40), rtol=1e-12)


def test_static_setting_is_the_plain_mean_with_its_standard_error():
    deltas = RNG.normal(size=(50, 4))
    smoother = smoothed(deltas, None)
    np.testing.assert_allclose(smoother.value, deltas.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(smoother.raw, deltas.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(smoother.std, deltas.std(axis=0, ddof=1) / math.sqrt(50), rtol=1e-12)


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 5), (0.1, 400), (0.01, 50)])
def test_sum_of_squared_weights_has_the_closed_form_of_the_paper(alpha, n):
    """α/(2−α) · (1+q)/(1−q), which tends to the α/(2−α) of iPFI Thm 3 and iSAGE Thm 3.3."""
    smoother, q = smoothed(RNG.normal(size=(n, 1)), alpha), (1.0 - alpha) ** n
    assert (smoother.std**2 / smoother.variance)[0] == pytest.approx(alpha / (2 - alpha) * (1 + q) / (1 - q))


def test_the_mean_of_a_column_that_is_met_late_begins_with_its_first_observation():
    deltas = RNG.normal(size=(30, 1, 2))
    late = Smoother((1, 1), 0.1, memory=5)
    for delta in deltas[:20]:
        late.update(delta[:, :1])
    late.grow(2)
    assert np.isnan(late.std[0, 1])
    for delta in deltas[20:]:
        late.update(delta)
    always, own = smoothed(deltas[:, :, :1], 0.1, memory=5), smoothed(deltas[20:, :, 1:], 0.1, memory=5)
    for name in ("value", "raw", "variance", "std"):
        both = np.concatenate([getattr(always, name), getattr(own, name)], axis=1)
        np.testing.assert_array_equal(getattr(late, name), both)
    assert late.n == 30


@pytest.mark.parametrize("alpha", [None, 0.01, 0.3])
def test_the_third_moment_is_that_of_the_weights_written_out(alpha):
    deltas = np.random.Generator(np.random.PCG64(7)).exponential(size=(70, 2, 3))
    w = weights(70, alpha)
    mean = np.einsum("t,tij->ij", w, deltas)
    third = np.einsum("t,tij->ij", w, (deltas - mean) ** 3)
    np.testing.assert_allclose(smoothed(deltas, alpha).cells[4], third, rtol=1e-9)


def test_the_band_is_unknown_until_there_are_two_observations():
    smoother = smoothed(np.ones((1, 2)), 0.1, memory=3)
    assert np.isnan(smoother.std).all()
    assert (smoother.value == 1.0).all()
    smoother.update(np.ones(2))
    assert (smoother.std == 0.0).all()


def long_run_deviation(memory):
    """Standard error as the smoother sees it / as it is, for Δ with autocovariance c (1 − 1/L)^k beside noise."""
    size, alpha, n, repeats = 20, 0.004, 2_000, 400
    rng = np.random.Generator(np.random.PCG64(1))
    common, smoother = np.zeros(repeats), Smoother((repeats,), alpha, memory)
    keep = 1.0 - 1.0 / size
    for _ in range(n):
        common = keep * common + math.sqrt(1.0 - keep * keep) * rng.normal(size=repeats)
        smoother.update(0.4 * common + rng.normal(size=repeats))
    return np.median(smoother.std) / smoother.value.std()


def test_the_long_run_variance_widens_the_band_of_correlated_observations_to_what_it_is():
    assert long_run_deviation(memory=20) == pytest.approx(1.0, abs=0.12)
    assert long_run_deviation(memory=None) < 0.5


def coverage_of_means(draws):
    """How many bands hold 0, the truth, where Δ is a number of the record and the mean of one of ten rows drawn from the reservoir."""
    size, alpha, n, streams, m = 100, 0.01, 800, 400, 10
    rng = np.random.Generator(np.random.PCG64(2))
    rows, every = rng.normal(size=(streams, size)), np.arange(streams)
    smoother = Smoother((streams,), alpha, size, draws)
    for _ in range(n):
        drawn = rows[every[:, None], rng.integers(size, size=(streams, m))]
        smoother.update(rng.normal(size=streams) ** 2 + (drawn**2).mean(axis=1) - 2.0)
        rows[every, rng.integers(size, size=streams)] = rng.normal(size=streams)
    return np.mean(np.abs(smoother.value) <= 1.96 * smoother.std)


def test_the_band_knows_of_how_many_draws_an_increment_is_the_mean():
    assert coverage_of_means(draws=10) >= 0.94
    assert coverage_of_means(draws=1) <= 0.92


def test_the_long_run_variance_is_that_of_the_formula():
    """S ← (1 − 1/L) S + r, G its mean with r, r = Δ − φ_prev; V from G, then Σ w² (σ² − seen V + κ V)."""
    deltas, alpha, size, n = RNG.normal(size=60), 0.05, 4, 60
    deltas[1:] += 0.8 * deltas[:-1]
    smoother = smoothed(deltas[:, None], alpha, memory=size)
    slower, r = SLOWER * alpha, 1 - 1 / size
    phi, s, products = deltas[0], 0.0, []
    for t, delta in enumerate(deltas[1:], 2):
        residual = delta - phi
        products.append(residual * s)
        phi, s = phi + residual * weights(t, alpha)[-1], r * s + residual
    w, slow_w = weights(n, alpha), weights(n - 1, slower)
    noise, slow, kappa, seen = _mixing(alpha, r)
    plain, per_part = smoother.variance[0], slow - noise * seen
    error = size * math.sqrt((slow_w * slow_w).sum() / (1 - r * r)) / per_part
    share = size * (slow_w @ products / plain - noise) / per_part - error**2 * (1 + RARER)
    part = (share + math.sqrt(share**2 + 4 * error**2)) / 2 * plain / size
    assert 0 < part < plain / seen
    few = 1 + FEW * (slow_w * slow_w).sum() * (1 + r * r) / (1 - r * r)
    expected = (w * w).sum() * (plain - seen * part + few * kappa * part)
    assert smoother.std[0] == pytest.approx(math.sqrt(expected))


@pytest.mark.parametrize(("alpha", "size"), [(0.01, 100), (0.001, 100), (0.1, 10), (0.1, 50), (0.5, 2)])
def test_what_is_hidden_of_a_slow_part_is_that_of_the_sums(alpha, size):
    """``_mixing`` against sums over the responses to one impulse: of white noise, and of what drives the slow part."""
    q, r, n = 1 - alpha, 1 - 1 / size, 60_000
    impulse = np.zeros(n)
    impulse[0] = 1.0

    def filtered(x, decay):  # y_t = decay · y_{t−1} + x_t
        return lfilter([1.0], [1.0, -decay], x)

    slow_impulse = math.sqrt(1 - r * r) * filtered(impulse, r)
    found = []
    for x in (impulse, slow_impulse):
        mean = alpha * filtered(x, q)
        residual = x - np.concatenate([[0.0], mean[:-1]])
        before = np.concatenate([[0.0], filtered(residual, r)[:-1]])
        found.append((residual @ before, mean @ mean))
    (noise, white), (slow, both) = found
    squares = alpha / (2 - alpha)
    assert white == pytest.approx(squares)
    expected = (noise, slow, both / squares, (1 - both) / (1 - squares))
    assert _mixing(alpha, r) == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_normal_and_chebyshev_bands_have_the_stated_width():
    assert half_width("normal", 0.95) == pytest.approx(1.959963984540054)
    assert half_width("chebyshev", 0.9) == pytest.approx(0.1**-0.5)


def test_bad_smoothing_and_bands_are_refused():
    for alpha in (0.0, -0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=r"alpha: .* is outside"):
            Smoother((1,), alpha)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"confidence: .* is outside"):
            half_width("normal", confidence)
    with pytest.raises(ValueError, match="band: 'wide' is not one of normal, chebyshev"):
        half_width("wide", 0.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"window: 0\.5 is not a number of records"):
        alpha_of(0.5)


def test_a_window_has_the_alpha_of_equal_mean_age():
    assert alpha_of(1) == 1.0
    assert alpha_of(1999) == pytest.approx(0.001)


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


def test_an_empty_model_does_not_change():
    before = EmptyModel(0.5).after({"a": 1.0})
    before.after({"b": 1.0})
    assert before.prediction == {"a": 1.0}


def test_the_mean_prediction_counts_an_absent_class_as_zero():
    assert mean_prediction([{"a": 1.0}, {"b": 1.0}]) == {"a": 0.5, "b": 0.5}
    assert mean_prediction([1.0, 2.0, 6.0]) == 3.0


@pytest.mark.parametrize("classes", [True, False])
def test_compiled_performance_has_the_bits_of_pythons(classes, monkeypatch):
    names = ["cross_entropy", "zero_one", "brier", "hinge"] if classes else ["squared", "absolute", "huber"]
    performances = [Performance([get(name) for name in names], 0.05) for _ in range(2)]
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
            monkeypatch.setattr(empty, "AVAILABLE", available)
            own.append(performance.update(y, prediction))
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
