"""Compiled arithmetic of river's linear models behind scalers and one-hot encoders, operation by operation.

A record becomes *terms*: pairs of a weight's place (its key) and a value, in the order in which river's pipeline hands them to the
model. Sums run over the terms in that order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, compiled, inlined, inner
from explain_core.learners.arrays import f8, held, i8
from explain_core.learners.implicit import FIRST
from explain_core.sums import total

(
    HEAD,
    PARAMETERS,
    COLUMNS,
    MOMENTS,
    PLACES,
    RANKS,
    WEIGHTS,
    INTERCEPTS,
    TARGET,
    PRESENT,
    SEQUENCE,
    KEYS,
    VALUES,
    STEPS,
) = range(14)
"""Slots of the table."""

SLOTS = (
    "head", "parameters", "columns", "moments", "places", "ranks", "weights", "intercepts", "target", "present", "sequence",
    "keys", "values", "steps",
)  # fmt: skip

N_COLUMNS, N_LABELS, LINK, LOSS, RANKED, ZEROS, WITH_STD, HAS_TARGET, N_RANKED, IMPLICIT, N_HEAD = range(11)
"""Of ``head``. RANKED: the order in which categories were learnt counts; ZEROS: so do those that a record has not. IMPLICIT: see ``implicit``."""

RATE, INTERCEPT_RATE, L2, CLIP, POSITIVE, NEGATIVE, INTERCEPT, HALF = range(8)
"""Of ``parameters``. CPython's ``** 0.5`` is the C library's pow, which a constant exponent would be compiled away from."""

KIND, PLACE, ROOM = range(3)
"""Of a column: what becomes of it, where its keys begin among the places, and for how many categories there is room."""

IGNORED, NUMBER, SCALED, CATEGORY = range(4)
SIGMOID, IDENTITY, SOFTMAX = range(3)
LOG, SQUARED, ABSOLUTE = range(3)


@allocating
def scales(table: Any) -> Any:
    """The standard deviation of each scaled column, 0 where it is not known."""
    head, columns, moments = i8(table, HEAD)[0], i8(table, COLUMNS), f8(table, MOMENTS)
    half = f8(table, PARAMETERS)[0, HALF]
    out = np.zeros(head[N_COLUMNS])
    for j in range(head[N_COLUMNS]):
        if columns[j, KIND] == SCALED:
            if head[WITH_STD] == 0:
                out[j] = 1.0
            elif moments[j, 2] != 0.0:
                out[j] = math.pow(moments[j, 2], half)
    return out


@inlined
def terms(table: Any, x: Any, scale: Any, keys: Any, values: Any) -> int:
    """The terms of a row, and their number.

    An encoder that keeps zeros hands categories on in the order in which it learnt them, new ones last; the zeros are terms
    only where they matter.
    """
    head, columns, moments = i8(table, HEAD)[0], i8(table, COLUMNS), f8(table, MOMENTS)
    places, ranks, sequence = i8(table, PLACES)[0], i8(table, RANKS), i8(table, SEQUENCE)[0]
    n, start = 0, -1
    for i in range(head[N_COLUMNS]):
        j = sequence[i]
        kind, value = columns[j, KIND], x[j]
        if kind == CATEGORY and start < 0:
            start = n
            if head[ZEROS] != 0:
                for rank in range(head[N_RANKED]):
                    keys[n], values[n] = ranks[1, rank], 0.0
                    n += 1
        if kind == IGNORED or math.isnan(value):
            continue
        if kind == CATEGORY:
            key = places[columns[j, PLACE] + int(value)]
            rank = ranks[0, key] if head[RANKED] != 0 else -1
            if rank >= 0 and head[ZEROS] != 0:
                values[start + rank] = 1.0
                continue
            at = n
            while at > start and rank >= 0 and (ranks[0, keys[at - 1]] < 0 or ranks[0, keys[at - 1]] > rank):
                keys[at], values[at] = keys[at - 1], values[at - 1]
                at -= 1
            keys[at], values[at] = key, 1.0
        else:
            keys[n] = places[columns[j, PLACE]]
            if kind == NUMBER:
                values[n] = value
            elif head[WITH_STD] == 0:
                values[n] = value - moments[j, 1]
            else:
                values[n] = (value - moments[j, 1]) / scale[j] if scale[j] != 0.0 else 0.0
        n += 1
    return n


@inlined
def raw(table: Any, keys: Any, values: Any, n: int, out: Any) -> None:
    """The sum of each output before the link."""
    head, weights, intercepts = i8(table, HEAD)[0], f8(table, WEIGHTS), f8(table, INTERCEPTS)[0]
    if head[LINK] != SOFTMAX:
        value = 0.0
        for i in range(n):
            value += values[i] * weights[0, keys[i]]
        out[0] = value + intercepts[0]
        return
    present, steps = i8(table, PRESENT), f8(table, STEPS)[0]
    for c in range(head[N_LABELS]):
        # ``river.utils.math.dot`` goes through the shorter of the two; ``present`` holds, after their number, a label's keys in
        # the order in which it met them.
        m = 0
        if present[c, 0] < n:
            for i in range(present[c, 0]):
                for k in range(n):
                    if keys[k] == present[c, 1 + i]:
                        steps[m] = values[k] * weights[c, keys[k]]
                        m += 1
        else:
            for k in range(n):
                if not math.isnan(weights[c, keys[k]]):
                    steps[m] = values[k] * weights[c, keys[k]]
                    m += 1
        out[c] = total(steps, m)


@inlined
def linked(table: Any, out: Any) -> None:
    """The prediction from the sums, in place."""
    head = i8(table, HEAD)[0]
    if head[LINK] == SIGMOID:
        r = out[0]
        p = 0.0 if r < -30.0 else 1.0 if r > 30.0 else 1.0 / (1.0 + math.exp(-r))
        out[0], out[1] = 1.0 - p, p
    elif head[LINK] == SOFTMAX:
        n = head[N_LABELS]
        if n == 0:
            return
        highest = out[0]
        for c in range(1, n):
            highest = max(highest, out[c])
        whole = 0.0
        for c in range(n):
            out[c] = math.exp(out[c] - highest)
            whole += out[c]
        for c in range(n):
            out[c] /= whole
    elif head[HAS_TARGET] != 0:
        target = f8(table, TARGET)[0]
        out[0] = out[0] * deviation(target, f8(table, PARAMETERS)[0, HALF]) + target[1]


@inner
def deviation(target: Any, half: float) -> float:
    """Standard deviation of the target, from its count, mean and sum of squares."""
    variance = target[2] / (target[0] - 1.0) if target[0] > 1.0 else 0.0
    return math.pow(variance, half)


@inner
def outputs(table: Any) -> Any:
    """Numbers of a prediction."""
    head = i8(table, HEAD)[0]
    return 2 if head[LINK] == SIGMOID else head[N_LABELS] if head[LINK] == SOFTMAX else 1


@compiled
def predict_rows(table: Any, rows: Any, out: Any) -> None:
    """Predictions of encoded rows, rows × outputs."""
    keys, values = i8(table, KEYS)[0], f8(table, VALUES)[0]
    scale, own, found = scales(table), held(rows), held(out)
    for i in range(len(own)):
        n = terms(table, own[i], scale, keys, values)
        raw(table, keys, values, n, found[i])
        linked(table, found[i])


@compiled
def learn(table: Any, x: Any, y: float, w: float) -> None:
    """Transformers first, then the model; ``y`` is −1 or what stands for the true class, a class's code, or a number."""
    head, parameters = i8(table, HEAD)[0], f8(table, PARAMETERS)[0]
    columns, moments = i8(table, COLUMNS), f8(table, MOMENTS)
    places, ranks, sequence = i8(table, PLACES)[0], i8(table, RANKS), i8(table, SEQUENCE)[0]
    keys, values = i8(table, KEYS)[0], f8(table, VALUES)[0]
    for j in range(head[N_COLUMNS]):
        value = x[j]
        if math.isnan(value):
            continue
        if columns[j, KIND] == SCALED:
            moments[j, 0] += 1.0
            before = moments[j, 1]
            moments[j, 1] += (value - before) / moments[j, 0]
            if head[WITH_STD] != 0:
                moments[j, 2] += ((value - before) * (value - moments[j, 1]) - moments[j, 2]) / moments[j, 0]
    for i in range(head[N_COLUMNS] if head[RANKED] != 0 else 0):
        j = sequence[i]
        if columns[j, KIND] == CATEGORY and not math.isnan(x[j]):
            key = places[columns[j, PLACE] + int(x[j])]
            if ranks[0, key] < 0:
                ranks[0, key] = head[N_RANKED]
                ranks[1, head[N_RANKED]] = key
                head[N_RANKED] += 1
    n = terms(table, x, scales(table), keys, values)
    if head[LINK] == SOFTMAX:
        learn_softmax(table, int(y), keys, values, n)
        return
    weights, intercepts = f8(table, WEIGHTS), f8(table, INTERCEPTS)[0]
    if head[HAS_TARGET] != 0:
        target = f8(table, TARGET)[0]
        target[0] += 1.0
        before = target[1]
        target[1] += (1.0 / target[0]) * (y - before)
        target[2] += (y - before) * (y - target[1])
        spread = deviation(target, parameters[HALF])
        y = (y - target[1]) / spread if spread != 0.0 else 0.0
    sums = np.empty(1)
    raw(table, keys, values, n, sums)
    gradient = slope(head[LOSS], y, sums[0], parameters) * w
    gradient = max(min(gradient, parameters[CLIP]), -parameters[CLIP])
    shrink, intercept_rate = 1.0, parameters[INTERCEPT_RATE]
    if head[IMPLICIT] != 0:
        steps = f8(table, TARGET)[0]  # counted with the targets, where those are scaled
        steps[0] += 0.0 if head[HAS_TARGET] != 0 else 1.0
        intercept_rate = max(intercept_rate, 0.5 / max(steps[0] - 1.0, FIRST))
        length = 0.0
        for i in range(n):
            length += values[i] * values[i]
        shrink = 1.0 / (1.0 + 2.0 * w * (parameters[RATE] * length + intercept_rate))
    intercepts[0] -= intercept_rate * (gradient * shrink)
    l2 = parameters[L2]
    for i in range(n):
        step = values[i] * gradient
        if l2 != 0.0:
            step += l2 * weights[0, keys[i]]
        step *= shrink
        weights[0, keys[i]] -= parameters[RATE] * step


