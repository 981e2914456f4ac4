"""Which features differ between two windows, with the part of the risk that goes with each, and whether one looks like a fault of its sensor.

An offset or a factor of a single feature changes the inputs, and what they say about the label: it looks like a new concept. So where
one number explains how a feature alone moved, it is undone and the game is played anew. It looks like a fault if

- before, something did not follow: the concept stood out, or another feature no longer went with it; where next to nothing was alike, the model
  erred otherwise for it;
- after, nothing is left: the feature is neither moved nor unlike the others, and neither the concept nor the inputs stand out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from explain_core.drift import joint
from explain_core.drift.change import LEAST_MATCHED, Cause, Difference
from explain_core.drift.conditional import Pair
from explain_core.drift.differences import (
    RESIDUE,
    differences,
    features_of,
    known,
    part_of,
    suspect,
    undone,
)
from explain_core.drift.playing import Played, cause_of, generator, of_rows, quantile
from explain_core.drift.windows import Window


def named(
    windows: tuple[Window, Window],
    evaluated: tuple[Window, Window],
    played: Played,
    undo: Callable[[Window], Played],
    without: Collection[str],
    seed: int,
) -> tuple[Difference, ...]:
    """How the features differ, the one first that most likely itself changed; ``played`` and the parts of the risk are of the ``evaluated`` rows.

    ``undo`` plays the joint game with other rows of the target.
    """
    features = features_of(windows, without, generator(seed, "differences"))
    by_name = {feature.name: feature for feature in features}
    found = [
        one
        if one.sense == "unlike"
        else replace(one, risk=_part(played, part_of(by_name[one.feature], evaluated, played.own)))
        for one in differences(features)
    ]
    suspected = suspect(features, found)
    if suspected is not None:
        first, target = found[0], evaluated[1]
        like = known(by_name[first.feature].columns[0])
        again = undo(target.with_column(first.feature, undone(target.columns[first.feature], first, like)))
        part = _part(played, (np.zeros(len(played.own[0])), played.own[1] - again.own[1]))
        game, rest = of_rows(played), of_rows(again)
        followed = not (game.concept if _attributed(played) else part).stands_out and not suspected.alone
        most = RESIDUE * max(abs(cause.value) for cause in (game.concept, *game.inputs))
        left = any(cause.stands_out and abs(cause.value) > most for cause in (rest.concept, *rest.inputs))
        if _attributed(again) and not followed and not left:
            found[0] = replace(first, fault=True, risk=part)
    return tuple(found)


def _attributed(played: Played) -> bool:
    return min(played.solved.matched) >= LEAST_MATCHED


def _part(played: Played, terms: Pair) -> Cause:
    """The sum of the two means of the terms, with its interval."""
    value = float(np.mean(terms[0]) + np.mean(terms[1]))
    risks = float(np.mean(played.own[0])), float(np.mean(played.own[1]))
    reach = quantile(1, min(map(len, terms)) - 1)
    return cause_of("inputs", value, 0.0, float(joint.standard_error(*terms)), reach, risks)
