"""A record that is predicted and explained in one compiled call, and then learnt, is predicted and learnt as without explanations."""

import msgspec
import pytest

from explain_core.evaluation.choice import choose
from explain_core.importance.group import grouped
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.reservoirs import make_reservoir
from tests.core.property.test_evaluators import (
    LEARNERS,
    LOSSES,
    NUMERIC,
    RECORDS,
    classes_of,
    drifting,
    made,
)


def same(first, second):
    """Whether two predictions are equal to the last bit, and have their classes in the same order."""
    return repr(first) == repr(second)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_whose_records_are_explained_in_one_call_predicts_and_learns_as_one_alone(name):
    alone, explained = made(name), made(name)
    mixed, task = name not in NUMERIC, alone.task
    reservoir = make_reservoir("geometric", 20, 3)
    settings = {"task": task, "reservoir": reservoir, "losses": LOSSES[task], "evaluator": choose(explained)}
    (group,) = grouped([kind(explained, **settings) for kind in (IncrementalPFI, IncrementalSAGE)])
    stream = drifting(RECORDS, 5, 7, task, classes_of(name), nominal=mixed, missing=mixed)
    found, before = 0, None
    for i, (x, y) in enumerate(stream):
        prediction = group.explain_one(x, y)
        found += prediction is not None
        # Predictions also number keys and categories.
        prediction = explained.predict(x) if prediction is None else prediction
        assert same(prediction, alone.predict(x)), f"record {i}"
        if i % 7 == 0 and before is not None:  # what is made for one record must not be taken for another's
            group.explain_one(before, y)
        before = x
        if i % 11 != 0:
            explained.learn(x, y)
            alone.learn(x, y)
        reservoir.add(x)
    assert found == RECORDS - 20
    assert same(explained.predict(x), alone.predict(x))
    if hasattr(alone, "state"):
        assert msgspec.msgpack.encode(explained.state()) == msgspec.msgpack.encode(alone.state())
