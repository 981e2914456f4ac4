"""The routes to the Shapley values of a change of risk give what the definition gives."""

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explain_core.drift import dbshap
from explain_core.drift.conditional import LabelTable, Trees
from explain_core.drift.factors import make_factor
from explain_core.drift.routes import Boxes, Grid, Samples
from explain_core.drift.shapley import START, STOP, solve_grid, solve_terms
from explain_core.drift.tree import fit


def by_coalitions(risks):
    """Shapley values by eq. (7) of DBShap, from the risk of every coalition as a 2 × … × 2 array."""
    k = risks.ndim
    sizes = np.indices(risks.shape).sum(axis=0)
    values = []
    for i in range(k):
        without, joined = risks.take(0, axis=i), risks.take(1, axis=i)
        size = sizes.take(0, axis=i)
        share = np.array(
            [math.factorial(s) * math.factorial(k - s - 1) / math.factorial(k) for s in range(k)]
        )
        values.append(np.sum(share[size] * (joined - without)))
    return np.array(values)


def all_risks(tensor, baseline, target):
    """The risk of every coalition of the players of a grid: each axis contracted with both of its distributions."""
    for pair in zip(baseline, target, strict=True):
        tensor = np.moveaxis(np.tensordot(np.array(pair), tensor, axes=(1, 0)), 0, -1)
    return tensor


def shares(rng, n):
    weights = rng.random(n) * (rng.random(n) < 0.7)
    weights[rng.integers(n)] += 0.1
    return weights / weights.sum()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(0, 10), changing=st.booleans())
def test_the_grid_route_is_exact_for_up_to_twelve_players(seed, k, changing):
    rng = np.random.default_rng(seed)
    own = 2 if changing else 1
    sizes = rng.integers(1, 4 if k < 8 else 3, size=k).tolist()
    tensor = rng.normal(size=[2] * own + sizes)
    baseline = [START] * own + [shares(rng, size) for size in sizes]
    target = [STOP] * own + [shares(rng, size) for size in sizes]
    found = solve_grid(tensor, baseline, target)
    risks = all_risks(tensor, baseline, target)
    assert found.values == pytest.approx(by_coalitions(risks), abs=1e-12)
    assert (found.baseline, found.target) == pytest.approx((risks.flat[0], risks.flat[-1]), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(0, 10), own=st.integers(1, 2), terms=st.integers(1, 20))
def test_the_sum_of_terms_is_exact_for_up_to_twelve_players(seed, k, own, terms):
    rng = np.random.default_rng(seed)
    vertices = rng.normal(size=[terms] + [2] * own)
    baseline, target = rng.random((2, k, terms))
    found = solve_terms(vertices, baseline, target)
    risks = sum(
        reduce(np.multiply.outer, [v, *np.stack([b, a], axis=1)])
        for v, b, a in zip(vertices, baseline.T, target.T, strict=True)
    )
    assert found.values == pytest.approx(by_coalitions(risks), abs=1e-12)
    assert (found.baseline, found.target) == pytest.approx((risks.flat[0], risks.flat[-1]), abs=1e-12)


class RandomLoss:
    """A hypothesis by its loss in each cell and class, in place of one by its predictions."""

    def __init__(self, rng, sizes, n_classes):
        self.table = rng.normal(size=[*sizes, n_classes])

    def on_cells(self, codes):
        return self.table[tuple(codes.T)]


