"""Per-sample losses. Each declares what it reads of a prediction, so that nothing is guessed.

A prediction is a mapping from class label to probability (classification; a class that is absent has
probability 0) or a float (regression).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from explain_core.engine.smoothing import LOSSES

Probabilities = Mapping[Any, float]
Prediction = Probabilities | float
Reads = Literal["label", "probabilities", "number", "prediction"]
Task = Literal["classification", "regression"]
AnyTask = Literal["classification", "regression", "binary", "multiclass"]
"""A task as it may be given: the last two are what settings of the sidecar call a classification, with two classes and with more."""

LARGEST = 1e72
"""Largest absolute value of a prediction: squares of losses that are squares themselves are finite."""

MAX_NUMBER = 1e30
"""With larger features, labels and weights, products, squares and variances overflow in models and losses some records later."""

HUGE = 1e95
"""A difference of losses beyond it counts as it: sums of its third powers are finite."""

EPSILON = 1e-7
"""A probability counts as at least this before a logarithm, as in Keras: a loss is 16.1 at most. At the 1e-15 that others use it would be 34.5, and a
few records decide the mean of thousands; no stream is long enough to tell a smaller probability from this one."""

CLIPPED = -math.log(EPSILON)
"""The cross-entropy of a probability that was raised to EPSILON."""


def fits_64_bits(number: int) -> bool:
    """Whether a whole number has at most 64 bits, as those have that states and messages hold as such.

    >>> fits_64_bits(2**64 - 1), fits_64_bits(-(2**63) - 1)
    (True, False)
    """
    return -(2**63) <= number < 2**64


@dataclass(frozen=True, slots=True)
class Loss:
    """A named per-sample loss, ``loss(y_true, prediction) -> float``; smaller is better.

    Parameters
    ----------
    name
        In settings and messages.
    reads
        What the function gets: the most probable "label", the mapping of "probabilities", or the predicted "number". "prediction" is either of the
        last two, whatever the task, and stands for a measure without labels.
    function
        Of the truth and of that; without labels of the model's own prediction for the record and of another one.
    quadratic
        Whether it is a quadratic form of what it reads: its value at a mean of infinitely many predictions then has an unbiased estimate from
        two (see ``IncrementalSAGE``).
    most
        Its largest value for probabilities, None where it has none that is of use; the smallest is 0. Where there is one,
        the interval of a challenger cuts no difference off.
    clipped
        The value at which it counts a prediction as no worse, None where it does not.

    >>> late = Loss("late", "number", lambda y, prediction: max(0.0, y - prediction))
    >>> late(5.0, 3.0), late.task
    (2.0, 'regression')
    """

    name: str
    reads: Reads
    function: Callable[[Any, Any], float]
    quadratic: bool = False
    most: float | None = None
    clipped: float | None = None

    @property
    def task(self) -> Task:
        """What it is for; one without labels is for both."""
        return "regression" if self.reads == "number" else "classification"

    @property
    def label_free(self) -> bool:
        """Whether it measures how far a prediction is from the model's own instead of from the truth: it is no loss of the model, and no risk."""
        return self.reads == "prediction"

    def __call__(self, y_true: Any, prediction: Prediction) -> float:
        if self.reads == "label":
            return self.function(y_true, argmax(prediction))  # type: ignore[arg-type]
        return self.function(y_true, prediction)

    def __reduce__(self) -> Any:
        if NAMED.get(self.name) is self:
            return get, (self.name,)
        if LABEL_FREE.get(self.name) is self:
            return get, (self.name, None, None, True)
        return Loss, (self.name, self.reads, self.function, self.quadratic, self.most, self.clipped)


def argmax(probabilities: Probabilities) -> Any:
    """The most probable label, the first one in the mapping's order on a tie; None for no class at all.

    >>> argmax({"up": 0.4, "down": 0.6})
    'down'
    """
    return max(probabilities, key=probabilities.__getitem__) if probabilities else None


def cross_entropy(y_true: Any, p: Probabilities) -> float:
    """−log p(y), in nats, of the probabilities divided by their sum; p(y) counts as at least ``EPSILON``.

    A class that was never seen has probability 0 before that; so has every class where none is predicted.

    >>> cross_entropy("up", {"up": 0.5, "down": 0.5})
    0.69
    """
    total = 0.0
    for value in p.values():
        total += min(max(value, 0.0), 1.0)
    own = min(p.get(y_true, 0.0), 1.0)
    return CLIPPED if own <= EPSILON * total else math.log(total) - math.log(own)


