"""The joint game played on rows, and its values with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from explain_core.drift import joint
from explain_core.drift.binned import Binned
from explain_core.drift.change import LEVEL, Attribution, Cause
from explain_core.drift.conditional import Pair
from explain_core.drift.hypothesis import Hypothesis
from explain_core.drift.predictions import Predictions, outputs, own_losses
from explain_core.losses import Loss
from explain_core.random import derive_seed

ROUNDING = 1e-12
"""Intervals are widened by this share of the risk: sums of floats are not exact."""


class Played(NamedTuple):
    """The joint game on some rows. ``own`` are the losses of the rows of each window under the hypothesis of that window."""

    predictions: list[list[Predictions]]
    columns: joint.CodedColumns
    solved: joint.Joint
    own: Pair


def play(
    data: Binned,
    hypotheses: Sequence[Hypothesis],
    loss: Loss,
    form: Literal["auto", "table", "tree"],
    without: Sequence[str],
    seed: int,
    before: Sequence[Predictions] | None = None,
) -> Played:
    """The joint game; ``before`` are the predictions for the baseline where they are known."""
    windows = data.windows
    predictions = [
        [q.on_rows(windows[0]) if before is None else before[i], q.on_rows(windows[1])]
        for i, q in enumerate(hypotheses)
    ]
    own = [
        np.array([own_losses(loss, of_q[w], window.y, data.classes, w) for of_q in predictions])
        for w, window in enumerate(windows)
    ]
    predicted = [column for of_q in predictions for column in outputs(of_q)]
    columns = joint.make_columns(data, without, predicted)
    solved = joint.solve(columns, (own[0], own[1]), form, generator(seed, "joint"))
    return Played(predictions, columns, solved, (own[0][0], own[1][-1]))


def of_rows(played: Played) -> Attribution:
    """The joint game's values with the intervals of their two means.

    Of windows of unequal size the shorter one decides, and where its losses are skewed, value and standard error err together: Student's
    interval is too short, which to first order a share of γ² (z⁴ + 2z² − 3)/18 mends, γ being the value's skewness (Hall 1992, Sect. 2.6).
    """
    solved, own = played.solved, played.own
    names = ["concept", *["hypothesis"] * (len(played.predictions) - 1), "inputs"]
    deviations = joint.standard_error(*solved.scores)
    risks = float(np.mean(own[0])), float(np.mean(own[1]))
    reach = quantile(len(names), min(map(len, own)) - 1)
    reaches = reach * (1.0 + joint.skewness(*solved.scores) ** 2 * (reach**4 + 2.0 * reach**2 - 3.0) / 18.0)
    causes = [
        cause_of(name, float(value), 0.0, float(std), float(wide), risks)
        for name, value, std, wide in zip(names, solved.values, deviations, reaches, strict=True)
    ]
    first, *between, last = causes
    route = "cells" if solved.cells else "trees"
    return Attribution(first, between[0] if between else None, (last,), *risks, route, sum(map(len, own)))


def cause_of(
    name: str, value: float, error: float, std: float | None, reach: float, risks: tuple[float, float]
) -> Cause:
    if std is None:
        return Cause(name, value, error, None, None, None)
    width = reach * std + ROUNDING * max(map(abs, risks))
    return Cause(name, value, error, std, value - width, value + width)


def quantile(players: int, freedom: int) -> float:
    """Half the width in standard errors of intervals that hold for all players at once (Bonferroni, Student's t)."""
    return float(stdtrit(freedom, 1.0 - (1.0 - LEVEL) / 2.0 / players))


def generator(seed: int, purpose: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(derive_seed(seed, purpose)))
