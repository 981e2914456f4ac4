"""The first state of a new epoch: a state that has seen nothing, with each part of the state before that changed settings do not touch.

Both are data, so that a part is taken over by putting it in place of the one that has seen nothing. The ordinary restore then checks the
whole. A reset takes nothing over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from explain_core.foreign import dumps
from explain_core.importance.base import EstimatorState
from explain_core.learners.base import Learner
from explain_core.models.empty import PerformanceState
from explain_core.periods import PeriodsState
from explain_core.players import Players
from explain_core.reservoirs import ReservoirState
from explain_core.smoothing import SmootherState, taken
from explain_core.state import State, Unpack
from explain_core.stream.alarms import AlarmsData
from explain_core.stream.challenger import ChallengerData
from explain_core.stream.explained import PERFORMANCE, ExplainedModelData
from explain_core.stream.models import ModelData
from explain_sidecar.errors import UserError
from explain_sidecar.fold.identity import (
    fold_settings,
    losses_of,
    measured,
    name_of,
    parts,
    reservoir_of,
    settings_digest,
)
from explain_sidecar.fold.models import load_model
from explain_sidecar.fold.partition import CarriedData, PartitionData, PartitionState
from explain_sidecar.settings import Settings

SUPERSEDED = 16
"""Epochs whose settings a state remembers, to know an instance that still has them."""


class Carry:
    """What a state of the settings ``now`` takes over from one of ``before`` (both as ``fold_settings`` returns them).

    ``carried``, ``begun`` and ``ended`` are names of parts. ``learner`` is a new model with the parameters of now, where these are others and it
    goes on with what one of those before has learnt.
    """

    def __init__(
        self, before: Mapping[str, Any], now: Mapping[str, Any], learner: Learner | None = None
    ) -> None:
        self.before, self.now, self.learner = before, now, learner
        old, new = (parts(given if learner is None else _without_params(given)) for given in (before, now))
        self._losses, self._parts = (losses_of(before), losses_of(now)), (old, new)
        kept = {name for name, part in new.items() if old.get(name) == part}
        for name, losses in self._losses[1].items():
            if not set(losses) <= set(self._losses[0].get(name, [])):
                kept -= {f"explainer {name}", *(f"alarms importance/{name}/{loss}" for loss in losses)}
        if before.get("model", {}).get("params") != now.get("model", {}).get("params"):
            kept -= {"drift"}  # its windows have models with the parameters of before
        if not set(self.losses(1)) <= set(self.losses(0)):
            kept -= {"performance", "periods"}
        self.carried = [name for name in new if name in kept]
        self.begun = [name for name in new if name not in kept]
        self.ended = [name for name in old if name not in new]

    def of(self, names: Collection[str]) -> Carry:
        """The same with these parts alone, whatever their settings were; ``other_model`` says whether that can be."""
        found = copy.copy(self)
        found.begun = [name for name in (*self.carried, *self.begun) if name not in names]
        found.carried = [name for name in (*self.carried, *self.begun) if name in names]
        return found

    @property
    def other_model(self) -> str:
        """The settings in which the models differ, in words; empty where it is the same model under the same task."""
        apart = ("record.label", "seed")
        old, new = (
            {name: value for name, value in of["model"].items() if name not in apart} for of in self._parts
        )
        return "; ".join(
            f"{name} was {old.get(name, 'the default')}, is {new.get(name, 'the default')}"
            for name in {**old, **new}
            if old.get(name) != new.get(name)
        )

    @property
    def loses_model(self) -> bool:
        """Whether a model that has learnt is not taken over."""
        model = self.before.get("model", {})
        return not self.keeps("model") and not model.get("static", False)

    @property
    def sentence(self) -> str:
        """What is taken over and what is not, in words."""
        carried = ", ".join(self.carried) or "nothing"
        ended = f"; ended: {', '.join(self.ended)}" if self.ended else ""
        return f"carried over: {carried}; begun anew: {', '.join(self.begun) or 'nothing'}{ended}"

    def keeps(self, name: str) -> bool:
        return name in self.carried

    def losses(self, which: int, explainer: str | None = None) -> list[str]:
        """The losses of an explainer, before (0) or now (1); by default those that the model's performance is measured by."""
        if explainer is not None:
            return self._losses[which][explainer]
        return measured((self.before, self.now)[which])

    def same(self, explainer: str | None = None) -> bool:
        """Whether losses and features are those of before too, in their order."""
        features = [of.get("record", {}).get("features") for of in (self.before, self.now)]
        return features[0] == features[1] and self.losses(0, explainer) == self.losses(1, explainer)


def carry_over(before: Mapping[str, Any], settings: Settings) -> Carry:
    """What a state of these settings takes over from one of ``before``. Raises ``UserError`` where the model cannot be made."""
    now = fold_settings(settings)
    return Carry(before, now, _following(before.get("model", {}), now.get("model", {}), settings))