def zero_one(y_true: Any, label: Any) -> float:
    """1[ŷ ≠ y]: 1 where the predicted label is wrong, else 0.

    >>> zero_one("up", "down")
    1.0
    """
    return 0.0 if label == y_true else 1.0


def brier(y_true: Any, p: Probabilities) -> float:
    """Σ_k (p_k − 1[y = k])², in [0, 2] (Brier 1950, the original multi-class form).

    >>> brier("up", {"up": 0.5, "down": 0.5})
    0.5
    """
    total = 0.0 if y_true in p else 1.0
    for label, value in p.items():
        difference = value - (label == y_true)
        total += difference * difference
    return total


def hinge(y_true: Any, p: Probabilities) -> float:
    """max(0, 1 − (p_y − max_{k≠y} p_k)): the multi-class hinge of Crammer & Singer (2001) on probabilities, in [0, 2].

    >>> hinge("up", {"up": 0.75, "down": 0.25})
    0.5
    """
    rival = 0.0
    for label, value in p.items():
        if value > rival and label != y_true:
            rival = value
    margin = p.get(y_true, 0.0) - rival
    return max(0.0, 1.0 - margin)


def squared(y_true: float, y_pred: float) -> float:
    """(y − ŷ)², in squared units of y.

    >>> squared(3.0, 1.0)
    4.0
    """
    difference = y_true - y_pred
    return difference * difference


def absolute(y_true: float, y_pred: float) -> float:
    """|y − ŷ|, in units of y.

    >>> absolute(3.0, 1.0)
    2.0
    """
    return abs(y_true - y_pred)


def huber(y_true: float, y_pred: float) -> float:
    """Huber (1964) with δ = 1: ½r² for |r| ≤ 1, |r| − ½ beyond, r = y − ŷ.

    >>> huber(3.0, 1.0)
    1.5
    """
    r = abs(y_true - y_pred)
    return 0.5 * r * r if r <= 1.0 else r - 0.5


def moved(own: Prediction, other: Prediction) -> float:
    """How far another prediction for a record is from the model's own, without any label.

    Of numbers (f − f′)², in squared units of the prediction; of probabilities ½ Σ_k (p_k − p′_k)², in [0, 1]: of two classes it is the squared difference
    of a probability. Under it iSAGE shares the variance of the predictions among the features (the Shapley effects of Owen 2014; Covert, Lundberg & Lee
    2020, section 3.2), and iPFI says by how much a feature's value of another record moves the prediction.

    >>> round(moved({"up": 0.7, "down": 0.3}, {"up": 0.5, "down": 0.5}), 12), moved(3.0, 1.0)
    (0.04, 4.0)
    """
    if not isinstance(own, Mapping) or not isinstance(other, Mapping):
        off: float = other - own  # type: ignore[operator]
        return off * off
    total = 0.0
    for label, p in own.items():
        difference = other.get(label, 0.0) - p
        total += difference * difference
    for label, p in other.items():
        if label not in own:
            total += p * p
    return 0.5 * total


LABEL_FREE: dict[str, Loss] = {"prediction": Loss("prediction", "prediction", moved, quadratic=True)}
"""What goes by a name and needs no label."""

NAMED: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("cross_entropy", "probabilities", cross_entropy, clipped=CLIPPED),
        Loss("zero_one", "label", zero_one, most=1.0),
        Loss("brier", "probabilities", brier, quadratic=True, most=2.0),
        Loss("hinge", "probabilities", hinge, most=2.0),
        Loss("squared", "number", squared, quadratic=True),
        Loss("absolute", "number", absolute),
        Loss("huber", "number", huber),
    )
}
"""The losses that go by a name."""


def label_free(losses: Sequence[str | Loss | Callable[[Any, Any], float]]) -> bool:
    """Whether the first of these losses is one without labels.

    >>> label_free(["prediction"]), label_free(["brier"]), label_free([])
    (True, False, False)
    """
    return any(get(loss, None, None, True).label_free for loss in losses[:1])


def kind_of(task: AnyTask) -> Task:
    """The kind of a task. Raises ``ValueError`` where it is none.

    >>> kind_of("binary"), kind_of("regression")
    ('classification', 'regression')
    """
    if task not in get_args(AnyTask):
        raise ValueError(
            f"task: {task!r} is not one of classification, regression; binary and multiclass are classification too"
        )
    return "regression" if task == "regression" else "classification"


