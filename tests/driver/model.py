"""The smallest model that can tell whether records were folded in order, once: nothing is compiled for it."""


class Counting:
    """Predicts how often each label followed a value of ``a``; only its own code can store it."""

    def __init__(self) -> None:
        self.seen: dict = {}
        self.last = 0.5

    def predict_proba_one(self, x):
        ones, n = self.seen.get(x.get("a"), (0, 0))
        p = (ones + self.last) / (n + 1)
        return {0: 1 - p, 1: p}

    def learn_one(self, x, y):
        ones, n = self.seen.get(x.get("a"), (0, 0))
        self.seen[x.get("a")] = ones + y, n + 1
        self.last = 0.9 * self.last + 0.1 * y


class Unpredictable(Counting):
    """Another in each process, here each object: what no model may be."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Unpredictable.made += 1
        self.last = 1 / (1 + Unpredictable.made)

    def __setstate__(self, state):
        self.__dict__.update(state)
        Unpredictable.made += 1
        self.last = 1 / (1 + Unpredictable.made)


class Wavering(Counting):
    """Predicts the same of every record, and for what an explainer asks after it something that differs by process."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        Wavering.made += 1
        self.offset, self.asked = 1 / (1 + Wavering.made), False

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._begin()

    def predict_proba_one(self, x):
        p = self.offset if self.asked and x.get("a") else 0.5
        self.asked = True
        return {0: 1 - p, 1: p}

    def learn_one(self, x, y):
        self.asked = False


def line(rate: float = 0.01, **params):
    """A factory of a user's: a model of river's, by parameters of its own."""
    from river import linear_model, optim

    return linear_model.LogisticRegression(optim.SGD(rate), **params)
