"""DBShap: attribution of the change of a risk to what changed (Edakunni, Tekriwal & Jain 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from explain_core import losses
from explain_core.drift import joint, label_shift, separation
from explain_core.drift.arrays import Values
from explain_core.drift.binned import MAX_BINS, Binned, held, listed, make_binned
from explain_core.drift.change import Attribution, Cause, RiskChange, WindowRisk
from explain_core.drift.conditional import MAX_BACK_OFF, LabelModel, LabelTable, Pair
from explain_core.drift.differences import named
from explain_core.drift.factors import Factor
from explain_core.drift.hypothesis import Hypothesis, ModelHypothesis, TreeHypothesis
from explain_core.drift.joint import Played, cause_by, cause_of, generator, of_rows, play, quantile
from explain_core.drift.routes import Boxes, Game, Grid, Samples, overlay
from explain_core.drift.shapley import Solution
from explain_core.drift.tree import MIN_ROWS
from explain_core.drift.where import where
from explain_core.drift.windows import Window, read_pair
from explain_core.factorisations import Factorisation, groups_of
from explain_core.losses import Loss, Task
from explain_core.models import Model, wrap
from explain_core.progress import track
from explain_core.random import derive_seed

FEWEST = 3 * MIN_ROWS
"""Rows of a window that its tree of P(y|x) needs: where it has no split and the other window's has, features differ that did not change. With
fewer they have no intervals."""


def dbshap(
    baseline: Any,
    target: Any,
    *,
    label: str | None = None,
    hypothesis: Any = "tree",
    loss: str | Loss | Callable[[Any, Any], float] | None = None,
    factorisation: Factorisation = "per_feature",
    conditional: Literal["auto", "table", "tree"] = "auto",
    prequential: tuple[Sequence[float], Sequence[float]] | None = None,
    max_bins: int = MAX_BINS,
    max_cells: int = 100_000,
    max_samples: int = 20_000,
    ignore: Sequence[str] = (),
    bootstrap: int = 200,
    seed: int = 0,
    progress: bool = False,
) -> RiskChange:
    """Why the risk of a hypothesis changed from one window, or population, to another.

    ``baseline`` and ``target`` are sequences of (record, label), or with ``label`` the name of a column: data frames,
    mappings of columns, or sequences of records. A feature that is None, NaN or absent is missing.

    ``hypothesis`` is a model (anything ``explain_core.models.wrap`` takes), or a pair: the model before the baseline and
    the model before the target window, whose change is then a player of its own. It must not have learnt from what it
    is evaluated on. ``"tree"`` fits one on half of the baseline, drawn at random; the other half is explained.

    ``loss`` is by default ``zero_one``, for a model wrapped for regression ``squared``. ``factorisation`` adds the game
    of a product of marginals to the joint game: of single features, or of groups and of the features in none.
    ``conditional`` is how P(y|x) is estimated; ``auto`` takes frequencies of cells where hardly any cell lacks rows of a
    window. ``prequential`` are the losses of the rows of both windows as the model learnt.

    Features to ``ignore`` are seen by a model and are no part of P(x): what they do counts as concept, or, where the model's predictions
    show it, as inputs. Leave out so what tells the windows apart whatever changes, as a weekday does (``separation`` names it).

    At most ``max_cells`` cells or boxes are enumerated; where there are more, cells are sampled. Rows and samples each
    cost at most ``max_samples`` predictions; of longer windows a random part is evaluated. ``bootstrap`` is the number
    of resamples of the rows for the intervals of single features (0: none, as for windows that are too short for them). ``seed`` makes all draws.

    Raises ``ValueError`` for a window that cannot be read or has less than two rows, for tables whose columns differ,
    for an argument out of range, and for a loss or a prediction that is not finite.

    >>> before = [({"a": a, "b": b}, a & b) for a in (0, 1) for b in (0, 1)] * 50
    >>> after = [(x, x["a"] | x["b"]) for x, _ in before]
    >>> change = dbshap(before, after, hypothesis=lambda x: {x["a"] & x["b"]: 1.0})
    >>> change.joint.concept.value, change.joint.inputs[0].value
    (0.5, 0.0)
    >>> change.sentence()
    'error rate rose by 0.500 ± 0.069 (0.000 → 0.500): concept +0.500 ± 0.057'
    """
    for name, value, least in (
        ("max_bins", max_bins, 2),
        ("max_cells", max_cells, 1),
        ("max_samples", max_samples, 100),
        ("bootstrap", bootstrap, 0),
    ):
        if value < least:
            raise ValueError(f"{name}: {value} is less than {least}")
    if bootstrap == 1:
        raise ValueError("bootstrap: 1 resample has no spread; use 0 for no intervals, or at least 2")
    if conditional not in ("auto", "table", "tree"):
        raise ValueError(f"conditional: {conditional!r} is not one of auto, table, tree")
    divided = groups_of(factorisation, ()) is not None
    measure, models = _resolve(loss, hypothesis)
    windows, warnings = read_pair(baseline, target, label, measure.task)
    if prequential is not None:
        windows = tuple(window.with_losses(given) for window, given in zip(windows, prequential, strict=True))  # type: ignore[assignment]
    chosen = _evaluated(windows, max_samples // len(models), seed) if models else windows
    bins = max_bins if divided else joint.BINS
    if isinstance(ignore, str):
        raise ValueError(f"ignore: {ignore!r} is one string; pass a list of names")
    data = make_binned(chosen, measure, bins, ignore)
    values = held(chosen, ignore)
    if values:
        warnings.append(f"features: {listed(list(values))} ignored, and no part of the inputs")
    absent = [name for name in ignore if name not in values]
    if absent:
        warnings.append(f"ignore: {listed(absent)} in neither window")
    warnings += data.warnings()
    hypotheses: list[Hypothesis] = [
        ModelHypothesis(model, measure, data.classes, data.bins, values) for model in models
    ]
    if not hypotheses:
        whole = data
        if values:
            with suppress(ValueError):  # what cannot be told apart cannot be learnt from
                whole = make_binned(chosen, measure, bins)
        learnt, data = _learn_tree(data, whole, values, measure, seed)
        hypotheses = [learnt]
    fine = data if bins == joint.BINS else data.with_bins(joint.BINS)
    clocks = joint.clocks(fine.windows, fine.columns)
    if clocks:
        warnings.append(
            f"features: {listed(clocks)} growing from row to row through both windows, as time does; "
            "not compared, for nothing else could be"
        )
    found = play(fine, hypotheses, measure, conditional, clocks, seed)
    solved, own, columns = found.solved, found.own, found.columns
    labels = label_shift.shifted(columns, fine.classes.codes, generator(seed, "label shift"))
    separated = separation.of(columns, solved, generator(seed, "joint"))
    attribution = of_rows(found)

    def undo(target: Window) -> Played:
        rows = make_binned((fine.windows[0], target), measure, joint.BINS, ignore)
        before = [of_q[0] for of_q in found.predictions]
        return play(rows, hypotheses, measure, conditional, clocks, seed, before)

    differing = named(windows, fine.windows, found, undo, {*ignore, *clocks}, seed)
    place = None
    if attribution.concept.stands_out and not any(one.fault for one in differing):
        place = where(fine, (solved.scores[0][0], solved.scores[1][0]), clocks)
    warnings += [note for hypothesis in hypotheses for note in hypothesis.warnings()]

    product, back_off, tabled = None, None, None
    groups = groups_of(factorisation, list(data.columns))
    if groups is not None:
        factors = data.factors(groups)
        table = data.table()
        back_off = _back_off(table, factors)
        tabled = back_off <= MAX_BACK_OFF if conditional == "auto" else conditional == "table"
        chances: LabelModel = table if tabled else data.trees()
        if not tabled and min(map(len, data.windows)) < FEWEST:
            bootstrap = 0
        samples = max_samples // len(hypotheses)
        game, pinned = _product_game(data, factors, chances, hypotheses, max_cells, samples, seed)
        if pinned:
            warnings.append(
                f"features: no value of {listed(pinned)} in both windows; left out of the game of single features"
            )
        names = [factor.name for factor in factors]
        product = _solve(game, chances, data, names, len(hypotheses), bootstrap, seed, progress)
    before, after = (window.losses for window in windows)
    seen = own if before is None or after is None else (before, after)
    risks = [
        WindowRisk(
            rows=rows,
            evaluated=len(data.windows[w]),
            matched=solved.matched[w],
            empirical=float(np.mean(own[w])),
            product=None if product is None else (product.baseline, product.target)[w],
            prequential=None if prequential is None else float(np.mean(seen[w])),
        )
        for w, rows in enumerate(map(len, windows) if models else map(len, data.windows))
    ]
    return RiskChange(
        loss=measure.name,
        baseline=risks[0],
        target=risks[1],
        std=float(joint.standard_error(*seen)),
        joint=attribution,
        label_shift=labels,
        learning=_learning(data.windows, own),
        product=product,
        conditional=None if tabled is None else "table" if tabled else "tree",
        back_off=back_off,
        bootstrap=bootstrap,
        bins={} if product is None else {str(bin_.feature): bin_.to_dict() for bin_ in data.bins},
        warnings=tuple(warnings),
        separation=separated,
        differences=differing,
        where=place,
    )


def _resolve(
    loss: str | Loss | Callable[[Any, Any], float] | None, hypothesis: Any
) -> tuple[Loss, list[Model]]:
    """The loss, and the models in its task: none for a tree, one, or two that differ."""
    if isinstance(hypothesis, str):
        if hypothesis != "tree":
            raise ValueError(f"hypothesis: {hypothesis!r} is neither 'tree' nor a model")
        return losses.get(loss or "zero_one"), []
    given = list(hypothesis) if isinstance(hypothesis, tuple) else [hypothesis]
    if len(given) > 2:
        raise ValueError(f"hypothesis: {len(given)} models; pass one, or one for each window")
    task: Task | None = next((model.task for model in given if isinstance(model, Model)), None)
    measure = losses.get(loss or ("squared" if task == "regression" else "zero_one"), task)
    distinct = given[:1] if given[0] is given[-1] else given
    return measure, [wrap(model, measure.task) for model in distinct]


def _learn_tree(
    data: Binned, seen: Binned, held: Mapping[str, Any], loss: Loss, seed: int
) -> tuple[TreeHypothesis, Binned]:
    """A tree learnt from a random half of the baseline, of all features that are ``seen``, and the data without that half."""
    n = len(data.windows[0])
    if n < 4:
        raise ValueError(f"baseline: {n} rows, and half of them are for the tree; bring four or pass a model")
    order = generator(seed, "halves").permutation(n)
    training, kept = order[: n // 2], np.sort(order[n // 2 :])
    y = data.classes.codes[0][training]
    codes = seen.codes[0][training]
    tree = TreeHypothesis(codes, y, seen.ranks(), loss, seen.classes, seen.bins, held)
    return tree, data.of_rows(kept, np.arange(len(data.windows[1])))


def _evaluated(windows: tuple[Window, Window], limit: int, seed: int) -> tuple[Window, Window]:
    """The rows of each window that are predicted: all, or a random part with as many as the limit allows in both.

    The shorter window, which decides how much is known, keeps all that it can: half of the limit.
    """
    n = [len(window) for window in windows]
    if sum(n) <= limit:
        return windows
    first = min(n[0], max(limit // 2, limit - n[1]))
    rng = generator(seed, "rows")
    baseline, target = (
        window.take(np.sort(rng.permutation(len(window))[:part]).tolist())
        for window, part in zip(windows, (first, limit - first), strict=True)
    )
    return baseline, target


def _back_off(table: LabelTable, factors: Sequence[Factor]) -> float:
    """The larger mass that the product distribution of a window has in cells that a window lacks (or both)."""
    worst = 0.0
    cells = [factor.index.find(table.index.codes[:, list(factor.columns)]) for factor in factors]
    sides = [factor.shares() for factor in factors]
    for w in (0, 1):
        mass = np.ones(table.index.size)
        for side, own in zip(sides, cells, strict=True):
            mass *= side[w][own]
        worst = max(worst, *(1.0 - float(np.sum(mass[~lacking])) for lacking in table.lacking()))
    return min(1.0, worst)


def _product_game(
    data: Binned,
    factors: Sequence[Factor],
    chances: LabelModel,
    hypotheses: Sequence[Hypothesis],
    max_cells: int,
    samples: int,
    seed: int,
) -> tuple[Game, list[str]]:
    """The game by an exact route where there is one within ``max_cells``, of which a model predicts no more than ``samples``;
    and the factors that sampling cannot play.
    """
    weights = _ones(data)
    trees = chances.fit(weights).trees
    if trees and all(hypothesis.tree for hypothesis in hypotheses):
        try:
            overlay(
                [*(hypothesis.tree for hypothesis in hypotheses if hypothesis.tree), *trees],
                data.sizes,
                max_cells,
            )
            return Boxes(factors, data.sizes, hypotheses), []
        except OverflowError:
            pass
    most = max_cells if all(hypothesis.tree for hypothesis in hypotheses) else min(max_cells, samples)
    if math.prod(len(factor.cells) for factor in factors) <= most:
        return Grid(factors, chances, hypotheses), []
    apart = [factor for factor in factors if not np.intersect1d(*factor.rows).size]
    played = [factor.pinned() if factor in apart else factor for factor in factors]
    game = Samples(played, chances, hypotheses, weights, samples, derive_seed(seed, "samples"))
    return game, [factor.name for factor in apart]


def _learning(windows: tuple[Window, Window], own: Pair) -> Cause | None:
    """What the model gained in the target by learning there, less what it gained so in the baseline."""
    first, second = (window.losses for window in windows)
    if first is None or second is None:
        return None
    return cause_by("learning within the windows", (own[0] - first, second - own[1]), own)


def _solve(
    game: Game,
    chances: LabelModel,
    data: Binned,
    inputs: list[str],
    hypotheses: int,
    bootstrap: int,
    seed: int,
    progress: bool,
) -> Attribution:
    """The product game on the rows, and on ``bootstrap`` resamples of them for the intervals."""
    weights = _ones(data)
    solution = game.solve(chances.fit(weights), weights)
    resampled: list[Values] = []
    rng = generator(seed, "bootstrap")
    for _ in track(range(bootstrap), "bootstrap", bootstrap, progress):
        first, second = (
            np.bincount(rng.integers(len(weight), size=len(weight)), minlength=len(weight)).astype(float)
            for weight in weights
        )
        resampled.append(game.solve(chances.fit((first, second)), (first, second), False).values)
    return _attribution(game, solution, resampled, inputs, hypotheses)


def _attribution(
    game: Game, solution: Solution, resampled: list[Values], inputs: list[str], hypotheses: int
) -> Attribution:
    names = ["concept", *["hypothesis"] * (hypotheses - 1), *inputs]
    errors = np.zeros(len(names)) if solution.error is None else solution.error
    deviations = np.std(resampled, axis=0, ddof=1) if resampled else None
    reach = quantile(len(names), max(1, len(resampled) - 1))
    risks = solution.baseline, solution.target
    players = []
    for i, name in enumerate(names):
        error = float(errors[i])
        std = None if deviations is None else math.hypot(float(deviations[i]), error)
        players.append(cause_of(name, float(solution.values[i]), error, std, reach, risks))
    concept, *rest = players
    hypothesis = rest.pop(0) if hypotheses == 2 else None
    return Attribution(concept, hypothesis, tuple(rest), *risks, game.route, game.size)


def _ones(data: Binned) -> Pair:
    return np.ones(len(data.windows[0])), np.ones(len(data.windows[1]))
