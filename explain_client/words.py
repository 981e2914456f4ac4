"""What people read, in every command, page and sentence the same: names of losses and estimators, times, numbers.

Fields, settings and keys of messages have the names of the settings, and times in them are ISO 8601 or milliseconds since 1970.
"""

from __future__ import annotations

import re
from datetime import datetime

from explain_client.fields import is_date, utc

LOSSES = {"cross_entropy": "log loss", "zero_one": "error rate"}
"""Losses that are not called by the name of the setting and "loss"."""

ESTIMATORS = {"ipfi": "iPFI", "isage": "iSAGE"}
"""Estimators that are written otherwise than in settings."""


def loss_name(loss: str) -> str:
    """What a loss is called, which is also what its mean is called, the risk.

    >>> loss_name("cross_entropy"), loss_name("squared"), loss_name("late_by_hours")
    ('log loss', 'squared loss', 'late by hours loss')
    """
    return LOSSES.get(loss, f"{loss.replace('_', ' ')} loss")


def estimator_name(estimator: str) -> str:
    return ESTIMATORS.get(estimator, estimator)


def of_loss(sentence: str, loss: str) -> str:
    """A sentence of a message, in which a loss or its risk has the name of the setting, with the loss's name.

    >>> of_loss("squared risk rose by 6,900 ± 1,400", "squared")
    'squared loss rose by 6,900 ± 1,400'
    >>> of_loss("the challenger loses less than the model, by 0.02 in cross_entropy: mean of 5,650 records", "cross_entropy")
    'the challenger loses less than the model, by 0.02 in log loss: mean of 5,650 records'
    """
    named = f"{loss} risk "
    if sentence.startswith(named):
        return f"{loss_name(loss)} {sentence[len(named) :]}"
    return re.sub(rf" in {re.escape(loss)}(?!\w)", f" in {loss_name(loss)}", sentence, count=1)


def day(milliseconds: int) -> str:
    """The day of a time, in UTC.

    >>> day(1_368_511_500_000)
    '2013-05-14'
    """
    return _written(milliseconds, "%Y-%m-%d")


def minute(milliseconds: int) -> str:
    """A time in UTC to the minute.

    >>> minute(1_368_511_500_000), minute(1_368_511_500_000_000_000)
    ('2013-05-14 06:05 UTC', '1368511500000000000 ms')
    """
    return _written(milliseconds, "%Y-%m-%d %H:%M UTC")


def second(time: datetime) -> str:
    """A time in UTC to the second, for what has more than one a minute.

    >>> second(utc(1_368_511_500_000))
    '2013-05-14 06:05:00 UTC'
    """
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _written(milliseconds: int, form: str) -> str:
    return utc(milliseconds).strftime(form) if is_date(milliseconds) else f"{milliseconds} ms"


def figure(value: float) -> str:
    """A number by itself, as ``explain_core.figures`` writes it: three decimals where they say something, else three significant digits.

    >>> figure(0.0123), figure(14_925.66), figure(0.00012), figure(0.0), figure(-3.2e12)
    ('0.012', '14,926', '0.00012', '0.000', '-3.2e+12')
    """
    if value == 0.0 or 0.001 <= abs(value) < 1e3:
        return f"{value:.3f}"
    return rough(value)


def rough(value: float) -> str:
    """Three significant digits, or as many as there are before the point.

    >>> rough(22.73), rough(6.0), rough(14_925.66)
    ('22.7', '6', '14,926')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def signed(value: float) -> str:
    return f"{'+' * (value > 0.0)}{figure(value)}"
