"""What pipelines of river with a linear model are, to a learner."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

from river import compose, linear_model, optim, preprocessing

from explain_core.learners import linear_plan as at
from explain_core.learners.implicit import ImplicitRegression
from explain_core.learners.linear_plan import Branch, LinearPlan, Selector

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


def plan_of(model: Any) -> LinearPlan | None:
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
    if branches is None or not _disjoint(branches):
        return None
    softmax, weighted = link == at.SOFTMAX, type(last.loss) is optim.losses.Log
    return LinearPlan(
        type(last).__name__,
        link,
        LOSSES[type(last.loss)][1],
        tuple(branches),
        target,
        implicit=type(last) is ImplicitRegression,
        rate=last.optimizer.lr.learning_rate,
        intercept_rate=0.0 if softmax else last.intercept_lr.learning_rate,
        l2=last.l2,
        clip_gradient=0.0 if softmax else last.clip_gradient,
        positive=last.loss.weight_pos if weighted else 1.0,
        negative=last.loss.weight_neg if weighted else 1.0,
        intercept=0.0 if softmax else last.intercept_init,
    )


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


def _disjoint(branches: list[Branch]) -> bool:
    """Whether no feature can take two ways, and each way gets what it can take."""
    if len(branches) == 1:
        return not branches[0].encodes or not branches[0].takes("", False)
    kinds = [(branch.takes("", True), branch.takes("", False)) for branch in branches]
    names = any(selector.types is None for branch in branches for selector in branch.selectors)
    return (
        not names
        and all(sum(column) <= 1 for column in zip(*kinds, strict=True))
        and all(not branch.takes("", False) for branch in branches if branch.encodes)
    )


def _branches(steps: Iterable[Any], branch: Branch) -> list[Branch] | None:
    """The ways through transformers after what the branch has been through; None where one is not known."""
    steps = list(steps)
    if not steps:
        return [branch]
    step, rest = steps[0], steps[1:]
    if type(step) is compose.Pipeline:
        return _branches([*step.steps.values(), *rest], branch)
    if branch.scales or branch.encodes:
        return None
    if type(step) is compose.TransformerUnion and not rest:
        # The last transformer's features come first: river packs their results from behind.
        ways = [_branches([transformer], branch) for transformer in reversed(step.transformers.values())]
        return None if None in ways else [way for several in ways for way in several or []]
    if type(step) is compose.SelectType and set(step.types) <= {str, numbers.Number}:
        selector = Selector(frozenset(step.types))
        return _branches(rest, branch._replace(selectors=(*branch.selectors, selector)))
    if type(step) is compose.Discard:
        selector = Selector(all_but=frozenset(step.keys))
        return _branches(rest, branch._replace(selectors=(*branch.selectors, selector)))
    if type(step) is preprocessing.StandardScaler and step.window_size is None and not step.counts:
        return _branches(rest, branch._replace(with_std=bool(step.with_std)))
    if (
        type(step) is preprocessing.OneHotEncoder
        and not (step.drop_first or step.values)
        and step.categories is None
    ):
        return _branches(rest, branch._replace(drop_zeros=bool(step.drop_zeros)))
    return None
