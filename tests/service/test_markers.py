"""Texts that stand for missing values are found, and left out where the settings say so."""

import json

import pytest

from explain_core.markers import MANY, RISING, Markers, identifiers, other_unit, remarks
from explain_sidecar.commands.csv_rows import converters_of
from explain_sidecar.fold.records import Decoder, InputRecord
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.settings.records import RecordSettings


def column(*values):
    found = Markers()
    for value in values:
        found.add(value)
    return found


def test_a_column_of_numbers_but_for_a_marker_is_found():
    assert column("1", "?", "2", "3").found == ["?"]
    assert column(1.5, "NA", 2, "-", 3, 4).found == ["NA", "-"]
    (remark,) = remarks({"income": column(1, 2, 3, "?")}, "set record.missing")
    assert (
        remark
        == "income: numbers, but for '?' in 25%; if that stands for a missing value, set record.missing"
    )


def test_other_columns_are_not():
    for values in (("1", "2"), ("red", "green"), ("1", "a", "b", "c", "2", "3", "4"), ("1", "?", "?"), ()):
        assert column(*values).found == []
        assert not list(remarks({"x": column(*values)}, ""))


def test_a_column_whose_texts_hardly_come_twice_is_of_identifiers():
    some = [f"customer {number}" for number in range(MANY)]
    for values in (some, some[:95] + some[:5], [*some, *some]):
        (remark,) = identifiers(
            {"customer": column(*values), "colour": column(*["red", "green"] * MANY)}, "leave it out"
        )
        assert remark.startswith("customer: nearly each of its texts is another one.")
        assert remark.endswith("slow: leave it out")
    for values in (some[:-1], some[:50] * 2, range(MANY), [str(n) for n in range(MANY)]):
        assert not list(identifiers({"x": column(*values)}, ""))


def test_a_column_whose_numbers_rise_with_each_record_is_a_running_number():
    for values in (range(RISING), [str(0.5 * n) for n in range(RISING)]):
        (remark,) = identifiers({"row": column(*values)}, "leave it out")
        assert remark.startswith("row: each of its numbers is larger than the one before.")
    for values in (range(RISING - 1), [*range(RISING), RISING - 1], [True] * RISING):
        assert not list(identifiers({"x": column(*values)}, ""))


@pytest.mark.parametrize("odd", [0, 1_700_000_000, 1_700_000_000_000_000])
def test_times_in_another_unit_than_milliseconds_are_found(odd):
    assert f"the newest is {odd}, and times are milliseconds since 1970" in other_unit(odd)


@pytest.mark.parametrize("date", [-1_000_000_000_000, 50_000_000_000, 1_700_000_000_000])
def test_dates_are_of_no_other_unit(date):
    assert other_unit(date) is None


def test_a_column_with_markers_that_are_named_is_numeric():
    rows = [{"a": "1"}, {"a": "?"}, {"a": ""}]
    assert converters_of(rows)[0]["a"] is str
    assert converters_of(rows, ("", "?"))[0]["a"]("1") == 1


def test_a_feature_of_a_missing_text_is_left_out():
    record = InputRecord(0, 0, None, json.dumps({"a": "?", "b": "x", "c": 1, "label": "?"}).encode())
    plain = Decoder(RecordSettings(), "binary", Schemas()).decode(record)
    assert plain.x == {"a": "?", "b": "x", "c": 1}
    sample = Decoder(RecordSettings(missing=("?", "NA")), "binary", Schemas()).decode(record)
    assert (sample.x, sample.y) == ({"b": "x", "c": 1}, "?")
    nothing = InputRecord(0, 0, None, json.dumps({"a": "?", "label": 1}).encode())
    with pytest.raises(BadRecord, match="no feature"):
        Decoder(RecordSettings(missing=("?",)), "binary", Schemas()).decode(nothing)


@pytest.mark.parametrize("cell", ["1_2", "1_2.5"])
def test_a_text_that_only_python_takes_for_a_number_is_a_text(cell):
    """Else 1_2 and 12 would be the same."""
    assert converters_of([{"a": cell}, {"a": "12"}])[0]["a"] is str
