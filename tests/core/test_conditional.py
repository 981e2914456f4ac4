"""Conditional removal (iSAGE Alg. 3 and 4) against conditional distributions that are known."""

import math
import random

import msgspec
import numpy as np
import pytest

from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners import layout as at
from explain_core.learners.layout import SWITCHED
from explain_core.random import Generator
from explain_core.removal.conditional import Conditional, ConditionalState
from explain_core.state import StateError


def stream(kind, n, seed=0, flip=False):
    """a of the kind, b = a (or its opposite), c independent of both."""
    rng = Generator(seed)
    for _ in range(n):
        a = {"binary": rng.below(2), "category": ["no", "yes"][rng.below(2)], "uniform": rng.uniform()}[kind]
        yield {"a": a, "b": 1 - a if flip else a, "c": rng.uniform()}


def learned(records, size=100):
    trees = Conditional(size, seed=1)
    for x in records:
        trees.learn(x)
    return trees


def draws(trees, name, x, known, n=400):
    code, rng = trees.encoded(x), Generator(7)
    values = [trees.draw(name, code, known, rng)[name] for _ in range(n)]
    return np.array([float(value == "yes") if isinstance(value, str) else value for value in values])


@pytest.mark.parametrize("kind", ["binary", "category"])
def test_a_copy_is_known_from_its_original_and_not_from_an_independent_feature(kind):
    trees = learned(stream(kind, 2_500), size=1_000)
    for index, a in enumerate(("no", "yes") if kind == "category" else (0, 1)):
        x = {"a": a, "c": 0.4}
        assert (draws(trees, "b", x, {"a"}) == index).all()
        assert (draws(trees, "b", x, {"a", "c"}) == index).all()
        assert draws(trees, "b", x, {"c"}, 4_000).mean() == pytest.approx(0.5, abs=0.06)


def test_a_tree_that_gave_back_as_many_nodes_as_it_took_for_another_is_followed():
    """First the value follows one of two categories, then one of three."""
    rng, trees = random.Random(2), Conditional(100, seed=2)
    for i in range(2_300):
        second, a, c = i // 700 % 2 == 1, rng.random(), rng.choice("xyz")
        b = (5.0 * "xyz".index(c) if second else 5.0 * (a > 0.5)) + rng.gauss(0.0, 0.05)
        two = rng.choice("uv") if second else "u" if b > 2.0 else "v"
        trees.learn({"a": two, "c": c, "b": b})
    tree = trees._trees["b"]
    assert tree._root.split == ("c", None)
    Conditional(100, seed=2).restore(trees.state())


def test_a_continuous_copy_is_known_within_the_width_of_the_leaves():
    trees = learned(stream("uniform", 3_000))
    errors = [abs(draws(trees, "b", {"a": a}, {"a"}).mean() - a) for a in np.linspace(0.02, 0.98, 33)]
    assert np.mean(errors) <= 0.06
    assert draws(trees, "b", {"a": 0.1}, set(), 4_000).mean() == pytest.approx(0.5, abs=0.1)


def test_without_a_coalition_the_draw_is_one_of_the_product_of_the_marginals():
    trees = learned(stream("binary", 2_000))
    rng = Generator(5)
    pairs = [(trees.draw("a", {}, (), rng)["a"], trees.draw("b", {}, (), rng)["b"]) for _ in range(4_000)]
    assert np.mean([a == b for a, b in pairs]) == pytest.approx(0.5, abs=0.05)


def test_a_value_absent_from_the_record_tells_nothing_and_absence_is_drawn_as_a_value():
    records = [
        x if i % 4 else {k: v for k, v in x.items() if k != "b"}
        for i, x in enumerate(stream("binary", 2_000))
    ]
    trees, rng = learned(records, size=400), Generator(3)
    code = trees.encoded({"a": 1})
    drawn = [trees.draw("b", code, {"a"}, rng).get("b") for _ in range(2_000)]
    assert set(drawn) == {1, None}
    assert drawn.count(None) / 2_000 == pytest.approx(0.25, abs=0.06)
    assert draws(trees, "a", {"c": 0.2}, {"b", "c"}, 2_000).mean() == pytest.approx(0.5, abs=0.1)


