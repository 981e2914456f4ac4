"""What `upgrade check` says of a message that differs."""

import pytest

from explain_sidecar.commands.upgrade import ChangedValue, differences


@pytest.mark.parametrize(
    ("here", "there", "digit"),
    [(0.1234567, 0.1234568, 7), (1.0, 2.0, 1), (0.3, 0.30000000000000004, 17), (0.0, 0.5, 1), (-1.0, 1.0, 1)],
)
def test_the_first_digit_in_which_numbers_differ_is_counted_from_the_first_that_counts(here, there, digit):
    assert ChangedValue("x", here, there).digit == ChangedValue("x", there, here).digit == digit


def test_a_difference_is_said_with_its_place():
    assert str(ChangedValue("a.b", 1.5, 1.25)) == "in the 2nd digit (a.b: 1.5 here, 1.25 there)"
    assert str(ChangedValue("a", 1.02, 1.0)) == "in the 3rd digit (a: 1.02 here, 1.0 there)"
    assert str(ChangedValue("a", 1e-3 + 1.5e-14, 1e-3)).startswith("in the 12th digit")
    assert str(ChangedValue("a", "x", None)) == "in what it says (a: 'x' here, None there)"
    assert str(ChangedValue("a", True, False)).startswith("in what it says")


def test_every_value_is_compared_and_no_digest():
    here = {"digest": "a", "x": {"digest": 1.0, "y": [1.0, {"z": None}]}, "more": 1, "l": [1]}
    there = {"digest": "b", "x": {"digest": 1.0, "y": [1.5, {"z": 2}]}, "l": [1, 2]}
    found = {difference.path for difference in differences(here, there)}
    assert found == {"x.y.0", "x.y.1.z", "more", "l"}
    assert not list(differences(here, dict(here, digest="c")))
