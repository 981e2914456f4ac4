"""Stories: what has one cause is told once. Alarms, the drift message that they asked for, when it was over, and what people know of it.

A story is a function of messages alone, and the same in every reader. What people know, that something was expected, or that they have seen it, comes
on a topic of its own and marks stories; it never enters the fold. So it holds whenever it comes, before the alarm or after it, once or
twice, and neither the explanation stream nor the rate of false alarms depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from explain_client.alarm import Alarm, Moment
from explain_client.alarm_words import clause, moment, rank, short, where
from explain_client.drift import Drift
from explain_client.errors import SchemaError
from explain_client.explanation import Explanation
from explain_client.fields import is_date, read
from explain_client.periods import SHARE, Period

MOST = 500
"""Stories, and messages of the control topic, that are kept, the newest."""
MOST_BANDS = 200_000
"""Bands of periods that are kept, the newest, for alarms that are read after them: some 30 MB, or 2,000 explanations of 20 features."""
MOST_ALARMS = 200
"""Alarms of a story that are kept, the first."""
NAMED = 3
"""Features, and segments, that a sentence names."""
LONGEST = 300
"""Characters of a reason in a sentence."""

Subject = tuple[str, str | None, str | None, str | None, str | None]
"""Subject, feature, estimator, loss and segment of an alarm."""
Key = tuple[str, str | None, str | None, str | None, str | None, str | None]
"""The same with the version."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What begins from ``since`` to ``until`` (event time, milliseconds since 1970) is expected, in one partition or all."""

    since: int
    until: int
    why: str
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Someone has seen the story of this cause."""

    partition: int
    epoch: int
    version: str | None
    cause: int
    why: str


def control_of(value: bytes) -> Expected | Acknowledged:
    """A message of the control topic. Raises ``SchemaError`` for what is none.

    Times are those of ISO 8601, in UTC where they name no zone, or milliseconds since 1970.

    >>> control_of(b'{"expected": ["2013-12-20T22:00", "2013-12-21", "a new price list"], "partition": 0}')
    Expected(since=1387576800000, until=1387584000000, why='a new price list', partition=0)
    >>> control_of(b'{"acknowledged": {"partition": 0, "epoch": 0, "cause": 2, "why": "seen"}}')
    Acknowledged(partition=0, epoch=0, version=None, cause=2, why='seen')
    """
    try:
        data = orjson.loads(value)
        if "expected" in data:
            since, until, why = data["expected"]
            times = {"since": _milliseconds(since), "until": _milliseconds(until)}
            found = read(Expected, {**times, "why": why, "partition": data.get("partition")})
            if found.until < found.since:
                raise ValueError(f"expected until {until!r}, which is before {since!r}")
            return found
        return read(Acknowledged, {"version": None, "why": ""} | data["acknowledged"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise SchemaError(
            f"not a control message: {value!r:.60}: {type(error).__name__}: {error}; it is "
            '{"expected": [since, until, why]} or {"acknowledged": {"partition": …, "epoch": …, "cause": …, "why": …}}'
        ) from None


def _milliseconds(time: Any) -> int:
    if type(time) is int:
        return time
    found = datetime.fromisoformat(time)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Why:
    """What a drift message says of the cause: "concept", "inputs", both or neither; ``learnt`` is 1 if the model itself changed
    and raised the risk, −1 if it lowered it.

    ``feature`` differs most between the records before and since, and ``how``; ``fault`` if that looks like a fault of its sensor. ``place`` is the
    feature and the value, or the range, at which the concept changed most.
    """

    causes: tuple[str, ...] = ()
    attributable: bool = True
    learnt: int = 0
    feature: str | None = None
    fault: bool = False
    place: tuple[str, str] | None = None
    how: str = ""

    @classmethod
    def of(cls, drift: Drift) -> Why | None:
        """None where the message has no result, or one that cannot be read."""
        change = drift.change
        try:
            if change is None:
                return None
            model = change["joint"]["hypothesis"] or change["learning"] or {"low": None}
            learnt = 0 if model["low"] is None else (model["low"] > 0.0) - (model["high"] < 0.0)
            named = dict.fromkeys("concept" if cause == "concept" else "inputs" for cause in drift.causes)
            causes = list(named)
            if len(causes) > 1:  # one that has hardly a part in the change is not told beside the other
                joint = change["joint"]
                inputs = abs(sum(part["value"] for part in joint["inputs"]))
                sizes = {"concept": abs(joint["concept"]["value"]), "inputs": inputs}
                causes = [cause for cause in causes if sizes[cause] >= SHARE * max(sizes.values())]
            known = cls(tuple(causes), change["verdict"] == "attributed", learnt)
            if place := change.get("where"):
                known = replace(known, place=(str(place["feature"]), str(place["value"])))
            for first in drift.differences[:1]:
                how = (
                    first.words.removeprefix(first.feature)
                    if first.words.startswith(f"{first.feature} ")
                    else ""
                )
                known = replace(known, feature=first.feature, fault=first.fault, how=how)
            return known
        except (KeyError, TypeError, AttributeError):
            return None

    def words(self, name: Callable[[str], str] = str) -> str:
        """The cause as a clause.

        >>> Why(("concept", "inputs"), feature="temp").words(), Why(("concept",), feature="temp", fault=True).words()
        ('the concept and the inputs changed, first of all temp', 'this looks like a fault of temp')
        >>> Why(("inputs",), feature="temp", how=" is higher by 3.1 throughout").words()
        'the inputs changed, first of all temp, which is higher by 3.1 throughout'
        >>> Why(("concept",), place=("plan", "pro")).words()
        'the concept changed, mostly where plan is pro'
        """
        first = "" if self.feature is None else name(self.feature)
        which = f"{first}, which{self.how[:LONGEST]}" if self.how else first
        if self.fault:
            return f"this looks like a fault of {which}"
        if not self.attributable:
            return f"the records before and since have too little in common to say why{f', and {first} differs most' if first else ''}"
        if self.causes:
            changed = f"{' and '.join(f'the {cause}' for cause in self.causes)} changed"
            if self.place is not None and "concept" in self.causes:
                feature, value = self.place
                place = f"mostly where {name(feature)} is {value[:LONGEST]}"
                if len(self.causes) == 1:
                    return f"{changed}, {place}"
                changed = f"the concept changed, {place}, and the inputs did"
            return f"{changed}, first of all {which}" if first and "inputs" in self.causes else changed
        found = "the model itself changed" if self.learnt else "no cause stands out"
        return f"{found}, and {first} differs" if first else found


@dataclass(slots=True)
class Story:
    """What one cause changed in a partition, or a version of its model.

    ``why`` is what the drift message says that its alarm asked for, and ``asked`` the ``seq`` of that alarm. ``ended`` has the record from which on each subject
    was as before, ``back`` the alarms that took subjects back, and ``why_back`` what the drift messages say that these asked for, by their cause.
    """

    app_id: str
    topic: str
    partition: int
    keys: str | None
    epoch: int
    version: str | None
    cause: int
    alarms: list[Alarm] = field(default_factory=list)
    why: Why | None = None
    ended: dict[Key, Moment] = field(default_factory=dict)
    expected: Expected | None = None
    acknowledged: Acknowledged | None = None
    asked: int | None = None
    back: list[Alarm] = field(default_factory=list)
    why_back: dict[int, Why] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name in its partition."""
        return f"{self.epoch} {self.version or ''} {self.cause}"

    @property
    def lead(self) -> Alarm:
        """What is told first: the loss before what it is made of, all records before a segment, the strongest evidence first."""
        return min(self.alarms, key=lambda one: (rank(one.subject), one.segment is not None, -one.evidence))

    @property
    def over(self) -> Moment | None:
        """From when on what is told first was as before; None as long as it is not."""
        return self.ended.get(_key(self.lead))

    @property
    def features(self) -> list[str]:
        """The features whose importance, or share of missing values, changed, the strongest evidence first."""
        strongest = sorted(self.alarms, key=lambda one: -one.evidence)
        return list(dict.fromkeys(one.feature for one in strongest if one.feature is not None))

    @property
    def segments(self) -> list[tuple[str, str | None]]:
        """The segments in which something changed, the largest change first."""
        apart = [(one, one.segment) for one in self.alarms if one.segment is not None]
        apart.sort(key=lambda pair: -abs(pair[0].after.value - pair[0].before.value))
        return list(dict.fromkeys((segment.feature, segment.value) for _, segment in apart))

    def sentence(self, name: Callable[[str], str] = str) -> str:
        """The story in words; ``name`` turns a feature into what people call it."""
        lead = self.lead
        text = f"Since {self._when(lead.onset)} {clause(asdict(lead), name=name)}"
        text += self._cause(name)
        others = self._others(lead)
        told = [clause(asdict(alarm), name=name) for alarm in others[:NAMED]]
        rest = len(others) - len(told)
        told.append(
            f"{rest} more alarm{'s' * (rest > 1)} of this cause" if rest else "nothing else raised an alarm"
        )
        text += f"; {'; '.join(told)}."
        if self.over is not None:
            lasting = [one for one in others if _key(one) not in self.ended]
            named = dict.fromkeys(
                short(name(one.feature or one.subject.replace("_", " "))) for one in lasting
            )
            text += f" It is over: nearer to its old level since {self._when(self.over)}{_but(list(named))}"
            whys = [self.why_back.get(one.cause) for one in self.back if _key(one) == _key(lead)]
            why = next(filter(None, reversed(whys)), None)
            text += f"; what ended it: {self._reason(why, -1, name)}." if why else "."
        if self.expected is not None:
            text += f" Expected: {self.expected.why[:LONGEST].rstrip('.')}."
        if self.acknowledged is not None:
            said = self.acknowledged.why[:LONGEST].rstrip(".")
            text += f" Acknowledged: {said}." if said else " Acknowledged."
        return text

    def _when(self, at: Moment) -> str:
        """With its offset where times do not tell records apart: the alarm was noticed within the minute of its onset, as in a backlog of records that came at once."""
        said, lead = moment(asdict(at)), self.lead
        alike = is_date(at.timestamp) and lead.timestamp // 60_000 == lead.onset.timestamp // 60_000
        return f"{said} (offset {at.offset})" if alike else said

    def _cause(self, name: Callable[[str], str]) -> str:
        """What the drift message found, and in which segment most."""
        lead, told = self.lead, []
        if self.why is not None:
            told.append(self._reason(self.why, 1, name) + self._compared(lead))
        if lead.segment is None and (self.why is None or self.why.place is None):
            apart = [one for one in self.alarms if one.segment is not None and one.subject == lead.subject]
            apart = [one for one in apart if one.direction == lead.direction]
            if apart:
                largest = max(apart, key=lambda one: abs(one.after.value - one.before.value))
                told.append(f"mostly{where(asdict(largest), name)}")
        return f": {', '.join(told)}" if told else ""

    def _reason(self, why: Why, sense: int, name: Callable[[str], str]) -> str:
        """A reason in words. ``sense``: 1 for what is told first, −1 for its way back; a model that moved the risk the other way is none."""
        lead = self.lead
        worse = (lead.direction == "up") == (lead.subject == "loss")
        other = lead.subject in ("loss", "gain") and why.learnt == (-sense if worse else sense)
        return (replace(why, learnt=0) if other else why).words(name)

    def _compared(self, lead: Alarm) -> str:
        """Between which records the cause was looked for, where these are not those before and since the onset that is told."""
        onsets = (alarm.onset for alarm in self.alarms if alarm.seq == self.asked)
        at = next(onsets, lead.onset)
        return "" if at == lead.onset else f", compared before and since {self._when(at)}"

    def _others(self, lead: Alarm) -> list[Alarm]:
        """What else is told: each feature once. A gain changes with its loss, and a loss in a segment with that of all."""
        found: dict[tuple[str, str | None], Alarm] = {}
        for alarm in sorted(self.alarms, key=lambda one: (one.segment is not None, -one.evidence)):
            same = alarm.subject in ("loss", "gain") and lead.subject in ("loss", "gain")
            if not same:
                found.setdefault((alarm.subject, alarm.feature), alarm)
        found.pop((lead.subject, lead.feature), None)
        return list(found.values())


