"""The sentences of the dashboard: a partition in one line, and all partitions in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explain_client.messages import Explanation
from explain_client.periods import WORSE
from explain_client.stories import Story
from explain_client.words import figure, loss_name, minute
from explain_sidecar.fold.rejections import LAST, MANY
from explain_sidecar.headline import detectable, moved
from explain_sidecar.http.history import Column, History, ranking
from explain_sidecar.http.partition import Partition, ShownVersion


def sentence(chosen: ShownVersion, column: Column, stories: Sequence[Story] | None = None) -> str:
    """What drives the model, what it is worth, and what changed: the page in one line.

    ``stories`` are those of the partition's alarms; None where there can be none. Then points are compared by their bands.
    """
    newest, history = chosen.newest, chosen.history
    driven = newest.drivers.get(column[0], {}).get(column[1])
    driver = (
        _moving(newest, column)
        if newest.label_free(*column)
        else f"It is too early to say what drives the model{_worth(newest, column)}"
        if driven is None
        else driven.sentence(most=3, loss=loss_name(column[1]))
    )
    if driven is not None and driven.drivers:
        names = {found.feature for found in driven.drivers[:3]}
        driver += "".join(
            f"; {curve.sentence()}" for curve in newest.partial_dependence if curve.feature in names
        )
    if driven is not None and not driven.drivers:  # else it begins with a name, or is a sentence
        driver = driver[0].upper() + driver[1:]
    rejecting = ""
    if newest.rejected_recently > MANY:
        rejecting = f"{newest.rejected_recently:,} of the last {LAST:,} records could not be used. "
    if newest.worse_since is not None:
        said = WORSE.format(_moment(newest.worse_since.timestamp))
        return f"{rejecting}{said[0].upper()}{said[1:]}."
    if newest.status == "warming":
        return f"{rejecting}Warming up. {driver}."
    if stories is None:
        return f"{rejecting}{driver}; {_moved(history, column)}."
    story = newest_story(stories, newest)
    if story is None:
        return f"{rejecting}{driver}; {_floor(newest, column)}."
    return f"{rejecting}{driver}. {_told(story, newest)}"


def newest_story(stories: Sequence[Story], newest: Explanation) -> Story | None:
    """The newest story about a model that is not over, of the others the newest."""
    version = newest.version.name if newest.version else None
    about = [story for story in stories if (story.epoch, story.version) == (newest.epoch, version)]
    return max(about, key=lambda story: (story.over is None, story.lead.seq), default=None)


def _told(story: Story, newest: Explanation) -> str:
    """A story, and what its first subject is now where that is nearer to what it was before: an alarm tells the mean since its onset."""
    lead, value = story.lead, None
    performance = newest.performance.get(lead.loss or "")
    if lead.subject == "importance" and lead.feature is not None:
        cells = newest.importances.get(lead.estimator or "", {}).get(lead.loss or "", {})
        value = cells[lead.feature].value if lead.feature in cells else None
    elif performance is not None and performance.model is not None and performance.empty is not None:
        value = {"loss": performance.model, "gain": performance.empty - performance.model}.get(lead.subject)
    if value is None or lead.segment is not None or story.over is not None:
        return story.sentence()
    before, after = lead.before.value, lead.after.value
    back = (value - (before + after) / 2) * (after - before) < 0
    return f"{story.sentence()} The first of these is {figure(value)} now." if back else story.sentence()


def period_sentences(chosen: ShownVersion, column: Column) -> list[str]:
    """What drove the model over the newest period of each name."""
    return [
        f"{_over(name, period.until)}: {period.sentence(*column)}."
        for name, period in chosen.periods.items()
        if column[1] in period.importances.get(column[0], {})
    ]


def _over(name: str, until: int) -> str:
    """Which period it is; of one without an end, until when it was told.

    >>> _over("all", 1_368_511_507_000), _over("week", 0), _over("1000", 0)
    ('Over all records until 2013-05-14 06:05 UTC', 'Over the newest week', 'Over the newest 1,000 records')
    """
    known = {"alarm": "Since the last alarm", "all": "Over all records"}
    if name in known:
        return f"{known[name]} until {minute(until)}"
    return f"Over the newest {f'{int(name):,} records' if name.isdigit() else name}"


def _moving(newest: Explanation, column: Column) -> str:
    """What moves the predictions, by an estimator that needs no label."""
    cells = newest.importance(*column)
    known = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    first = sorted(known, key=lambda name: -known[name])[:3]
    return (
        f"{_listed(first)} move{'s' * (len(first) == 1)} the predictions most"
        if first
        else "It is too early to say what moves the predictions"
    )


def _worth(newest: Explanation, column: Column) -> str:
    """What the model is worth, as a clause that follows others."""
    performance = newest.performance.get(column[1])
    if performance is None or performance.model is None or performance.empty is None:
        return ""
    gain = performance.empty - performance.model
    return f"; {loss_name(column[1])} {figure(abs(gain))} {'better' if gain >= 0 else 'worse'} than no model"


def _floor(newest: Explanation, column: Column) -> str:
    """From which change on there would be an alarm."""
    cells = newest.importances.get(column[0], {}).get(column[1], {})
    floors = {name: cell.floor for name, cell in cells.items() if cell.floor is not None}
    if not floors:
        return "it is too early for an alarm on an importance"
    largest = max(floors, key=lambda name: cells[name].value or 0.0)
    return f"no alarm so far; a lasting change of {largest} by {figure(floors[largest])} would raise one"


def _moved(history: History, column: Column) -> str:
    """What clearly changed between any two points; or what would have been seen."""
    courses = history.courses(column, history.features, range(len(history.positions)))
    banded = [[point for point, half in enumerate(halves) if half is not None] for _, halves in courses]
    if max(map(len, banded), default=0) < 2:
        return "it is too early to say what changed"
    found = moved(courses)
    if found is None:
        feature = next(i for i in ranking(history.newest(column)) if len(banded[i]) > 1)
        least = detectable(courses[feature][1])
        since = _moment(history.timestamps[banded[feature][0]])
        return f"no change detected since {since}; one of {history.features[feature]} by {figure(least)} would have been"
    values = courses[found.feature][0]
    was, value, now = (values[point] or 0.0 for point in (found.first, found.last, -1))
    text = f"{history.features[found.feature]} {'rose' if value > was else 'fell'} from {figure(was)} to {figure(value)}"
    since = _moment(history.timestamps[found.first])
    if found.last == len(values) - 1:
        return f"{text} since {since}"
    return f"{text} between {since} and {_moment(history.timestamps[found.last])}, now {figure(now)}"


def _moment(milliseconds: int | None) -> str:
    return "an earlier message" if milliseconds is None else minute(milliseconds)


def changes_sentence(stories: Sequence[Story], chosen: ShownVersion, column: Column) -> str:
    """The newest story of a partition; or that there is none."""
    story = newest_story(stories, chosen.newest)
    return (
        f"No alarm so far{_worth(chosen.newest, column)}." if story is None else _told(story, chosen.newest)
    )


def overview_sentence(worth: Mapping[str, bool], alarms: int, troubled: Sequence[str]) -> str:
    """All partitions in one line: ``worth`` is by partition's name whether its model beats no model."""
    worse = [name for name, better in worth.items() if not better]
    if not worth:
        first = "No model has a loss yet"
    elif worse:
        first = f"{_listed(worse)} predict{'s' * (len(worse) == 1)} no better than no model"
    else:
        first = "Every model predicts better than no model"
    count = f"{alarms:,} alarm{'s' * (alarms != 1)} so far" if alarms else "no alarm so far"
    return f"{first}; {count}." + (f" There are problems in {_listed(troubled)}." if troubled else "")


