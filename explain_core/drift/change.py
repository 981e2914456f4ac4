"""The result type: why a risk changed from one window to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

Verdict = Literal["attributed", "not attributable"]
Z = 1.959963984540054
"""Half the width of a 95 % interval in standard errors."""


@dataclass(frozen=True)
class Cause:
    """The Shapley value of one player, in units of the loss: how much of the change of risk it made.

    ``std`` is its standard error, of the rows (bootstrap) and of the sampling together; ``low`` and ``high`` are an
    interval that holds at 95 % for all players of the game at once (Bonferroni). They are None without bootstrap.
    ``error`` is the standard error of the sampling alone, 0 on the exact routes.

    >>> Cause("concept", 0.05, error=0.0, std=0.01, low=0.028, high=0.072).stands_out
    True
    """

    name: str
    value: float
    error: float
    std: float | None
    low: float | None
    high: float | None

    @property
    def stands_out(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)


class Step(NamedTuple):
    """A step of the waterfall from one risk to the other; the ends are those of the interval, where there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Attribution:
    """The Shapley values of one game: their sum is ``target`` − ``baseline``, the risks it is played between.

    ``concept`` is P(y|x), ``hypothesis`` the change of the model where it changes. ``inputs`` is P(x) whole in the joint
    game, one player per feature or group in the product game. ``route`` says how it was solved ("rows", "grid", "boxes":
    exact; "monte carlo") and ``size`` with how many rows, cells, boxes or samples.

    >>> concept, inputs = (Cause(name, value, 0.0, None, None, None) for name, value in (("concept", 0.25), ("inputs", 0.5)))
    >>> game = Attribution(concept, None, (inputs,), baseline=0.0, target=0.75, route="rows", size=200)
    >>> sum(player.value for player in game.players) == game.target - game.baseline
    True
    """

    concept: Cause
    hypothesis: Cause | None
    inputs: tuple[Cause, ...]
    baseline: float
    target: float
    route: str
    size: int

    @property
    def players(self) -> tuple[Cause, ...]:
        return (self.concept, *((self.hypothesis,) if self.hypothesis else ()), *self.inputs)


@dataclass(frozen=True)
class WindowRisk:
    """The risks of one window, in units of the loss.

    ``empirical`` is the mean loss of its frozen model on its rows (on ``evaluated`` of them), ``binned`` the risk of the
    joint game, in which y depends on the bins of x alone, ``product`` that of the product game, in which the factors of
    P(x) are independent as well. ``prequential`` is the mean loss of the model as it learnt.

    >>> WindowRisk(5000, 2500, empirical=0.25, binned=0.125, product=None, prequential=0.2).discretisation
    0.125
    """

    rows: int
    evaluated: int
    empirical: float
    binned: float
    product: float | None
    prequential: float | None

    @property
    def discretisation(self) -> float:
        """What binning takes off the risk: empirical − binned."""
        return self.empirical - self.binned

    @property
    def independence(self) -> float | None:
        """What independence takes off it further: binned − product."""
        return None if self.product is None else self.binned - self.product

    @property
    def observed(self) -> float:
        return self.empirical if self.prequential is None else self.prequential


