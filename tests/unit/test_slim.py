"""The slim forms of river's objects: what is stored is all that there was."""

import itertools
import pickle
import sys

import pytest
from river.proba import Gaussian
from river.tree.splitter import GaussianSplitter
from river.tree.splitter.ebst_splitter import EBSTNode

from service.pickles import dumps, loads
from tests.folds import fold, new_state, values


def test_private_generators_are_left_out_of_trees():
    state = new_state(
        task="multiclass",
        model={"factory": "river.forest:ARFClassifier", "learner": "river"},
        explain={"every": 50},
    )
    fold(state, values(300, "multiclass", numeric=True))
    assert 8 * len(dumps(state.model)) < len(pickle.dumps(state.model))


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


def splitter(**gaussian):
    made = GaussianSplitter(n_splits=7)
    for value, kind in ((1.5, "UP"), (2, "DOWN"), (-0.5, "UP")):
        made.update(value, kind, 1.0)
    made._att_dist_per_class["UP"] = Gaussian(**gaussian)
    made.update(0.25, "UP", 2.0)
    return made


@pytest.mark.parametrize("gaussian", [{}, {"seed": 3}])
def test_a_splitter_is_stored_with_every_value_as_it_is(gaussian):
    before = splitter(**gaussian)
    after = loads(dumps(before))
    assert list(vars(after)) == list(vars(before))
    for name in ("_min_per_class", "_max_per_class", "n_splits"):
        assert repr(getattr(after, name)) == repr(getattr(before, name))
    for one in (before, after):
        one.update(1.0, "DOWN", 1.0)
    moments = [
        [
            (kind, one.seed, one._var.mean.n, one.mu, one.sigma)
            for kind, one in made._att_dist_per_class.items()
        ]
        for made in (before, after)
    ]
    assert moments[0] == moments[1]


def test_a_splitter_whose_dictionaries_differ_keeps_each_of_them():
    before = splitter()
    before._min_per_class = dict(reversed(before._min_per_class.items()))
    after = loads(dumps(before))
    assert list(after._min_per_class) == ["DOWN", "UP"]
    assert list(after._max_per_class) == ["UP", "DOWN"]


def test_nodes_are_stored_as_their_values_and_their_names_once():
    state = new_state(
        task="multiclass",
        model={"factory": "river.forest:ARFClassifier", "learner": "river"},
        explain={"every": 50},
    )
    fold(state, values(300, "multiclass", numeric=True))
    trees = [
        [node for tree in model.wrapped.models for node in tree._root.iter_dfs()]
        for model in (state.model, loads(dumps(state.model)))
    ]
    assert len(trees[0]) > 30
    for before, after in zip(*trees, strict=True):
        assert type(after) is type(before)
        assert list(vars(after)) == list(vars(before))
    assert dumps(state.model).count(b"_last_split_attempt_at") == 1
