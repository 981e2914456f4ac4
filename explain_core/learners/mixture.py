"""Several learners and no model as one, weighted by what each has predicted so far."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from explain_core.engine import mixture as engine
from explain_core.engine import stream
from explain_core.learners.arrays import Array, Arrays, grown
from explain_core.learners.base import Learner, LearnerState
from explain_core.learners.linear import linear_learner
from explain_core.learners.tree import tree_learner
from explain_core.losses import Task
from explain_core.models import Row
from explain_core.state import Block, array, block, check, finite

NO_MODEL = "none"
"""The name of the member that knows no feature."""


class Mixture(NamedTuple):
    """A mixture of river models that have learnt nothing, by name, and of no model; ``learner_of`` makes it learn.

    The prediction is the mean of the members' predictions by their weights. After each record a weight is multiplied by exp(−loss) of its
    member (exponential weights; for the log loss that is Bayes' rule): the mixture's loss is above that of the best member by at most
    ln(members + 1) / n for n records. Then all weights get the same of the part ``share`` (fixed share, Herbster and Warmuth 1998): the
    weights follow when another member becomes the best. No model is the frequencies of the classes, or the mean of the target.

    In a regression the range is that of the last ``recent`` targets, without the two highest and the two lowest of them. Predictions, and targets that are learnt, count for
    at most half of it outside of it. The loss of a weight is twice the squared error in units of it (the rate for which Vovk proved it). Where the
    range is ``engine.PROPORTION`` times as large as the first full one, or as far off, the recent targets begin anew. If those to come are out of
    proportion too, the target is in another unit: its range stands for the first one to the members, which keep what they have learnt.

    Parameters
    ----------
    members
        New linear models, trees and forests of river that learn in arrays, by name.
    share
        The part of all weights that all members get the same of, after each record.
    floor
        For the weights a probability counts as one that no model has this part of: no single record decides them.
    alpha
        Forgetting rate of no model.
    recent
        Targets that the range of a regression is taken from.

    >>> from explain_core.learners.choice import learner_of
    >>> from river import linear_model, tree
    >>> mixture = Mixture({"line": linear_model.LogisticRegression(), "tree": tree.HoeffdingTreeClassifier()})
    >>> learner = learner_of(mixture, "classification")
    >>> for i in range(500):
    ...     learner.learn({"a": i % 7, "b": i % 3}, i % 7 in (0, 1, 5))
    >>> {name: round(weight, 1) for name, weight in learner.weights.items()}
    {'none': 0.0, 'line': 0.0, 'tree': 1.0}
    """

    members: Mapping[str, Any]
    share: float = 0.0003
    floor: float = 0.01
    alpha: float = 0.001
    recent: int = 256

    @property
    def title(self) -> str:
        return f"Mixture of {' and '.join(self.members)}"


def _with_unit(state: LearnerState) -> LearnerState:
    """Version 1 knew no unit of the target: members learnt it as it is."""
    check("target" in state.arrays, "model: no target")
    stored = array("target", state.arrays["target"], "<f8", (engine.HOME_LOW,))
    target = block(np.concatenate([stored, [0.0, 0.0, 0.0, 1.0]]))
    return msgspec.structs.replace(state, arrays=state.arrays | {"target": target}, version=2)


class MixtureLearner(Learner):
    """A ``Mixture`` in arrays: its members share the columns and the classes, and keep the bits that they have alone.

    Raises ``ValueError`` where a member is not one that learns in arrays.
    """

    kind = "mixture"
    family = stream.MIXTURE
    version = 2
    migrations = MappingProxyType({1: _with_unit})

    def __init__(self, model: Mixture, task: Task) -> None:
        super().__init__(model, task)
        if not model.members or NO_MODEL in model.members:
            raise ValueError(f"mixture: name the members; {NO_MODEL!r} is one of itself")
        self.members: dict[str, Learner] = {}
        for name, member in model.members.items():
            found = linear_learner(member, task, self.columns) or tree_learner(member, task, self.columns)
            if found is None:
                raise ValueError(
                    f"mixture: member {name!r} is a {type(member).__name__} for a {task}; "
                    "members are new linear models, trees and forests of river that learn in arrays"
                )
            self.members[name] = found
        n = len(self.members)
        self.most_classes = min(member.most_classes for member in self.members.values())
        regression = task == "regression"
        self.arrays = Arrays(
            head=np.array([regression, regression], np.int64),
            numbers=np.array([model.share, model.floor, 1.0 - model.alpha]),
            members=np.zeros(0, np.int64),
            kinds=np.array([member.family for member in self.members.values()], np.int64),
            weights=np.full(1 + n, 1.0 / (1 + n)),
            none=np.zeros(2 if regression else 1),
            parts=np.zeros((1 + n, int(regression))),
            target=np.array([float(place == engine.SCALE) for place in range(engine.N_TARGET)]),
            recent=np.zeros(model.recent if regression else 0),
        )
        for label in next((member.labels for member in self.members.values() if member.labels), []):
            self.enter(label)
        self._link()

    def follows(self, before: Learner) -> bool:
        """As each of its members does."""
        return (
            isinstance(before, MixtureLearner)
            and list(self.members) == list(before.members)
            and all(
                np.array_equal(self.arrays[name], before.arrays[name])
                for name in ("head", "numbers", "recent")
            )
            and all(mine.follows(before.members[name]) for name, mine in self.members.items())
        )

    def taken_on(self, state: LearnerState) -> LearnerState:
        state = self.migrated(state)
        own, stored = self._parts_of(state)
        arrays = dict(own)
        for name, member in stored.items():
            arrays |= _named(name, self.members[name].taken_on(member).arrays)
        versions = block(np.array([member.version for member in self.members.values()], np.int64))
        return msgspec.structs.replace(state, arrays=arrays | {"versions": versions})

    @property
    def weights(self) -> dict[str, float]:
        """What each member counts for in the next prediction; they sum to 1."""
        return dict(zip([NO_MODEL, *self.members], self.arrays["weights"].tolist(), strict=True))

    @property
    def takes_weight(self) -> bool:
        return all(member.takes_weight for member in self.members.values())

    def fit_columns(self) -> None:
        for member in self.members.values():
            member.fit_columns()

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        row = self.encoded(x)
        if not weight > 0.0:
            raise ValueError(f"weight: {weight!r} is not above 0")
        self.predict_codes(row.reshape(1, -1))
        known = self.task == "regression" or y in self.codes
        if not known:
            self.enter(y)
        target = float(y if self.task == "regression" else self.codes[y])
        engine.learn(self.arrays.table, row, target, weight, known, False, self.make_room)

    def make_room(self, leaves: int, features: int, member: int = 0) -> None:
        [*self.members.values()][member].make_room(leaves, features)

    def enter(self, label: Any) -> None:
        """A new class, of the mixture and of each member."""
        self.code(label)
        for member in self.members.values():
            member.enter(label)
        arrays, n = self.arrays, len(self.labels)
        arrays["none"], arrays["parts"] = grown(arrays["none"], 1 + n), np.zeros((len(arrays["parts"]), n))
        arrays["head"][engine.OUTPUTS] = n

    def _link(self) -> None:
        """Let compiled code find the members."""
        tables = {str(place): member.arrays.table for place, member in enumerate(self.members.values())}
        self._tables = Arrays(**tables)
        self.arrays["members"] = self._tables.table

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has members of its own."""
        self.__dict__.update(state)
        self._link()

    def _stored(self) -> dict[str, Array]:
        own = {name: self.arrays[name] for name in ("weights", "none", "target", "recent")}
        own["versions"] = np.array([member.version for member in self.members.values()], np.int64)
        for name, member in self.members.items():
            own |= _named(name, member._stored())
        return own

    def _parts_of(self, state: LearnerState) -> tuple[dict[str, Block], dict[str, LearnerState]]:
        """The mixture's own arrays in a state of this version, and the state of each member, of whatever version."""
        of_members: dict[str, dict[str, Block]] = {name: {} for name in self.members}
        own: dict[str, Block] = {}
        for name, cells in state.arrays.items():
            member, _, part = name.rpartition(".")
            check(not member or member in of_members, f"model: {name!r:.100} is of no member")
            (of_members[member] if member else own)[part] = cells
        check(
            own.keys() == {"weights", "none", "target", "recent", "versions"},
            "model: arrays of another version",
        )
        versions = array("versions", own["versions"], "<i8", (len(self.members),)).tolist()
        stored = {}
        for (name, learner), version in zip(self.members.items(), versions, strict=True):
            check(version > 0, "versions: below 1")
            stored[name] = LearnerState(
                learner.kind, state.columns, list(state.labels), of_members[name], version
            )
        return own, stored

    def _adopt(self, blocks: dict[str, Block]) -> None:
        arrays = self.arrays
        regression, n = self.task == "regression", len(self.labels)
        fixed = next((member.labels for member in self.members.values() if member.labels), self.labels)
        check(not (regression and n) and fixed == self.labels, "model: other classes")
        own, stored = self._parts_of(LearnerState(self.kind, self.columns.state(), list(self.labels), blocks))
        weights = array("weights", own["weights"], "<f8", arrays["weights"].shape)
        none = array("none", own["none"], "<f8", (2 if regression else 1 + n,))
        target = array("target", own["target"], "<f8", (engine.N_TARGET,))
        recent = array("recent", own["recent"], "<f8", arrays["recent"].shape)
        for name, numbers in (("weights", weights), ("none", none), ("target", target), ("recent", recent)):
            finite(name, numbers)
        check(
            bool((weights > 0.0).all()) and abs(float(weights.sum()) - 1.0) < 1e-9,
            "weights: no shares of one",
        )
        check(bool((none[: 1 if regression else None] >= 0.0).all()), "none: negative counts")
        seen, scale = target[engine.SEEN], target[engine.SCALE]
        check(0.0 <= seen < 2.0**53 and seen == int(seen), "target: no number of targets")
        check(
            bool(target[engine.LOW] <= target[engine.HIGH] and target[engine.SPREAD] >= 0.0),
            "target: no range",
        )
        ends = target[[engine.LOW, engine.HIGH]]
        with np.errstate(over="ignore"):
            check(
                target[engine.HOME_SPREAD] >= 0.0
                and scale > 0.0
                and bool(np.isfinite((ends - target[engine.SHIFT]) / scale).all()),
                "target: no unit",
            )
        for name, learner in self.members.items():
            learner.labels, learner.codes = list(self.labels), dict(self.codes)
            learner._adopt(learner.migrated(stored[name]).arrays)
        arrays["weights"], arrays["none"], arrays["target"], arrays["recent"] = weights, none, target, recent
        arrays["parts"] = np.zeros((1 + len(self.members), 1 if regression else n))
        arrays["head"][engine.OUTPUTS] = 1 if regression else n
        self._link()


def _named(member: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """A member's arrays as the mixture's state names them."""
    return {f"{member}.{part}": stored for part, stored in arrays.items()}
