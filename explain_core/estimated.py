"""What a model loses on records whose labels have not come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explain_core.engine import estimated as engine
from explain_core.engine.smoothing import BLOCK
from explain_core.figures import Z
from explain_core.learners.columns import Columns, ColumnsState
from explain_core.losses import HUGE, Loss, Prediction, argmax, get
from explain_core.models import Row
from explain_core.smoothing import Smoother, SmootherState
from explain_core.state import Block, Count, State, Value, array, block, check

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NEWEST = 1_000
"""Labelled records before the first estimate. Cells are made from the newest so many."""
SOLVE = 500
"""Labelled records after which the estimates take in what was learnt."""
CELLS, OF_SCORE = 16, 30
"""Of a feature's values, and of predictions, ..."""
ALL_CELLS = 240
"""... of all features together about; with many of them each has fewer, ..."""
MOST = 100
"""... and only so many first ones have any."""
RARE = 0.01
"""A category that is rarer among the newest records has no cell of its own."""
RIDGE = 5.0
"""Records that speak for a cell making no difference."""
GROWN = 2.0**200
"""Weights grow, instead of older ones shrinking, up to this."""
FAMILIAR = 10.0
"""So many times as frequent as among labelled records a cell may be."""
LEAST_TOTAL = 1e-20
"""No sum of weights of records is smaller."""
MOST_SUM = 1e250
"""No sum is larger, with losses up to ``HUGE``."""
BLIND = "A change of what the features mean for the label cannot be seen before labels come."


class Settled(NamedTuple):
    """Of the newest labelled records: what was estimated before their label came, the true loss, and the interval of true minus estimated.

    None where there are too few records for an interval.
    """

    estimated: float
    true: float
    low: float | None
    high: float | None

    @property
    def error(self) -> float:
        """True minus estimated."""
        return self.true - self.estimated


class Estimate(NamedTuple):
    """The mean loss of the newest records without a label, with an interval of 95 % for what it will turn out to be; in units of the loss.

    None where there is none yet. ``records`` have come in all. ``correction`` is what the newest labels added to it. ``unfamiliar`` is the share of these records
    whose values of ``feature``, or whose predictions (None), few labelled records had: those in a cell beyond ``FAMILIAR`` times its share of the labelled ones.
    """

    value: float | None
    low: float | None
    high: float | None
    records: int
    unfamiliar: float
    feature: str | None
    correction: float
    settled: Settled | None

    @property
    def notes(self) -> list[str]:
        """When it does not hold, in words."""
        found = [BLIND]
        if self.unfamiliar >= 0.05:
            whose = "predictions" if self.feature is None else f"values of {self.feature}"
            found.append(
                f"{self.unfamiliar:.0%} of the records have {whose} that few labelled records had: of these it knows little."
            )
        if self.correction:
            side = "low" if self.correction > 0.0 else "high"
            found.append(
                f"By the newest labels the estimates were too {side}: what the features mean for the label has changed. "
                f"It is corrected by {self.correction:+.3g}, for all records alike."
            )
        return found


class GenerationState(State, frozen=True):
    """Edges of the columns with their number of each and whether it is nominal, counts of pairs of cells (lower triangle), sums and weights (2 · losses × cells).

    ``cells`` and ``values`` are of the records that it has not taken in yet.
    """

    sizes: list[Count]
    nominal: list[bool]
    edges: Block
    learnt: Count
    pairs: Block
    sums: Block
    weights: Block
    shares: Block
    cells: Block
    values: Block


class EstimatedState(State, frozen=True):
    """``newest`` holds score, then losses, then features of the newest labelled records, each ``NEWEST``-th in the place of that before."""

    columns: ColumnsState
    classes: list[Value]
    newest: Block
    labelled: Count
    unlabelled: Count
    weight: float
    total: float
    squares: float
    generations: list[GenerationState]
    settled: SmootherState