@inner
def slope(loss: int, y: float, r: float, parameters: Any) -> Any:
    """Gradient of the loss by the sum."""
    if loss == SQUARED:
        return 2.0 * (r - y)
    if loss == ABSOLUTE:
        return 1.0 if r > y else -1.0
    weight = parameters[NEGATIVE] if y < 0.0 else parameters[POSITIVE]
    z = r * y
    if z > 18.0:
        return weight * math.exp(-z) * -y
    if z < -18.0:
        return weight * -y
    return weight * -y / (math.exp(z) + 1.0)


@allocating
def learn_softmax(table: Any, y: int, keys: Any, values: Any, n: int) -> None:
    """A step of each label that is known, and of the true one."""
    head, parameters = i8(table, HEAD)[0], f8(table, PARAMETERS)[0]
    weights, present = f8(table, WEIGHTS), i8(table, PRESENT)
    known = head[N_LABELS]
    out = np.zeros(max(known, y + 1))
    raw(table, keys, values, n, out)
    linked(table, out)
    head[N_LABELS] = max(known, y + 1)
    for c in range(head[N_LABELS]):
        p = max(min(out[c], 1.0 - 1e-15), 1e-15)
        gradient = 1.0 * (p - (1.0 if c == y else 0.0))
        for i in range(n):
            weight = weights[c, keys[i]]
            if math.isnan(weight) and present[c, 0] + 1 < present.shape[1]:
                weight = 0.0
                present[c, 1 + present[c, 0]] = keys[i]
                present[c, 0] += 1
            step = values[i] * gradient + parameters[L2] * weight
            weights[c, keys[i]] = weight - parameters[RATE] * step
