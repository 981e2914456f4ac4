"""River's logistic, softmax and linear regression behind scalers and one-hot encoders, in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.engine import stream
from explain_core.learners import linear_plan as layout
from explain_core.learners.arrays import Array, Arrays, enlarged, grown
from explain_core.learners.base import Learner
from explain_core.learners.columns import Columns
from explain_core.learners.defaults import Default
from explain_core.learners.linear_plan import LinearPlan
from explain_core.losses import Task
from explain_core.models import Row
from explain_core.state import LARGEST_COUNT, Block, array, check, finite, within

_MOST = LARGEST_COUNT, 1e100, 1e300
"""Of a count, a mean and a variance or sum of squares: with more, further numbers overflow them."""

_RATES = 4
"""The first parameters of a step: rates, ``l2`` and ``clip_gradient``."""

_ROOM = 8
"""Keys and labels that arrays have room for at first; doubled when it is used up."""


class LinearLearner(Learner):
    """Weights, means and variances in arrays; equal to river's pipeline to the last bit.

    Two features whose one-hot names coincide (``a_b`` = ``c`` and ``a`` = ``b_c``) have weights of their own; in river they
    share one.
    """

    kind = "linear"
    family = stream.LINEAR

    def __init__(self, model: Any, task: Task, plan: LinearPlan, columns: Columns | None = None) -> None:
        super().__init__(model, task, columns)
        self._plan = plan
        self._link = plan.link
        self._regression = plan.link == layout.IDENTITY
        if plan.link == layout.SIGMOID:
            self.labels, self.codes = [False, True], {False: 0, True: 1}
            self.most_classes = 2
        zeros = next((branch.drop_zeros for branch in plan.branches if branch.encodes), None)
        scaled = next((branch.with_std for branch in plan.branches if branch.scales), None)
        softmax = plan.link == layout.SOFTMAX
        ranked = zeros is False
        head = np.zeros(layout.N_HEAD, np.int64)
        head[layout.LINK], head[layout.LOSS] = plan.link, plan.loss
        head[layout.RANKED], head[layout.ZEROS] = ranked, ranked and (softmax or plan.l2 != 0)
        head[layout.WITH_STD] = scaled is True
        head[layout.HAS_TARGET] = plan.target
        head[layout.IMPLICIT] = plan.implicit
        rates = plan.rate, plan.intercept_rate, plan.l2, plan.clip_gradient
        parameters = np.array([*rates, plan.positive, plan.negative, plan.intercept, 0.5])
        rows = _ROOM if softmax else 1
        self.arrays = Arrays(
            head=head,
            parameters=parameters,
            columns=np.zeros((0, 3), np.int64),
            moments=np.zeros((0, 3)),
            places=np.zeros(0, np.int64),
            ranks=np.full((2, _ROOM), -1, np.int64),
            weights=np.full((rows, _ROOM), np.nan if softmax else 0.0),
            intercepts=parameters[6:7].copy(),
            target=np.zeros(3),
            present=np.zeros((rows, 1 + _ROOM if softmax else 0), np.int64),
            sequence=np.zeros(0, np.int64),
            keys=np.zeros(_ROOM, np.int64),
            values=np.zeros(_ROOM),
            steps=np.zeros(_ROOM),
            scale=np.zeros(0),
        )
        self._head = self.arrays["head"]
        self._n_keys = 0
        self._size = 0

    def follows(self, before: Learner) -> bool:
        """Rates, ``l2`` and ``clip_gradient`` may change: they are no state."""
        if not isinstance(before, LinearLearner):
            return False
        mine, theirs = self._plan, before._plan
        fixed = [name for name in range(layout.N_HEAD) if name != layout.ZEROS]  # which l2 decides
        return (
            (mine.name, mine.target, mine.branches) == (theirs.name, theirs.target, theirs.branches)
            and np.array_equal(self._head[fixed], before._head[fixed])
            and np.array_equal(self.arrays["parameters"][_RATES:], before.arrays["parameters"][_RATES:])
        )

    def enter(self, label: Any) -> None:
        if self._link == layout.SOFTMAX:
            self._label(label)
        elif label not in self.codes:
            raise ValueError(f"model: the class {label!r}, and a logistic regression has 0 and 1")

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        row = self.encoded(x)
        if self._link == layout.SIGMOID:
            y = int(y)
        elif self._link == layout.SOFTMAX:
            y = self._label(y)
        stream.learn(stream.LINEAR, self.arrays.table, row, float(y), weight, False, None)

    @property
    def takes_weight(self) -> bool:
        return self._link != layout.SOFTMAX and not self._plan.target

    @property
    def additive(self) -> bool:
        """Whether the margin is a sum over the columns, see ``explain_core.engine.linear.contributions``."""
        return self._link != layout.SOFTMAX

    def _label(self, y: Any) -> int:
        n = len(self.labels)
        code = self.code(y)
        if code == n:
            arrays = self.arrays
            if code >= len(arrays["weights"]):
                arrays["weights"] = enlarged(
                    arrays["weights"], (2 * code, arrays["weights"].shape[1]), np.nan
                )
                arrays["present"] = grown(arrays["present"], 2 * code)
        return code

    def fit_columns(self) -> None:
        """Room and keys for new columns and categories."""
        columns, arrays = self.columns, self.arrays
        if columns.size == self._size:
            return
        n = len(columns.names)
        table, places = arrays["columns"], arrays["places"]
        if n > len(table):
            arrays["moments"], arrays["scale"] = grown(arrays["moments"], n), grown(arrays["scale"], n)
            table = grown(table, n)
        for j, name in enumerate(columns.names):
            codes = columns.codes.get(name)
            wanted = 1 if codes is None else len(codes)
            if table[j, layout.ROOM] == 0 or codes is not None:
                table[j, layout.KIND] = self._kind(name)
            if table[j, layout.KIND] == layout.IGNORED:
                continue
            room = table[j, layout.ROOM]
            if room < wanted:
                at, room = table[j, layout.PLACE], max(wanted, 2 * room)
                moved = np.full(room, -1, np.int64)
                moved[: table[j, layout.ROOM]] = places[at : at + table[j, layout.ROOM]]
                table[j, layout.PLACE], table[j, layout.ROOM] = len(places), room
                places = np.concatenate([places, moved])
            at = table[j, layout.PLACE]
            new = at + np.flatnonzero(places[at : at + wanted] < 0)
            places[new] = np.arange(self._n_keys, self._n_keys + len(new))
            self._n_keys += len(new)
        arrays["columns"], arrays["places"] = table, places
        self._head[layout.N_COLUMNS] = n
        arrays["sequence"] = np.array(self._sequence(), np.int64)
        self._make_room(self._n_keys, n)
        self._size = columns.size

    def _make_room(self, n_keys: int, n_columns: int) -> None:
        arrays = self.arrays
        weights = arrays["weights"]
        if n_keys > weights.shape[1]:
            room, rows = 2 * n_keys, len(weights)
            arrays["weights"] = enlarged(
                weights, (rows, room), np.nan if self._link == layout.SOFTMAX else 0.0
            )
            if self._link == layout.SOFTMAX:
                arrays["present"] = enlarged(arrays["present"], (rows, 1 + room), 0)
            arrays["ranks"] = enlarged(arrays["ranks"], (2, room), -1)
        room = arrays["weights"].shape[1] + n_columns
        if room > len(arrays["keys"]):
            for name in ("keys", "values", "steps"):
                arrays[name] = grown(arrays[name], room)

    def _way(self, name: str) -> int:
        """Of the branches the one that takes a feature, −1 where none does."""
        nominal = name in self.columns.codes
        taking = (i for i, branch in enumerate(self._plan.branches) if branch.takes(name, nominal))
        return next(taking, -1)

    def _kind(self, name: str) -> int:
        way, nominal = self._way(name), name in self.columns.codes
        if way < 0:
            return layout.IGNORED
        branch = self._plan.branches[way]
        if nominal and not branch.encodes:
            raise ValueError(
                f"model: feature {name!r} is a string, and {'StandardScaler' if branch.scales else self._plan.name} takes numbers; "
                "encode it, or leave it out"
            )
        return layout.CATEGORY if nominal else layout.SCALED if branch.scales else layout.NUMBER

    def _sequence(self) -> list[int]:
        """The columns in the order in which their features reach the model."""
        names = self.columns.names
        return sorted(range(len(names)), key=lambda column: self._way(names[column]))

    def _stored(self) -> dict[str, Array]:
        self.fit_columns()
        arrays, rows = self.arrays, len(self.labels) if self._link == layout.SOFTMAX else 1
        keys = self._n_keys
        return {
            "columns": arrays["columns"],
            "moments": arrays["moments"],
            "places": arrays["places"],
            "ranked": arrays["ranks"][1, : self._head[layout.N_RANKED]],
            "weights": arrays["weights"][:rows, :keys],
            "intercepts": arrays["intercepts"],
            "target": arrays["target"],
            "present": arrays["present"][:rows, : 1 + keys],
        }

    def _adopt(self, blocks: dict[str, Block]) -> None:
        softmax = self._link == layout.SOFTMAX
        names = self.columns.names
        n, rows = len(names), len(self.labels) if softmax else 1
        check(softmax or self.labels == ([] if self._regression else [False, True]), "model: other classes")
        check(set(blocks) == set(self._stored()), "model: arrays of another version")
        columns = array("columns", blocks["columns"], "<i8", (n, 3))
        places = array("places", blocks["places"], "<i8", (None,))
        moments = array("moments", blocks["moments"], "<f8", (n, 3))
        weights = array("weights", blocks["weights"], "<f8", (rows, None))
        keys = weights.shape[1]
        ranked = array("ranked", blocks["ranked"], "<i8", (None,))
        intercepts = array("intercepts", blocks["intercepts"], "<f8", (1,))
        target = array("target", blocks["target"], "<f8", (3,))
        present = array("present", blocks["present"], "<i8", (rows, 1 + keys if softmax else 0))
        finite("moments", moments)
        finite("intercepts", intercepts)
        finite("target", target)
        check(
            bool((moments[:, [0, 2]] >= 0.0).all() and target[0] >= 0.0 and target[2] >= 0.0),
            "moments: negative",
        )
        check(bool((np.abs([*moments, target]) <= _MOST).all()), "moments: larger than those of any numbers")
        check(keys <= len(places), "weights: more than there are places for")
        finite("weights", weights, or_nan=softmax)
        within("places", places, -1, keys)
        within("ranked", ranked, 0, keys)
        check(len(np.unique(ranked)) == len(ranked), "ranked: a key twice")
        within("columns", columns[:, 1:], 0, len(places) + 1)
        owned, free = [], np.ones(len(places), np.bool_)
        for j, name in enumerate(names):
            codes = self.columns.codes.get(name)
            kind, place, room = columns[j].tolist()
            wanted = self._kind(name)
            used = 0 if wanted == layout.IGNORED else 1 if codes is None else len(codes)
            check(
                kind == wanted and used <= room and place + room <= len(places), f"columns: feature {name!r}"
            )
            own = slice(place, place + room)
            check(bool(free[own].all()), f"places: feature {name!r} has those of another")
            free[own] = False
            if used:
                owned.append(places[own][:used])
                check(
                    bool((places[own][used:] < 0).all()), f"places: feature {name!r} has keys of no category"
                )
        found = np.concatenate(owned) if owned else np.zeros(0, np.int64)
        check(
            bool((found >= 0).all()) and len(np.unique(found)) == len(found), "places: no key, or one twice"
        )
        for label in range(len(present) if softmax else 0):
            known = present[label, 1 : 1 + max(present[label, 0], 0)]
            check(
                len(known) == present[label, 0]
                and np.array_equal(np.sort(known), np.flatnonzero(~np.isnan(weights[label]))),
                "present: others than the keys that have weights",
            )
        arrays, head = self.arrays, self._head
        arrays["columns"], arrays["places"], arrays["moments"] = columns, places, moments
        arrays["scale"] = np.array([variance**0.5 for variance in moments[:, 2].tolist()])
        arrays["intercepts"], arrays["target"] = intercepts, target
        rooms = max(rows, len(arrays["weights"])), max(keys, arrays["weights"].shape[1])
        arrays["weights"] = enlarged(weights, rooms, np.nan if softmax else 0.0)
        arrays["present"] = enlarged(present, (rooms[0], 1 + rooms[1] if softmax else 0), 0)
        ranks = np.full((2, rooms[1]), -1, np.int64)
        ranks[1, : len(ranked)] = ranked
        ranks[0, ranked] = np.arange(len(ranked))
        arrays["ranks"] = ranks
        arrays["sequence"] = np.array(self._sequence(), np.int64)
        head[layout.N_COLUMNS], head[layout.N_LABELS] = n, len(self.labels) if softmax else 0
        head[layout.N_RANKED] = len(ranked)
        self._n_keys, self._size = keys, self.columns.size
        self._make_room(keys, n)


def linear_learner(model: Any, task: Task, columns: Columns | None = None) -> LinearLearner | None:
    """The learner for a river model that has learnt nothing, or a default; None where river itself must learn."""
    plan = model.plan if isinstance(model, Default) else _of_river(model)
    if not isinstance(plan, LinearPlan) or (plan.link == layout.IDENTITY) != (task == "regression"):
        return None
    return LinearLearner(model, task, plan, columns)


def _of_river(model: Any) -> LinearPlan | None:
    from explain_core.learners.linear_river import plan_of

    return plan_of(model)
