"""What a page of the dashboard shows, as JSON: the headline, the state, and the one view that is selected."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from explain_client import Explanation
from explain_client.fields import is_date
from explain_sidecar.headline import made_of
from explain_sidecar.http.challenger import challenger
from explain_sidecar.http.changes import ARROW, shown_story
from explain_sidecar.http.comparison import grid, overview
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.history import (
    START,
    Column,
    column_of,
    judged_by,
    losses_of,
    positive,
    ranking,
    rounded,
    unpacked,
)
from explain_sidecar.http.partition import Partition, ShownVersion
from explain_sidecar.http.segments import compared_segments
from explain_sidecar.http.sentences import (
    changes_sentence,
    integrity_sentence,
    nothing_yet,
    overview_sentence,
    period_sentences,
    sentence,
)

MOST = 50
"""Features of a partition that have their course in the page; the others are found by a search."""

FOUND = 20
VIEWS = ("overview", "changes", "importance", "partitions", "predictions", "integrity")


@dataclass(frozen=True)
class ViewSelection:
    """What a visitor looks at; what does not exist is replaced by the first that does."""

    view: str = VIEWS[0]
    partition: int = 0
    estimator: str = ""
    loss: str = ""
    search: str = ""
    feature: str = ""
    version: str = ""
    id: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ViewSelection:
        view, partition = query.get("view", ""), query.get("partition", "")
        return cls(
            view=view if view in VIEWS else VIEWS[0],
            partition=int(partition) if partition.isdecimal() and len(partition) < 6 else 0,
            **{
                name: query.get(name, "")[:1_000]
                for name in ("estimator", "loss", "search", "feature", "version")
            },
            id=query.get("id", ""),
        )


class Page:
    """The messages for one visitor: the first is whole, the others have the points since the one before.

    ``id`` says where the visitor is: a page made with it goes on from there, also after a restart.
    """

    def __init__(self, feed: Feed, selection: ViewSelection, last_id: str = "") -> None:
        self._feed = feed
        self._selection = selection
        self._lines, _, position = last_id.partition("@")
        epoch, _, seq = position.partition(".")
        known = epoch.isdecimal() and seq.isdecimal() and len(position) < 40
        self._sent = (int(epoch), int(seq)) if known else START

    @property
    def id(self) -> str:
        return f"{self._lines}@{self._sent[0]}.{self._sent[1]}"

    def next(self) -> dict[str, Any]:
        with self._feed.lock:
            return self._next()

    def _next(self) -> dict[str, Any]:
        feed, selection = self._feed, self._selection
        known = {
            number: partition
            for number, partition in sorted(feed.partitions.items())
            if partition.shown is not None
        }
        partition = known.get(selection.partition) or next(iter(known.values()), None)
        chosen = None if partition is None else partition.versions.get(selection.version) or partition.shown
        if partition is None or chosen is None:
            return {"sentence": nothing_yet(feed.letter_classes),
                    "problem": feed.problem or feed.notice, "whole": True}  # fmt: skip
        newest, stories = chosen.newest, feed.stories.of(partition.number)
        column = column_of(chosen.history, (selection.estimator, selection.loss))
        names = {number: self._name(partition) for number, partition in sorted(feed.partitions.items())}
        body: dict[str, Any] = {
            "problem": feed.problem or feed.notice,
            "watched": {
                "alarms": feed.settings.alarms.enabled,
                "drift": feed.settings.drift.enabled,
                "on_alarm": feed.settings.drift.on_alarm,
            },
            "app": newest.app_id,
            "topic": newest.topic,
            "names": {str(number): name for number, name in names.items()},
            "state": _state(known, partition, newest),
            "choices": {
                "partition": list(known),
                "estimator": list(newest.importances),
                "loss": list(newest.importances.get(column[0], {})),
                "version": sorted(partition.versions) if any(partition.versions) else [],
            },
            "chosen": {
                "partition": partition.number,
                "estimator": column[0],
                "loss": column[1],
                "version": newest.version.name if newest.version else "",
            },
        }
        match selection.view:
            case "overview":
                body |= overview(known, column) | {"sentence": _overview_sentence(known, column, names)}
            case "changes":
                body |= self._changes(partition, chosen, column)
                body["sentence"] = changes_sentence(stories, chosen, column)
            case "importance":
                body |= self._importance(partition, chosen, column)
                body["challenger"] = challenger(newest, column)
                body["periods"] = period_sentences(chosen, column)
                body["curves"] = [
                    {
                        "feature": curve.feature,
                        "points": list(curve.points),
                        "values": list(curve.values),
                        "shares": list(curve.shares),
                        "sentence": curve.sentence(),
                    }
                    for curve in newest.partial_dependence
                ]
            case "partitions":
                body["grid"] = grid(feed, known, column, selection.feature)
                compared = body["grid"]["compared"]
                body["segments"] = compared_segments(chosen.segments.get(column[0], {}), column[1], compared)
                body["sentence"] = _overview_sentence(known, column, names)
            case "predictions":
                body["lookup"] = lookup = feed.look_up(selection.id)[1]
                told = next((f"{one['sentence']}." for one in lookup["predictions"]), lookup["problem"])
                body["sentence"] = told[0].upper() + told[1:]
            case _:
                body |= _integrity(feed)
                named = {names[number]: partition for number, partition in feed.partitions.items()}
                body["sentence"] = integrity_sentence(named, sum(count for count, _ in feed.foreign.values()))
        body.setdefault("whole", True)
        body.setdefault(
            "sentence", sentence(chosen, column, stories if feed.settings.alarms.enabled else None)
        )
        body["sentence"] = body["sentence"].replace(ARROW, " to ")
        return body

    def _name(self, partition: Partition) -> str:
        key = None if partition.shown is None else partition.shown.newest.keys
        return self._feed.settings.name_of(partition.number, key)

    def _importance(self, partition: Partition, chosen: ShownVersion, column: Column) -> dict[str, Any]:
        selection, history = self._selection, chosen.history
        cells = history.newest(column)
        order = ranking(cells)
        wanted = selection.search.lower()
        found = [i for i in order[MOST:] if wanted and wanted in history.features[i].lower()][:FOUND]
        focused = [i for i in order[MOST:] if history.features[i] == selection.feature and i not in found]
        # In the order of their appearance, which does not change as the values do.
        shown = sorted(order[:MOST]) + found + focused
        lines = [history.features[i] for i in shown]
        newest = chosen.newest.importances.get(column[0], {}).get(column[1], {})
        floors = {name: rounded(cell.floor) for name, cell in newest.items()}
        rest = [value for i in order[MOST:] if (value := cells[i][0]) is not None]
        return {
            "rows": [
                {
                    "feature": (name := history.features[i]),
                    "value": cells[i][0],
                    "half": cells[i][1],
                    "floor": floors.get(name),
                }
                for i in shown
            ],
            "other": {"count": max(len(order) - MOST, 0), "value": sum(rest)},
            "lines": lines,
            **self._since(
                partition, chosen, (*column, *lines), lambda points: history.courses(column, lines, points)
            ),
        }

    def _changes(self, partition: Partition, chosen: ShownVersion, column: Column) -> dict[str, Any]:
        history, loss = chosen.history, column[1]
        return {
            "versions": [
                {"name": name, "since": version.since} for name, version in partition.versions.items() if name
            ],
            "served": None if (one := chosen.newest.performance.get(loss)) is None else rounded(one.served),
            "losses": {name: losses_of(chosen.newest.performance.get(name)) for name in history.losses},
            **self._since(
                partition,
                chosen,
                ("performance", loss),
                lambda points: [*history.risks(loss, points), history.skew(points)],
            ),
        }

    def _since(
        self,
        partition: Partition,
        chosen: ShownVersion,
        lines: tuple[str, ...],
        series: Callable[[list[int]], Any],
    ) -> dict[str, Any]:
        """The series after what this visitor has, or all and what marks them where there are other lines or marks, or another epoch."""
        history, alarms, changes = chosen.history, partition.alarms, partition.changes
        version = chosen.newest.version
        marks = (*list(alarms)[-1:], *map(unpacked, list(changes)[-1:]))
        stories = self._feed.stories.of(partition.number)
        told = [(story.key, story.over, story.expected, story.acknowledged) for story in stories]
        known = (version.name if version else None, *lines, *(mark["id"] for mark in marks), told)
        name = f"{zlib.crc32(repr(known).encode()):08x}"
        newest = history.positions[-1]
        whole = name != self._lines or self._sent[0] != newest[0] or self._sent > newest
        points = history.charted(START if whole else self._sent)
        self._lines, self._sent = name, newest
        body: dict[str, Any] = {"whole": whole, "times": history.times(points), "series": series(points)}
        if whole:
            body["alarms"] = list(reversed(alarms))
            body["stories"] = [shown_story(story) for story in stories]
            body["changes"] = [unpacked(change) for change in reversed(changes)]
        return body


def _overview_sentence(known: Mapping[int, Partition], column: Column, names: Mapping[int, str]) -> str:
    worth, troubled = {}, []
    for number, partition in known.items():
        assert partition.shown is not None
        newest = partition.shown.newest
        if partition.broken or newest.status == "rejecting":
            troubled.append(names[number])
        losses = newest.performance.get(judged_by(newest, column[1]))
        if newest.status != "warming" and losses and losses.model is not None and losses.empty is not None:
            worth[names[number]] = losses.model < losses.empty
    return overview_sentence(worth, sum(len(partition.alarms) for partition in known.values()), troubled)


def _state(known: Mapping[int, Partition], partition: Partition, newest: Explanation) -> dict[str, Any]:
    lags = [partition.lag for partition in known.values()]
    explanations = [partition.shown.newest for partition in known.values() if partition.shown]
    return {
        "partition": partition.number,
        "status": newest.status,
        "worse": newest.worse_since is not None,
        "made_of": made_of(newest.model.weights) if newest.model else "",
        "records": newest.records,
        "explained": newest.explained,
        "rejected_recently": newest.rejected_recently,
        "warm_up": max(
            (int(positive(estimator.get("size"), 0)) for estimator in newest.estimators.values()), default=0
        ),
        "epoch": newest.epoch,
        "timestamp": newest.timestamp,
        "lag": partition.lag,
        "version": asdict(newest.version) if newest.version else None,
        "skew": asdict(newest.skew) if newest.skew else None,
        "notices": [*newest.notices, *_no_date(newest)],
        "group": {
            "partitions": len(known),
            "warming": sum(explanation.status == "warming" for explanation in explanations),
            "records": sum(explanation.records for explanation in explanations),
            "rejected": sum(explanation.rejected for explanation in explanations),
            "lag": sum(lag for lag in lags if lag is not None) if None not in lags else None,
        },
    }


def _no_date(newest: Explanation) -> list[str]:
    if is_date(newest.timestamp):
        return []
    return [
        f"the event time {newest.timestamp} is no date in milliseconds since 1970, and is in no chart; see record.timestamp"
    ]


def _integrity(feed: Feed) -> dict[str, Any]:
    return {
        "chains": [
            {"partition": number, "verified": partition.verified, "broken": partition.broken, "digest": partition.links["explanations"].digest if "explanations" in partition.links else None}
            for number, partition in sorted(feed.partitions.items())
        ],
        "foreign": [
            {"topic": topic, "partition": number, "count": count, "newest": newest}
            for (topic, number), (count, newest) in sorted(feed.foreign.items())
        ],
        "letters": {
            "classes": dict(feed.letter_classes.most_common()),
            "newest": [asdict(letter) for letter in reversed(feed.letters)],
        },
        "problems": [asdict(problem) for problem in reversed(feed.problems)],
    }  # fmt: skip