def test_trees_follow_a_relation_that_changes():
    trees = learned([*stream("binary", 1_500), *stream("binary", 1_500, flip=True)])
    for a in (0, 1):
        assert (draws(trees, "b", {"a": a}, {"a"}) == 1 - a).mean() > 0.95


def in_step(tree, node, index):
    """Whether each node stands for one of the learner's tree."""
    as_it_is, below = tree._read(index)
    return (
        (node.split, node.keys) == (as_it_is.split, as_it_is.keys)
        and len(node.children) == len(node.weights) == len(below)
        and all(in_step(tree, child, i) for child, i in zip(node.children, below, strict=True))
    )


def changing(n):
    """A relation that is turned round every thousand records, and a category that comes late."""
    rng = Generator(2)
    for i in range(n):
        a = rng.uniform()
        colours = "wxyz" if i > 500 else "xyz"
        b = 1 - a if i // 1_000 % 2 else a
        yield {"a": a, "b": b, "colour": colours[int(len(colours) * a)], "c": rng.uniform()}


def quick(size=20):
    """Trees whose alternates take over after few records; river's 300 makes that rare."""
    trees = Conditional(size, seed=1)
    trees.learn({"a": 0.5, "b": 0.5, "colour": "x", "c": 0.5})
    for tree in trees._trees.values():
        tree._model.arrays["numbers"][0, at.DRIFT_WINDOW] = 40
    return trees


def test_reservoirs_live_and_die_with_the_nodes_of_the_trees():
    """Splits, alternate trees that take over, new categories: after every record there is one reservoir per leaf."""
    trees, counted = quick(), {}
    for i, x in enumerate(changing(4_000)):
        trees.learn(x)
        if i % 25 == 0:
            for tree in trees._trees.values():
                assert in_step(tree, tree._root, tree._root_index())
    for name, tree in trees._trees.items():
        leaves = [node for node in tree.nodes() if not node.children]
        counted[name] = len(leaves)
        assert all(len(leaf.rows) <= 20 for leaf in leaves)
        assert sum(tree._root.weights) == pytest.approx(20, abs=1e-3)  # decayed by 1 − 1/L
    assert sum(tree._model.arrays["counters"][0, SWITCHED] for tree in trees._trees.values()) > 0
    assert counted["b"] > 4


def test_a_restored_state_goes_on_as_the_one_that_was_stored():
    trees, other, records = Conditional(20, seed=1), None, list(changing(2_500))
    for i, x in enumerate(records):
        trees.learn(x)
        if other is not None:
            other.learn(dict(x))
        if i % 300 == 299:
            raw = msgspec.msgpack.encode(trees.state())
            assert other is None or msgspec.msgpack.encode(other.state()) == raw
            other = Conditional(20, seed=1)
            other.restore(msgspec.msgpack.decode(raw, type=ConditionalState))
    for name in ("b", "colour"):
        drawn = [
            conditional.draw(name, conditional.encoded({"a": 0.3}), {"a"}, Generator(3))
            for conditional in (trees, other)
        ]
        assert drawn[0] == drawn[1] is not None


def test_a_damaged_state_is_refused():
    trees = learned(changing(1_500), size=20)
    state = trees.state()

    def with_tree(name, **changes):
        tree = msgspec.structs.replace(state.trees[name], **changes)
        return msgspec.structs.replace(state, trees={**state.trees, name: tree})

    b = state.trees["b"]
    damaged = {
        "categories of no feature": msgspec.structs.replace(state, categories={"hue": ["x"]}),
        "a category twice": msgspec.structs.replace(state, categories={"colour": ["x", "x"]}),
        "features of another kind": msgspec.structs.replace(state, categories={}, records=[]),
        "feature 'a' is a category": msgspec.structs.replace(state, records=[{"a": "x"}, *state.records[1:]]),
        "feature 'a' is inf": msgspec.structs.replace(state, records=[{"a": math.inf}, *state.records[1:]]),
        "other nodes": with_tree("b", weights=b.weights[1:]),
        "other nodes than": with_tree("b", rows=[*b.rows, []]),
        "a weight that is none": with_tree("b", weights=[[-1.0, *b.weights[0][1:]], *b.weights[1:]]),
        "too many rows": with_tree("b", rows=[[0] * 21, *b.rows[1:]]),
        "or of no record": with_tree("b", rows=[[len(state.records)], *b.rows[1:]]),
    }
    for message, broken in damaged.items():
        with pytest.raises(StateError, match=message):
            Conditional(20, seed=1).restore(broken)


