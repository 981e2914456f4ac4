"""A model in a stream: the only one, or a version of it."""

from __future__ import annotations

from collections.abc import Sequence

from explain_core.engine.stream import LONGEST, run
from explain_core.foreign import dumps
from explain_core.importance.blocks import Array
from explain_core.losses import Prediction
from explain_core.models import FeatureKind, Row
from explain_core.state import Pack, State, Unpack, restore_part
from explain_core.stream.alarms import Alarms, AlarmsData
from explain_core.stream.challenger import Challenger, ChallengerData
from explain_core.stream.events import Learnt, Record, RecordBlock
from explain_core.stream.explained import ExplainedModel, ExplainedModelData
from explain_core.stream.reasoner import Predicted, Reasoner


class SlotData(State, frozen=True):
    """A slot in a snapshot."""

    explained: ExplainedModelData
    alarms: AlarmsData | None = None
    challenger: ChallengerData | None = None


class Slot:
    """An explained model, with the challengers that it is compared with (one, or none) and the alarms about it (some, or none).

    ``columns`` are the features that it takes, in its order; None for all. ``reasoner`` explains its single predictions, where that is asked for.
    """

    def __init__(
        self,
        explained: ExplainedModel,
        challengers: Sequence[Challenger] = (),
        alarms: Sequence[Alarms] = (),
        columns: Sequence[str] | None = None,
        reasoner: Reasoner | None = None,
    ) -> None:
        self.explained, self.columns, self.reasoner = explained, columns, reasoner
        self.challengers, self.alarms = challengers, alarms
        self.models = [explained, *(challenger.explained for challenger in challengers)]
        """The model, and those that it is compared with."""
        self.wanted: dict[str, FeatureKind] = {}
        """Of the features whose kind the model fixes, or else the challenger."""
        for kept in reversed(self.models):
            self.wanted |= kept.model.kinds

    def features(self, x: Row) -> Row:
        """Those of a record that the model takes."""
        return x if self.columns is None else {name: x[name] for name in self.columns if name in x}

    def predict(self, record: Record, x: Row) -> list[Prediction]:
        """The predictions of the model and of its challengers, which are explained."""
        periods = self.explained.periods
        if self.explained.records == 0 and periods is not None:
            periods.begin(record.offset, record.timestamp)
        for challenger in self.challengers:
            challenger.align()
        own = self.explained.explain(x, record.y)
        return [own, *(challenger.explain(x, record.y) for challenger in self.challengers)]

    def predicted(self, x: Row) -> Predicted:
        """The model's own prediction as it is, with its reasons where they are asked for; nothing is learnt or counted."""
        explained = self.explained
        prediction = explained.predict(x)
        if self.reasoner is None:
            return Predicted(prediction, explained.records)
        return self.reasoner.explain(explained.model, x, prediction, explained.records)

    def learn(self, record: Record, x: Row, predictions: Sequence[Prediction]) -> list[list[float]]:
        """Learn the record of ``predict``, which returned the predictions; returns the losses of each."""
        own, *others = predictions
        losses = [self.explained.learn(x, record.y, record.weight, own, record.served)]
        for challenger, other in zip(self.challengers, others, strict=True):
            losses.append(challenger.learn(x, record.y, record.weight, other, losses[0]))
        return losses

    def bind(self) -> bool:
        """Make ready for ``fold_block``; whether compiled code can take the next records in."""
        records = self.explained.records
        return all(kept.records == records and kept.in_blocks and kept.blocks.bind() for kept in self.models)

    @property
    def most(self) -> int:
        """How many records a block may have at most."""
        return min(self.explained.most, *(challenger.most for challenger in self.challengers), LONGEST)

    def fold_block(self, block: RecordBlock, n: int) -> list[tuple[Array, Learnt]]:
        """``predict`` and ``learn`` of the first records of a block, at most so many; predictions of the model and of its challengers, and what is known
        of them; nothing where compiled code takes none of them.
        """
        own = self.explained
        xs = block.xs[:n] if self.columns is None else list(map(self.features, block.xs[:n]))
        truths = own.blocks.truths(block.ys[:n]) if self.challengers or own.served is not None else []
        given = [(block.rows, block.ys[:n]), *(kept.blocks.encode(xs, truths) for kept in self.models[1:])]
        streams = [
            kept.blocks.begin(rows, ys, block.weights, kept.records)
            for kept, (rows, ys) in zip(self.models, given, strict=True)
        ]
        n = run(streams, min(len(ys) for _, ys in given))
        if n == 0:
            return []
        xs = xs[:n]
        found = [own.end_block(n, xs, truths[:n], block.served)]
        return found + [challenger.end_block(n, xs, found[0][1]) for challenger in self.challengers]

    def state(self, pack: Pack = dumps) -> SlotData:
        return SlotData(
            self.explained.state(pack),
            next((alarms.state(pack) for alarms in self.alarms), None),
            next((challenger.state(pack) for challenger in self.challengers), None),
        )

    def restore(self, data: SlotData, classes: int, unpack: Unpack) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where it is not of these options."""
        self.explained.restore(data.explained, unpack)
        challenger, alarms = next(iter(self.challengers), None), next(iter(self.alarms), None)
        restore_part(challenger, data.challenger, "challenger: with one, or without", unpack)
        restore_part(alarms, data.alarms, "alarms: with them, or without", classes, unpack)
