"""Σφ of iSAGE is the smoothed gain over the empty model, at every step and for any stream.

The mean of a feature that is met late begins with it, and counts here by its share of the weight.
"""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explain_core.importance.isage import IncrementalSAGE
from explain_core.losses import names_of
from tests.streams import CLASSES, model_for

VALUES = {
    "a": st.floats(-1e3, 1e3),
    "b": st.floats(-1, 1),
    "colour": st.sampled_from(["red", "green", "violet"]),
    "flag": st.booleans(),
    "late": st.integers(-5, 5),
}
ROW = st.fixed_dictionaries({}, optional=VALUES)


def records(task):
    label = st.floats(-100, 100) if task == "regression" else st.sampled_from([*CLASSES, "unheard of"])
    return st.lists(st.tuples(ROW, label), min_size=8, max_size=25)


@st.composite
def cases(draw):
    task = draw(st.sampled_from(["classification", "regression"]))
    losses = draw(st.lists(st.sampled_from(names_of(task)), min_size=1, unique=True))
    sage = {
        "losses": losses,
        "alpha": draw(st.one_of(st.none(), st.floats(1e-4, 1.0))),
        "n_samples": draw(st.sampled_from([None, 1, 3])),
        "groups": draw(
            st.sampled_from([{}, {"g": ["a", "late"]}, {"g": ["a", "b"], "h": ["flag", "colour"]}])
        ),
        "reservoir": draw(st.sampled_from(["geometric", "uniform"])),
        "features": draw(st.sampled_from([None, list(VALUES)])),
        "removal": draw(st.sampled_from(["marginal", "conditional"])),
        "seed": draw(st.integers(0, 99)),
    }
    return task, sage, draw(records(task))


def mean_of(predictions, w):
    """Weighted mean, renormalised, written out over the whole past."""
    if isinstance(predictions[0], float):
        return float(w @ predictions)
    mean = {label: float(w @ [p.get(label, 0.0) for p in predictions]) for label in CLASSES}
    total = sum(mean.values())
    return {label: p / total for label, p in mean.items() if p > 0}


def tied(prediction):
    """Whether rounding decides which class comes first, and so what the zero-one loss is."""
    if isinstance(prediction, float):
        return False
    second, first = sorted([0.0, *prediction.values()])[-2:]
    return first - second < 1e-9


@settings(max_examples=60)
@given(cases())
def test_the_values_sum_to_the_smoothed_gain_over_the_empty_model_at_every_step(case):
    task, arguments, stream = case
    model, size = model_for(task), 4
    sage = IncrementalSAGE(model, task=task, size=size, empty="ema", **arguments)
    predictions, gains = [], []
    for n, (x, y) in enumerate(stream, start=1 - size):
        sage.explain_one(x, y)
        if n < 1:
            continue
        if not x and not sage.explanation.features:
            return  # there is nobody yet to share the gain with
        predictions.append(model(x))
        decay = 1.0 if arguments["alpha"] is None else 1.0 - arguments["alpha"]
        w = decay ** np.arange(n)[::-1]
        w /= w.sum()
        y0 = mean_of(predictions, w)
        assume(not tied(y0))
        gains.append([loss(y, y0) - loss(y, predictions[-1]) for loss in sage.losses])
        expected, values = w @ np.array(gains), sage.explanation.values
        values = np.nan_to_num(values) * sage._smoother.sums[1] / (decay ** np.arange(n)).sum()
        scale = (
            np.abs(values).sum(axis=1) + w @ np.abs(gains) + 1e-3
        )  # log(1 + ε) is ε, however small the loss
        assert (np.abs(values.sum(axis=1) - expected) <= 1e-9 * scale).all()