class _Generation:
    """Cells from the newest records, and what was learnt by them since. The first of the ``columns`` is the score."""

    def __init__(self, columns: Sequence[Array], nominal: Sequence[bool], losses: int) -> None:
        """``columns`` are the edges of each."""
        self.nominal = np.array(nominal, np.int64)
        self.firsts = np.cumsum([0, *map(len, columns)]).astype(np.int64)
        self.edges = np.concatenate(columns)
        self.learnt = 0
        """Records, also those that wait to be taken in."""
        n = 1 + len(self.edges) + 2 * len(columns)
        self.pairs: Integers = np.zeros((n, n), np.int64)
        self.sums: Array = np.zeros((2 * losses, n))
        self.weights: Array = np.zeros((2 * losses, n))
        self.root: Array = np.zeros((n, n))
        self.shares: Array = np.zeros(n)
        """Weights of the records without a label in each cell."""
        self._cells: Integers = np.zeros((SOLVE, 1 + len(columns)), np.int64)
        self._values: Array = np.zeros((SOLVE, 2 * losses))
        self._waiting = 0

    @classmethod
    def of(cls, rows: Array, nominal: Sequence[bool], losses: int) -> _Generation:
        """Cells from rows of score and features."""
        most = max(2, min(CELLS, ALL_CELLS // max(len(nominal) - 1, 1)))
        edges = [
            _edges(column, OF_SCORE if j == 0 else most, kind)
            for j, (column, kind) in enumerate(zip(rows.T, nominal, strict=True))
        ]
        return cls(edges, nominal, losses)

    def cells(self, rows: Array) -> Integers:
        """Rows × (1 + columns); columns that came later have none."""
        own = len(self.nominal)
        found: Integers = np.empty((len(rows), 1 + own), np.int64)
        engine.locate(np.ascontiguousarray(rows[:, :own]), self.firsts, self.edges, self.nominal, found)
        return found

    @property
    def room(self) -> int:
        """Records before it takes in those that wait."""
        return SOLVE - self._waiting

    def learn(self, cells: Integers, values: Array) -> None:
        """Records, at most as many as there is room for, with their losses and the squares of their errors: records × 2 · losses. Takes in what waits with each ``SOLVE``-th."""
        waiting = slice(self._waiting, self._waiting + len(cells))
        self._cells[waiting], self._values[waiting] = cells, values
        self._waiting += len(cells)
        self.learnt += len(cells)
        if self._waiting == SOLVE:
            self._waiting = 0
            self.take_in(self._cells, self._values)

    def take_in(self, cells: Integers, values: Array) -> None:
        engine.count(cells, self.pairs)
        engine.add(cells, values, self.sums)
        self.solve()

    def solve(self) -> None:
        engine.factorise(self.pairs, RIDGE, self.root)
        self.weights = self.sums.copy()
        engine.solve(self.root, self.weights)

    def estimates(self, cells: Integers) -> Array:
        """Rows × losses."""
        losses = len(self.weights) // 2
        out: Array = np.empty((len(cells), losses))
        engine.look_up(cells, self.weights[:losses], out)
        return out.clip(-HUGE, HUGE)

    def state(self) -> GenerationState:
        return GenerationState(
            np.diff(self.firsts).tolist(),
            [bool(kind) for kind in self.nominal],
            block(self.edges),
            self.learnt,
            block(self.pairs[np.tril_indices(len(self.pairs))]),
            block(self.sums),
            block(self.weights),
            block(self.shares),
            block(self._cells[: self._waiting]),
            block(self._values[: self._waiting]),
        )

    @classmethod
    def restored(cls, state: GenerationState, losses: int) -> _Generation:
        """Raises ``StateError``."""
        check(
            1 <= len(state.sizes) == len(state.nominal) <= 1 + MOST and max(state.sizes) <= 2 * OF_SCORE,
            "estimated: columns that are none",
        )
        edges = array("edges", state.edges, "<f8", (sum(state.sizes),))
        check(not np.isnan(edges).any(), "estimated: edges that are none")
        of_each = np.split(edges, np.cumsum(state.sizes)[:-1])
        check(all(bool((of[1:] > of[:-1]).all()) for of in of_each), "estimated: edges out of order")
        new = cls(of_each, state.nominal, losses)
        n, width = len(new.shares), len(state.sizes)
        below = np.tril_indices(n)
        pairs = array("pairs", state.pairs, "<i8", (len(below[0]),))
        check(bool((pairs >= 0).all() and (pairs <= state.learnt).all()), "estimated: counts that are none")
        new.pairs[below], new.learnt = pairs, state.learnt
        new.sums, new.weights = (
            array("sums", stored, "<f8", (2 * losses, n)) for stored in (state.sums, state.weights)
        )
        new.shares = array("shares", state.shares, "<f8", (n,))
        check(
            bool(((new.shares >= 0.0) & (new.shares <= new.shares[0])).all()),
            "estimated: shares that are none",
        )
        cells = array("cells", state.cells, "<i8", (None, 1 + width))
        values = array("values", state.values, "<f8", (len(cells), 2 * losses))
        check(len(cells) < SOLVE and len(cells) <= state.learnt, "estimated: too many records that wait")
        first = 1 + new.firsts + 2 * np.arange(width + 1)
        check(
            bool((cells[:, 0] == 0).all())
            and bool(((cells[:, 1:] >= first[:-1]) & (cells[:, 1:] < first[1:])).all()),
            "estimated: a record in another column's cell",
        )
        for numbers in (new.sums, new.weights, new.shares, values):
            check(bool((np.abs(numbers) <= MOST_SUM).all()), "estimated: sums that no records lead to")
        new._cells[: len(cells)], new._values[: len(cells)], new._waiting = cells, values, len(cells)
        engine.factorise(new.pairs, RIDGE, new.root)
        check(
            bool(np.isfinite(new.root).all() and (new.root.diagonal() > 0.0).all()),
            "estimated: counts of no records",
        )
        return new


def _edges(column: Array, most: int, nominal: bool) -> Array:
    """Of numbers from the smallest on, so that what is outside of all has cells of its own; of a nominal column the categories."""
    known = column[~np.isnan(column)]
    if not len(known):
        return np.empty(0)
    if nominal:
        values, counts = np.unique(known, return_counts=True)
        kept = np.sort(np.argsort(-counts, kind="stable")[:most])
        return values[kept][counts[kept] >= RARE * len(column)]
    ranks = np.arange(most) * len(known) // most
    return np.unique([*np.sort(known)[ranks], np.nextafter(known.max(), math.inf)])


class LossEstimator:
    """The mean loss of records whose labels have not come, from their features and predictions.

    A loss is regressed on cells: of the model's prediction (of a classifier the most probable class and its probability, which calibrates its confidence;
    the idea of CBPE), and of each feature's values (an error model; that of DLE). It is least squares with a ridge, additive in the columns. The
    estimate of a mean over records without a label follows from how many of them are in each cell: the generalised regression estimator of survey statistics
    (Särndal, Swensson & Wretman 1992), whose weights give the labelled records the shares of cells that the others have.

    It holds where the records without a label differ in their features, and the label means what it did: *covariate shift*. A *concept shift* is invisible
    to it until labels come. Each labelled record is estimated before it is learnt: the mean of true minus estimated, smoothed, is the error by which estimates
    are settled. Where it is beyond two standard errors from 0 the estimate is corrected by the part beyond (the idea of prediction-powered inference, with a
    threshold), and says so.

    The first estimate comes after 1,000 labelled records, and what is learnt is taken in with each 500th. Cells are those of the newest labelled records when
    learning began. Each ``memory`` of them a new generation begins, which takes over after as many again: what is known is of the last ``memory`` to twice as many.

    Sources: CBPE and DLE are those of NannyML; prediction-powered inference is that of Angelopoulos et al., Science 382 (2023).

    Raises ``ValueError`` for losses that are not known and settings out of range, and, of a record, for a feature that was of another kind before.

    Parameters
    ----------
    losses
        Those that are estimated, by name or as ``Loss``.
    alpha
        Smoothing parameter of the mean over records without a label, and of the error; in (0, 1).
    memory
        Labelled records, 2,000 or more.
    features
        Those that are used; by default the first hundred.

    >>> rng = np.random.default_rng(0)
    >>> estimator = LossEstimator(["zero_one"])
    >>> for a, u in zip(rng.uniform(size=3_000).tolist(), rng.uniform(size=3_000).tolist()):
    ...     wrong = float(u < (0.1 if a < 0.5 else 0.4))
    ...     estimator.learn({"a": a}, {1: 0.7, 0: 0.3}, [wrong])
    >>> for a in rng.uniform(0.5, 1.0, size=2_000).tolist():
    ...     _ = estimator.estimate({"a": a}, {1: 0.7, 0: 0.3})
    >>> found = estimator.estimates()["zero_one"]
    >>> found.low < 0.4 < found.high, found.records, found.unfamiliar < 0.01
    (True, 2000, True)
    """

    def __init__(
        self,
        losses: Sequence[str | Loss],
        *,
        alpha: float = 0.001,
        memory: int = 10_000,
        features: Sequence[str] | None = None,
    ) -> None:
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha: {alpha} is outside (0, 1); 0.001 follows about the last 2,000 records")
        if memory < 2 * NEWEST:
            raise ValueError(f"memory: {memory} labelled records; give {2 * NEWEST:,} or more")
        self.losses = tuple(map(get, losses))
        self.labelled = self.unlabelled = 0
        self._memory, self._growth = memory, 1.0 / (1.0 - alpha)
        self._features = None if features is None else frozenset(features)
        self._columns = Columns()
        self._classes: dict[Any, int] = {}
        self._newest: Array = np.zeros((NEWEST, 1 + len(self.losses)))
        self._generations: list[_Generation] = []
        self._settled = Smoother((len(self.losses), 2), alpha)
        self._total = self._squares = 0.0
        self._weight = 1.0
        """Of the next record without a label."""

    def learn(self, x: Row, prediction: Prediction, losses: Sequence[float]) -> None:
        """Take in a labelled record and the losses of its prediction; settles what would have been estimated of it."""
        self.learn_many([x], [prediction], np.array([losses], np.float64))

    def learn_many(self, xs: Sequence[Row], predictions: Sequence[Prediction], losses: Array) -> None:
        """``learn`` of records after one another, with their losses, records × losses."""
        begin = 0
        while begin < len(xs):
            end = begin + min(self._room, len(xs) - begin)
            rows = [self._row(*of) for of in zip(xs[begin:end], predictions[begin:end], strict=True)]
            for row in rows if len({row.shape[1] for row in rows}) > 1 else [np.concatenate(rows)]:
                self._learn(row, losses[begin : begin + len(row)])
                begin += len(row)
            self._age()

    @property
    def _room(self) -> int:
        """How many labelled records come before the estimates take in what was learnt, a generation begins or takes over, or the newest records are written anew."""
        rooms = [of.room for of in self._generations]
        rooms += [self._memory - of.learnt for of in self._generations if of.learnt < self._memory]
        return min([NEWEST - self.labelled % NEWEST, *rooms])

    def _learn(self, rows: Array, losses: Array) -> None:
        """``learn`` of rows of score and features, at most as many as there is room for."""
        found = np.clip(losses, -HUGE, HUGE)
        if self._generations:
            elder = self._generations[0]
            cells = elder.cells(rows)
            estimated = elder.estimates(cells)
            error = np.clip(found - estimated, -HUGE, HUGE)
            for pair in np.stack([estimated, error], axis=2):
                self._settled.update(pair)
                if self._settled.n % BLOCK == 0:
                    self._settled.end_block()
            values = np.concatenate([found, np.square(error)], axis=1)
            for generation in self._generations:
                generation.learn(cells if generation is elder else generation.cells(rows), values)
        width = len(self.losses) + rows.shape[1]
        if width > self._newest.shape[1]:
            more = np.full((NEWEST, width - self._newest.shape[1]), np.nan)
            self._newest = np.concatenate([self._newest, more], axis=1)
        place = self.labelled % NEWEST
        written = self._newest[place : place + len(rows)]
        written[:] = np.nan
        written[:, :width] = np.concatenate([rows[:, :1], found, rows[:, 1:]], axis=1)
        self.labelled += len(rows)

    def _age(self) -> None:
        """A generation begins, or takes over."""
        if len(self._generations) == 2 and self._generations[1].learnt >= self._memory:
            del self._generations[0]
        due = self.labelled >= NEWEST and not self._generations
        if due or (len(self._generations) == 1 and self._generations[0].learnt >= self._memory):
            self._generations.append(self._born())

    def _born(self) -> _Generation:
        """A generation that has learnt the newest records."""
        n, newest = len(self.losses), self._newest
        losses = np.ascontiguousarray(newest[:, 1 : 1 + n])
        rows = np.ascontiguousarray(np.concatenate([newest[:, :1], newest[:, 1 + n :]], axis=1))
        names = self._columns.names[: rows.shape[1] - 1]
        new = _Generation.of(rows, [False, *(name in self._columns.codes for name in names)], n)
        cells = new.cells(rows)
        new.learnt = len(rows)
        new.take_in(cells, np.concatenate([losses, np.zeros_like(losses)], axis=1))
        judge = self._generations[0] if self._generations else new
        squares = np.square(losses - judge.estimates(judge.cells(rows)))
        engine.add(cells, np.concatenate([np.zeros_like(losses), squares], axis=1), new.sums)
        new.solve()
        return new

    def estimate(self, x: Row, prediction: Prediction) -> list[float] | None:
        """Take in a record without a label; the estimate of each loss, None where too few labels have come."""
        row = self._row(x, prediction)
        self.unlabelled += 1
        if not self._generations:
            return None
        weight = self._weight
        for generation in self._generations:
            generation.shares[generation.cells(row)[0]] += weight
        elder = self._generations[0]
        cells = elder.cells(row)
        self._total += weight
        self._squares += weight * weight
        self._weight *= self._growth
        if self._weight > GROWN:
            for generation in self._generations:
                generation.shares /= self._weight
            self._total /= self._weight
            self._squares /= self._weight * self._weight
            self._weight = 1.0
        found: list[float] = elder.estimates(cells)[0].tolist()
        return found

    @property
    def fitted(self) -> list[float]:
        """The mean of each loss over the labelled records that the estimates were learnt from; none before the first estimate."""
        elder = next(iter(self._generations), None)
        if elder is None:
            return []
        found: list[float] = (elder.sums[: len(self.losses), 0] / elder.pairs[0, 0]).tolist()
        return found

    def estimates(self) -> dict[str, Estimate]:
        """The estimate of each loss, by name."""
        names, settled = [loss.name for loss in self.losses], self._settlements()
        elder = next(iter(self._generations), None)
        if elder is None or not elder.shares[0]:
            nothing = Estimate(None, None, None, self.unlabelled, 0.0, None, 0.0, None)
            return {
                name: nothing._replace(settled=found) for name, (found, _) in zip(names, settled, strict=True)
            }
        total = float(elder.shares[0])
        shares = elder.shares / total
        back = shares[None].copy()
        engine.solve(elder.root, back)
        spread = self._squares / (self._total * self._total) + float(np.sum(back[0] * shares))
        means = np.sum(elder.weights * shares, axis=1).tolist()
        n, found, strange = len(names), {}, self._unfamiliar(elder, shares)
        for k, (loss, (known, correction)) in enumerate(zip(self.losses, settled, strict=True)):
            error = 0.0 if known is None or known.low is None else (known.high - known.low) / (2.0 * Z)  # type: ignore[operator]
            half = Z * math.sqrt(max(means[n + k], 0.0) * spread + (error * error if correction else 0.0))
            most = math.inf if loss.most is None else loss.most
            least = 0.0 if loss.most is not None else -math.inf
            value = means[k] + correction
            low, value, high = (min(max(end, least), most) for end in (value - half, value, value + half))
            found[loss.name] = Estimate(value, low, high, self.unlabelled, *strange, correction, known)
        return found

    def _unfamiliar(self, elder: _Generation, shares: Array) -> tuple[float, str | None]:
        """The largest share of records whose values few labelled records had, over the columns, and the feature; None for the prediction."""
        known = elder.pairs.diagonal()
        strange = np.maximum(shares - FAMILIAR * known / known[0], 0.0)[1:]
        of_columns = np.add.reduceat(strange, elder.firsts[:-1] + 2 * np.arange(len(elder.nominal)))
        column = int(of_columns.argmax())
        return float(of_columns[column]), self._columns.names[column - 1] if column else None

    def _settlements(self) -> list[tuple[Settled | None, float]]:
        """Of each loss, with the part of the error that is beyond two standard errors."""
        if not self._settled.n:
            return [(None, 0.0)] * len(self.losses)
        values, (low, high) = self._settled.value.tolist(), self._settled.band(0.95)
        found: list[tuple[Settled | None, float]] = []
        for (estimated, error), below, above in zip(
            values, low[:, 1].tolist(), high[:, 1].tolist(), strict=True
        ):
            known = below == below
            correction = (max(below, 0.0) + min(above, 0.0)) if known else 0.0
            ends = (below, above) if known else (None, None)
            found.append((Settled(estimated, estimated + error, *ends), correction))
        return found

    def _row(self, x: Row, prediction: Prediction) -> Array:
        """Score and features, 1 × columns."""
        if isinstance(prediction, Mapping):
            label = argmax(prediction)
            score = math.nan
            if prediction:
                score = self._classes.setdefault(label, len(self._classes)) + float(prediction[label])
        else:
            score = float(prediction)
        if self._features is not None:
            x = {name: value for name, value in x.items() if name in self._features}
        return np.concatenate([[score], self._columns.row(x)[:MOST]])[None]

    def state(self) -> EstimatedState:
        return EstimatedState(
            self._columns.state(),
            list(self._classes),
            block(self._newest),
            self.labelled,
            self.unlabelled,
            self._weight,
            self._total,
            self._squares,
            [generation.state() for generation in self._generations],
            self._settled.state(),
        )

    def restore(self, state: EstimatedState) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where it is not of these losses."""
        n = len(self.losses)
        total, squares = state.total, state.squares
        check(
            0.0 < state.weight <= GROWN
            and (total == squares == 0.0 or LEAST_TOTAL <= total <= 1.0 / LEAST_TOTAL * GROWN)
            and 0.0 <= squares <= 1.01 * total * total,
            "estimated: weights that are none",
        )
        check(
            len(state.generations) <= 2 and (not state.generations or state.labelled >= NEWEST),
            "estimated: generations that are none",
        )
        self._columns.restore(state.columns)
        self._classes = {label: code for code, label in enumerate(state.classes)}
        check(len(self._classes) == len(state.classes), "estimated: a class twice")
        self._newest = array("newest", state.newest, "<f8", (NEWEST, None))
        width = self._newest.shape[1]
        check(
            1 + n <= width <= 1 + n + min(len(self._columns.names), MOST),
            "estimated: records of other columns",
        )
        losses = self._newest[: state.labelled, 1 : 1 + n]
        check(bool((np.abs(losses) <= HUGE).all()), "estimated: losses that are none")
        self._generations = [_Generation.restored(stored, n) for stored in state.generations]
        check(
            all(of.shares[0] <= total for of in self._generations),
            "estimated: shares of more than all records",
        )
        check(
            all(len(of.nominal) <= width - n for of in self._generations), "estimated: columns of no record"
        )
        self._settled.restore(state.settled, 2)
        self.labelled, self.unlabelled = state.labelled, state.unlabelled
        self._weight, self._total, self._squares = state.weight, state.total, state.squares