@dataclass(frozen=True)
class RiskChange:
    """Why the risk changed from a baseline to a target window (DBShap; target − baseline, units of the loss).

    ``joint`` is the headline: concept, hypothesis and inputs as the rows have them. ``product`` splits the inputs by
    feature or group, as if these were independent. ``std`` is the standard error of the change of the empirical risk.
    ``back_off`` is the larger share of either window's product distribution that a frequency table would have to
    borrow from the other window; ``conditional`` says what P(y|x) was estimated with instead, or in spite of it.
    ``bins`` has the edges or the categories of each feature.

    change = Σ joint + residual + learning_within_window, and Σ joint inputs = Σ product inputs + dependence.

    >>> from explain_core.drift import dbshap
    >>> before = [({"a": a, "b": b}, a & b) for a in (0, 1) for b in (0, 1)] * 50
    >>> change = dbshap(before, [(x, x["a"] | x["b"]) for x, _ in before], hypothesis=lambda x: {x["a"] & x["b"]: 1.0})
    >>> change.target.empirical - change.baseline.empirical, RiskChange.from_json(change.to_json()) == change
    (0.5, True)
    """

    loss: str
    baseline: WindowRisk
    target: WindowRisk
    std: float
    joint: Attribution
    product: Attribution | None
    conditional: Literal["table", "tree"]
    back_off: float
    bootstrap: int
    bins: dict[str, dict[str, list[Any]]]
    warnings: tuple[str, ...]

    @property
    def change(self) -> float:
        """The change that was observed: of the prequential risk where it is known, else of the empirical one."""
        return self.target.observed - self.baseline.observed

    @property
    def learning_within_window(self) -> float | None:
        """What of the change comes from learning inside the windows: that of the prequential − of the empirical risk."""
        if self.baseline.prequential is None or self.target.prequential is None:
            return None
        return self.change - (self.target.empirical - self.baseline.empirical)

    @property
    def residual(self) -> float:
        """What the joint game does not attribute: the change of the empirical risk − Σ joint."""
        return self.target.discretisation - self.baseline.discretisation

    @property
    def dependence(self) -> float | None:
        """What the inputs do together and no feature does alone: joint inputs − Σ product inputs."""
        if self.product is None:
            return None
        return sum(one.value for one in self.joint.inputs) - sum(one.value for one in self.product.inputs)

    @property
    def verdict(self) -> Verdict:
        """``not attributable`` where the residual exceeds both twice the standard error of the change and half of it."""
        change = self.target.empirical - self.baseline.empirical
        rounding = 1e-12 * max(abs(self.target.empirical), abs(self.baseline.empirical))
        missed = abs(self.residual) > max(2.0 * self.std, 0.5 * abs(change), rounding)
        return "not attributable" if missed else "attributed"

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What changed in the data, concept or inputs, as far as its interval excludes 0, the largest first; none where
        the change is not attributable.

        The hypothesis is none of them: a model that learns changes without any drift.
        """
        if self.verdict == "not attributable":
            return ()
        return _largest_first((self.joint.concept, *self.joint.inputs))

    @property
    def drivers(self) -> tuple[Cause, ...]:
        """The features or groups whose interval excludes 0, the largest first, where the inputs are a cause and depend on
        each other for less than half of what they caused.
        """
        inputs = sum(one.value for one in self.joint.inputs)
        named = any(cause in self.joint.inputs for cause in self.causes)
        if not named or self.product is None or abs(self.dependence or 0.0) > 0.5 * abs(inputs):
            return ()
        return _largest_first(self.product.inputs)

    def steps(self, top: int) -> list[Step]:
        """What leads from the risk of the baseline window to that of the target; the values add up to ``change``.

        The inputs are split into the ``top`` features or groups, the others, and their dependence where the result has
        the game of single features. What no player made are steps too: the residual, learning within the windows.
        """
        product = self.product
        players = [one for one in self.joint.players if product is None or one not in self.joint.inputs]
        rest: list[tuple[str, float | None]] = []
        if product is not None:
            ranked = sorted(product.inputs, key=lambda one: -abs(one.value))
            players += ranked[:top]
            if ranked[top:]:
                rest.append((f"{len(ranked) - top} others", sum(one.value for one in ranked[top:])))
        rest += [
            ("dependence", self.dependence),
            ("residual", self.residual),
            ("learning within the windows", self.learning_within_window),
        ]
        return [
            *(Step(one.name, one.value, one.low, one.high) for one in players),
            *(Step(name, value) for name, value in rest if value is not None),
        ]

    def sentence(self, baseline: str | None = None, target: str | None = None) -> str:
        """The result in words, ± half the width of a 95 % interval; the windows by name where they have one."""
        risk = "error rate" if self.loss == "zero_one" else f"{self.loss} risk"
        moved = "rose" if self.change > 0.0 else "fell" if self.change < 0.0 else "changed"
        between = f" from {baseline} to {target}" if baseline and target else ""
        head = (
            f"{risk} {moved} by {_figure(abs(self.change))} ± {_figure(Z * self.std)}{between} "
            f"({_figure(self.baseline.observed)} → {_figure(self.target.observed)})"
        )
        if self.verdict == "not attributable":
            missed = _figure(abs(self.residual))
            return f"{head}; not attributable: {missed} of it lies within the bins of the inputs"
        causes = [
            f"{cause.name} {cause.value:+.3g}{self._driver() if cause in self.joint.inputs else ''}"
            for cause in self.causes
        ]
        learning = []
        if self.joint.hypothesis and self.joint.hypothesis.stands_out:
            learning.append(f"the model's own change {self.joint.hypothesis.value:+.3g}")
        if abs(self.learning_within_window or 0.0) > Z * self.std:
            learning.append(f"learning within the windows {self.learning_within_window:+.3g}")
        if causes:
            return f"{head}: {', '.join([*causes, *learning])}"
        if learning:
            return f"{head}: {', '.join(learning)}; no cause in the data stands out"
        return f"{head}; no cause stands out of the noise"

    def _driver(self) -> str:
        """Which feature made what the inputs made."""
        if self.product is None or len(self.product.inputs) < 2:
            return ""
        if not self.drivers:
            return " (of no feature alone)"
        first = self.drivers[0]
        most = first.value / sum(one.value for one in self.joint.inputs) > 0.5
        return f" (most of it {first.name})" if most else f" (first of all {first.name})"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, every number finite; what follows from the rest is there for readers in other languages."""
        derived = {
            "change": self.change,
            "residual": self.residual,
            "dependence": self.dependence,
            "learning_within_window": self.learning_within_window,
            "verdict": self.verdict,
            "causes": [cause.name for cause in self.causes],
            "drivers": [cause.name for cause in self.drivers],
            "sentence": self.sentence(),
        }
        return {**_plain(asdict(self)), **derived}

    def to_json(self) -> str:
        """``to_dict`` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RiskChange:
        """The result that ``to_dict`` gave. Raises ``ValueError`` where a key is missing or has the wrong type."""
        try:
            known = {field.name: data[field.name] for field in fields(cls)}
            known["baseline"], known["target"] = (WindowRisk(**data[name]) for name in ("baseline", "target"))
            known["joint"] = _attribution(data["joint"])
            known["product"] = None if data["product"] is None else _attribution(data["product"])
            known["warnings"] = tuple(data["warnings"])
            return cls(**known)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"risk change: {type(error).__name__}: {error}; pass what to_dict or to_json gave"
            ) from None

    @classmethod
    def from_json(cls, text: str | bytes) -> RiskChange:
        """The result that ``to_json`` gave. Raises ``ValueError`` for anything else."""
        return cls.from_dict(json.loads(text))


def _attribution(data: Mapping[str, Any]) -> Attribution:
    hypothesis = data["hypothesis"]
    return Attribution(
        **{
            **data,
            "concept": Cause(**data["concept"]),
            "hypothesis": None if hypothesis is None else Cause(**hypothesis),
            "inputs": tuple(Cause(**one) for one in data["inputs"]),
        }
    )


def _largest_first(players: tuple[Cause, ...]) -> tuple[Cause, ...]:
    return tuple(sorted((one for one in players if one.stands_out), key=lambda one: -abs(one.value)))


def _plain(value: Any) -> Any:
    """Tuples as lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _figure(value: float) -> str:
    """Three decimals where they say something, else three significant digits."""
    return f"{value:.3f}" if value == 0.0 or 0.001 <= value < 1_000 else f"{value:.3g}"
