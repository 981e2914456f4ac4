"""Estimators of one model go together as a user writes them, and what keeps them apart is named."""

import pytest

from explain_core import EstimatorGroup, IncrementalPFI, IncrementalSAGE


def model(x):
    return {True: 0.9 if x["a"] > 0.5 else 0.1, False: 0.1 if x["a"] > 0.5 else 0.9}


def records(n=300):
    return [({"a": i % 7 / 6, "b": i % 5 / 4}, i % 7 > 3) for i in range(n)]


def test_new_estimators_of_one_model_find_in_a_group_what_each_finds_alone():
    alone = [IncrementalPFI(model, size=20), IncrementalSAGE(model, size=20)]
    together = [IncrementalPFI(model, size=20), IncrementalSAGE(model, size=20)]
    group = EstimatorGroup(together)
    for x, y in records():
        group.explain_one(x, y)
        for one in alone:
            one.explain_one(x, y)
    for one, other in zip(alone, together, strict=True):
        assert one.explanation.values.tolist() == other.explanation.values.tolist()
        assert one.explanation.n == other.explanation.n == 280


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (lambda: IncrementalSAGE(model, size=50), "isage and ipfi differ in reservoir"),
        (lambda: IncrementalSAGE(lambda x: model(x), size=20), "differ in model"),
        (lambda: IncrementalSAGE(model, size=20, losses="brier"), "differ in losses"),
        (lambda: IncrementalPFI(model, size=20), "ipfi, ipfi: two are of one kind"),
    ],
)
def test_what_keeps_estimators_apart_is_named(other, named):
    with pytest.raises(ValueError, match=named):
        EstimatorGroup([IncrementalPFI(model, size=20), other()])
