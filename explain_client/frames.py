"""Explanations as a table in long form, for pandas and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from explain_client.errors import ClientError
from explain_client.fields import utc
from explain_client.messages import Explanation
from explain_client.periods import Mean, Period

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *(
        "app_id",
        "topic",
        "partition",
        "epoch",
        "seq",
        "offset",
        "time",
        "records",
        "status",
        "version",
        "digest",
    ),
    *("estimator", "loss", "feature", "value", "std", "low", "high", "steady"),
)

PERIOD = ("app_id", "topic", "partition", "epoch", "version", "name", "begin", "until", "records")
PERIOD_COLUMNS = (*PERIOD, "estimator", "loss", "feature", *(one.name for one in fields(Mean)))
"""Of ``period_rows``."""


def rows(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """One row per estimator, loss and feature; ``time`` is the event time in UTC, a value that is not known is ``None``."""
    common = {
        "app_id": explanation.app_id,
        "topic": explanation.topic,
        "partition": explanation.partition,
        "epoch": explanation.epoch,
        "seq": explanation.seq,
        "offset": explanation.offset,
        "time": explanation.time,
        "records": explanation.records,
        "status": explanation.status,
        "version": explanation.version.name if explanation.version else None,
        "digest": explanation.digest,
    }
    for estimator, by_loss in explanation.importances.items():
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


def to_pandas(explanations: Iterable[Explanation], *, periods: bool = False) -> pd.DataFrame:
    """A data frame of all rows of the explanations, or of the periods that ended with them; give it a stream with ``follow=False``, or a list.

    Raises ``ClientError`` where pandas is missing.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ClientError("to_pandas needs pandas: pip install 'explain-client[pandas]'") from None
    rows_of, columns = (period_rows, PERIOD_COLUMNS) if periods else (rows, COLUMNS)
    frame = pd.DataFrame(
        [row for explanation in explanations for row in rows_of(explanation)], columns=list(columns)
    )
    numbers = ("value", "low", "high", "sum" if periods else "std")
    return frame.astype(dict.fromkeys(numbers, "float64"))