def nothing_yet(rejected: Mapping[str, int]) -> str:
    """Before the first explanation; ``rejected`` counts dead letters by class.

    >>> nothing_yet({"missing_label": 1_200})
    'No explanation yet, and 1,200 records could not be used (missing_label): `explain-sidecar dead-letters show` says why.'
    """
    if not rejected:
        return "No explanation yet: the sidecar publishes one every emit.every records."
    count, listed = sum(rejected.values()), _listed(list(rejected))
    return f"No explanation yet, and {count:,} record{'s' * (count > 1)} could not be used ({listed}): `explain-sidecar dead-letters show` says why."


def integrity_sentence(partitions: Mapping[str, Partition], foreign: int) -> str:
    """Whether all chains are whole, and everything could be read."""
    broken = [name for name, partition in partitions.items() if partition.broken]
    checked = sum(partition.verified for partition in partitions.values())
    first = (
        f"The chain of {_listed(broken)} is broken"
        if broken
        else f"Every chain is whole: {checked:,} messages checked"
    )
    return (
        f"{first}; {f'{foreign:,} messages could not be read' if foreign else 'every message could be read'}."
    )


def _listed(names: Sequence[str]) -> str:
    """The first three names, and how many there are more.

    >>> _listed(["JFK", "LGA"]), _listed(list("abcde"))
    ('JFK and LGA', 'a, b, c and 2 more')
    """
    shown = [*names[:3]] + ([f"{len(names) - 3:,} more"] if len(names) > 3 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