def random_game(seed, n=80):
    """Random rows of two windows on 1–4 features, the last two a group where there are four; one or two hypotheses."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 5))
    sizes = rng.integers(2, 5, size=k).tolist()
    n_classes = int(rng.integers(2, 4))
    chances = [[shares(rng, size) + 0.05 for size in sizes] for _ in range(2)]
    codes = tuple(
        np.stack([rng.choice(len(p), size=n, p=p / p.sum()) for p in chance], axis=1) for chance in chances
    )
    y = tuple(rng.integers(n_classes, size=n) for _ in range(2))
    members = [(j,) for j in range(k)] if k < 4 else [(0,), (1,), (2, 3)]
    factors = [make_factor(f"f{i}", member, codes, sizes) for i, member in enumerate(members)]
    conditional = LabelTable(codes, y, sizes, n_classes)
    hypotheses = [RandomLoss(rng, sizes, n_classes) for _ in range(rng.integers(1, 3))]
    weights = tuple(rng.integers(0, 4, size=n).astype(float) for _ in range(2))
    return factors, conditional, hypotheses, weights


def test_monte_carlo_is_unbiased_with_an_honest_standard_error():
    z, means = [], []
    for case in range(500):
        factors, conditional, hypotheses, weights = random_game(case)
        fitted = conditional.fit(weights)
        exact = Grid(factors, conditional, hypotheses).solve(fitted, weights)
        found = Samples(factors, conditional, hypotheses, weights, n=1_500, seed=case).solve(fitted, weights)
        sampled = found.error > 1e-12
        assert found.values[~sampled] == pytest.approx(exact.values[~sampled], abs=1e-9)
        of_case = ((found.values - exact.values) / np.maximum(found.error, 1e-12))[sampled]
        z += of_case.tolist()
        means.append(of_case.mean())
    assert len(z) > 1_000
    assert np.mean(np.abs(z) <= 3.0) >= 0.99
    assert abs(np.mean(means)) <= 4.0 / math.sqrt(500)


def test_monte_carlo_reweighted_to_a_resample_estimates_the_game_of_the_resample():
    """Bootstrap intervals of this route call no model again."""
    z = []
    for case in range(100):
        factors, conditional, hypotheses, weights = random_game(case)
        ones = tuple(np.ones_like(weight) for weight in weights)
        game = Samples(factors, conditional, hypotheses, ones, n=3_000, seed=case)
        fitted = conditional.fit(weights)
        exact = Grid(factors, conditional, hypotheses).solve(fitted, weights)
        found = game.solve(fitted, weights)
        sampled = found.error > 1e-12
        z += ((found.values - exact.values)[sampled] / found.error[sampled]).tolist()
    assert np.mean(np.abs(z) <= 3.0) >= 0.98
    assert abs(np.mean(z)) <= 0.3


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1_499))  # rarely trees use every code, with none of these seeds
def test_boxes_of_trees_give_the_values_of_the_whole_grid(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, size=5).tolist()
    codes = tuple(rng.integers(sizes, size=(700, 5)) for _ in range(2))
    ranks = [rng.permutation(size) for size in sizes]
    noise = rng.random((2, 700)) < 0.1
    y = tuple(((part[:, 0] > part[:, w + 1]) ^ noise[w]).astype(np.int64) for w, part in enumerate(codes))
    factors = [
        make_factor(name, members, codes, sizes)
        for name, members in (("a", (0,)), ("b", (1,)), ("pair", (2, 3)), ("c", (4,)))
    ]
    conditional = Trees(codes, y, ranks, 2)
    hypotheses = [LeafLoss(rng, codes[w], y[w], ranks) for w in range(int(rng.integers(1, 3)))]
    weights = tuple(rng.integers(0, 3, size=700).astype(float) for _ in range(2))
    fitted = conditional.fit(weights)
    boxes, grid = Boxes(factors, sizes, hypotheses), Grid(factors, conditional, hypotheses)
    found, exact = boxes.solve(fitted, weights), grid.solve(fitted, weights)
    assert found.values == pytest.approx(exact.values, abs=1e-12)
    assert (found.baseline, found.target) == pytest.approx((exact.baseline, exact.target), abs=1e-12)
    assert boxes.size < grid.size
    assert np.abs(found.values).max() > 1e-6


class LeafLoss:
    """A hypothesis that is a tree, with random losses in its leaves."""

    def __init__(self, rng, codes, y, ranks):
        self.tree, _ = fit(codes, y, 2, ranks, np.ones(len(y)))
        self.leaf_losses = rng.normal(size=(self.tree.n_leaves, 2))

    def on_cells(self, codes):
        return self.leaf_losses[self.tree.leaves(codes)]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_whole_computation_is_that_of_the_definitions(data):
    """Tables with back-off, risks and both games in plain Python, coalition by coalition (eq. 7, 12 and 13)."""
    k = data.draw(st.integers(1, 4))
    row = st.tuples(st.tuples(*[st.integers(0, 2)] * k), st.integers(0, 1))
    windows = [data.draw(st.lists(row, min_size=2, max_size=12)) for _ in range(2)]
    answers = [data.draw(st.lists(st.integers(0, 1), min_size=3**k, max_size=3**k)) for _ in range(2)]

    def model(answer):
        return lambda x: {answer[sum(x[f"f{j}"] * 3**j for j in range(k))]: 1.0}

    def chance(w, x, y):
        for rows in (windows[w], windows[1 - w]):
            known = [truth for cell, truth in rows if cell == x]
            if known:
                return known.count(y) / len(known)
        pooled = [truth for _, truth in [*windows[0], *windows[1]]]
        return pooled.count(y) / len(pooled)

    def risk(concept, hypothesis, mass):
        """Of a distribution of x: cell → probability."""
        return sum(
            p * sum(chance(concept, x, y) for y in (0, 1) if y != answers[hypothesis][index(x)])
            for x, p in mass.items()
        )

    def index(x):
        return sum(value * 3**j for j, value in enumerate(x))

    def product(chosen):
        """The product of the marginals of feature j in window chosen[j]."""
        mass = {}
        for x in np.ndindex(*[3] * k):
            mass[x] = math.prod(
                sum(cell[j] == value for cell, _ in windows[w]) / len(windows[w])
                for j, (value, w) in enumerate(zip(x, chosen, strict=True))
            )
        return mass

    def joint(w):
        return {x: sum(cell == x for cell, _ in windows[w]) / len(windows[w]) for x, _ in windows[w]}

    records = [
        [({f"f{j}": value for j, value in enumerate(cell)}, y) for cell, y in rows] for rows in windows
    ]
    change = dbshap(*records, hypothesis=tuple(map(model, answers)), conditional="table", bootstrap=0)
    assume(not change.warnings or "as time does" not in " ".join(change.warnings))
    inputs = [product(chosen) for chosen in np.ndindex(*[2] * k)]
    products = np.array([[[risk(c, h, mass) for mass in inputs] for h in (0, 1)] for c in (0, 1)])
    joints = np.array([[[risk(c, h, joint(w)) for w in (0, 1)] for h in (0, 1)] for c in (0, 1)])
    assert [player.value for player in change.joint.players] == pytest.approx(
        by_coalitions(joints), abs=1e-12
    )
    assert [player.value for player in change.product.players] == pytest.approx(
        by_coalitions(products.reshape([2] * (k + 2))), abs=1e-12
    )
    seen = [{cell for cell, _ in rows} for rows in windows]
    masses = [sum(p for x, p in product([w] * k).items() if x not in seen[v]) for w in (0, 1) for v in (0, 1)]
    assert change.back_off == pytest.approx(max(masses), abs=1e-12)
    assert change.joint.route == "cells"


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_product_game_on_trees_is_that_of_the_definition(seed):
    """As every real run has it: P(y|x) from a tree per window, risks coalition by coalition in plain Python (eq. 7)."""
    rng = np.random.default_rng(seed)
    k = 3
    windows = []
    for w in (0, 1):
        x = rng.choice(3, size=(600, k), p=[0.5, 0.3, 0.2] if w else [0.2, 0.3, 0.5])
        y = (x[:, w] > x[:, 2]).astype(np.int64) ^ (rng.random(600) < 0.1)
        windows.append((x, y))
    answers = rng.integers(2, size=(2, 3, 3, 3))
    trees = [fit(x, y, 2, [np.arange(3)] * k, np.ones(600)) for x, y in windows]
    chances = [counts / counts.sum(axis=1, keepdims=True) for _, counts in trees]

    def risk(concept, hypothesis, chosen):
        total = 0.0
        for cell in np.ndindex(*[3] * k):
            mass = math.prod(float(np.mean(windows[w][0][:, j] == cell[j])) for j, w in enumerate(chosen))
            leaf = int(trees[concept][0].leaves(np.array([cell]))[0])
            total += mass * chances[concept][leaf, 1 - answers[hypothesis][cell]]
        return total

    def model(answer):
        return lambda x: {int(answer[tuple(x[f"f{j}"] for j in range(k))]): 1.0}

    records = [
        [({f"f{j}": value for j, value in enumerate(row)}, truth) for row, truth in zip(x.tolist(), y.tolist(), strict=True)]
        for x, y in windows
    ]  # fmt: skip
    change = dbshap(*records, hypothesis=tuple(map(model, answers)), conditional="tree", bootstrap=0)
    risks = np.array([risk(c, h, chosen) for c in (0, 1) for h in (0, 1) for chosen in np.ndindex(*[2] * k)])
    expected = by_coalitions(risks.reshape([2] * (k + 2)))
    assert [player.value for player in change.product.players] == pytest.approx(expected, abs=1e-12)
    assert (change.conditional, change.joint.route) == ("tree", "trees")


def test_the_joint_game_on_trees_estimates_that_of_the_definition():
    """Concept, model and inputs all change; the truth is the definition on a fine grid of the one number that matters."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    density = [np.ones_like(grid), 0.4 + 1.2 * grid]
    concept = [lambda x: 0.05 + 0.65 * (x > 0.5), lambda x: 0.05 + 0.65 * (x > 0.7)]
    models = [lambda x: x > 0.5, lambda x: x > 0.35]

    def risk(c, h, w):
        return np.mean(density[w] * np.where(models[h](grid), 1.0 - concept[c](grid), concept[c](grid)))

    truth = by_coalitions(np.array([[[risk(c, h, w) for w in (0, 1)] for h in (0, 1)] for c in (0, 1)]))
    z = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        windows = []
        for w in (0, 1):
            x = rng.choice(grid, size=1_500, p=density[w] / density[w].sum())
            y = (rng.random(1_500) < concept[w](x)).astype(int)
            noise = rng.random(1_500)
            windows.append([({"x": a, "b": b}, c) for a, b, c in zip(x.tolist(), noise.tolist(), y.tolist(), strict=True)])  # fmt: skip
        hypothesis = tuple((lambda row, model=model: {int(model(row["x"])): 1.0}) for model in models)
        change = dbshap(*windows, hypothesis=hypothesis, factorisation="joint", seed=seed)
        assert change.joint.route == "trees"
        z.append(
            [
                (player.value - true) / player.std
                for player, true in zip(change.joint.players, truth, strict=True)
            ]
        )
    assert np.abs(truth).min() > 0.01
    assert np.abs(np.mean(z, axis=0)).max() <= 3.0 / np.sqrt(16)
    assert np.std(z, axis=0) == pytest.approx([1.0] * 3, abs=0.4)