def test_an_empty_leaf_uses_the_rows_of_its_nearest_ancestor():
    trees = learned(stream("binary", 1_000))
    root = trees._trees["b"]._root
    assert len(root.children) == 2
    root.children[1].rows.clear()
    assert (draws(trees, "b", {"a": 1}, {"a"}) == 0).all()


def test_before_there_is_a_tree_the_marginal_reservoir_is_used():
    asked = []

    def model(x):
        asked.append(dict(x))
        return 0.0

    sage = IncrementalSAGE(
        model,
        task="regression",
        removal="conditional",
        empty="reservoir",
        n_samples=1,
        size=1,
        features=["a"],
    )
    sage.reservoir.add({"a": 5, "b": 9})
    sage.explain_one({"a": 1, "b": 2}, 0.0)
    assert asked == [{"a": 1, "b": 2}, {"b": 2, "a": 5}]
    sage.explain_one({"a": 3, "b": 4}, 0.0)
    assert asked[2:] == [{"a": 3, "b": 4}, {"b": 4, "a": 1}]
    assert list(sage._trees._trees) == ["a"]


def follow(records, removal="conditional", **settings):
    sage = IncrementalSAGE(
        lambda x: 2.0 * x["a"], task="regression", removal=removal, alpha=0.005, empty="ema", **settings
    )
    for x in records:
        sage.explain_one(x, 2.0 * x["a"])
    assert sage.explanation.metadata["removal"] == removal
    return sage.explanation.importance()


@pytest.mark.parametrize(
    ("removal", "truth"), [("conditional", (0.5, 0.5, 0.0)), ("marginal", (1.0, 0.0, 0.0))]
)
def test_copies_share_the_importance_that_marginal_removal_gives_to_the_one_used(removal, truth):
    """f = 2a, b = a binary. Given either, the other is known: v({a}) = v({b}) = v({a, b}) = V[f] = 1."""
    found = follow(stream("binary", 2_500), removal)
    for importance, value in zip(found.values(), truth, strict=True):
        assert importance.value == pytest.approx(value, abs=4 * importance.std)
        assert importance.std < 0.1


def test_a_group_is_known_or_not_as_a_whole():
    found = follow(stream("binary", 1_500), groups={"both": ["a", "b"]})
    assert list(found) == ["both", "c"]
    assert found["both"].value == pytest.approx(1.0, abs=4 * found["both"].std)
    assert found["both"].std < 0.15
    assert abs(found["c"].value) < 4 * found["c"].std


def test_a_record_that_is_not_explained_is_learned_from_all_the_same():
    sage = IncrementalSAGE(lambda x: 0.0, task="regression", removal="conditional")
    for x in stream("binary", 600):
        sage.observe(x)
    assert (draws(sage._trees, "b", {"a": 1}, {"a"}) == 1).all()


def nothing(x):
    return 0.0


def test_a_feature_that_changes_its_kind_or_has_none_is_refused_and_changes_no_bit():
    sage = IncrementalSAGE(nothing, task="regression", removal="conditional")
    sage.explain_one({"a": 1, "b": "red"}, 0.0)
    for x, message in (
        ({"a": "one"}, r"x: feature 'a' is a category \('one'\) and was a number before; give it one kind"),
        ({"b": 2}, r"x: feature 'b' is a number \(2\) and was a category before"),
        ({"new": 1, "list": [3]}, r"x: feature 'list' is \[3\], neither a number nor a category"),
    ):
        state = sage.state()
        with pytest.raises(ValueError, match=message):
            sage.explain_one(x, 0.0)
        with pytest.raises(ValueError, match=message):
            sage.observe(x)
        assert sage.state() == state
    sage.explain_one({"a": None, "b": float("nan")}, 0.0)  # missing values have no kind


def test_an_unknown_removal_is_refused():
    with pytest.raises(ValueError, match="removal: 'joint' is not one of marginal, conditional"):
        IncrementalSAGE(lambda x: 0.0, removal="joint")  # type: ignore[arg-type]
