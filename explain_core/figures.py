"""Numbers in sentences: with as many digits as their uncertainty warrants."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z = 1.959963984540054
"""Half the width of a 95 % interval of a normal distribution, in standard errors."""

MOST = 9
"""Digits before the point, and zeros after it, from which on a number is written as a power of ten."""


def figures(values: Sequence[float], half: float) -> list[str]:
    """Some values and half the width of their interval, all rounded to the place of its second digit.

    >>> figures([6_881.41, -0.04], 513.591), figures([0.1058, 0.1067], 0.0132)
    (['6,880', '0', '510'], ['0.106', '0.107', '0.013'])
    >>> figures([1.5e-12, 8.51e-12], 1.2e-12), figures([3.2e12], 4e10)
    (['1.5e-12', '8.5e-12', '1.2e-12'], ['3.200e+12', '4.0e+10'])
    >>> figures([0.5, 9.77e-300], 0.0)
    ['0.500', '9.77e-300', '0.000']
    """
    if half == 0.0:
        return [figure(value) for value in (*values, half)]
    largest = max(map(abs, values))
    digits = 1 - math.floor(math.log10(half))
    if digits > MOST or largest >= 10.0**MOST or half >= 10.0**MOST:
        return [*(_power(value, half) for value in values), _power(half, half)]
    return [
        f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}" for value in (*values, half)
    ]  # −0.000 is 0.000


def _power(value: float, half: float) -> str:
    of = abs(value)
    spare = math.floor(math.log10(of)) - math.floor(math.log10(half)) if of > 0.0 and half > 0.0 else 1
    return f"{value:.{min(max(spare + 1, 0), 5)}e}"


def figure(value: float) -> str:
    """A number by itself: three decimals where they say something, else three significant digits.

    >>> figure(0.0123), figure(6_881.4), figure(0.00012), figure(0.0), figure(3.2e12)
    ('0.012', '6,881', '0.00012', '0.000', '3.2e+12')
    """
    return f"{value:.3f}" if value == 0.0 or 0.001 <= abs(value) < 1_000.0 else rough(value)


def rough(value: float) -> str:
    """Three significant digits, or as many as there are before the point.

    >>> rough(22.73), rough(6.0), rough(14_925.66)
    ('22.7', '6', '14,926')
    """
    return f"{value:,.0f}" if 1_000.0 <= abs(value) < 10.0**MOST else f"{value:.3g}"


def signed(value: float) -> str:
    return f"{'+' * (value > 0.0)}{figure(value)}"


def bound(value: float, digits: int = 4) -> str:
    """A number that others are compared with: so many significant digits, or as many as there are before the point.

    >>> bound(9.10512), bound(-0.000123456), bound(201_304.0), bound(1e22)
    ('9.105', '-0.0001235', '201,304', '1e+22')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.{digits}g}"


def exact(value: float) -> str:
    """All digits of a number, but for those that are rounding.

    >>> exact(-999.0), exact(1_234_567.0), exact(0.1 + 0.2)
    ('-999', '1234567', '0.3')
    """
    return f"{value:.15g}"


def factor(value: float) -> str:
    """Three significant digits, and more where they tell a factor from 1.

    >>> factor(990.089), factor(0.8397), factor(1.000497), factor(25_400.3)
    ('990', '0.84', '1.0005', '25,400')
    """
    off = abs(value - 1.0)
    return f"{value:.{2 - math.floor(math.log10(off))}g}" if 0.0 < off < 0.01 else rough(value)
