"""Players partition the features, in the order of their appearance."""

import pickle

import pytest

from explain_core.players import Player, Players


def names(players):
    return [player.name for player in players]


def test_features_are_met_in_order_and_a_group_with_its_first_member():
    players = Players(groups={"location": ["lat", "lon"]})
    players.observe({"size": 1, "lon": 2})
    players.observe({"lat": 1, "size": 1, "age": 2})
    assert list(players) == [
        Player("size", ("size",)), Player("location", ("lat", "lon")), Player("age", ("age",)),
    ]  # fmt: skip
    assert players[1].name == "location"


def test_fixed_features_take_no_new_ones():
    players = Players(["b", "a"], {"g": ["a"]})
    players.observe({"c": 1})
    assert names(players) == ["b", "g"]
    assert players.outside({"a": 1, "c": 1, "d": 1}) == ("c", "d")
    assert players.after({"c": 1}) is players


def test_players_after_a_record_leave_those_before_as_they_were():
    before = Players(groups={"g": ["c", "d"]})
    before.observe({"a": 1})
    state = pickle.dumps(before)
    after = before.after({"a": 1, "c": 2, "b": 3})
    assert names(after) == ["a", "g", "b"]
    assert pickle.dumps(before) == state
    assert after.after({"d": 1, "b": 1}).after({"c": 1, "a": 2}) is not before
    assert after.after({"b": 1, "c": 1}) is after


def test_a_group_may_have_the_name_of_its_member():
    players = Players(["a", "b"], {"a": ["a", "b"]})
    assert list(players) == [Player("a", ("a", "b"))]


@pytest.mark.parametrize(
    ("features", "groups", "message"),
    [
        (None, {"g": []}, "groups: 'g' is empty"),
        (None, {"g": ["a"], "h": ["b", "a"]}, "feature 'a' is in 'g' and 'h'"),
        (["a", "b"], {"g": ["a", "x"]}, "'g' names the unknown feature 'x'; known are a, b"),
        (["a", "g"], {"g": ["a"]}, "'g' is also the name of a feature outside"),
        (["a", "b", "a"], None, "features: a, b, a names a feature twice"),
        (None, {"g": ["a", "a"]}, "groups: 'g': a, a names a feature twice"),
        ("abc", None, "features: 'abc' is one string; pass a list"),
        (None, {"g": "abc"}, "groups: 'g': 'abc' is one string"),
    ],
)
def test_bad_players_are_refused(features, groups, message):
    with pytest.raises(ValueError, match=message):
        Players(features, groups)
