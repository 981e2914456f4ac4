"""Linear regression whose steps never overshoot."""

from __future__ import annotations

from typing import Any

from river import linear_model

FIRST = 1e-12
"""Stands for no step before: the first one takes the intercept to the target."""


class ImplicitRegression(linear_model.LinearRegression):
    """River's linear regression, by implicit stochastic gradient descent (Toulis and Airoldi 2017, Eq. 4) on the squared error.

    A step goes against the gradient at its own end instead of at its start. For the squared error that divides the step by
    1 + 2 · weight · (rate · ‖x‖² + rate of the intercept). So the error on the record shrinks and keeps its sign, however large the record is,
    where an ordinary step overshoots, and diverges, as soon as that product is above 2.

    Parameters
    ----------
    optimizer
        ``SGD`` at a constant rate.
    intercept_lr
        Rate of the intercept. After n steps it is 1 / 2n where that is more: at first the intercept is a mean, whatever the unit of the target.
    loss, l2, l1, intercept_init, clip_gradient, initializer
        As of river's ``LinearRegression``.

    >>> model = ImplicitRegression()
    >>> for _ in range(100):
    ...     model.learn_one({"a": 1000.0}, 5.0)
    >>> model.predict_one({"a": 1000.0})
    5.0
    """

    def _eval_gradient_one(self, x: dict[str, float], y: float, w: float) -> tuple[Any, float]:
        gradient, slope = super()._eval_gradient_one(x, y, w)
        length = 0.0
        for value in x.values():
            length += value * value
        shrink = 1.0 / (1.0 + 2.0 * w * (self.optimizer.lr.learning_rate * length + self._intercept_rate))
        return gradient * shrink, slope * shrink

    def _get_intercept_update(self, loss_gradient: float) -> float:
        return self._intercept_rate * loss_gradient

    @property
    def _intercept_rate(self) -> float:
        return float(
            max(self.intercept_lr.learning_rate, 0.5 / max(float(self.optimizer.n_iterations), FIRST))
        )
