"""Explanations as a table in long form, for pandas and Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from explain_client.errors import ClientError
from explain_client.messages import Explanation

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


def to_pandas(explanations: Iterable[Explanation]) -> pd.DataFrame:
    """A data frame of all rows of the explanations; give it a stream with ``follow=False``, or a list.

    Raises ``ClientError`` where pandas is missing.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ClientError("to_pandas needs pandas: pip install 'explain-client[pandas]'") from None
    frame = pd.DataFrame(
        [row for explanation in explanations for row in rows(explanation)], columns=list(COLUMNS)
    )
    return frame.astype(dict.fromkeys(("value", "std", "low", "high"), "float64"))