def _following(before: Mapping[str, Any], now: Mapping[str, Any], settings: Settings) -> Learner | None:
    """A new model of a factory whose parameters have changed, where it goes on with what one with those of before has learnt."""
    params = [of.get("params", {}) for of in (before, now)]
    if params[0] == params[1] or before.get("factory") is None or before["factory"] != now.get("factory"):
        return None
    made = load_model(settings.model, settings.seed)
    try:
        known = load_model(settings.model.model_copy(update={"params": params[0]}), settings.seed)
    except UserError:
        return None
    if isinstance(made, Learner) and isinstance(known, Learner) and made.follows(known):
        return made
    return None


def _without_params(identity: Mapping[str, Any]) -> dict[str, Any]:
    model = {name: value for name, value in identity["model"].items() if name != "params"}
    return {**identity, "model": model}


def carried(
    data: PartitionData,
    carry: Carry,
    settings: Settings,
    partition: int,
    epoch: int,
    start: int,
    unpack: Unpack,
) -> PartitionState:
    """The first state of an epoch that begins at the offset ``start``, with the parts of ``data`` that ``carry`` names.

    Raises ``StateError`` where a part is none of these settings.
    """
    state = PartitionState(settings, partition, epoch, start)
    state.restore(_merged(state.state(dumps), data, carry), unpack)
    state.carried = CarriedData(data.epoch, start, carry.carried, carry.begun)
    state.superseded = [*data.superseded, settings_digest(carry.before)][-SUPERSEDED:]
    state.notices.append(f"epoch {epoch} begins at offset {start}; {carry.sentence}")
    for asked in data.recent.waiting if data.recent is not None else ():
        state.notices.append(
            f"why it came is not told of the alarm at offset {asked.offset}: epoch {data.epoch} ended {asked.wait} records too early"
        )
    return state


def _merged(fresh: PartitionData, old: PartitionData, carry: Carry) -> PartitionData:
    keeps = carry.keeps
    features = carry.now.get("record", {}).get("features")
    found: dict[str, Any] = {
        "recently": old.recently,
        "label_delay": old.label_delay,
        "kinds": {name: kind for name, kind in old.kinds.items() if features is None or name in features},
    }
    if keeps("labels"):
        found["labels"] = old.labels
    if keeps("waiting"):
        found["waiting"] = old.waiting
    if keeps("schemas"):
        found["schemas"] = old.schemas
    if fresh.explained is not None and old.explained is not None:
        found["explained"] = _explained(fresh.explained, old.explained, carry)
    if keeps("drift"):
        # An answer that still waits is to an alarm of the epoch before; a notice says that it does not come.
        found |= {"windows": old.windows, "recent": old.recent and replace(old.recent, waiting=[])}
    elif keeps("model"):
        windows, recent = fresh.windows, fresh.recent
        found |= {
            "windows": windows and replace(windows, taught=True),
            "recent": recent and replace(recent, taught=True),
        }
    if fresh.alarms is not None and old.alarms is not None:
        found["alarms"] = _alarms(fresh.alarms, old.alarms, keeps)
    if fresh.versions is not None and old.versions is not None:
        # Windows that go on name versions that may not open again.
        named = [*old.versions.kept, *(one.name for one in old.versions.open)] if keeps("drift") else []
        anew = replace(fresh.versions, pins=old.versions.pins, kept=named)
        found["versions"] = old.versions if keeps("versions") else anew
        if keeps("challenger"):
            found["versions"] = replace(found["versions"], challenger=old.versions.challenger)
    if fresh.challenger is not None:
        explained = found.get("explained", fresh.explained)
        assert explained is not None  # with versions each of them has a challenger of its own
        kept = old.challenger if keeps("comparison") else None
        challenger = kept or _beside(fresh.challenger, explained, carry)
        model = challenger.explained.model
        if keeps("challenger") and old.challenger is not None:
            model = old.challenger.explained.model
        # Of the same records as the model, or it would be explained on others.
        beside = replace(challenger.explained, model=model, records=explained.records)
        shift = kept.shift if kept is not None and keeps("shift") else fresh.challenger.shift
        found["challenger"] = replace(challenger, explained=beside, shift=shift)
    return replace(fresh, **found)


