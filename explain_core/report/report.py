"""What one run over a stream found: drivers, changes, reasons, periods, in words, tables and pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice, zip_longest
from numbers import Integral
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from explain_core.alarms.detector import Position
from explain_core.figures import figure
from explain_core.losses import Task
from explain_core.markers import Markers, identifiers, other_unit, remarks
from explain_core.models import Model, Row
from explain_core.stream import Alarm, Event, Options, StreamExplainer, about
from explain_core.stream.explainer import ONLY, Dated
from explain_core.stream.given import scalar

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from explain_client import Alarm as AlarmMessage
    from explain_client import Drift, Driver, Period, Story

T = TypeVar("T")

BLOCK = 100
"""Records of the periods that a report keeps; longer ones are merged from these."""
LOOKED = 1_000
"""Records whose values are all looked at for identifiers and the like; of later ones one of each block is."""
UNDATED = 2**53
"""Added to offsets in the place of event times: these are no dates, so that sentences name offsets."""
NEWEST = 50
"""Blocks of which it is said what moves the predictions, where importances are of these and need no label."""
FEWEST = 6
"""Blocks of a period that is to have bands: these need 500 explained records, and the first block has fewer."""
ENDING = 10
"""Blocks that are looked at together for whether a change is over; one alone is too short for a band."""
_APP = "explain_core.watch"
_HEAD = {
    "app_id": _APP, "topic": "records", "partition": 0, "id": None, "keys": None, "epoch": 0, "digest": "0" * 32
}  # fmt: skip
_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MONDAY = 345_600_000


class Told(tuple[T, ...], Generic[T]):
    """Findings with their sentences: printed they are the sentences, one a line."""

    sentences: tuple[str, ...]

    @classmethod
    def of(cls, found: Iterable[T], sentences: Iterable[str]) -> Told[T]:
        made = cls(found)
        made.sentences = tuple(sentences)
        return made

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from explain_core.report.page import paragraphs

        return paragraphs(self.sentences)


def client() -> Any:
    """The package whose sentences these are. Raises ``ImportError`` with the remedy."""
    try:
        import explain_client
    except ImportError:
        raise ImportError(
            "the report's sentences are those of explain_client: pip install 'explain-core[watch]'"
        ) from None
    return explain_client


class Report:
    """A model on a stream of records with all that was found, also while it goes on: ``update`` takes in the next record.

    In a notebook it shows itself; ``print`` has the same in words. ``explainer`` is the ``StreamExplainer`` within. ``watch`` makes one.

    Parameters
    ----------
    model, options, seed, static, fresh, labels, digest
        As for ``StreamExplainer``.
    dated
        Whether records have event times.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        seed: int,
        *,
        static: bool,
        fresh: Callable[[], Model],
        labels: dict[Any, int],
        digest: bytes,
        dated: bool,
    ) -> None:
        client()
        from explain_client.stories import Stories

        self.explainer = StreamExplainer(
            model, options, seed, static=static, fresh=fresh, labels=labels, digest=digest
        )
        self.unlabelled = 0
        """Records without a label, which were left out."""
        self._classes = frozenset(labels)
        self.dated = dated
        """Whether the records have event times."""
        self._stories: Stories = Stories()
        self._alarms: list[AlarmMessage] = []
        self._drifts: list[Drift] = []
        self._blocks: list[Period] = []
        # When the model became worse than no model, when it was better again, and so on.
        self._turns: list[str] = []
        self._columns: dict[str, Markers] = {}

    @property
    def digest(self) -> str:
        """Over offset, prediction and losses of every record, in hexadecimal: what a sidecar has after the same records."""
        return self.explainer.digest.hex()

    @property
    def records(self) -> int:
        """That were predicted."""
        return self.explainer.records

    @property
    def task(self) -> Task:
        return self.explainer.task

    def update(
        self, x: Row, y: Any, *, timestamp: int | None = None, weight: float = 1.0
    ) -> list[AlarmMessage | Drift]:
        """Take in the next record: features, label, event time (milliseconds since 1970). Returns the alarms that it raises, and why the risk changed.

        A record without a label (None) is left out, and counted. Raises ``ValueError`` for a label that the model does not have.
        """
        explainer = self.explainer
        if y is None:
            self.unlabelled += 1
            explainer.next_offset += 1
            return []
        self._check(y, explainer.next_offset)
        events = explainer.update(x, y, timestamp=timestamp, weight=weight)
        self._note([x])
        return self._took(events, timestamp)

    def update_many(self, block: Iterable[Dated]) -> None:
        """``update`` of each (features, label, event time or None); several times as fast where models learn in arrays."""
        explainer = self.explainer
        for labelled, group in groupby(block, lambda one: one[1] is not None):
            if not labelled:
                for one in group:
                    self.update(*one[:2])
            while given := list(islice(group, BLOCK - explainer.records % BLOCK)):
                for offset, (_, y, _) in enumerate(given, explainer.next_offset):
                    self._check(y, offset)
                end = 0
                for taken, events in explainer.updates(given):
                    end += taken
                    self._took(events, given[end - 1][2])
                self._note([x for x, _, _ in given])

    def _note(self, rows: Sequence[Row]) -> None:
        """Take note of the values of the newest rows, all within a block; after the first ``LOOKED`` of the last row of each block alone."""
        for x in rows if self.records <= LOOKED else rows[-1:] if self.records % BLOCK == 0 else ():
            for name, value in x.items():
                found = scalar(value)
                if found is not None:
                    column = self._columns.get(name) or self._columns.setdefault(name, Markers())
                    column.add(found)

    def _check(self, y: Any, offset: int) -> None:
        """Raise ``ValueError`` for a label that a model which never learns does not have."""
        labels = self._classes
        if labels and y not in labels:
            raise ValueError(
                f"row {offset}: the label {y!r:.40} is none of the model's classes "
                f"{', '.join(map(repr, list(self.explainer.labels)[:5]))}; use the labels that it was trained with"
            )

    def _took(self, events: Sequence[Event], timestamp: int | None) -> list[AlarmMessage | Drift]:
        """Tell what follows of the newest record, and end the block that ends with it."""
        explainer = self.explainer
        if timestamp is not None:
            self.dated, timestamp = True, int(timestamp)  # of numpy's
        offset = explainer.next_offset - 1
        told = [self._tell(event, offset, timestamp) for event in events]
        if explainer.records % BLOCK == 0:
            self._end_block(Position(offset, offset if timestamp is None else timestamp))
        return told

    def _end_block(self, position: Position) -> None:
        explained = self.explainer.newest.explained
        if explained.judge(position) is not None:
            self._turns.append(self._moment(position.offset, position.timestamp))
        from explain_client.fields import read
        from explain_client.periods import Period, merge_periods

        for ended in explained.ended(position):
            content = about.period(explained, ended, position)
            content |= {name: self._time(content[name]) for name in ("from", "until")}
            self._blocks.append(read(Period, msgspec.json.decode(msgspec.json.encode(content))))
            if len(self._blocks) % ENDING == 0:
                self._stories.add_period(merge_periods(self._blocks[-ENDING:]), _APP, 0, 0)

    def _tell(self, event: Event, offset: int, timestamp: int | None) -> AlarmMessage | Drift:
        from explain_client import Alarm as AlarmMessage
        from explain_client import Drift
        from explain_client.alarm_words import sentence

        at = self._time(offset if timestamp is None else timestamp)
        message: AlarmMessage | Drift
        if isinstance(event, Alarm):
            watched = self.explainer.options.alarms
            assert watched is not None
            content = about.alarm(event)
            for moment in ("onset", "earliest", "latest"):
                content[moment]["timestamp"] = self._time(content[moment]["timestamp"])
            head = {"schema": "alarm/1", "offset": offset, "timestamp": at, "seq": len(self._alarms)}
            limits = {"one_in": watched.one_in, "min_change": watched.min_change, "model": None}
            body = {**_HEAD, **head, **content, **limits, "sentence": sentence(content)}
            message = AlarmMessage.from_json(msgspec.json.encode(body))
            self._alarms.append(message)
        else:
            head = {"schema": "drift/1", "offset": offset, "timestamp": at, "seq": len(self._drifts)}
            body = {**_HEAD, **head, **about.drift(event, self._remedy, lambda at: self._moment(**at))}
            message = Drift.from_json(msgspec.json.encode(body))
            self._drifts.append(message)
        self._stories.add(message)
        return message

    def _remedy(self, names: Sequence[str]) -> str:
        drift = self.explainer.options.drift
        listed = [*(drift.ignore if drift else ()), *names]
        return f"pass ignore={listed!r} ({' '.join(f'--ignore {name}' for name in listed)})"

    def _moment(self, offset: int, timestamp: int) -> str:
        return _moment(offset, self._time(timestamp))

    def _time(self, timestamp: int) -> int:
        return timestamp if self.dated else UNDATED + timestamp

    def drivers(self, estimator: str | None = None, loss: str | None = None) -> Told[Driver]:
        """What drives the model now, the most important feature first, by an estimator and a loss (by default the first ones).

        ``KeyError`` names the estimators and losses that there are.
        """
        estimator, loss = self._chosen(estimator, loss)
        from explain_client.periods import merge_periods

        explained = self.explainer.slots[ONLY].explained
        since = explained.worth.since
        if since is not None:
            from explain_client.periods import WORSE

            when = self._moment(since.offset, since.timestamp)
            return Told.of((), [f"{WORSE.format(when)}."])
        if explained.explainers[estimator].label_free and len(self._blocks) >= FEWEST:
            period = merge_periods(self._blocks[-NEWEST:])
            said = f"Over the last {period.records:,} records: {period.sentence(estimator, loss)}"
            return Told.of((), [_banded(said)])
        found = about.drivers(explained, estimator, loss)
        if found is None:
            return Told.of((), [f"{self.records:,} records are too few to say what drives the model."])
        if not self.dated:
            found["since"] = None
        from explain_client.fields import read
        from explain_client.periods import Driven, span
        from explain_client.words import loss_name

        driven = read(Driven, found)
        over = span(driven.records, driven.since_alarm)
        if (
            driven.since_alarm
        ):  # which need not be that of the last change: another alarm of its cause may come much later
            last = self._alarms[-1]
            begun = [story.lead.onset for story in self._stories if last in story.alarms]
            of = "".join(f", of the change since {_moment(at.offset, at.timestamp)}" for at in begun)
            over += f" (noticed{' at' * (not self.dated)} {_moment(last.offset, last.timestamp)}{of})"
        return Told.of(driven.drivers, [_banded(driven.sentence(loss=loss_name(loss), over=over))])

    def _chosen(self, estimator: str | None, loss: str | None) -> tuple[str, str]:
        explainers = self.explainer.slots[ONLY].explained.explainers
        estimator = estimator or next(iter(explainers), "")
        if estimator not in explainers:
            raise KeyError(f"estimator {estimator!r}: there are {', '.join(explainers) or 'none'}")
        losses = [known.name for known in explainers[estimator].losses]
        if loss is not None and loss not in losses:
            raise KeyError(f"loss {loss!r}: {estimator} has {', '.join(losses)}")
        return estimator, loss or losses[0]

    @property
    def remarks(self) -> list[str]:
        """Which columns had better be left out of the records, or be numbers, such as identifiers: these may drive a model, too; and times of another unit."""
        of_ids = identifiers(self._columns, "leave the column out")
        markers = remarks(self._columns, "give None, or --missing")
        times = other_unit(self._blocks[-1].until) if self.dated and self._blocks else None
        return [f"{remark}." for remark in (*of_ids, *markers, times) if remark is not None]

    def changes(self) -> Told[Story]:
        """What changed and when, the first change first: what has one cause is told once.

        Without the alarms about importances that were raised while the model was worse than no model.
        """
        stories = sorted(self._stories, key=lambda story: story.lead.onset.offset)
        return Told.of(stories, [story.sentence() for story in stories])

    def alarms(self) -> Told[AlarmMessage]:
        """All alarms: the mean of a loss, a gain or an importance changed."""
        return Told.of(self._alarms, [alarm.sentence for alarm in self._alarms])

    def why(self) -> Told[Drift]:
        """Why the risk moved: what the change of the loss is attributed to, the concept or the inputs. Of alarms, those that ``changes`` tells of."""
        told = {alarm.seq for story in self._stories for alarm in story.alarms}
        asked = [drift for drift in self._drifts if drift.alarm is None or drift.alarm.seq in told]
        drifts = sorted(asked, key=lambda drift: drift.target.first_offset)
        return Told.of(drifts, [f"{said[0].upper()}{said[1:]}." for said in (drift.told for drift in drifts)])

    def periods(self, every: str | int | None = None) -> Told[Period]:
        """Means over periods: of event time, such as "7D", "12h" or "1W", or of so many records; by default about twelve, of at least 600 records each.

        A period has the blocks of 100 records that end in it; those of days begin at midnight UTC, "W" on Mondays. Each has ``driven()``, ``begin``, ``until``,
        and means with their bands from 500 records on.
        """
        from explain_client.periods import merge_periods

        groups: dict[int, list[Period]] = {}
        for number, block in enumerate(self._blocks):
            groups.setdefault(self._place(every, number, block.until), []).append(block)
        merged = [merge_periods(blocks) for blocks in groups.values()]

        said = [
            f"{_moment(period.first_offset, self._time(period.begin), day=True)}: {period.sentence()}"
            for period in merged
        ]
        return Told.of(merged, said)

    def _place(self, every: str | int | None, number: int, until: int) -> int:
        if every is None:
            return number // max(-(-len(self._blocks) // 12), FEWEST)
        if not isinstance(every, str):
            if not isinstance(every, Integral) or every < 1:
                raise ValueError(f"every: {every}; pass a length such as '7D', or at least 1 record")
            return number // max(round(int(every) / 100), 1)
        found = re.fullmatch(r"\s*(\d*)\s*(s|min|h|d|w)\s*", every, re.IGNORECASE)
        if found is None or found[1] == "0":
            raise ValueError(
                f"every: {every!r}; pass a length such as '7D', '12h', '30min' or '1W', or a number of records"
            )
        if not self.dated:
            raise ValueError(
                f"every: {every!r}, and the records have no times; pass time='column' to watch, or a number of records"
            )
        length = 1_000 * int(found[1] or 1) * _UNITS[found[2].lower()]
        begin = self._blocks[0].begin
        shift = _MONDAY if found[2].lower() == "w" else begin - begin % (1_000 * 86_400)
        return (until - shift) // length

    def to_pandas(self, every: str | int | None = None) -> pd.DataFrame:
        """``periods`` as a data frame, one row per period, estimator, loss and feature. Raises ``ImportError`` where pandas is missing."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install 'explain-core[watch]'") from None
        from explain_client.frames import rows_of_period

        rows = [
            {"first_offset": period.first_offset, "last_offset": period.last_offset} | row
            for period in self.periods(every)
            for row in rows_of_period(period)
        ]
        frame = pd.DataFrame(rows)
        return frame.drop(columns=["name"] if self.dated else ["name", "begin", "until"], errors="ignore")

    def plot(self, every: str | int | None = None) -> Figure:
        """What drives the model, its loss, and the importances over ``periods``, with the changes: a figure of matplotlib."""
        from explain_core.report.pictures import drawn

        return drawn(self, every)

    @property
    def sections(self) -> list[tuple[str, Sequence[str]]]:
        """What there is to say: a heading, and its sentences."""
        found: list[tuple[str, Sequence[str]]] = [
            ("What drives the model", [*self.drivers().sentences, *self.remarks]),
            ("What changed, and when", [*self._changed(), *self._worse()]),
        ]
        if why := self.why():
            found.append(("Whether the risk moved with it, and why", [*self._risk(why), *why.sentences]))
        return found

    def _risk(self, why: Sequence[Drift]) -> list[str]:
        """Of which loss the risk is, where that is another than the one that the rest is about."""
        from explain_client.words import loss_name

        risks = {loss_name(str(drift.change["loss"])) for drift in why if drift.change} - {self._loss}
        return [f"The risk here is the {risk}; the changes above are of the {self._loss}." for risk in sorted(risks)]  # fmt: skip

    @property
    def _loss(self) -> str:
        """The first loss, by which the model is compared with no model, by its name for people."""
        from explain_client.words import loss_name

        return loss_name(self.explainer.slots[ONLY].explained.performance.losses[0].name)

    def _changed(self) -> list[str]:
        changes, watched = self.changes().sentences, self.explainer.options.alarms
        if watched is None or not changes:
            return [self._unchanged()]
        how = (
            f"“At least” is what is certain: the change less what chance could do once in {watched.one_in:,} records. "
            "The parentheses have what was measured: mean before → mean since ± half its 95 % band."
        )
        return [how, *changes]

    def _worse(self) -> list[str]:
        """When the model was worse than no model, and how many alarms are left out for that."""
        spans = [
            f"was worse than no model from {begin} to {end}" if end else f"has been worse than no model since {begin}"
            for begin, end in zip_longest(self._turns[::2], self._turns[1::2])
        ]  # fmt: skip
        void = sum(alarm.void for alarm in self._alarms)
        left = f", so alarms about them are not told above ({void})" if void else ""
        if not spans:
            return []
        return [
            f"By its smoothed {self._loss} the model {' and '.join(spans)}: importances of that time say nothing{left}."
        ]

    def _unchanged(self) -> str:
        """What there is to say without an alarm: these know of no change before they have records to compare with."""
        watched = self.explainer.options.alarms
        if watched is None:
            return "No alarms were asked for."
        first = f"{watched.warm_up + watched.baseline:,} records"
        if any(alarms.floors() for alarms in self.explainer.slots[ONLY].alarms):
            return f"Nothing changed for certain after the first {first}: alarms compare with these, and find no change within them."
        seasons = "" if watched.season == "none" else ", and two whole days or weeks,"
        return f"No change could be found yet: alarms need {first}{seasons} before one."

    @property
    def summary(self) -> str:
        """How many records, how good the model is, and the digest."""
        left = f" ({self.unlabelled:,} without a label were left out)" if self.unlabelled else ""
        figures = "none yet"
        if self.records:
            model, empty, over = self._losses()
            figures = f"{self._loss} {figure(model)} {over}, that of no model {figure(empty)}"
        return f"{self.records:,} records{left}; {figures}; digest {self.digest}"

    def _losses(self) -> tuple[float, float, str]:
        """The mean of the first loss of the model and of no model, and over what: the records of which ``drivers`` speaks, else those smoothed."""
        from explain_client.periods import span

        explained = self.explainer.slots[ONLY].explained
        loss = explained.performance.losses[0].name
        estimator, first = self._chosen(None, None)
        found = explained.drivers(estimator, first) if first == loss else None
        if found is None:
            model, empty, _ = explained.performance.of(loss)
            return model, empty, "of late"
        return found.loss, found.loss + found.gain, f"over {span(found.records, found.since_alarm)}"

    def __str__(self) -> str:
        parts = [
            f"{heading}\n" + "\n".join(f"  {line}" for line in lines) for heading, lines in self.sections
        ]
        return "\n\n".join([self.summary, *parts])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from explain_core.report.page import fragment

        return fragment(self)

    def to_html(self) -> str:
        """The report as a page of its own, which needs nothing from elsewhere."""
        from explain_core.report.page import page

        return page(self)


def _banded(sentence: str) -> str:
    """With what its brackets are."""
    return f"{sentence}.{' Brackets are 95 % bands.' if '[' in sentence else ''}"


def _moment(offset: int, timestamp: int, day: bool = False) -> str:
    from explain_client.alarm_words import moment

    said = moment({"offset": offset, "timestamp": timestamp})
    return said.split(" ")[1] if day and timestamp < UNDATED else said
