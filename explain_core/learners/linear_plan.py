"""What a river pipeline of a linear model is made of."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any, NamedTuple

from river import compose, linear_model, optim, preprocessing

from explain_core.learners import linear_layout as at
from explain_core.learners.implicit import ImplicitRegression

LINKS: dict[type, int] = {
    linear_model.LogisticRegression: at.SIGMOID,
    linear_model.LinearRegression: at.IDENTITY,
    ImplicitRegression: at.IDENTITY,
    linear_model.SoftmaxRegression: at.SOFTMAX,
}
LOSSES: dict[type, tuple[int, int]] = {
    optim.losses.Log: (at.SIGMOID, at.LOG),
    optim.losses.Squared: (at.IDENTITY, at.SQUARED),
    optim.losses.Absolute: (at.IDENTITY, at.ABSOLUTE),
    optim.losses.CrossEntropy: (at.SOFTMAX, at.LOG),
}


class Branch(NamedTuple):
    """A way of features to the model: which it takes, and what becomes of them."""

    selectors: tuple[Any, ...] = ()
    scaler: Any = None
    encoder: Any = None

    def takes(self, name: str, nominal: bool) -> bool:
        for selector in self.selectors:
            if type(selector) is compose.Discard:
                taken = name not in selector.keys
            else:
                taken = (str if nominal else numbers.Number) in selector.types
            if not taken:
                return False
        return True

    @property
    def described(self) -> list[Any]:
        """Its steps, as plain values."""
        steps = [*self.selectors, *filter(None, [self.scaler, self.encoder])]
        return [(type(step), step._get_params()) for step in steps]


class LinearPipeline(NamedTuple):
    """What a river pipeline is made of; ``branches`` in the order in which their features reach the model."""

    model: Any
    branches: tuple[Branch, ...]
    target: bool

    def same_ways(self, other: LinearPipeline) -> bool:
        """Whether features reach another model in the same ways."""
        ways = [[branch.described for branch in plan.branches] for plan in (self, other)]
        return type(self.model) is type(other.model) and self.target == other.target and ways[0] == ways[1]


def plan_of(model: Any) -> LinearPipeline | None:
    """The plan of a river model that has learnt nothing; None where it is none of those known here."""
    steps: list[Any] = list(model.steps.values()) if type(model) is compose.Pipeline else [model]
    last: Any = steps.pop()
    target = type(last) is preprocessing.TargetStandardScaler
    if target:
        if last.var.n:
            return None
        last = last.regressor
    link = LINKS.get(type(last))
    if link is None or (target and link != at.IDENTITY) or not is_new(last, link):
        return None
    branches = _branches(steps, Branch())
    if branches is None or not all(map(_fresh, branches)) or not _disjoint(branches):
        return None
    return LinearPipeline(last, tuple(branches), target)


def is_new(model: Any, link: int) -> bool:
    """Whether the model has learnt nothing, and its parameters are those that compiled code knows."""
    if (
        LOSSES.get(type(model.loss), (None, None))[0] != link
        or model.weights
        or not _constant(model.optimizer)
    ):
        return False
    if link == at.SOFTMAX:
        return not model.loss.class_weight
    return (
        model.l1 == 0
        and type(model.intercept_lr) is optim.schedulers.Constant
        and type(model.initializer) is optim.initializers.Zeros
        and model.intercept == model.intercept_init
    )


def _constant(optimizer: Any) -> bool:
    """Whether it is stochastic gradient descent at a constant rate that has taken no step."""
    return (
        type(optimizer) is optim.SGD
        and type(optimizer.lr) is optim.schedulers.Constant
        and optimizer.n_iterations == 0
    )


def _fresh(branch: Branch) -> bool:
    scaler, encoder = branch.scaler, branch.encoder
    return not (scaler and scaler.counts) and not (encoder and encoder.values)


def _disjoint(branches: list[Branch]) -> bool:
    """Whether no feature can take two ways, and each way gets what it can take."""
    if len(branches) == 1:
        return branches[0].encoder is None or not branches[0].takes("", False)
    kinds = [(branch.takes("", True), branch.takes("", False)) for branch in branches]
    names = any(type(selector) is compose.Discard for branch in branches for selector in branch.selectors)
    encoders = [branch for branch in branches if branch.encoder is not None]
    return (
        not names
        and all(sum(column) <= 1 for column in zip(*kinds, strict=True))
        and all(not encoder.takes("", False) for encoder in encoders)
    )


def _branches(steps: Iterable[Any], branch: Branch) -> list[Branch] | None:
    """The ways through transformers after what the branch has been through; None where one is not known."""
    steps = list(steps)
    if not steps:
        return [branch]
    step, rest = steps[0], steps[1:]
    if type(step) is compose.Pipeline:
        return _branches([*step.steps.values(), *rest], branch)
    if branch.scaler is not None or branch.encoder is not None:
        return None
    if type(step) is compose.TransformerUnion and not rest:
        # The last transformer's features come first: river packs their results from behind.
        ways = [_branches([transformer], branch) for transformer in reversed(step.transformers.values())]
        return None if None in ways else [way for several in ways for way in several or []]
    if type(step) is compose.SelectType and set(step.types) <= {str, numbers.Number}:
        return _branches(rest, branch._replace(selectors=(*branch.selectors, step)))
    if type(step) is compose.Discard:
        return _branches(rest, branch._replace(selectors=(*branch.selectors, step)))
    if type(step) is preprocessing.StandardScaler and step.window_size is None:
        return _branches(rest, branch._replace(scaler=step))
    if type(step) is preprocessing.OneHotEncoder and not step.drop_first and step.categories is None:
        return _branches(rest, branch._replace(encoder=step))
    return None
