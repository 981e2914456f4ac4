"""The messages of the rows topic: means over periods, flat, for SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from explain_client.fields import DIGEST, Message, described
from explain_client.periods import MEAN


@dataclass(frozen=True, slots=True)
class Row(Message):
    """The mean of one quantity over a period that ended: of a feature's importance, of the model's loss, or of its gain over no model.

    Of the challenger, and of the records that have one value of a feature, the mean is the smoothed one of the explanation that it came with.
    """

    called = ("a row", "rows")

    schema: Literal["row/1"] = described("Name and version of this schema.", "row/1")
    offset: int = described("Offset of the record with which the period ended.", 18299, ge=0)
    timestamp: int = described(
        "Event time of that record, since 1970-01-01T00:00Z.", 1387576800000, unit="milliseconds"
    )
    seq: int = described("Number of this message in its partition and epoch, from 0.", 3, ge=0)
    version: str | None = described("The version of the model; null where records name none.", None)
    period: str = described(
        "`hour`, `day` or `week` of event time (UTC), or a number of records; `smoothed` for a mean over all records, the newest of which weigh most.",
        "day",
    )
    begin: datetime | None = described(  # noqa: RUF009
        "Event time of the record before the period, or of the first one, in UTC; null where it is smoothed.",
        "2013-12-19T22:00:00Z",
    )
    until: datetime = described(  # noqa: RUF009
        "Event time of its last record, in UTC.", "2013-12-20T22:00:00Z"
    )
    records: int = described(
        "Records folded in it, or, where it is smoothed, so far; of a segment its explained ones.",
        1200,
        ge=0,
        unit="records",
    )
    role: Literal["model", "challenger", "difference"] = described(
        "Whose it is; `difference`: the challenger's minus the model's.", "model"
    )
    segment_by: str | None = described(
        "The feature whose value the records have; null for all records.", None
    )
    segment: str | None = described(
        "That value: a string as it is, else as JSON; null for all values that are not kept apart, and for none.",
        None,
    )
    estimator: str = described(
        "Whose importance it is; `performance` for the model's loss and its gain over no model.", "ipfi"
    )
    loss: str = described("Under which loss.", "cross_entropy")
    feature: str = described("Feature or group; of the performance `loss` or `gain`.", "dep_hour")
    n: float = described("Records that the mean is of.", MEAN["n"], ge=0, unit="records")
    value: float | None = described("The mean, `sum/n`; null without records.", MEAN["value"], unit="loss")
    low: float | None = described(
        "Lower end of its band; null below 500 records, and for a smoothed loss. Of the difference of the losses an interval that holds however often you look.",
        MEAN["low"],
        unit="loss",
    )
    high: float | None = described("Upper end of its band.", MEAN["high"], unit="loss")
    sum: float | None = described(
        "Sum over the records; adds up over periods, partitions and versions. It and what follows is null where the mean is smoothed.",
        MEAN["sum"],
        unit="loss",
    )
    var: float | None = described(
        "Variance of the sum, what dependence adds included: the standard error of the mean is `sqrt(var)/n`. It adds up, too.",
        MEAN["var"],
        ge=0,
    )
    third: float | None = described(
        "Third central moment of the sum, for the skewness of the band.", MEAN["third"]
    )
    var2: float | None = described(
        "Sum of the squared variances of the blocks, for its degrees of freedom.", MEAN["var2"], ge=0
    )
    digest: str = described(
        "Rolling hash over this partition's rows, as that of an explanation.",
        "353e5fe3e0f90657de874ddbf2d630b3",
        pattern=DIGEST,
    )
