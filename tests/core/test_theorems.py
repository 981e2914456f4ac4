"""Theorems 2–5 of the iPFI paper (journal Sect. 3.2; proofs in the preprint's supplement), by simulation.

A game whose covariances are all known: with x, z ~ N(0, 1) independent, a model of scale c answers ½ c² x² for the
record and c² z² + 3 c for a copy, and the loss is the answer, so that Δ = c² (z² − ½ x²) + 3 c. Then φ = ½ c² + 3 c,
V[Δ] = 2.5 c⁴, two records that draw the same row have covariance 2 c² c'² (case 3 of Proposition 2), and a record that
draws an earlier one has −c² c'² with it (case 2).
"""

import functools

import numpy as np
import pytest

from explain_core.bands import half_width
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.random import derive_seed
from explain_core.reservoirs import GeometricReservoir, make_reservoir
from explain_core.smoothing import Smoother

SEEDS, SIZE, STEPS = 800, 5, 40


def static(step):
    return 1.0


def drifting(step):
    return 1.0 + 0.02 * max(step, 0)


def importance(scale):
    return 0.5 * scale**2 + 3.0 * scale


def answer(y, prediction):
    return prediction


class Drawn(GeometricReservoir):
    """The paper's: of the library's own, iPFI takes the rows that are replaced next."""


@functools.cache
def increments(kind="geometric", scale=static):
    """Those of each record of each of many independent streams, streams × steps."""
    found = np.empty((SEEDS, STEPS))
    for seed in range(SEEDS):
        c = 1.0
        slots = derive_seed(seed, "reservoir")
        reservoir = (
            Drawn(SIZE, slots)
            if kind == "geometric"
            else make_reservoir(kind.removeprefix("next "), SIZE, slots)
        )
        pfi = IncrementalPFI(
            lambda x: (c * x["a"]) ** 2 + 3.0 * c,  # noqa: B023
            task="regression", losses=answer, alpha=0.1, reservoir=reservoir, n_samples=1, seed=seed,
        )  # fmt: skip
        draws = np.random.Generator(np.random.PCG64(seed)).normal(size=SIZE + STEPS).tolist()
        for step, a in enumerate(draws, start=1 - SIZE):
            c = scale(step)
            pfi.explain_one({"a": a}, 0.0, 0.5 * (c * a) ** 2)
            reservoir.add({"a": a})
            if step > 0:
                found[seed, step - 1] = pfi.increments[0, 0]
        assert pfi.raw[0, 0] == pytest.approx(weights(0.1) @ found[seed])
    return found


def raw_values(alpha, steps=STEPS, kind="geometric", scale=static):
    """The raw value after so many explained records, of each stream."""
    return increments(kind, scale)[:, :steps] @ weights(alpha, steps)


def scales(scale, steps=STEPS):
    return np.array([scale(step) for step in range(1, steps + 1)])


def weights(alpha, steps=STEPS):
    return alpha * (1.0 - alpha) ** np.arange(steps)[::-1]


def variance(alpha, kind="geometric", scale=static, steps=STEPS):
    """V[Σ w_s Δ_s] from the covariances and the probabilities that a draw meets an earlier draw or record."""
    p, total = 1.0 / SIZE, 0.0
    w, squares = weights(alpha, steps), scales(scale, steps) ** 2
    for s in range(steps):
        total += 2.5 * (w[s] * squares[s]) ** 2
        for before in range(s):
            if kind == "geometric":
                same, record = p * (1 - p) ** (s - before), p * (1 - p) ** (s - before - 1)
            elif kind == "next geometric":
                same, record = 0.0, p * (1 - p) ** (s - before - 1)
            else:
                same, record = p * (SIZE + before) / (SIZE + s), 1.0 / (SIZE + s)
            total += 2 * w[s] * w[before] * squares[s] * squares[before] * (2 * same - record)
    return total


def bound(alpha, largest):
    """Of the supplement: 4 σ_w² σ² + 2 σ² · 2/(2−α) · p/(2−p), for geometric sampling."""
    p = 1.0 / SIZE
    return largest * (4 * alpha / (2 - alpha) + 4 / (2 - alpha) * p / (2 - p))


def mean_error(values):
    return 4 * values.std() / np.sqrt(SEEDS)


@pytest.mark.parametrize(("alpha", "steps"), [(0.02, 5), (0.02, 40), (0.1, 5), (0.1, 40)])
def test_theorem_2_the_bias_of_a_static_model_is_the_weight_of_the_start(alpha, steps):
    """φ − E[φ_t] = (1 − α)^(t − t₀ + 1) φ."""
    values = raw_values(alpha, steps)
    assert importance(1.0) - values.mean() == pytest.approx(
        (1.0 - alpha) ** steps * importance(1.0), abs=mean_error(values)
    )
    assert mean_error(values) < 0.1 * importance(1.0)


@pytest.mark.parametrize("kind", ["geometric", "uniform"])
@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_theorem_3_the_variance_of_a_static_model_is_that_of_its_covariances(alpha, kind):
    values = raw_values(alpha, kind=kind)
    assert values.var() == pytest.approx(variance(alpha, kind), rel=0.15)
    assert values.var() > 1.2 * 2.5 * (weights(alpha) ** 2).sum()  # more than if records shared no row
    assert kind == "uniform" or values.var() < bound(alpha, 2.5)


@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_the_variance_is_smaller_where_each_row_is_used_once(alpha):
    values = raw_values(alpha, kind="next geometric")
    assert values.var() == pytest.approx(variance(alpha, "next geometric"), rel=0.15)
    assert values.var() < 0.7 * raw_values(alpha).var()
    assert values.mean() == pytest.approx(raw_values(alpha).mean(), abs=2 * mean_error(values))


def test_theorem_3_the_variance_falls_with_alpha():
    assert raw_values(0.02).var() < 0.5 * raw_values(0.1).var()


def test_theorem_4_the_bias_of_a_changing_model_is_the_lag_of_the_weights():
    """E[φ_t] = Σ w_s φ(h_s), which is within μ_w max |φ(h_s) − φ(h_t)| + (1 − α)^t φ(h_t) of φ(h_t) (Proposition 3)."""
    values, past, now = raw_values(0.1, scale=drifting), scales(drifting), importance(drifting(STEPS))
    assert values.mean() == pytest.approx(weights(0.1) @ importance(past), abs=mean_error(values))
    lag = now - values.mean()
    assert lag > 0.1 * now
    assert lag <= weights(0.1).sum() * (now - importance(past[0])) + 0.9**STEPS * now


def test_theorem_5_the_variance_of_a_changing_model_is_that_of_its_own_covariances():
    values = raw_values(0.1, scale=drifting)
    assert values.var() == pytest.approx(variance(0.1, scale=drifting), rel=0.15)
    assert values.var() > 2 * variance(0.1)  # of the static model
    assert values.var() < bound(0.1, 2.5 * drifting(STEPS) ** 4)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_chebyshev_band_covers_a_skewed_mean_at_least_as_often_as_stated(confidence):
    """iSAGE Thm 3.3, for Δ = 10 once in ten records; the variance is the estimated one."""
    smoother, rng = Smoother((2_000,), alpha=0.02), np.random.Generator(np.random.PCG64(0))
    for _ in range(400):
        smoother.update(10.0 * (rng.random(2_000) < 0.1))
    inside = np.abs(smoother.value - 1.0) <= half_width("chebyshev", confidence) * smoother.std
    assert inside.mean() > confidence
    assert half_width("chebyshev", confidence) == pytest.approx((1 - confidence) ** -0.5)
