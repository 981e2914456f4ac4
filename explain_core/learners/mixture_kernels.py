"""Compiled arithmetic of a mixture of learners: their weighted mean, the weights' update, and the range of a target.

Rows of ``parts``, and ``weights``, have no model first and then the members in their order; all sums run in that order.
"""

from __future__ import annotations

import math
from typing import Any

from explain_core.compiling import compiled, inlined, inner
from explain_core.kernels import put
from explain_core.learners.arrays import f8, held, i8

SLOTS = "head", "numbers", "members", "kinds", "weights", "none", "parts", "target", "recent"
HEAD, NUMBERS, MEMBERS, KINDS, WEIGHTS, NONE, PARTS, TARGET, RECENT = range(len(SLOTS))
"""Slots of the table. ``members`` is the table of the members' tables; ``none`` is a weight, and then counts of the classes or a mean."""

REGRESSION, OUTPUTS, N_HEAD = range(3)
SHARE, FLOOR, DECAY, N_NUMBERS = range(4)
LINEAR, TREES = range(2)
"""Kinds of members."""

LOW, HIGH, SPREAD, SEEN, N_TARGET = range(5)
"""Of ``target``: what predictions, and targets that are learnt, are between; the range of the recent targets; how many targets there were."""

EXTREMES = 2
"""Recent targets that may be anything, at either end."""
FIRST = 4 * EXTREMES
"""Targets of which members learn nothing, so that all that they learn is within a range without the extremes."""
MARGIN = 0.5
"""By how much of the range of the recent targets LOW and HIGH are outside of it."""


@inner
def no_model(table: Any, out: Any) -> None:
    """What no model predicts: frequencies with half an observation more of each class (Krichevsky and Trofimov), or the mean."""
    head, none = i8(table, HEAD)[0], f8(table, NONE)[0]
    if head[REGRESSION] != 0:
        out[0] = none[1]
        return
    n = head[OUTPUTS]
    for k in range(n):
        out[k] = (none[1 + k] + 0.5) / (none[0] + 0.5 * n)


@inlined
def settled(table: Any, part: Any, none: Any) -> None:
    """A member's prediction in place: probabilities that sum to 1, or a number in the target's range; that of no model where it is none."""
    head = i8(table, HEAD)[0]
    if head[REGRESSION] != 0:
        target = f8(table, TARGET)[0]
        value = none[0] if math.isnan(part[0]) else part[0]
        part[0] = min(max(value, target[LOW]), target[HIGH])
        return
    whole = 0.0
    for k in range(head[OUTPUTS]):
        whole += part[k]
    if 0.0 < whole < math.inf:
        for k in range(head[OUTPUTS]):
            part[k] /= whole
    else:
        put(none, part)


@compiled
def begin(table: Any, out: Any) -> None:
    """Let no model predict so many records: rows × outputs."""
    weights, parts = f8(table, WEIGHTS)[0], f8(table, PARTS)
    no_model(table, parts[0])
    for row in range(len(out)):
        for k in range(i8(table, HEAD)[0, OUTPUTS]):
            out[row, k] = weights[0] * parts[0, k]


@compiled
def blend(table: Any, m: int, predicted: Any, out: Any) -> None:
    """Add the predictions of a member, from 1 on, by its weight: rows × outputs; ``parts`` keeps that for the first record."""
    weights, parts, predictions, sums = f8(table, WEIGHTS)[0], f8(table, PARTS), held(predicted), held(out)
    for row in range(len(predictions)):
        settled(table, predictions[row], parts[0])
        for k in range(i8(table, HEAD)[0, OUTPUTS]):
            sums[row, k] += weights[m] * predictions[row, k]
    put(predictions[0], parts[m])


@compiled
def update(table: Any, y: float, known: bool) -> float:
    """Take in the number, or the code of the class, of the record whose predictions are in ``parts``; returns what the members learn for it.

    A class that was not ``known`` when they were made changes no weight.
    """
    head, numbers, none = i8(table, HEAD)[0], f8(table, NUMBERS)[0], f8(table, NONE)[0]
    if head[REGRESSION] != 0:
        target = f8(table, TARGET)[0]
        if target[SEEN] > 0.0 and target[SPREAD] > 0.0:
            reweigh_numbers(table, min(max(y, target[LOW]), target[HIGH]))
        remember(table, y)
        y = min(max(y, target[LOW]), target[HIGH])
        none[0] = 1.0 + numbers[DECAY] * none[0]
        none[1] = min(max(none[1] + (y - none[1]) / none[0], target[LOW]), target[HIGH])
        return y
    code = int(y)
    if known:
        reweigh_classes(table, code)
    for k in range(len(none)):
        none[k] *= numbers[DECAY]
    none[0] += 1.0
    none[1 + code] += 1.0
    return y


@inner
def reweigh_classes(table: Any, code: int) -> None:
    """Bayes' rule: each weight times the probability that its member gave to what came, in which no model has the part FLOOR."""
    weights, parts, floor = f8(table, WEIGHTS)[0], f8(table, PARTS), f8(table, NUMBERS)[0, FLOOR]
    for m in range(len(weights)):
        weights[m] *= (1.0 - floor) * parts[m, code] + floor * parts[0, code]
    share_out(table)


@inner
def reweigh_numbers(table: Any, y: float) -> None:
    """Each weight times exp(−2 · (squared error / squared range)): Vovk's rate for the squared error in a range."""
    weights, parts, spread = f8(table, WEIGHTS)[0], f8(table, PARTS), f8(table, TARGET)[0, SPREAD]
    for m in range(len(weights)):
        error = (parts[m, 0] - y) / spread
        weights[m] *= math.exp(-2.0 * (error * error))
    share_out(table)


@inner
def share_out(table: Any) -> None:
    """Weights that sum to 1, of which all get the same of the part SHARE."""
    weights, share, whole = f8(table, WEIGHTS)[0], f8(table, NUMBERS)[0, SHARE], 0.0
    for m in range(len(weights)):
        whole += weights[m]
    for m in range(len(weights)):
        weights[m] = (1.0 - share) * (weights[m] / whole) + share / len(weights)


@inner
def remember(table: Any, y: float) -> None:
    """Take a target into the recent ones, whose range is that without ``EXTREMES`` at either end."""
    target, recent = f8(table, TARGET)[0], f8(table, RECENT)[0]
    seen = int(target[SEEN])
    recent[seen % len(recent)] = y
    target[SEEN] += 1.0
    n = min(seen + 1, len(recent))
    spare = min(EXTREMES, (n - 1) // 4)
    lowest, highest = rank(recent, n, spare, 1.0), rank(recent, n, spare, -1.0)
    target[SPREAD] = highest - lowest
    target[LOW], target[HIGH] = lowest - MARGIN * target[SPREAD], highest + MARGIN * target[SPREAD]


@inner
def rank(recent: Any, n: int, spare: int, sign: float) -> Any:
    """The value of the first n that is the lowest but ``spare``, at most EXTREMES; the highest with a sign of −1."""
    first, second, third = math.inf, math.inf, math.inf
    for i in range(n):
        value = sign * recent[i]
        if value < first:
            first, second, third = value, first, second
        elif value < second:
            second, third = value, second
        elif value < third:
            third = value
    return sign * (first if spare == 0 else second if spare == 1 else third)
