"""What a linear learner does, as plain values; how its state lies in arrays: columns of ``head`` and ``columns``, and what their numbers mean."""

from __future__ import annotations

import numbers
from collections.abc import Hashable
from typing import NamedTuple

N_COLUMNS, N_LABELS, LINK, LOSS, RANKED, ZEROS, WITH_STD, HAS_TARGET, N_RANKED, IMPLICIT, N_HEAD = range(11)
"""Of ``head``. RANKED: the order in which categories were learnt counts; ZEROS: so do those that a record has not. IMPLICIT: see ``implicit``."""

KIND, PLACE, ROOM = range(3)
"""Of a column: what becomes of it, where its keys begin among the places, and for how many categories there is room."""

IGNORED, NUMBER, SCALED, CATEGORY = range(4)
SIGMOID, IDENTITY, SOFTMAX = range(3)
LOG, SQUARED, ABSOLUTE = range(3)


class Selector(NamedTuple):
    """Takes features of these types, one of them a number or a string, or all but those of these names."""

    types: frozenset[type] | None = None
    all_but: frozenset[Hashable] = frozenset()

    def takes(self, name: str, nominal: bool) -> bool:
        if self.types is None:
            return name not in self.all_but
        return (str if nominal else numbers.Number) in self.types


class Branch(NamedTuple):
    """A way of features to the model: which it takes, and what becomes of them.

    ``with_std`` is that of a scaler, ``drop_zeros`` that of a one-hot encoder; None where there is none.
    """

    selectors: tuple[Selector, ...] = ()
    with_std: bool | None = None
    drop_zeros: bool | None = None

    def takes(self, name: str, nominal: bool) -> bool:
        return all(selector.takes(name, nominal) for selector in self.selectors)

    @property
    def scales(self) -> bool:
        return self.with_std is not None

    @property
    def encodes(self) -> bool:
        return self.drop_zeros is not None


class LinearPlan(NamedTuple):
    """A linear model that has learnt nothing, and the ways to it.

    ``name`` is that of its class, ``link`` and ``loss`` are those above. ``branches`` are in the order in which their features
    reach the model. ``target``: the target is standardised. ``implicit``: its steps are those of ``ImplicitRegression``.
    """

    name: str
    link: int
    loss: int
    branches: tuple[Branch, ...]
    target: bool = False
    implicit: bool = False
    rate: float = 0.01
    intercept_rate: float = 0.01
    l2: float = 0.0
    clip_gradient: float = 1e12
    positive: float = 1.0
    negative: float = 1.0
    """What records of the two classes weigh in a logistic regression."""
    intercept: float = 0.0
