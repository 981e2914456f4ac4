"""What a page of the dashboard shows, as JSON: the headline, the state, and the one view that is selected."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_client.merge import merge
from explain_client.messages import Explanation, is_date, utc
from explain_core.drift.change import RiskChange
from service.fold.rejections import LAST, MANY
from service.headline import detectable, drivers, moved
from service.http.feed import Feed, Partition
from service.http.history import Column, History, positive

TOP = 8
FOUND = 20
VIEWS = ("importance", "performance", "drift", "partitions", "integrity")
START = (-1, -1)


@dataclass(frozen=True)
class Selection:
    """What a visitor looks at; what does not exist is replaced by the first that does."""

    view: str = "importance"
    partition: int = 0
    estimator: str = ""
    loss: str = ""
    search: str = ""
    focus: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Selection:
        view, partition = query.get("view", ""), query.get("partition", "")
        return cls(
            view=view if view in VIEWS else VIEWS[0],
            partition=int(partition) if partition.isdecimal() and len(partition) < 6 else 0,
            **{name: query.get(name, "")[:1_000] for name in ("estimator", "loss", "search", "focus")},
        )


class Page:
    """The messages for one visitor: the first is whole, the others have the points since the one before.

    ``id`` says where the visitor is: a page made with it goes on from there, also after a restart.
    """

    def __init__(self, feed: Feed, selection: Selection, last_id: str = "") -> None:
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
            if partition.newest is not None
        }
        partition = known.get(selection.partition) or next(iter(known.values()), None)
        if partition is None or partition.newest is None:
            return {"sentence": "No explanation yet: the sidecar publishes one every emit.every records.",
                    "problem": feed.problem or feed.notice, "whole": True}  # fmt: skip
        newest, history = partition.newest, partition.history
        column = _column(history, selection)
        body: dict[str, Any] = {
            "problem": feed.problem or feed.notice,
            "sentence": sentence(partition, column),
            "app": newest.app_id,
            "topic": newest.topic,
            "names": {
                str(number): self._name(partition) for number, partition in sorted(feed.partitions.items())
            },
            "state": _state(known, partition, newest),
            "choices": {
                "partition": list(known),
                "estimator": list(newest.importances),
                "loss": list(newest.importances.get(column[0], {})),
            },
            "chosen": {"partition": partition.number, "estimator": column[0], "loss": column[1]},
        }
        match selection.view:
            case "performance":
                body |= self._performance(history, column)
            case "drift":
                body["changes"] = [_change(change) for change in reversed(partition.changes)]
                body["alarms"] = list(reversed(partition.alarms))
            case "partitions":
                body["grid"] = _grid(feed, known, column)
            case "integrity":
                body |= _integrity(feed)
            case _:
                body |= self._importance(history, column)
        body.setdefault("whole", True)
        return body

    def _name(self, partition: Partition) -> str:
        key = None if partition.newest is None else partition.newest.keys
        return self._feed.settings.name_of(partition.number, key)

    def _importance(self, history: History, column: Column) -> dict[str, Any]:
        selection, newest = self._selection, history.points[-1]
        cells = history.column(column, newest)
        order = ranking(cells)
        top = order[:TOP]
        wanted = selection.search.lower()
        found = [i for i in order[TOP:] if wanted and wanted in history.features[i].lower()][:FOUND]
        lines = [history.features[i] for i in top]
        if selection.focus in history.features and selection.focus not in lines:
            lines.append(selection.focus)
        rest = [float(cells[i][0]) for i in order[TOP:] if not math.isnan(cells[i][0])]

        def rows(indices: list[int]) -> list[dict[str, Any]]:
            return [
                {"feature": history.features[i], "value": _number(cells[i][0]), "half": _number(cells[i][1])}
                for i in indices
            ]

        return {
            "rows": rows(top),
            "found": rows(found),
            "other": {"count": len(order) - len(top), "value": sum(rest)},
            "lines": lines,
            **self._since(history, (*column, *lines), lambda after: history.series(column, lines, after)),
        }

    def _performance(self, history: History, column: Column) -> dict[str, Any]:
        loss = column[1]

        def series(after: tuple[int, int]) -> list[list[Any]]:
            losses = [point.losses.get(loss, (None, None)) for point, _ in history.after(after)]
            return [[[pair[which] for pair in losses], []] for which in (0, 1)]

        return {
            "losses": {name: list(pair) for name, pair in history.points[-1].losses.items()},
            "lines": ["model", "no model"],
            **self._since(history, ("performance", loss), series),
        }

    def _since(self, history: History, lines: tuple[str, ...], series: Any) -> dict[str, Any]:
        """The series after what this visitor has, or whole where it has other lines or another epoch's."""
        name = f"{zlib.crc32(repr(lines).encode()):08x}"
        newest = history.points[-1].position
        whole = name != self._lines or self._sent[0] != newest[0] or self._sent > newest
        after = START if whole else self._sent
        self._lines, self._sent = name, newest
        times = [seconds for _, seconds in history.after(after)]
        return {"whole": whole, "times": times, "series": series(after)}


def ranking(cells: NDArray[np.float32]) -> list[int]:
    """Features by importance, the largest first, unknown ones last; equal ones in their order."""
    return sorted(range(len(cells)), key=lambda i: -cells[i][0] if not math.isnan(cells[i][0]) else math.inf)


