"""Permutation importance of a data set (Breiman 2001; Fisher, Rudin & Dominici 2019), as the alibi documents specify it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from explain_core import losses as known_losses
from explain_core.explanation import Explanation
from explain_core.losses import AnyTask, Loss, Prediction, Reads, Task
from explain_core.models import Model, Row, wrap
from explain_core.players import Player
from explain_core.progress import track
from explain_core.random import Generator, derive_seed
from explain_core.smoothing import Array
from explain_core.tables import labels, records, transfer

Method = Literal["estimate", "exact"]
Kind = Literal["ratio", "difference"]
CHUNK = 10_000
"""Copies that are predicted at a time, which bounds the memory they take."""


@dataclass(frozen=True)
class Metric:
    """A number for a whole data set, ``function(y_true, y_pred[, sample_weight]) -> float``, as scikit-learn's are.

    ``y_true`` is an array of n truths. ``reads`` says what ``y_pred`` is: n most probable labels, the n × K
    ``probabilities`` with one column per class in y in sorted order, or n numbers. It need not be a mean over rows.

    >>> Metric(lambda y_true, y_pred: float(abs(y_true - y_pred).max()), reads="number").reads
    'number'
    """

    function: Callable[..., float]
    reads: Reads = "label"


AnyMetric = str | Loss | Metric | Callable[..., float]
Metrics = AnyMetric | Sequence[AnyMetric] | Mapping[str, AnyMetric]

_ACCURACY = Loss("accuracy", "label", lambda y, label: 1.0 if label == y else 0.0)
_SCORES: dict[str, tuple[Task, Reads]] = {
    "precision": ("classification", "label"),
    "recall": ("classification", "label"),
    "f1": ("classification", "label"),
    "roc_auc": ("classification", "probabilities"),
    "r2": ("regression", "number"),
}
"""Scores by name that scikit-learn computes, what they are for and what they read; ``accuracy`` is our own."""


class PermutationImportance:
    """How much worse a model gets on a data set when the values of a feature are those of other rows.

    With e_orig = (1/n) Σ_i L(f(x⁽ⁱ⁾), y⁽ⁱ⁾) on all n rows and copies x⁽ⁱʲ⁾ = x⁽ⁱ⁾ with the feature's value of x⁽ʲ⁾::

        estimate  e_switch = 1/(2⌊n/2⌋) Σ_{i ≤ ⌊n/2⌋} [L(x⁽ⁱ'ⁱ''⁾, y⁽ⁱ'⁾) + L(x⁽ⁱ''ⁱ'⁾, y⁽ⁱ''⁾)],  i', i'' the i-th rows of two random halves
        exact     e_switch = 1/(n(n−1)) Σ_i Σ_{j≠i} L(x⁽ⁱʲ⁾, y⁽ⁱ⁾)

    ``kind="difference"`` is e_switch − e_orig for a loss and e_orig − e_switch for a score; ``"ratio"`` is
    e_switch/e_orig for a loss and e_orig/e_switch for a score, so that bigger is always more important.

    Parameters
    ----------
    model, task, classes
        What is explained: anything ``explain_core.models.wrap`` takes.
    loss, score
        What is measured, smaller and bigger is better: a name, a ``Loss`` (averaged over the rows), a ``Metric`` or a
        callable ``(y_true, y_pred[, sample_weight])`` on arrays, which reads labels, in a regression numbers; a list
        of these, or a dict that names them. Losses by name are those of ``explain_core.losses``; scores are accuracy,
        precision, recall, f1, roc_auc and r2 (all but the first need scikit-learn). Default: cross_entropy or squared.
    features
        Names of the columns, where neither the model nor the data names them.
    seed
        Of the random halves, which are the same for every feature.

    >>> rows = [{"a": float(i % 7), "b": float(i % 5)} for i in range(70)]
    >>> pfi = PermutationImportance(lambda x: 2.0 * x["a"], task="regression", loss="absolute")
    >>> explanation = pfi.explain(rows, [2.0 * x["a"] for x in rows], kind="difference", method="exact")
    >>> explanation.features, explanation.values.round(2).tolist()
    (('a', 'b'), [[4.64, 0.0]])
    """

    def __init__(
        self,
        model: Any,
        *,
        task: AnyTask = "classification",
        loss: Metrics | None = None,
        score: Metrics | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.model: Model = wrap(model, task, features, classes)
        kind = self.model.task
        if loss is None and score is None:
            loss = known_losses.DEFAULT[kind]
        losses, scores = _metrics("loss", loss, kind), _metrics("score", score, kind)
        for name in losses.keys() & scores.keys():
            raise ValueError(
                f"score: {name!r} is also the name of a loss; name one differently by passing a dict"
            )
        self.metrics: dict[str, Loss | Metric] = losses | scores
        self.scores = tuple(scores)
        self.features = self.model.features if features is None else [str(name) for name in features]
        self.seed = seed

    def explain(
        self,
        X: Any,
        y: Any,
        *,
        features: Sequence[str | int | tuple[str | int, ...]] | None = None,
        method: Method = "estimate",
        kind: Kind = "ratio",
        n_repeats: int = 50,
        sample_weight: Any = None,
        progress: bool = False,
    ) -> Explanation:
        """The importance of features, or of tuples of features permuted together, on n rows X with truths y.

        X is a data frame, a matrix n × d or n mappings; features go by name or position. The exact method predicts
        n(n−1) copies a feature. A pair of rows has the weight of the row that owns y.

        In the result ``losses`` names the metrics. With "estimate", ``samples`` (metrics × features × n_repeats)
        are those of the repeats, ``values`` their mean and ``std`` their standard deviation (ddof 0), the band one
        ``std`` to each side; with "exact" there is no ``std``. A ratio with a zero denominator is NaN (null in JSON)
        and warns.

        Raises ``ValueError`` for fewer than 2 rows, n_repeats below 1, negative weights, unknown features and
        predictions that are not finite, not of the task's shape or without the classes in y.
        """
        if method not in ("estimate", "exact"):
            raise ValueError(f"method: {method!r} is not one of estimate, exact")
        if kind not in ("ratio", "difference"):
            raise ValueError(f"kind: {kind!r} is not one of ratio, difference")
        if n_repeats < 1:
            raise ValueError(f"n_repeats: {n_repeats} repeats are none; use at least 1")
        rows = records(X, self.features)
        n = len(rows)
        if n < 2:
            raise ValueError(f"X: {n} row is no pair to switch; pass at least 2")
        players = _players(list(dict.fromkeys(name for row in rows for name in row)), features)
        predictions = self.model.predict_many(rows)
        ys = labels(y, rows, self.model, predictions)
        weights = _weights(sample_weight, n)
        data = _Data(self.model, self.metrics, rows, ys, weights)
        original = data.measure([(np.arange(n), predictions)])
        splits = list(_splits(n, n_repeats, self.seed)) if method == "estimate" else [None]
        samples = np.empty((len(self.metrics), len(players), len(splits)))
        steps = [(j, k) for j in range(len(players)) for k in range(len(splits))]
        for j, k in track(steps, "permutation importance", len(steps), progress):
            switched = data.measure(data.switched(players[j], splits[k]))
            for row, name in enumerate(self.metrics):
                samples[row, j, k] = self._importance(
                    kind, name, players[j].name, original[name], switched[name]
                )
        exact = method == "exact"
        groups = {player.name: list(player.features) for player in players if len(player.features) > 1}
        return Explanation(
            estimator="permutation_importance",
            features=tuple(player.name for player in players),
            losses=tuple(self.metrics),
            values=samples.mean(axis=2),
            std=np.full(samples.shape[:2], np.nan) if exact else samples.std(axis=2),
            n=n,
            width=1.0,
            samples=None if exact else samples,
            metadata={
                "method": method,
                "kind": kind,
                "n_repeats": None if exact else n_repeats,
                "scores": list(self.scores),
                "groups": groups,
            },
        )

    def _importance(self, kind: Kind, name: str, feature: str, original: float, switched: float) -> float:
        worse, better = (original, switched) if name in self.scores else (switched, original)
        if kind == "difference":
            return worse - better
        if better == 0.0:
            warnings.warn(
                f"{name}: the ratio for {feature!r} has a zero denominator and is null; use kind='difference'",
                RuntimeWarning,
                stacklevel=3,
            )
            return np.nan
        return worse / better


Pairs = tuple[Any, Any]
"""Two arrays of row numbers: who owns y and all other features, and who gives the feature."""


@dataclass(frozen=True)
class _Data:
    """The rows with their truths and weights, and what is measured on them."""

    model: Model
    metrics: dict[str, Loss | Metric]
    rows: list[Row]
    ys: list[Any]
    weights: Array | None

    def switched(self, player: Player, pairs: Pairs | None) -> Iterator[tuple[Any, list[Prediction]]]:
        """Owners and predictions of copies, chunk by chunk; all pairs of different rows where none are given."""
        n = len(self.rows)
        count = n * (n - 1) if pairs is None else len(pairs[0])
        for start in range(0, count, CHUNK):
            if pairs is None:
                owners, others = np.divmod(np.arange(start, min(start + CHUNK, count)), n - 1)
                donors = others + (others >= owners)
            else:
                owners, donors = pairs[0][start : start + CHUNK], pairs[1][start : start + CHUNK]
            yield owners, switched(self.model, self.rows, player, owners.tolist(), donors.tolist())

    def measure(self, parts: Any) -> dict[str, float]:
        """Every metric over the given parts (owners, predictions) together."""
        classes = sorted(dict.fromkeys(self.ys), key=lambda label: (type(label).__name__, label))
        owners: list[Any] = []
        reads: dict[str, list[Any]] = {name: [] for name in self.metrics}
        for chunk, predictions in parts:
            owners.append(chunk)
            ys = [self.ys[i] for i in chunk]
            for name, metric in self.metrics.items():
                reads[name].append(_read(metric, classes, ys, predictions))
        of = np.concatenate(owners)
        truths, weights = np.array(self.ys)[of], None if self.weights is None else self.weights[of]
        return {
            name: _value(name, metric, truths, np.concatenate(reads[name]), weights)
            for name, metric in self.metrics.items()
        }


def switched(
    model: Model, rows: Sequence[Row], player: Player, owners: Sequence[int], donors: Sequence[int]
) -> list[Prediction]:
    """Predictions for copies of the owners' rows with the player's features of the donors' rows."""
    copies = [dict(rows[i]) for i in owners]
    for copy, j in zip(copies, donors, strict=True):
        transfer(player.features, rows[j], copy)
    return model.checked_predictions(copies)


def _splits(n: int, n_repeats: int, seed: int) -> Iterator[Pairs]:
    """Random halves, each giving to the other; of an odd n one random row stays out."""
    rng = Generator(derive_seed(seed, "permutation importance"))
    half = n // 2
    for _ in range(n_repeats):
        order = np.array(rng.permutation(n))
        first, second = order[:half], order[half : 2 * half]
        yield np.concatenate([first, second]), np.concatenate([second, first])


def _read(metric: Loss | Metric, classes: list[Any], ys: list[Any], predictions: list[Prediction]) -> Any:
    """What the metric reads of the predictions; of a loss, its values."""
    if isinstance(metric, Loss):
        return np.array([metric(y, p) for y, p in zip(ys, predictions, strict=True)])
    if metric.reads == "number":
        return np.array(predictions, dtype=float)
    if metric.reads == "label":
        return np.array([known_losses.argmax(p) for p in predictions])  # type: ignore[arg-type]
    return np.array([[p.get(label, 0.0) for label in classes] for p in predictions])  # type: ignore[union-attr]


def _value(name: str, metric: Loss | Metric, truths: Any, read: Any, weights: Array | None) -> float:
    if isinstance(metric, Loss):
        total = 1.0 if weights is None else weights.sum()
        return float(np.average(read, weights=weights)) if total > 0.0 else np.nan
    if weights is None:
        return float(metric.function(truths, read))
    try:
        return float(metric.function(truths, read, sample_weight=weights))
    except TypeError as error:
        raise ValueError(
            f"sample_weight: the metric {name!r} does not take it ({error}); give it that argument or no weights"
        ) from error


def _metrics(argument: str, given: Metrics | None, task: Task) -> dict[str, Loss | Metric]:
    """The metrics by name. Raises ``ValueError`` that names the argument."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {name: _metric(argument, metric, task)[1] for name, metric in given.items()}
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found = [_metric(argument, metric, task) for metric in several]
    names = [name for name, _ in found]
    if not names or len(set(names)) != len(names):
        raise ValueError(
            f"{argument}: {names} must be at least one, each with a name of its own; pass a dict"
        )
    return dict(found)


def _metric(argument: str, given: AnyMetric, task: Task) -> tuple[str, Loss | Metric]:
    if isinstance(given, str) and argument == "score":
        return given, _score(given, task)
    if isinstance(given, str | Loss):
        loss = known_losses.get(given, task)
        return loss.name, loss
    metric = given if isinstance(given, Metric) else None
    if metric is None and callable(given):
        metric = Metric(given, "number" if task == "regression" else "label")
    if metric is None:
        raise ValueError(f"{argument}: {given!r} is neither a name nor a callable (y_true, y_pred) -> float")
    if (metric.reads == "number") != (task == "regression"):
        raise ValueError(f"{argument}: a metric that reads the {metric.reads} does not fit the task {task}")
    return getattr(metric.function, "__name__", argument), metric


def _score(name: str, task: Task) -> Loss | Metric:
    tasks = {"accuracy": "classification"} | {known: fits for known, (fits, _) in _SCORES.items()}
    if tasks.get(name) != task:
        fitting = ", ".join(known for known, fits in tasks.items() if fits == task)
        raise ValueError(
            f"score: {name!r} is not a score for {task} by name; use {fitting}, or pass a callable"
        )
    if name == "accuracy":
        return _ACCURACY
    try:
        from sklearn import metrics  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ValueError(f"score: {name!r} needs scikit-learn; install it, or pass a callable") from error
    function = getattr(metrics, f"{name}_score")

    def score(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
        if task == "regression":
            return float(function(y_true, y_pred, sample_weight=sample_weight))
        classes = np.unique(y_true)
        if len(classes) != 2:
            raise ValueError(
                f"score: {name!r} is for two classes and y has {len(classes)}; pass a callable that averages over them"
            )
        positive = classes[-1]
        if name == "roc_auc":
            return float(function(y_true == positive, y_pred[:, -1], sample_weight=sample_weight))
        known = np.isin(y_pred, classes)
        if not known.all():
            raise ValueError(
                f"y: the model predicts {y_pred[~known][0]!r}, which is not in y; use its own labels"
            )
        return float(
            function(y_true, y_pred, pos_label=positive, sample_weight=sample_weight, zero_division=0.0)
        )

    return Metric(score, _SCORES[name][1])


def _weights(given: Any, n: int) -> Array | None:
    if given is None:
        return None
    weights = np.asarray(given, dtype=float)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight: shape {weights.shape}; pass one weight for each of the {n} rows")
    bad = ~(np.isfinite(weights) & (weights >= 0.0))
    if bad.any():
        raise ValueError(
            f"sample_weight: {weights[bad][0]} is not a weight; use finite numbers of at least 0"
        )
    if not weights.any():
        raise ValueError("sample_weight: every weight is 0; at least one must be positive")
    return weights


def _players(known: list[str], given: Sequence[Any] | None) -> list[Player]:
    """The features to permute: one of its own, or several of a tuple together."""
    players = []
    for feature in known if given is None else given:
        features = feature if isinstance(feature, tuple) else (feature,)
        if not features:
            raise ValueError("features: an empty group; name at least one feature")
        names = []
        for member in features:
            position = isinstance(member, int) and 0 <= member < len(known)
            if not position and member not in known:
                raise ValueError(f"features: {member!r} is unknown; known are {', '.join(known)}")
            names.append(known[member] if position else member)
        players.append(Player(names[0] if len(names) == 1 else f"({', '.join(names)})", tuple(names)))
    names = [player.name for player in players]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"features: {names} must be at least one, each once")
    return players
