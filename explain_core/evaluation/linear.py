"""River's linear models behind scalers and one-hot encoders, compiled where numba is installed."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from river import compose, linear_model, preprocessing
from river.optim.losses import BinaryLoss, RegressionLoss

from explain_core.evaluation import linear_kernels as kernels
from explain_core.evaluation.compiled import CompiledEvaluator
from explain_core.evaluation.plan import Plan
from explain_core.evaluation.table import Array, Table
from explain_core.models import Model, Row

_NUMBERS = (1.0, 1, True)


class Branch(NamedTuple):
    """A way through a pipeline: which values take it, and what becomes of them."""

    selectors: tuple[Any, ...] = ()
    scaler: Any = None
    encoder: Any = None

    def takes(self, name: str, category: bool) -> bool | None:
        """Whether values of the feature go this way; None where that depends on more than being a category."""
        for selector in self.selectors:
            if type(selector) is compose.Discard:
                if name in selector.keys:
                    return False
                continue
            answers = {isinstance(value, selector.types) for value in (("",) if category else _NUMBERS)}
            if len(answers) > 1:
                return None
            if not answers.pop():
                return False
        return True


class Linear(NamedTuple):
    """A linear model, the ways to it, and the variance of its target where that is standardised."""

    model: Any
    branches: list[Branch]
    target: Any = None


def linear(model: Any) -> Linear | None:
    """What a river model is made of; None where it is not a sum of one contribution for each feature."""
    steps: list[Any] = list(model.steps.values()) if type(model) is compose.Pipeline else [model]
    last: Any = steps[-1]
    target: Any = None
    if type(last) is preprocessing.TargetStandardScaler:
        last, target = last.regressor, last.var
    if type(last) is linear_model.LogisticRegression:
        known = type(last.loss).mean_func is BinaryLoss.mean_func
    elif type(last) is linear_model.LinearRegression:
        known = type(last.loss).mean_func is RegressionLoss.mean_func
    else:
        known = type(last) is linear_model.SoftmaxRegression
    branches = _branches(steps[:-1], Branch())
    return Linear(last, branches, target) if known and branches is not None else None


def _branches(steps: Iterable[Any], branch: Branch) -> list[Branch] | None:
    """The ways through transformers after what the branch has been through."""
    steps = list(steps)
    if not steps:
        return [branch]
    step, rest = steps[0], steps[1:]
    fresh = branch.scaler is None and branch.encoder is None
    if type(step) is compose.Pipeline:
        return _branches([*step.steps.values(), *rest], branch)
    if not fresh:
        return None
    if type(step) is compose.TransformerUnion and not rest:
        ways = [_branches([one], branch) for one in step.transformers.values()]
        return None if None in ways else [way for several in ways for way in several or []]
    if type(step) in (compose.SelectType, compose.Discard):
        return _branches(rest, branch._replace(selectors=(*branch.selectors, step)))
    if type(step) is preprocessing.StandardScaler and step.window_size is None:
        return _branches(rest, branch._replace(scaler=step))
    if type(step) is preprocessing.OneHotEncoder and not step.drop_first and step.categories is None:
        return _branches(rest, branch._replace(encoder=step))
    return None


class LinearEvaluator(CompiledEvaluator):
    """Logistic, softmax and linear regression behind StandardScaler, OneHotEncoder, SelectType and Discard.

    A copy takes the sums of the record and exchanges the contributions of the features that differ; predictions are
    those of the model to some 10⁻¹⁴ relative to the largest contribution.
    """

    name = "linear"

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        found = linear(model.wrapped)
        if found is None:
            raise ValueError(f"evaluator: linear does not know {type(model.wrapped).__name__}; use generic")
        self.image = self._linear = _Image(found, self._table)

    def _run(self, plan: Plan, x: Row, y: float) -> bool:
        _, row, matrix, *_ = plan.arguments
        return not self._linear.excludes(row, matrix) and bool(kernels.explain(*plan.arguments, y))


class _Image:
    """Weights, means and deviations as arrays in the order of a table's columns.

    What they cannot tell is looked for in the rows at hand, and not in the table: that knows more after a long run than after a restart.
    """

    def __init__(self, model: Linear, table: Table) -> None:
        self._model, self._table = model, table
        self._keys: list[Any] = []
        self._size = -1
        self._scaled: list[tuple[Any, list[int], list[str]]] = []
        self._barred: list[int] = []
        self._shared: list[list[tuple[int, int | None]]] = []
        kind = type(model.model)
        self._link = (
            kernels.SOFTMAX if kind is linear_model.SoftmaxRegression
            else kernels.SIGMOID if kind is linear_model.LogisticRegression
            else kernels.IDENTITY
        )  # fmt: skip
        fixed: dict[int, list[Any]] = {kernels.SIGMOID: [False, True], kernels.IDENTITY: [None]}
        self.labels = fixed.get(self._link, [])
        self.codes: dict[Any, int] = {}
        self.arrays: tuple[Any, ...] = ()

    def sync(self) -> bool:
        """Bring the arrays up to date; False where there are no classes yet."""
        labels = self.labels
        if self._link == kernels.SOFTMAX:
            labels = list(self._model.model.weights)
        if self._table.size != self._size or labels != self.labels:
            self._size, self.labels = self._table.size, labels
            self.codes = {label: code for code, label in enumerate(labels)}
            self._lay_out()
        if labels:
            self._read()
        return bool(labels)

    def excludes(self, row: Array, matrix: Array) -> bool:
        """Whether copies of the row may have what the arrays do not tell: a column whose way is not known, or two values that share a weight.

        Of two such values river lets the first decide.
        """
        if not (self._barred or self._shared):
            return False
        rows = np.vstack([matrix, row])
        present = ~np.isnan(rows)
        if present[:, self._barred].any():
            return True
        for owners in self._shared:
            here = [(present[:, j] if code is None else rows[:, j] == code).any() for j, code in owners]
            if sum(here) > 1:
                return True
        return False

    def _lay_out(self) -> None:
        table, n = self._table, len(self._table.names)
        kinds = np.zeros(n, np.int64)
        widest = max((len(codes) for codes in table.codes.values()), default=0)
        places = np.zeros((n, max(widest, 1)), np.int64)
        keys: list[Any] = [None] * n
        owners: dict[str, list[tuple[int, int | None]]] = {}  # column and category of each key
        self._barred = []
        scaled: dict[int, tuple[Any, list[int], list[str]]] = {}
        for j, name in enumerate(table.names):
            categories = table.codes.get(name)
            ways = [
                way for way in self._model.branches if way.takes(name, categories is not None) is not False
            ]
            if not ways:
                continue
            way = ways[0]
            known = len(ways) == 1 and way.takes(name, categories is not None) is not None
            if not known or (way.encoder is None) != (categories is None):
                self._barred.append(j)
                continue
            if categories is not None:
                kinds[j] = kernels.CATEGORY
                for category, code in categories.items():
                    places[j, code] = len(keys)
                    keys.append(f"{name}_{category}")
                    owners.setdefault(keys[-1], []).append((j, code))
                continue
            keys[j] = name
            owners.setdefault(name, []).append((j, None))
            kinds[j] = kernels.NUMBER
            if way.scaler is not None:
                kinds[j] = kernels.SCALED
                _, columns, names = scaled.setdefault(id(way.scaler), (way.scaler, [], []))
                columns.append(j)
                names.append(name)
        self._shared = [several for several in owners.values() if len(several) > 1]
        self._keys, self._scaled = keys, list(scaled.values())
        outputs = len(self.labels) if self._link == kernels.SOFTMAX else 1
        block = np.zeros(outputs * len(keys) + 2 * n)  # in one piece: most models are read by one call
        self._weights = block[: outputs * len(keys)].reshape(outputs, len(keys))
        self._means, self._variances = means, variances = block[-2 * n :].reshape(2, n)
        variances[:] = 1.0
        self._intercepts, self._target = np.zeros(outputs), np.array([1.0, 0.0])
        # Every feature is a number behind one scaler: the keys of weights, means and variances, as long as these have them all.
        plain = len(self._scaled) == 1 and len(self._scaled[0][1]) == n and self._model.target is None
        self._scaler = self._scaled[0][0] if plain and self._scaled[0][0].with_std else None
        self._all, self._block = 3 * keys, block.data
        self._format = struct.Struct(f"{len(block)}d")
        self.arrays = (
            kinds,
            means,
            variances,
            places,
            self._weights,
            self._intercepts,
            self._link,
            self._target,
        )

    def _read(self) -> None:
        model, target, keys = self._model.model, self._model.target, self._keys
        if self._link == kernels.SOFTMAX:
            for c, weights in enumerate(model.weights.values()):
                self._weights[c] = _in_order(weights, keys)
        else:
            weights = model.weights
            self._intercepts[0] = model.intercept
            if self._scaler is not None:
                means, variances = self._scaler.means, self._scaler.vars
                if [*weights, *means, *variances] == self._all:
                    values = (*weights.values(), *means.values(), *variances.values())
                    self._format.pack_into(self._block, 0, *values)
                    return
            self._weights[0] = _in_order(weights, keys)
        for scaler, columns, names in self._scaled:
            self._means[columns] = _in_order(scaler.means, names)
            if scaler.with_std:
                self._variances[columns] = _in_order(scaler.vars, names)
        if target is not None:
            self._target[:] = target.get() ** 0.5, target.mean.get()


def _in_order(numbers: dict[Any, float], keys: list[Any]) -> list[float]:
    """The number of each key, 0 where it has none."""
    return list(map(numbers.get, keys, repeat(0.0)))
