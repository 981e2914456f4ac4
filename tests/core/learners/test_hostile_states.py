"""States that no learner writes are refused: compiled code that took them on wrote beyond its arrays, or did not end."""

import itertools
import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from river import compose, drift, forest, linear_model, preprocessing

from explain_core.learners import layout as at
from explain_core.learners.base import Learner
from explain_core.learners.choice import learner_of
from explain_core.state import LARGEST_COUNT, StateError, block
from tests.core.learners.test_tree_states import STREAMS, made, taught

WIDE, NARROW = drift.ADWIN(0.3, clock=4, max_buckets=9), drift.ADWIN(0.3, clock=4, max_buckets=3)
Arrays = dict[str, Any]


def observers_of(arrays: Arrays) -> Iterator[list[int]]:
    """The observers of each leaf."""
    nodes, todo = arrays["nodes"], [root for root in arrays["trees"][:, at.ROOT].tolist() if root >= 0]
    while todo:
        node = nodes[todo.pop()]
        if node[at.KIND] == at.LEAF:
            first = arrays["leaves"][node[at.LEAF_OF], at.FIRST]
            yield chain(arrays["observers"], first, at.NEXT_OBSERVER)
        else:
            todo += chain(nodes, node[at.LEFT], at.NEXT)


def chain(rows: Any, first: int, following: int) -> list[int]:
    found = []
    while first >= 0:
        found.append(int(first))
        first = rows[first, following]
    return found


def cells_of(arrays: Arrays, nominal: int) -> Iterator[list[int]]:
    """The cells of each observer of such features: of classes, or those of a chain of a regression's categories."""
    for observer in itertools.chain.from_iterable(observers_of(arrays)):
        row = arrays["observers"][observer]
        if row[at.CATEGORICAL] == nominal:
            yield chain(arrays["links"], row[at.HEAD_CELL], at.NEXT_CELL)


def two_of(chains: Iterable[list[int]]) -> list[int]:
    return next(found for found in chains if len(found) > 1)[:2]


def observer_twice(arrays: Arrays) -> None:
    observers = arrays["observers"]
    alike = ([one for one in found if observers[one, at.CATEGORICAL] == 0] for found in observers_of(arrays))
    first, second = two_of(alike)
    observers[second, at.FEATURE] = observers[first, at.FEATURE]


def class_twice(arrays: Arrays) -> None:
    first, second = two_of(cells_of(arrays, 0))
    arrays["links"][second, at.CLASS] = arrays["links"][first, at.CLASS]


def category_twice(arrays: Arrays) -> None:
    links = arrays["links"]
    values = (
        chain(links, links[cell, at.VALUES], at.NEXT_CELL) for cells in cells_of(arrays, 1) for cell in cells
    )
    first, second = two_of(values)
    arrays["cells"][second, at.CATEGORY] = arrays["cells"][first, at.CATEGORY]


def categories_of_a_category(arrays: Arrays) -> None:
    links = arrays["links"]
    links[links[links[:, at.VALUES] > 0, at.VALUES][0], at.VALUES] = 0


def target_category_twice(arrays: Arrays) -> None:
    first, second = two_of(cells_of(arrays, 1))
    arrays["cells"][second, at.POINT] = arrays["cells"][first, at.POINT]


def put(name: str, place: Any, value: Any) -> Callable[[Arrays], None]:
    """Write this value there, or what it is of the arrays."""

    def change(arrays: Arrays) -> None:
        arrays[name][place] = value(arrays) if callable(value) else value

    return change


def first_child_after_the_root(arrays: Arrays) -> None:
    arrays["nodes"][arrays["trees"][0, at.ROOT], at.NEXT] = 0


def empty_row(arrays: Arrays) -> None:
    """Of a window, which is as wide as the rows that are left."""
    chains, window, row, level = arrays["chains"], *long_window(arrays)
    arrays["windows"][window, at.WIDTH] -= 2**level * chains[row, at.BUCKET_COUNT]
    chains[row, at.BUCKET_COUNT] = 0


def wider_window(arrays: Arrays) -> None:
    window, _, _ = long_window(arrays)
    arrays["windows"][window, at.WIDTH] = 1e300


def long_window(arrays: Arrays) -> tuple[int, int, int]:
    """A window with a row amid others, that row, and its place in the chain."""
    for window, width in enumerate(arrays["windows"][:, at.WIDTH]):
        row = arrays["ends"][window, at.NEWEST]
        if width > 0.0 and arrays["chains"][row, at.OLDER] >= 0:
            return window, arrays["chains"][row, at.OLDER], 1
    raise AssertionError("the detectors have seen too little")


def ticks(arrays: Arrays) -> None:
    arrays["ends"][long_window(arrays)[0], at.TICK] = LARGEST_COUNT + 1