def _explained(fresh: ExplainedModelData, old: ExplainedModelData, carry: Carry) -> ExplainedModelData:
    keeps = carry.keeps
    features = carry.now.get("record", {}).get("features")
    before = dict(
        zip(dict.fromkeys(map(reservoir_of, carry.before["explainers"])), old.reservoirs, strict=True)
    )
    now = dict(zip(dict.fromkeys(map(reservoir_of, carry.now["explainers"])), fresh.reservoirs, strict=True))
    found: dict[str, Any] = {
        "reservoirs": [_rows(before[name], features) if keeps(name) else rows for name, rows in now.items()],
        "explainers": dict(fresh.explainers),
        "segments": {
            name: old.segments[name] if keeps(f"segments {name}") else segments
            for name, segments in fresh.segments.items()
        },
    }
    for given in carry.now["explainers"]:
        name = name_of(given)
        if keeps(f"explainer {name}"):
            rows = [carry.losses(0, name).index(loss) for loss in carry.losses(1, name)]
            found["explainers"][name] = _estimator(
                fresh.explainers[name], old.explainers[name], rows, features, given.get("groups", {})
            )
    if keeps("model"):
        found["model"] = _model(old.model, carry.learner)
    if keeps("performance"):
        rows = [carry.losses(0).index(loss) for loss in carry.losses(1)]
        found["performance"] = _performance(old.performance, rows)
    for name in ("served", "estimated"):
        if keeps(name):
            found[name] = getattr(old, name)
    if keeps("partial dependence") and old.followed is not None:
        curves = old.followed.curves.items()
        kept = {name: curve for name, curve in curves if features is None or name in features}
        found["followed"] = replace(old.followed, curves=kept)
    if keeps("periods") and keeps("model") and old.periods is not None:
        sources = {
            name
            for name in map(name_of, carry.now["explainers"])
            if keeps(f"explainer {name}") and carry.same(name)
        } | ({PERFORMANCE} if carry.losses(0) == carry.losses(1) else set())
        found |= {"periods": _periods(old.periods, sources), "records": old.records}
    return replace(fresh, **found)


def _model(old: ModelData, learner: Learner | None) -> ModelData:
    """A model that goes on, with the parameters of now where these are others."""
    if learner is None or old.learner is None:
        return old
    return replace(old, learner=learner.taken_on(old.learner))


def _rows(reservoir: ReservoirState, features: Sequence[str] | None) -> ReservoirState:
    """A reservoir's rows with the features of now."""
    if features is None:
        return reservoir
    return replace(
        reservoir,
        rows=[{name: value for name, value in row.items() if name in features} for row in reservoir.rows],
    )


def _estimator(
    fresh: EstimatorState,
    old: EstimatorState,
    rows: Sequence[int],
    features: Sequence[str] | None,
    groups: Mapping[str, Sequence[str]],
) -> EstimatorState:
    """An estimator's values for the losses and players of now; those of players that it does not know begin."""
    seen = list(features) if features is not None else old.features
    before, now = Players(groups=groups), Players(groups=groups)
    before.observe(dict.fromkeys(old.features))
    now.observe(dict.fromkeys(seen))
    places = {player: place for place, player in enumerate(before)}
    columns = [places.get(player) for player in now]

    def reshaped(smoothed: SmootherState | None) -> SmootherState | None:
        return None if smoothed is None else taken(smoothed, rows, columns)

    same = seen == old.features
    return replace(
        old,
        features=seen,
        values=taken(old.values, rows, columns),
        switched=reshaped(old.switched),
        own=reshaped(old.own),
        trees=old.trees if same else fresh.trees,
    )


def _beside(fresh: ChallengerData, own: ExplainedModelData, carry: Carry) -> ChallengerData:
    """A challenger that has seen nothing, whose estimators know the players of the model's: they are compared one by one."""
    explainers, pairs = {}, []
    for given, pair in zip(carry.now["explainers"], fresh.differences.pairs, strict=True):
        name, groups = name_of(given), given.get("groups", {})
        features, rows = own.explainers[name].features, range(len(carry.losses(1, name)))
        explainers[name] = _estimator(
            fresh.explained.explainers[name], fresh.explained.explainers[name], rows, features, groups
        )
        players = Players(groups=groups)
        players.observe(dict.fromkeys(features))
        pairs.append(replace(pair, values=taken(pair.values, rows, [None] * len(players))))
    return replace(
        fresh,
        explained=replace(fresh.explained, explainers=explainers),
        differences=replace(fresh.differences, pairs=pairs),
    )


def _performance(old: PerformanceState, rows: Sequence[int]) -> PerformanceState:
    """The performance under the losses of now."""
    return replace(
        old,
        means=[old.means[row] for row in rows],
        values=taken(old.values, rows, [0, 1]),
        clipped=[old.clipped[row] for row in rows],
    )


def _periods(old: PeriodsState, sources: Collection[str]) -> PeriodsState:
    """The sums of these sources."""

    def of(sums: Mapping[str, Any]) -> dict[str, Any]:
        return {source: block for source, block in sums.items() if source in sources}

    return replace(
        old,
        open=[replace(period, sums=of(period.sums)) for period in old.open],
        newest=list(map(of, old.newest)),
    )


def _alarms(fresh: AlarmsData, old: AlarmsData, keeps: Callable[[str], bool]) -> AlarmsData:
    detectors = {
        name: old.detectors[name] if keeps(f"alarms {name}") else detector
        for name, detector in fresh.detectors.items()
    }
    found: dict[str, State | dict[str, Any] | list[Any]] = {"detectors": detectors, "causes": old.causes}
    if keeps("alarms segments"):
        found |= {"segments": old.segments, "importances": old.importances}
    return replace(fresh, **found)
