"""The result type: why a risk changed from one window to the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from explain_core.figures import Z, factor, figure, figures, rough
from explain_core.sums import total

Verdict = Literal["attributed", "not attributable"]
Name = Callable[[str], str]
"""What people call a feature."""
LEVEL = 0.95
LEAST_MATCHED = 0.1
"""The share of either window's rows that match the other, below which concept and inputs cannot be told apart."""
NAMED = 5
"""Features that a sentence names as those that tell windows apart, with so many characters of each."""
LONGEST = 100
ROUNDED = 1e3
"""Standard errors from which on half of an interval is but an allowance for rounding."""
WORTH_SAYING = 0.05
"""The share of rows without a match from which on the sentence mentions them."""


@dataclass(frozen=True)
class Cause:
    """The Shapley value of one player, in units of the loss: how much of the change of risk it made.

    ``std`` is its standard error, of the rows and of the sampling together; ``low`` and ``high`` are an interval that
    holds at 95 % for all players of the game at once (Bonferroni). For single features they come from the bootstrap, and
    are None without. ``error`` is the standard error of the sampling alone, 0 on the exact routes.

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
    """The Shapley values of one game: their sum is ``target`` − ``baseline``, the risks it is played between; where it is sampled, within
    what the ``error`` of each says.

    ``concept`` is P(y|x), ``hypothesis`` the change of the model where it changes. ``inputs`` is P(x) whole in the joint
    game, one player per feature or group in the product game. ``route`` says how it was solved (joint: "trees" or "cells"
    on the rows; product: "grid" and "boxes", exact, or "monte carlo") and ``size`` with how many rows, cells, boxes or
    samples.

    >>> concept, inputs = (Cause(name, value, 0.0, None, None, None) for name, value in (("concept", 0.25), ("inputs", 0.5)))
    >>> game = Attribution(concept, None, (inputs,), baseline=0.0, target=0.75, route="trees", size=200)
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

    ``empirical`` is the mean loss of its frozen model on its rows (on ``evaluated`` of them), ``product`` the risk where
    the factors of P(x) are independent and y depends on their bins alone. ``prequential`` is the mean loss of the model
    as it learnt. ``matched`` is the share of its rows that have their like in the other window.

    >>> WindowRisk(5000, 2500, 1.0, empirical=0.25, product=0.125, prequential=0.2).independence
    0.125
    """

    rows: int
    evaluated: int
    matched: float
    empirical: float
    product: float | None
    prequential: float | None

    @property
    def independence(self) -> float | None:
        """What independence and bins take off the risk: empirical − product."""
        return None if self.product is None else self.empirical - self.product

    @property
    def observed(self) -> float:
        return self.empirical if self.prequential is None else self.prequential


@dataclass(frozen=True)
class Separation:
    """Why rows have nothing alike in the other window: the ``features`` that tell them apart. ``attributable`` says that the change can
    be attributed without these.

    >>> Separation(("a", "b", "c"), attributable=False).words
    'a, b and c'
    """

    features: tuple[str, ...]
    attributable: bool

    @property
    def words(self) -> str:
        """The features in a sentence, of bounded length."""
        return listed(self.features)

    def sentence(self, remedy: Callable[[Sequence[str]], str], name: Name = str) -> str:
        """That they tell the windows apart, and the ``remedy`` where that is to leave them out."""
        plural = len(self.features) > 1
        told = f"{listed([*map(name, self.features)])} tell{'' if plural else 's'} them apart"
        if not self.attributable:
            return f"{told}, among others"
        if len(self.features) > NAMED or max(map(len, self.features)) > LONGEST:
            return told
        return (
            f"{told}; to attribute the change without {'them' if plural else 'it'}, {remedy(self.features)}"
        )


Sense = Literal["missing", "new", "gone", "shifted", "scaled", "shares", "unlike"]


@dataclass(frozen=True)
class Difference:
    """How a feature differs between the windows, as ``explain_core.drift.differences`` finds it.

    ``sense`` is the sense of it: other shares of ``missing`` values; values that are ``new`` or ``gone``; numbers that are all ``shifted`` by
    ``by`` or ``scaled`` by this factor; other ``shares`` of the same values; or values as before that are ``unlike`` those of ``value``,
    another feature, otherwise than before. ``before`` and ``after`` are the windows' shares of missing values or of the values that
    ``value`` names, of numbers shifted or scaled their means. ``bits`` is what the feature says about the window a row is from, of at most 1. ``risk`` is the part of the change
    of the risk that goes with it. ``fault``: the shift or the factor explains all that differs, and nothing that goes with the feature followed.

    >>> Difference("temp", "missing", 0.2, 0.0, 0.3).words
    'temp is missing in 30% of the rows (before: 0%)'
    """

    feature: str
    sense: Sense
    bits: float
    before: float | None = None
    after: float | None = None
    value: str | None = None
    by: float | None = None
    risk: Cause | None = None
    fault: bool = False

    @property
    def words(self) -> str:
        """The difference in words, without its part of the risk."""
        return self._words(str)

    def _words(self, name: Name) -> str:
        what = _short(name(self.feature))
        if self.sense == "unlike":
            return f"{what} no longer goes with {_short(name(self.value or ''))} as before"
        if self.sense == "shifted" and self.by is not None:
            return f"{what} is {'higher' if self.by > 0.0 else 'lower'} by {rough(abs(self.by))} throughout"
        if self.sense == "scaled" and self.by is not None:
            return f"{what} is multiplied by {factor(self.by)}"
        before, after = self.before or 0.0, self.after or 0.0
        value = "missing" if self.sense == "missing" else _short(self.value or "")
        return f"{what} is {value} in {_share(after)} of the rows (before: {_share(before)})"

    @property
    def sentence(self) -> str:
        """The difference in words, and its part of the risk ± half the width of its interval."""
        return self._sentence(str)

    def _sentence(self, name: Name) -> str:
        words = self._words(name)
        return words if self.risk is None else f"{words} ({_interval(self.risk, '')} of the risk)"


@dataclass(frozen=True)
class Where:
    """Where the concept changed: ``share`` of its effect is at this ``value`` (or range) of the feature, with ``rows`` of all rows.

    >>> Where("plan", "pro", share=0.9, rows=0.2).words
    '90% of it where plan is pro, 20% of the rows'
    """

    feature: str
    value: str
    share: float
    rows: float

    @property
    def words(self) -> str:
        return self._words(str)

    def _words(self, name: Name) -> str:
        return f"{self.share:.0%} of it where {_short(name(self.feature))} is {_short(self.value)}, {_share(self.rows)} of the rows"


@dataclass(frozen=True)
class RiskChange:
    """Why the risk changed from a baseline to a target window (DBShap; target − baseline, units of the loss).

    ``baseline`` and ``target`` are the windows, ``loss`` is that of the risk. ``joint`` is the headline: concept, hypothesis and inputs as the rows have them. ``product`` splits the inputs by
    feature or group, as if these were independent. ``label_shift`` says that the labels' shares moved and the inputs of each label
    did not, which changes concept and inputs both (``explain_core.drift.label_shift``). ``std`` is the standard error of ``change``. ``learning`` is what the
    model gained as it learnt within the windows, where the prequential losses are known.
    ``back_off`` is the larger share of either window's product distribution that a frequency table would have to
    borrow from the other window; ``conditional`` says what P(y|x) of the product game was estimated with instead, or in
    spite of it. ``bins`` has the edges or the categories of each feature there, and is empty without it. ``separation`` is there where
    many rows have nothing alike in the other window, and features tell them apart. ``differences`` are the features that differ, the
    one first that is most likely what itself changed, also where the risk did not change. ``where`` says where the concept changed, if it
    stands out, and most of its effect is made by few of the rows. ``bootstrap`` counts the resamples, and ``warnings`` say what bears on the result.

    change = Σ joint + learning + unevaluated, and Σ joint inputs = Σ product inputs + dependence.

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
    label_shift: bool
    learning: Cause | None
    product: Attribution | None
    conditional: Literal["table", "tree"] | None
    back_off: float | None
    bootstrap: int
    bins: dict[str, dict[str, list[Any]]]
    warnings: tuple[str, ...]
    separation: Separation | None = None
    differences: tuple[Difference, ...] = ()
    where: Where | None = None

    @property
    def change(self) -> float:
        """The change that was observed: of the prequential risk where it is known, else of the empirical one."""
        return self.target.observed - self.baseline.observed

    @property
    def unevaluated(self) -> float:
        """What the change of the prequential risk on all rows is more than on those that were evaluated."""
        learnt = self.learning.value if self.learning else 0.0
        rest = self.change - (self.target.empirical - self.baseline.empirical) - learnt
        return rest if any(window.evaluated < window.rows for window in (self.baseline, self.target)) else 0.0

    @property
    def dependence(self) -> float | None:
        """What the inputs do together and no feature does alone: joint inputs − Σ product inputs."""
        if self.product is None:
            return None
        return total(cause.value for cause in self.joint.inputs) - total(
            cause.value for cause in self.product.inputs
        )

    @property
    def verdict(self) -> Verdict:
        """``not attributable`` where less than a tenth of a window has its like in the other."""
        matched = min(self.baseline.matched, self.target.matched)
        return "not attributable" if matched < LEAST_MATCHED else "attributed"

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
        """The features or groups whose interval excludes 0, the largest first.

        There are none unless the inputs are a cause, and less than half of their effect is due to their dependence on each other.
        """
        inputs = total(cause.value for cause in self.joint.inputs)
        named = any(cause in self.joint.inputs for cause in self.causes)
        if not named or self.product is None or abs(self.dependence or 0.0) > 0.5 * abs(inputs):
            return ()
        return _largest_first(self.product.inputs)

    def steps(self, top: int) -> list[Step]:
        """What leads from the risk of the baseline window to that of the target; the values add up to ``change``. Nothing where it
        is not attributable.

        The inputs are split into the ``top`` features or groups, the others, and their dependence where the result has
        the game of single features. What the model gained by learning within the windows is a step too, and what the rows that were not
        evaluated have more.
        """
        if self.verdict == "not attributable":
            return []
        product = self.product
        players = [cause for cause in self.joint.players if product is None or cause not in self.joint.inputs]
        rest: list[tuple[str, float]] = []
        if product is not None:
            ranked = sorted(product.inputs, key=lambda cause: -abs(cause.value))
            players += ranked[:top]
            if ranked[top:]:
                rest.append((f"{len(ranked) - top} others", total(cause.value for cause in ranked[top:])))
        if self.dependence is not None:
            rest.append(("dependence", self.dependence))
        return [
            *(Step(cause.name, cause.value, cause.low, cause.high) for cause in players),
            *(Step(name, value) for name, value in rest),
            *(Step(cause.name, cause.value, cause.low, cause.high) for cause in (self.learning,) if cause),
            *(Step("rows not evaluated", value) for value in (self.unevaluated,) if value),
        ]

    def sentence(
        self,
        baseline: str | None = None,
        target: str | None = None,
        remedy: Callable[[Sequence[str]], str] = "pass ignore={!r}".format,
        name: Name = str,
    ) -> str:
        """The result in words, each figure ± half the width of its interval; the windows by name where they have one.

        ``remedy`` says how to leave features out; ``name`` turns a feature into what people call it.
        """
        risk = "error rate" if self.loss == "zero_one" else f"{self.loss} risk"
        between = f" from {baseline} to {target}" if baseline and target else ""
        error = Z * self.std
        by, before, after, half = figures(
            [abs(self.change), self.baseline.observed, self.target.observed], error
        )
        if abs(self.change) <= error:
            head = f"{risk} did not change noticeably{between} ({before} → {after}; ± {half})"
        else:
            moved = "rose" if self.change > 0.0 else "fell"
            head = f"{risk} {moved} by {by} ± {half}{between} ({before} → {after})"
        unmatched = [
            (1.0 - window.matched, called or other)
            for window, called, other in (
                (self.baseline, baseline, "the baseline"),
                (self.target, target, "the target"),
            )
            if 1.0 - window.matched > WORTH_SAYING
        ]
        unlike = " and ".join(f"{share:.0%} of {called}" for share, called in unmatched)
        differing = self._differing(name)
        if self.verdict == "not attributable":
            told = "" if self.separation is None else f"; {self.separation.sentence(remedy, name)}"
            return (
                f"{head}; not attributable: {unlike} have nothing alike in the other window{told}{differing}"
            )
        place = "" if self.where is None else f" ({self.where._words(name)})"
        causes = [
            f"{_interval(cause, name(cause.name))}{place if cause == self.joint.concept else ''}"
            for cause in self.causes
        ]
        learning = [
            _interval(cause, called)
            for cause, called in ((self.joint.hypothesis, "the model's own change"), (self.learning, None))
            if cause and cause.stands_out
        ]
        if not causes:
            # A feature may stand out where all inputs together, or concept and inputs, cancel each other out.
            whole = " as a whole" if any(one.risk and one.risk.stands_out for one in self.differences) else ""
            if learning:
                return f"{head}: {', '.join(learning)}; no cause in the data stands out{whole}{differing}"
            return f"{head}; no cause stands out{whole or ' of the noise'}{differing}"
        aside = f"; {unlike} are unlike the other window and count as inputs" if unlike else ""
        shift = (
            "; a label shift: other shares of the labels, the same inputs for each"
            if self.label_shift
            else ""
        )
        return f"{head}: {', '.join([*causes, *learning])}{differing}{shift}{aside}"

    def _differing(self, name: Name) -> str:
        """Which features differ, as the end of the sentence. Where nothing can be attributed, those that tell the windows apart are named already."""
        apart = self.separation if self.verdict == "not attributable" else None
        told = () if apart is None else apart.features
        found = [one for one in self.differences if one.fault or one.feature not in told]
        if not found:
            return ""
        first, *others = found
        if first.fault:
            return f"; this looks like a fault of the sensor: {first._sentence(name)}, and nothing that goes with it followed"
        less = f"differ{'s' if len(others) == 1 else ''} less"
        rest = f"; {listed([name(one.feature) for one in others])} {less}" if others else ""
        return f"; {first._sentence(name)}{rest}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, every number finite; what follows from the rest is there for readers in other languages."""
        derived = {
            "change": self.change,
            "dependence": self.dependence,
            "unevaluated": self.unevaluated,
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
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"risk change: {error}; pass what to_dict or to_json gave") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> RiskChange:
        """The result that ``to_json`` gave. Raises ``ValueError`` for anything else."""
        return cls.from_dict(json.loads(text))


def _largest_first(players: tuple[Cause, ...]) -> tuple[Cause, ...]:
    return tuple(
        sorted((cause for cause in players if cause.stands_out), key=lambda cause: -abs(cause.value))
    )


def _plain(value: Any) -> Any:
    """Tuples as lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _interval(cause: Cause, name: str | None = None) -> str:
    """The value with its sign ± half its interval's width."""
    sign = "−" if cause.value < 0.0 else "+"
    size = abs(cause.value)
    if cause.std is None or cause.low is None or cause.high is None:
        told = figure(size)
    else:
        half = (cause.high - cause.low) / 2.0
        told = " ± ".join(figures([size], half if half < ROUNDED * cause.std else 0.0))
    return f"{cause.name if name is None else name} {sign}{told}".strip()


def listed(features: Sequence[str]) -> str:
    """Features in a sentence, of bounded length."""
    names = [_short(name) for name in features[:NAMED]]
    names += [f"{len(features) - NAMED} more"] if len(features) > NAMED else []
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _share(value: float) -> str:
    """Percent, with decimals where they say something."""
    return f"{value:.0%}" if value in (0.0, 1.0) or 0.01 <= value <= 0.99 else f"{value:.2%}"