def _key(alarm: Alarm) -> Key:
    segment = (
        None if alarm.segment is None else orjson.dumps([alarm.segment.feature, alarm.segment.value]).decode()
    )
    return alarm.subject, alarm.feature, alarm.estimator, alarm.loss, segment, alarm.version


class _Told(NamedTuple):
    """What a period told of the subjects of a partition, or of a version."""

    source: tuple[str, int, int]
    version: str | None
    offset: int
    begin: int
    bands: dict[Subject, tuple[float | None, float | None]]


class Stories:
    """The stories of the messages that are added, in any order of the topics; of each topic in its order.

    An importance of a model that was worse than no model (``void``) is part of none.

    A change is over with an alarm that takes its subject back beyond the middle between both means, with one that finds it there already, or with a
    period of records after it whose band lies there, also one of a later epoch: whichever is of the earliest record. An alarm that takes a subject back ends a
    story and begins none, unless it goes farther than back.
    """

    def __init__(self) -> None:
        self._stories: dict[tuple[str, int, int, str | None, int], Story] = {}
        self._why: dict[tuple[str, int, int, int], Why] = {}
        self._periods: deque[_Told] = deque()
        self._bands = 0  # of all periods that are kept
        self._expected: list[Expected] = []
        self._acknowledged: dict[tuple[int, int, str | None, int], Acknowledged] = {}

    def __iter__(self) -> Iterator[Story]:
        """The stories, the one that began last at the end."""
        return iter(list(self._stories.values()))

    def of(self, partition: int) -> list[Story]:
        """Those of a partition."""
        return [story for story in self if story.partition == partition]

    def __len__(self) -> int:
        return len(self._stories)

    def add(self, message: Alarm | Drift | Explanation | Expected | Acknowledged) -> list[Story]:
        """Add a message; returns the stories that are now told otherwise."""
        if isinstance(message, Alarm):
            return self._alarm(message)
        if isinstance(message, Drift):
            return self._drift(message)
        if isinstance(message, Explanation):
            version = message.version.name if message.version else None
            source = message.app_id, message.partition, message.epoch, version
            return [story for period in message.periods for story in self.add_period(period, *source)]
        if isinstance(message, Expected):
            self._expected = [*(one for one in self._expected if one != message), message][-MOST:]
        else:
            place = message.partition, message.epoch, message.version, message.cause
            self._acknowledged[place] = message
            _shorten(self._acknowledged)
        return [story for story in self if self._mark(story)]

    def _alarm(self, alarm: Alarm) -> list[Story]:
        if alarm.void:
            return []
        source = alarm.app_id, alarm.partition, alarm.epoch
        ended = [story for story in self._of(*source) if _ends(story, alarm)]
        back = [story for story in self._of(*source) if _takes_back(story, alarm)]
        why = self._why.pop((*source, alarm.seq), None)
        for story in back:
            story.back = [*story.back, alarm][-MOST_ALARMS:]
            if why is not None:
                story.why_back[alarm.cause] = why
        if back:
            return ended or back[-1:]
        place = alarm.app_id, alarm.partition, alarm.epoch, alarm.version, alarm.cause
        if place not in self._stories:
            self._stories[place] = Story(
                alarm.app_id,
                alarm.topic,
                alarm.partition,
                alarm.keys,
                alarm.epoch,
                alarm.version,
                alarm.cause,
            )
            _shorten(self._stories)
        story = self._stories[place]
        if len(story.alarms) < MOST_ALARMS:
            story.alarms.append(alarm)
        if story.why is None and why is not None:
            story.why, story.asked = why, alarm.seq
        for told in self._periods:
            if _tells(told, story):
                _settle(story, alarm, told)
        self._mark(story)
        return [story, *ended]

    def _drift(self, drift: Drift) -> list[Story]:
        why = Why.of(drift)
        if drift.alarm is None or why is None:
            return []
        source, seq = (drift.app_id, drift.partition, drift.epoch), drift.alarm.seq
        for story in self._of(*source):
            if any(alarm.seq == seq for alarm in story.alarms):
                story.why, story.asked = why, seq
                return [story]
        for story in self._of(*source):
            for alarm in story.back:
                if alarm.seq == seq:
                    story.why_back[alarm.cause] = why
                    return [story]
        self._why[*source, seq] = why
        _shorten(self._why)
        return []

    def add_period(
        self, period: Period, app_id: str, partition: int, epoch: int, version: str | None = None
    ) -> list[Story]:
        """Add a period of a partition, or of a version of its model; returns the stories that are over with it."""
        told = _Told((app_id, partition, epoch), version, period.first_offset, period.begin, _bands(period))
        self._periods.append(told)
        self._bands += len(told.bands)
        while self._bands > MOST_BANDS:
            self._bands -= len(self._periods.popleft().bands)
        about = (story for story in self if _tells(told, story))
        return [story for story in about for alarm in story.alarms if _settle(story, alarm, told)]

    def _of(self, *source: str | int) -> list[Story]:
        return [story for story in self if (story.app_id, story.partition, story.epoch) == source]

    def _mark(self, story: Story) -> bool:
        before = story.expected, story.acknowledged
        earliest = min(alarm.earliest.timestamp for alarm in story.alarms)
        latest = max(alarm.latest.timestamp for alarm in story.alarms)
        for one in self._expected:
            if one.since <= latest and earliest <= one.until and one.partition in (None, story.partition):
                story.expected = one
        place = story.partition, story.epoch, story.version, story.cause
        story.acknowledged = self._acknowledged.get(place)
        return before != (story.expected, story.acknowledged)