FOREIGN = -1


def codes_of(losses: Sequence[Loss], task: Task = "classification") -> NDArray[np.int64]:
    """What compiled code calls these losses, ``FOREIGN`` where it does not know one."""
    known = NAMED | LABEL_FREE
    of = " of a number" if task == "regression" else ""
    codes = [
        LOSSES.get(loss.name + of * loss.label_free, FOREIGN) if known.get(loss.name) is loss else FOREIGN
        for loss in losses
    ]
    return np.array(codes, np.int64)


def names_of(task: Task) -> list[str]:
    """The losses of a task that go by a name.

    >>> names_of("regression")
    ['squared', 'absolute', 'huber']
    """
    return [name for name, loss in NAMED.items() if loss.task == task]


_TASKS: dict[Task, str] = {
    "classification": "classification (binary or multiclass)",
    "regression": "regression",
}

DEFAULT: dict[Task, str] = {"classification": "cross_entropy", "regression": "squared"}


CALLED = {"cross_entropy": "log loss", "zero_one": "error rate"}
"""Losses that people do not call by the name and "loss"; see ``explain_client.words``."""


def called(name: str) -> str:
    """What people call a loss and its mean, the risk.

    >>> called("cross_entropy"), called("squared")
    ('log loss', 'squared loss')
    """
    return CALLED.get(name, f"{name.replace('_', ' ')} loss")


ELSEWHERE = {
    "logloss": "cross_entropy",
    "categorical_cross_entropy": "cross_entropy",
    "binary_cross_entropy": "cross_entropy",
    "accuracy": "zero_one",
    "zero_one_loss": "zero_one",
    "brier_score": "brier",
    "mse": "squared",
    "mean_squared_error": "squared",
    "squared_error": "squared",
    "mae": "absolute",
    "mean_absolute_error": "absolute",
    "absolute_error": "absolute",
} | {called(name).replace(" ", "_"): name for name in NAMED}
"""What other libraries, and our own sentences, call a loss."""


def get(
    loss: str | Loss | Callable[[Any, Any], float],
    task: Task | None = None,
    reads: Reads | None = None,
    label_free: bool = False,
) -> Loss:
    """The loss of that name, that which ``module:name`` names, or a callable ``loss(y_true, y_pred) -> float`` made one.

    A callable reads what ``reads`` says; by default the probabilities, in a regression the number. ``label_free``: it may be a measure without labels.

    Raises ``ValueError`` for an unknown name and for a loss that does not fit ``task``.

    >>> get("zero_one")("up", {"up": 0.4, "down": 0.6})
    1.0
    """
    if isinstance(loss, str) and ":" in loss:
        return get(_imported(loss), task, reads, label_free)
    if isinstance(loss, str):
        plain = re.sub(r"\W+", "_", loss.strip().lower())
        if loss not in NAMED and (meant := ELSEWHERE.get(plain, plain)) in NAMED:
            raise ValueError(f"loss: {loss!r} is {meant} here; name that")
        known = NAMED | LABEL_FREE
        if loss not in known:
            raise ValueError(
                f"loss: {loss!r} is not one of {', '.join(known if label_free else NAMED)}; name one of these, or a loss of yours as module:name"
            )
        found = known[loss]
    elif isinstance(loss, Loss):
        found = loss
    elif callable(loss):
        found = Loss(
            getattr(loss, "__name__", "loss"),
            reads or ("number" if task == "regression" else "probabilities"),
            loss,
        )
    else:
        raise ValueError(f"loss: {loss!r} is neither a name nor a callable loss(y_true, y_pred) -> float")
    if found.label_free and not label_free:
        raise ValueError(
            f"loss: {found.name!r} says how far predictions move, not how wrong they are; it is for the losses of an explainer of its own. Name one of {', '.join(NAMED)}"
        )
    if task is not None and found.task != task and not found.label_free:
        fitting = ", ".join(names_of(task))
        raise ValueError(
            f"loss: {found.name!r} is a {found.task} loss and the task is {_TASKS[task]}; use one of {fitting}"
        )
    return found


def _imported(path: str) -> Loss | Callable[[Any, Any], float]:
    try:
        return resolve_name(path)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"loss: {path!r} cannot be imported: {error}") from None