def sentence(partition: Partition, column: Column) -> str:
    """What drives the model, what it is worth, and what changed: the page in one line."""
    newest, history = partition.newest, partition.history
    assert newest is not None
    cells = newest.importances.get(column[0], {}).get(column[1], {})
    first = next(iter(drivers(cells)), None)
    if first is not None:
        half = ((cells[first].high or 0.0) - (cells[first].low or 0.0)) / 2
        driver = f"{first} drives the model, {_band(cells[first].value or 0.0, half)}"
    elif any(cell.settled for cell in cells.values()):
        driver = "No feature stands out from chance"
    else:
        driver = "Too few informative records to say what drives the model"
    performance = newest.performance.get(column[1])
    worth = ""
    if performance is not None and performance.model is not None and performance.empty is not None:
        gain = performance.empty - performance.model
        worth = (
            f"; {_words(column[1])} {_figure(abs(gain))} {'better' if gain >= 0 else 'worse'} than no model"
        )
    rejecting = ""
    if newest.rejected_recently > MANY:
        rejecting = f"{newest.rejected_recently:,} of the last {LAST:,} records could not be used. "
    if newest.status == "warming":
        return f"{rejecting}Warming up. {driver}{worth}."
    return f"{rejecting}{driver}{worth}; {_moved(history, column)}."


def _moved(history: History, column: Column) -> str:
    """What clearly changed between any two points; or what would have been seen."""
    where = history.columns.index(column)
    points = [point for point in history.points if where < len(point.cells)]
    cells = np.stack([history.column(column, point) for point in points]).astype(float)
    settled = ~np.isnan(cells[:, :, 1])
    if settled.sum(axis=0).max(initial=0) < 2:
        return "it is too early to say what changed"
    found = moved(cells[:, :, 0], cells[:, :, 1])
    if found is None:
        feature = next(i for i in ranking(history.column(column, points[-1])) if settled[:, i].sum() > 1)
        least = detectable(cells[:, feature, 1])
        since = _moment(points[int(settled[:, feature].argmax())].timestamp)
        return f"no change detected since {since}; one of {history.features[feature]} by {_figure(least)} would have been"
    feature, first, last = found
    was, value = cells[first, feature, 0], cells[last, feature, 0]
    text = f"{history.features[feature]} {'rose' if value > was else 'fell'} from {_figure(was)} to {_figure(value)}"
    since = _moment(points[first].timestamp)
    if last == len(points) - 1:
        return f"{text} since {since}"
    now = cells[-1, feature, 0]
    return f"{text} between {since} and {_moment(points[last].timestamp)}, now {_figure(now)}"


def _state(known: Mapping[int, Partition], partition: Partition, newest: Explanation) -> dict[str, Any]:
    lags = [partition.lag for partition in known.values()]
    explanations = [partition.newest for partition in known.values() if partition.newest]
    return {
        "partition": partition.number,
        "status": newest.status,
        "records": newest.records,
        "explained": newest.explained,
        "rejected_recently": newest.rejected_recently,
        "warm_up": max(
            (int(positive(estimator.get("size"), 0)) for estimator in newest.estimators.values()), default=0
        ),
        "epoch": newest.epoch,
        "timestamp": newest.timestamp,
        "lag": partition.lag,
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


def _change(message: Mapping[str, Any]) -> dict[str, Any]:
    """A drift message: its sentence, and the steps from one risk to the other where it has them."""
    shown = {
        "sentence": str(message.get("sentence", "")),
        "timestamp": message.get("timestamp"),
        "target": message.get("target"),
        "baseline": message.get("baseline"),
    }
    try:
        change = RiskChange.from_dict(message["change"])
        return shown | {
            "loss": change.loss,
            "verdict": change.verdict,
            "from": change.baseline.observed,
            "to": change.target.observed,
            "steps": [step._asdict() for step in change.steps(TOP)],
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return shown


def _grid(feed: Feed, known: Mapping[int, Partition], column: Column) -> dict[str, Any]:
    """The newest importance of every feature in every partition, and their average; the largest first."""
    estimator, loss = column
    newest = [partition.newest for partition in known.values() if partition.newest is not None]
    cells = [explanation.importances.get(estimator, {}).get(loss, {}) for explanation in newest]
    shown = [
        replace(explanation, importances={estimator: {loss: by_feature}})
        for explanation, by_feature in zip(newest, cells, strict=True)
    ]
    merged = merge([*feed.window, *shown])
    average = merged.importances.get(estimator, {}).get(loss, {})
    features = sorted(
        dict.fromkeys(name for by_feature in cells for name in by_feature),
        key=lambda name: -average[name].value if name in average else math.inf,
    )
    return {
        "partitions": [explanation.partition for explanation in newest],
        "features": features,
        "values": [
            [_rounded(by_feature[name].value if name in by_feature else None) for by_feature in cells]
            for name in features
        ],
        "label": merged.label,
        "warming": merged.warming,
        "average": [
            [_rounded(value) for value in (average[name].value, average[name].std, average[name].spread)]
            if name in average
            else [None, None, None]
            for name in features
        ],
    }


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
    }  # fmt: skip


def _column(history: History, selection: Selection) -> Column:
    wanted = (selection.estimator, selection.loss)
    same = [column for column in history.columns if column[0] == selection.estimator]
    return wanted if wanted in history.columns else (same or history.columns or [("", "")])[0]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:.1g}"


def _band(value: float, half: float) -> str:
    return _figure(value) if math.isnan(half) else f"{_figure(value)} ± {_figure(half)}"


def _words(loss: str) -> str:
    return {"cross_entropy": "log loss", "zero_one": "error rate"}.get(loss, f"{loss.replace('_', ' ')} loss")


def _moment(milliseconds: int | None) -> str:
    """Event time: the hour within the last day, else the date."""
    if milliseconds is None:
        return "an earlier message"
    moment = utc(milliseconds)
    recent = abs(time.time() - milliseconds / 1000) < 86_400
    return f"{moment:%H:%M UTC}" if recent else f"{moment:%d %B %Y %H:%M UTC}"
