"""What compiled code reads of Python's objects, and how the image of a forest keeps house with its places."""

import gc
import math
import sys

import numpy as np
import pytest
from river import forest, tree

from explain_core.evaluation import objects, tree_kernels
from explain_core.evaluation.choice import choose
from explain_core.importance.base import Together
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.models import wrap
from explain_core.reservoirs import make_reservoir
from tests.property.test_evaluators import drifting

NAMES = ("number", "whole", "text", "there", "missing")
KEPT, ADDRESSES = objects.addresses(NAMES)
ADDRESS = dict(zip(NAMES, ADDRESSES.tolist(), strict=True))


class Owner:
    def __init__(self):
        self.number, self.whole, self.text = 0.1, 7, "seven"
        self.there = {"a": 1.5, "b": True, "c": None}


def test_attributes_are_read_as_python_reads_them_and_what_is_none_is_no_number():
    owner = Owner()
    read = {name: objects.number(id(owner), ADDRESS[name]) for name in NAMES}
    assert (read["number"], read["whole"]) == (0.1, 7.0)
    assert all(math.isnan(read[name]) for name in ("text", "there", "missing"))
    assert objects.attribute(id(owner), ADDRESS["there"]) == id(owner.there)
    assert objects.attribute(id(owner), ADDRESS["missing"]) == objects.NOWHERE
    assert objects.attribute(objects.NOWHERE, ADDRESS["number"]) == objects.NOWHERE
    assert math.isnan(objects.number(objects.NOWHERE, ADDRESS["number"]))
    owner.number = -1.0  # what the C function returns for an error, too
    assert objects.number(id(owner), ADDRESS["number"]) == -1.0


def test_dictionaries_are_read_in_their_order_and_by_key():
    there = Owner().there
    place, found = np.zeros(3, np.int64), []
    for _ in range(4):
        key, value = objects.following(id(there), place)
        found.append((key, value, objects.as_float(value)))
    assert [key for key, _, _ in found] == [*map(id, there), objects.NOWHERE]
    assert [number for _, _, number in found[:2]] == [1.5, 1.0]
    assert all(math.isnan(number) for _, _, number in found[2:])
    equal = "".join(["a"])  # another object may be equal
    assert objects.item(id(there), id(equal)) == id(there["a"])
    assert objects.item(id(there), id("z")) == objects.item(id(7), id("a")) == objects.NOWHERE
    assert objects.following(id([1]), np.zeros(3, np.int64)) == (objects.NOWHERE, objects.NOWHERE)


def test_sizes_and_whole_numbers_of_what_has_none_are_minus_one():
    thing = object()
    assert [objects.size(id(one)) for one in ({1, 2}, {}, "abc", thing)] == [2, 0, 3, -1]
    assert [objects.whole(id(one)) for one in (5, True, "5", thing)] == [5, 1, -1, -1]
    assert objects.size(objects.NOWHERE) == objects.whole(objects.NOWHERE) == -1


def test_reading_leaves_references_and_errors_as_they_were():
    owner = Owner()
    value = owner.number = 1234.5
    before = sys.getrefcount(value), sys.getrefcount(owner.there)
    for _ in range(1_000):
        for name in NAMES:
            objects.number(id(owner), ADDRESS[name])
            objects.attribute(id(owner), ADDRESS[name])
        objects.size(id(owner))
        objects.whole(id(value))
        objects.item(id(owner.there), id("missing"))
    assert (sys.getrefcount(value), sys.getrefcount(owner.there)) == before
    with pytest.raises(AttributeError, match="missing"):
        owner.missing  # noqa: B018


def explained(model, n):
    """The evaluator of a classifier that has been explained all along, by compiled code but for the odd record."""
    model = wrap(model, "classification")
    evaluator = choose(model)
    reservoir = make_reservoir("geometric", 20, 1)
    both = Together([
        one(model, reservoir=reservoir, evaluator=evaluator, n_samples=1)
        for one in (IncrementalPFI, IncrementalSAGE)
    ])  # fmt: skip
    for x, y in drifting(n, 5, 7, "classification"):
        both.explain_one(x, y, model.predict(x))
        model.learn(x, y)
        reservoir.add(x)
    assert evaluator.fallbacks <= n // 300
    return evaluator


@pytest.mark.parametrize(
    "make",
    [
        lambda: tree.HoeffdingTreeClassifier(grace_period=20, delta=0.1),
        lambda: tree.HoeffdingAdaptiveTreeClassifier(
            grace_period=20, delta=0.1, drift_window_threshold=30, seed=1
        ),
        lambda: forest.ARFClassifier(n_models=4, seed=1, grace_period=20),
    ],
    ids=["tree", "adaptive", "forest"],
)
def test_each_place_of_an_image_is_that_of_one_node_however_often_trees_split_and_are_replaced(make):
    evaluator = explained(make(), 3_000)
    image = evaluator.image
    assert image.sync()
    nodes = image.arrays[0]
    met, leaves, roots = [], [], image.arrays[8]["root"].tolist()
    trees = len(roots)
    while roots:
        at = roots.pop()
        met.append(at)
        kind, _, left, right, alternate, _ = nodes[at].item()
        if alternate >= 0:
            leaves.append(alternate)
        if kind == tree_kernels.END:
            leaves.append(left)
        else:
            roots += [left, right]
    assert sorted([*met, *image._free_nodes]) == list(range(len(image._objects)))
    assert sorted([*leaves, *image._free_leaves]) == list(range(len(image._parts)))
    assert len(met) > trees
    assert len(image._objects) < 2 * len(met) + 64


def test_an_image_keeps_alive_what_it_reads():
    evaluator = explained(tree.HoeffdingTreeClassifier(grace_period=20), 500)
    model, image = evaluator.model.wrapped, evaluator.image
    assert image.sync() and image.arrays[8]["root"] >= 0
    # The image alone has the leaf that it reads now, since the tree says that it has learnt.
    model._root = None
    model._train_weight_seen_by_model += 1.0
    gc.collect()
    assert image.sync() and image.arrays[8]["root"] == -1
    assert len(image._free_leaves) == len(image._parts)


def test_a_leaf_that_has_slept_and_woken_within_a_record_is_read_anew():
    evaluator = explained(tree.HoeffdingTreeClassifier(leaf_prediction="nb", grace_period=10_000), 200)
    model, leaf = evaluator.model, evaluator.model.wrapped._root
    for x, y in drifting(5, 5, 8, "classification"):
        evaluator.meet(x)
        model.learn(x, y)
        where = id(leaf.splitters)
        # As river does where no split is better than none, and its size allows all leaves to be awake; a bag learns several times.
        leaf.deactivate()
        leaf.splitters = next(one for one in [{} for _ in range(1_000_000)] if id(one) == where)
        leaf.last_split_attempt_at = leaf.total_weight
        model.learn(x, y)
        assert evaluator.predict_many([x]) == [model.predict(x)]
