"""The records of a drift window: what is kept of them, and what of a snapshot is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explain_core.drift import dbshap
from explain_core.state import StateError
from explain_core.stream import Record
from explain_core.stream.rows import Rows

VALUE = st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.booleans(), st.sampled_from(["red", "blue"]))
RECORD = st.lists(st.sampled_from("abc"), unique=True).flatmap(
    lambda names: st.tuples(*[VALUE] * len(names)).map(lambda values: dict(zip(names, values, strict=True)))
)


def kept(records):
    rows = Rows()
    for i, x in enumerate(records):
        rows.add(Record(2 * i, 100 - i, x, i % 2, version="v" if i % 3 else None), i / 4)
    return rows


@given(st.lists(RECORD, max_size=30), st.data())
def test_records_are_what_was_added_whatever_features_they_have(records, data):
    """Also after a snapshot to which records are added, and for a part of them."""
    cut = data.draw(st.integers(0, len(records)))
    rows, whole = Rows.restored(kept(records[:cut]).pack(), "classification", 2), kept(records)
    positions = data.draw(st.lists(st.integers(cut, max(cut, len(records) - 1)), unique=True).map(sorted))
    rows.extend(whole, positions if cut < len(records) else [])
    chosen = [*range(cut), *(positions if cut < len(records) else [])]
    for found in (rows, rows.closed().read(), whole.take(chosen)):
        assert [list(x.items()) for x in found.records()] == [list(records[i].items()) for i in chosen]
        assert [*map(type, (v for x in found.records() for v in x.values()))] == [
            type(v) for i in chosen for v in records[i].values()
        ]
        assert found.offsets == [2 * i for i in chosen]
        assert found.timestamps == [100 - i for i in chosen]
        assert (found.truths, found.losses) == ([i % 2 for i in chosen], [i / 4 for i in chosen])
        assert found.versions == ["v" if i % 3 else None for i in chosen]


@given(st.lists(RECORD, min_size=1, max_size=30))
def test_a_window_has_a_column_of_each_feature(records):
    window = kept(records).window()
    names = tuple(dict.fromkeys(name for x in records for name in x))
    assert window.features == names
    assert {name: list(column.values) for name, column in window.columns.items()} == {
        name: [x.get(name) for x in records] for name in names
    }
    assert window.rows() == [{name: x[name] for name in names if name in x} for x in records]


@pytest.mark.parametrize("late", ["b", "c"])
def test_windows_whose_records_have_other_features_are_compared_all_the_same(late):
    """A feature that came, or went, is missing in one of them; that is said, and is no reason not to attribute."""
    before = [({"a": i % 2, "b": i % 3}, i % 2) for i in range(60)]
    after = [({"a": i % 2, late: i % 3}, (i + 1) % 2) for i in range(60)]
    pairs = [kept([x for x, _ in part]) for part in (before, after)]
    for rows, part in zip(pairs, (before, after), strict=True):
        rows.truths = [y for _, y in part]
    changes = [
        dbshap(*data, hypothesis=lambda x: {x["a"]: 1.0}, bootstrap=0)
        for data in ((before, after), [rows.window() for rows in pairs])
    ]
    assert changes[0] == changes[1]
    assert changes[0].joint.concept.value == pytest.approx(1.0)
    assert any("only" in warning for warning in changes[1].warnings) == (late == "c")


def stored(**changed):
    """A snapshot's rows, as a list of what ``changed`` has in place of the parts."""
    parts = {
        "runs": [[0, ["a", "b"], [1, "red"]], [1, ["a"], [2, 3.5]]],
        "offsets": [4, 5, 9],
        "timestamps": [0, 0, 0],
        "truths": [0, 1, 1],
        "losses": [0.5, 0, 1],
        "versions": [None, "v", "v"],
    }
    assert changed.keys() <= parts.keys()
    return json.dumps([*(parts | changed).values()]).encode()


def test_what_was_kept_is_restored():
    assert list(Rows.restored(stored(), "classification", 2).records()) == [
        {"a": 1, "b": "red"},
        {"a": 2},
        {"a": 3.5},
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"runs": []}, "runs"),
        ({"runs": [[1, ["a"], [1, 2]]]}, "runs"),
        ({"runs": [[0, ["a"], [1]], [0, ["a"], [1, 2, 3]]]}, "runs"),
        ({"runs": [[0, ["a"], [1, 2]], [2, ["a"], [3]], [1, ["a"], []]]}, "runs"),
        ({"runs": [[0, ["a"], [1, 2, 3]], [3, ["a"], []]]}, "a run without records"),
        ({"runs": [[-1, ["a"], [1, 2, 3, 4]]]}, "rows: "),
        ({"runs": [[0, ["a", "a"], [1, 2, 3, 4, 5, 6]]]}, "a feature twice"),
        ({"runs": [[0, ["a"], [1, 2]]]}, "a value too many or too few"),
        ({"runs": [[0, ["a"], [1, 2, 3, 4]]]}, "a value too many or too few"),
        ({"runs": [[0, [], [1]]]}, "a value too many or too few"),
        ({"runs": [[0, ["a"], [1, 2, None]]]}, "rows: "),
        ({"runs": [[0, ["a"], [1, 2, [3]]]]}, "rows: "),
        ({"offsets": [4, 5]}, "different lengths"),
        ({"offsets": [4, 4, 5]}, "offsets"),
        ({"timestamps": [0, 0, 0, 0]}, "different lengths"),
        ({"truths": [0, 2, 1]}, "a truth 2"),
        ({"truths": [0, True, 1]}, "a truth True"),
        ({"truths": [0, "red", 1]}, "a truth 'red'"),
        ({"losses": [0, float("nan"), 1]}, "rows: "),
        ({"versions": [1, None, None]}, "rows: "),
    ],
)
def test_rows_that_are_none_are_refused(changed, message):
    with pytest.raises(StateError, match=message):
        Rows.restored(stored(**changed), "classification", 2)


def test_a_number_without_bounds_is_refused():
    """As MessagePack inside of JSON cannot say it; the number of a regression may be anything finite."""
    large = stored().replace(b"3.5", b"1e999")
    with pytest.raises(StateError):
        Rows.restored(large, "classification", 2)
    assert Rows.restored(stored(truths=[-7, 0.25, 3]), "regression", 0).truths == [-7, 0.25, 3]
