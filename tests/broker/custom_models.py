"""Models of a user, named in the settings by module and class."""

import secrets

PROCESS = secrets.randbelow(2**32)
"""Another number in every process, with certainty enough; process ids modulo something repeat."""


class Unpredictable:
    """Predicts something that depends on the process it runs in: what no model may do."""

    def __init__(self) -> None:
        self.n = 0

    def predict_proba_one(self, x):
        p = (PROCESS + self.n) % 2**32 / 2**32
        return {0: p, 1: 1 - p}

    def predict_one(self, x):
        return 0

    def learn_one(self, x, y):
        self.n += 1


class Failing(Unpredictable):
    """Fails on the hundredth record."""

    def predict_proba_one(self, x):
        if self.n == 99:
            raise ZeroDivisionError("the model divides by zero")
        return {0: 0.5, 1: 0.5}
