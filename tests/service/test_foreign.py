"""The slim forms of river's objects: what is stored is all that there was."""

import itertools
import pickle
import sys

import pytest
from river.proba import Gaussian
from river.tree.splitter.ebst_splitter import EBSTNode

from explain_core.foreign import dumps, loads
from tests.folds import fold, new_state, values


@pytest.fixture(scope="module")
def forest():
    """A model that has learnt."""
    state = new_state(
        task="multiclass",
        model={"factory": "river.forest:ARFClassifier", "learner": "river"},
        explain={"every": 50},
    )
    fold(state, values(300, "multiclass", numeric=True))
    return state.explained.model


def test_private_generators_are_left_out_of_trees(forest):
    assert 8 * len(dumps(forest)) < len(pickle.dumps(forest))


def test_a_search_tree_of_a_sorted_stream_is_stored_whatever_its_depth():
    nodes = [EBSTNode(float(i), float(i), 1.0) for i in range(30_000)]
    for node, larger in itertools.pairwise(nodes):
        node._right = larger
    limit = sys.getrecursionlimit()
    node, depth = loads(dumps(nodes[0])), 0
    while node._right is not None:
        node, depth = node._right, depth + 1
    assert (node.att_val, depth) == (29_999.0, 29_999)
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("gaussian", [{}, {"seed": 3}])
def test_a_distribution_is_stored_with_every_value_as_it_is(gaussian):
    before = Gaussian(**gaussian)
    for value in (1.5, 2, -0.5):
        before.update(value)
    after = loads(dumps(before))
    for distribution in (before, after):
        distribution.update(1.0, 2.0)
    found, expected = (
        (distribution.seed, distribution.n_samples, distribution.mu, distribution.sigma)
        for distribution in (after, before)
    )
    assert found == expected


def test_nodes_are_stored_with_their_attributes_in_order(forest):
    trees = [
        [node for tree in model.wrapped.models for node in tree._root.iter_dfs()]
        for model in (forest, loads(dumps(forest)))
    ]
    assert len(trees[0]) > 30
    for before, after in zip(*trees, strict=True):
        assert type(after) is type(before)
        assert list(vars(after)) == list(vars(before))
