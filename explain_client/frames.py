"""Messages as tables, for pandas and Parquet: explanations in long form, others one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Literal

import orjson

from explain_client.errors import ClientError
from explain_client.fields import utc
from explain_client.importance import Importance
from explain_client.messages import Alarm, Drift, Explanation, Prediction, Row
from explain_client.periods import Mean, Period

if TYPE_CHECKING:
    import pandas as pd

OF_MESSAGE = (
    "app_id", "topic", "partition", "epoch", "seq", "offset", "time", "records", "status", "version", "digest",
)  # fmt: skip
OF_CELL = ("estimator", "loss", "feature", "value", "std", "low", "high", "steady")

PERIOD = ("app_id", "topic", "partition", "epoch", "version", "name", "begin", "until", "records")
PERIOD_COLUMNS = (*PERIOD, "estimator", "loss", "feature", *(one.name for one in fields(Mean)))
"""Of ``period_rows``."""


def rows(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """One row per estimator, loss and feature; ``time`` is the event time in UTC, a value that is not known is ``None``."""
    yield from _cells(_common(explanation), explanation.importances)


def segment_rows(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """The same of the segments that the explanation tells of: ``by`` is the feature whose values they are, and ``segment`` the value."""
    for estimator, segment in explanation.segments.items():
        common = _common(explanation) | {"by": segment.feature, "segment": segment.value}
        yield from _cells(common, {estimator: segment.importances})


def challenger_rows(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """The same of the challenger's importances (``of`` is its name), and of their differences to the model's (``difference``)."""
    found = explanation.challenger
    if found is not None:
        common = _common(explanation)
        yield from _cells(common | {"of": found.name}, found.importances)
        yield from _cells(common | {"of": "difference"}, found.importance_differences)


def _common(explanation: Explanation) -> dict[str, Any]:
    version = explanation.version.name if explanation.version else None
    return {name: getattr(explanation, name) for name in OF_MESSAGE} | {"version": version}


def _cells(
    common: dict[str, Any], importances: Mapping[str, Mapping[str, Mapping[str, Importance]]]
) -> Iterator[dict[str, Any]]:
    for estimator, by_loss in importances.items():
        for loss, features in by_loss.items():
            for feature, cell in features.items():
                names = {"estimator": estimator, "loss": loss, "feature": feature}
                cells = {"value": cell.value, "std": cell.std, "low": cell.low, "high": cell.high}
                yield common | names | cells | {"steady": cell.steady}


def period_rows(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """The means over the periods that ended with an explanation, one row per estimator, loss and feature, as a table in SQL has them.

    The model's loss and its gain over no model have the ``estimator`` ``performance``, and ``feature`` is ``loss`` or ``gain``.
    ``begin`` and ``until`` are event times in UTC.
    """
    version = explanation.version.name if explanation.version else None
    where = (explanation.app_id, explanation.topic, explanation.partition, explanation.epoch, version)
    common = dict(zip(PERIOD, where, strict=False))
    for period in explanation.periods:
        for row in rows_of_period(period):
            yield common | row


def rows_of_period(period: Period) -> Iterator[dict[str, Any]]:
    """The means of a period, as ``period_rows`` has them."""
    times = (utc(at) for at in (period.begin, period.until))
    common = dict(zip(PERIOD[5:], (period.name, *times, period.records), strict=True))
    for estimator, by_loss in {"performance": period.performance, **period.importances}.items():
        for loss, means in by_loss.items():
            for feature, mean in means.items():
                names = {"estimator": estimator, "loss": loss, "feature": feature}
                yield common | names | asdict(mean)


Part = Literal["importances", "periods", "segments", "challenger"]

_PARTS: dict[Part, tuple[Callable[[Explanation], Iterator[dict[str, Any]]], tuple[str, ...]]] = {
    "importances": (rows, (*OF_MESSAGE, *OF_CELL)),
    "periods": (period_rows, PERIOD_COLUMNS),
    "segments": (segment_rows, (*OF_MESSAGE, "by", "segment", *OF_CELL)),
    "challenger": (challenger_rows, (*OF_MESSAGE, "of", *OF_CELL)),
}


def to_pandas(
    messages: Iterable[Explanation]
    | Iterable[Drift]
    | Iterable[Alarm]
    | Iterable[Row]
    | Iterable[Prediction],
    *,
    of: Part = "importances",
) -> pd.DataFrame:
    """A data frame of messages of one kind; give it a stream with ``follow=False``, or a list.

    Of explanations it has ``rows``, or what ``of`` names: the periods that ended with them, the segments, the challenger. Of rows, predictions, alarms and drift messages
    it has one row each; what a message has within (``before``, ``onset``, ``baseline``) is spread over columns such as ``before_value``, and every
    ``timestamp`` is there as a ``time`` in UTC too. Raises ``ClientError`` where pandas is missing.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ClientError("to_pandas needs pandas: pip install 'explain-client[pandas]'") from None
    if of not in _PARTS:
        raise ValueError(f"of: {of!r} is not one of {', '.join(_PARTS)}")
    found = list(messages)
    kinds = dict.fromkeys(type(message).__name__ for message in found)
    if len(kinds) > 1:
        raise ValueError(f"messages: there are {' and '.join(kinds)}; give those of one kind")
    if found and not isinstance(found[0], Explanation):
        return _flat(found)
    rows_of, columns = _PARTS[of]
    table = [row for message in found for row in rows_of(message)]  # type: ignore[arg-type]
    numbers = ("value", "low", "high", "sum" if of == "periods" else "std")
    return pd.DataFrame(table, columns=list(columns)).astype(dict.fromkeys(numbers, "float64"))


def _flat(messages: Sequence[Any]) -> pd.DataFrame:
    """Messages without a table of their own."""
    import pandas as pd

    bodies = [orjson.loads(message.raw) for message in messages]
    frame = pd.json_normalize(bodies, sep="_", max_level=1).drop(columns="schema")
    for name in [name for name in frame.columns if name.endswith("timestamp")]:
        times = [None if pd.isna(at) else utc(int(at)) for at in frame[name]]
        frame[f"{name.removesuffix('timestamp')}time"] = pd.Series(times, dtype=_TIME)
    if isinstance(messages[0], Row):
        for name in ("begin", "until"):
            frame[name] = pd.Series([getattr(message, name) for message in messages], dtype=_TIME)
        frame = frame.astype(dict.fromkeys(("value", "low", "high"), "float64"))
    return frame


_TIME = "datetime64[ms, UTC]"