MORE_LEAVES = put("trees", (0, at.N_LEAVES), lambda arrays: arrays["trees"][0, at.N_LEAVES] + 1)
HOSTILE: list[tuple[str, Callable[[Arrays], None], str]] = [
    ("tree", observer_twice, "leaves"),
    ("tree", class_twice, "leaves"),
    ("tree", category_twice, "leaves"),
    ("forest", observer_twice, "leaves"),
    ("forest", categories_of_a_category, "leaves"),  # learning from it never ended
    ("regression tree", observer_twice, "leaves"),
    ("regression tree, means", target_category_twice, "leaves"),
    ("tree", first_child_after_the_root, "trees"),
    ("tree", MORE_LEAVES, "trees"),
    ("adaptive tree", MORE_LEAVES, "trees"),
    ("forest", put("generator", slice(None), 0), "generator"),
    ("adaptive tree", empty_row, "detectors"),
    ("forest", empty_row, "detectors"),
    ("forest", wider_window, "detectors"),
    ("forest", ticks, "detectors"),
    # Learning wrote beyond the arrays: a detector's rows hold as many buckets as it says.
    ("forest", put("detectors", (slice(None), at.MOST_BUCKETS), 0.0), "another model"),
]


@pytest.mark.parametrize(("name", "change", "part"), HOSTILE)
def test_a_state_that_no_tree_writes_is_refused(
    name: str, change: Callable[[Arrays], None], part: str
) -> None:
    learner = taught(name, 300)
    made(name).restore(learner.state())
    change(learner.arrays.items())
    with pytest.raises(StateError, match=part):
        made(name).restore(learner.state())


def test_a_row_of_the_detector_with_few_buckets_may_not_hold_as_many_as_the_other_detectors() -> None:
    """Such a row was never compressed again, and grew beyond its array."""

    def learner() -> Any:
        return learner_of(
            forest.ARFClassifier(n_models=2, seed=1, drift_detector=WIDE, warning_detector=NARROW),
            "classification",
        )

    taught_one, again = learner(), learner()
    for x, y, _ in STREAMS["forest"][:300]:
        taught_one.learn(x, y)
    ends, chains = taught_one.arrays["ends"], taught_one.arrays["chains"]
    newest = ends[0, at.NEWEST]
    added = 7 - chains[newest, at.BUCKET_COUNT]
    chains[newest, at.BUCKET_COUNT] += added
    taught_one.arrays["windows"][0, at.WIDTH] += added
    with pytest.raises(StateError, match="detectors"):
        again.restore(taught_one.state())


def test_counts_that_are_given_follow_from_the_labels_and_columns() -> None:
    """A number of classes was believed where there were no labels."""
    learner = taught("tree", 0)
    learner.arrays["head"][0, [at.N_CLASSES, at.NEED_CELLS, at.N_TREES]] = 2**40
    again = made("tree")
    again.restore(learner.state())
    assert again.state() == made("tree").state()


def softmax() -> Learner:
    """As the sidecar's default model of several classes."""
    encoded = compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
    scaled = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    learner = learner_of((scaled + encoded) | linear_model.SoftmaxRegression(), "classification")
    assert learner is not None
    return learner


def all_present(arrays: Arrays) -> None:
    """So that the next key is written beyond the array."""
    arrays["weights"][:] = np.nan
    arrays["present"][:, 0] = arrays["weights"].shape[1]


def key_twice(arrays: Arrays) -> None:
    arrays["places"][arrays["columns"][1, 1]] = arrays["places"][arrays["columns"][0, 1]]


def key_of_no_category(arrays: Arrays) -> None:
    column = arrays["columns"][arrays["columns"][:, 2].argmax()]
    arrays["places"][column[1] + column[2] - 1] = 0


@pytest.mark.parametrize(
    ("change", "part"),
    [
        # The next number's distance from it, squared, would be infinite, and the state stored then one that is refused.
        (put("moments", (0, 1), 1e300), "larger than those of any numbers"),
        (put("target", 2, 1.5e308), "larger than those of any numbers"),
        (put("present", (1, 0), lambda arrays: arrays["present"][1, 0] - 1), "present"),
        (put("weights", (1, 1), np.nan), "present"),
        (put("present", (1, 2), lambda arrays: arrays["present"][1, 1]), "present"),
        (put("present", (1, 0), -1), "present"),
        (all_present, "present"),
        (key_twice, "places"),
        (put("columns", (1, slice(1, None)), lambda arrays: arrays["columns"][0, 1:]), "places"),
        (key_of_no_category, "places"),
    ],
)
def test_a_state_that_no_linear_model_writes_is_refused(change: Callable[[Arrays], None], part: str) -> None:
    learner = softmax()
    for i in range(90):
        learner.predict(x := {"a": float(i % 7), "b": i % 3, "colour": f"c{i % 5}"})
        learner.learn(x, f"l{i % 4}")
    arrays = {key: array.copy() for key, array in learner._stored().items()}
    softmax().restore(learner.state())
    change(arrays)
    with pytest.raises(StateError, match=part):
        softmax().restore(
            msgspec.structs.replace(
                learner.state(), arrays={key: block(array) for key, array in arrays.items()}
            )
        )


def test_a_string_for_a_model_of_numbers_is_a_bad_state() -> None:
    """It was a bad record's error, which nobody expects of a snapshot."""
    learner, again = (learner_of(linear_model.LogisticRegression(), "classification") for _ in range(2))
    assert learner is not None and again is not None
    learner.learn({"a": 1.0}, True)
    state = learner.state()
    columns = msgspec.structs.replace(state.columns, numeric=[], categories={"a": ["x"]})
    with pytest.raises(ValueError, match="is a string"):
        again.restore(msgspec.structs.replace(state, columns=columns))