def _but(lasting: list[str]) -> str:
    """What is not over, as the end of a clause.

    >>> _but(["usage"]), _but(["a", "b", "c", "d", "e"]), _but([])
    (', but for usage', ', but for a, b, c and 2 more', '')
    """
    *most, last = [*lasting[:NAMED], *([f"{len(lasting) - NAMED} more"] if lasting[NAMED:] else [])] or [""]
    return f", but for {' and '.join(filter(None, (', '.join(most), last)))}" if last else ""


def _tells(told: _Told, story: Story) -> bool:
    """Whether a period is of the story's partition and version, in its epoch or a later one."""
    app_id, partition, epoch = told.source
    same = (story.app_id, story.partition, story.version) == (app_id, partition, told.version)
    return same and story.epoch <= epoch


def _settle(story: Story, alarm: Alarm, told: _Told) -> bool:
    """Mark a story whose subject was as before in a period. True where that says something new."""
    key = _key(alarm)
    over = told.offset > alarm.offset and _back(alarm, *told.bands.get(key[:-1], (None, None)))
    return over and _end(story, key, Moment(told.offset, told.begin))


def _shorten(kept: dict[Any, Any]) -> None:
    if len(kept) > MOST:
        del kept[next(iter(kept))]


def _own(story: Story, alarm: Alarm) -> Alarm | None:
    """The newest alarm of the story about the same subject, before this one."""
    earlier = [one for one in story.alarms if _key(one) == _key(alarm) and one.seq < alarm.seq]
    return earlier[-1] if earlier and story.cause != alarm.cause else None


def _ends(story: Story, alarm: Alarm) -> bool:
    """Mark a story whose subject an alarm takes back to where it was before, or finds there. True where that says something new."""
    own = _own(story, alarm)
    if own is None:
        return False
    after, before = alarm.after.value, alarm.before.value
    over = _back(own, after, after) or _back(own, before, before)
    return over and _end(story, _key(alarm), alarm.onset)


def _end(story: Story, key: Key, at: Moment) -> bool:
    known = story.ended.get(key)
    if known is not None and known.offset <= at.offset:
        return False
    story.ended[key] = at
    return True


def _takes_back(story: Story, alarm: Alarm) -> bool:
    """Whether the subject was where the story left it until this alarm, which takes it back and no farther."""
    own = _own(story, alarm)
    if own is None or _back(own, alarm.before.value, alarm.before.value):
        return False
    farther = abs(alarm.after.value - own.before.value)
    return 2.0 * farther < abs(own.after.value - own.before.value)


def _back(alarm: Alarm, low: float | None, high: float | None) -> bool:
    """Whether a mean is nearer to that before the alarm than to that after it, for certain."""
    if low is None or high is None:
        return False
    middle = (alarm.before.value + alarm.after.value) / 2.0
    return high < middle if alarm.before.value < alarm.after.value else low > middle


def _bands(period: Period) -> dict[Subject, tuple[float | None, float | None]]:
    """The band of what each subject was in a period."""
    found: dict[Subject, tuple[float | None, float | None]] = {}
    for loss, means in period.performance.items():
        for kind, mean in means.items():
            found[kind, None, None, loss, None] = mean.low, mean.high
    for estimator, by_loss in period.importances.items():
        for loss, cells in by_loss.items():
            for feature, mean in cells.items():
                found["importance", feature, estimator, loss, None] = mean.low, mean.high
    return found
