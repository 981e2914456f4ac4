"""Factorisations of P(x) by their names: what the part of the inputs in a change of risk is divided into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

FactorisationName = Literal["joint", "per_feature"]
Groups = Mapping[str, Sequence[str]]
Factorisation = FactorisationName | Groups


class Named(NamedTuple):
    """What it does in words, and the groups of the features: those in none stand alone. Without ``groups`` there is nothing but the joint game."""

    words: str
    groups: Callable[[Sequence[str]], Groups] | None


FACTORISATIONS: dict[FactorisationName, Named] = {
    "joint": Named("Treat the inputs as one cause.", None),
    "per_feature": Named(
        "Also split the inputs by feature, as if features were independent.", lambda features: {}
    ),
}


def groups_of(factorisation: Factorisation, features: Sequence[str]) -> Groups | None:
    """The groups of these features whose marginals are multiplied; None where there is nothing but the joint game.

    Raises ``ValueError`` for a name that is none.

    >>> groups_of("per_feature", ["a", "b"]), groups_of({"both": ["a", "b"]}, ["a", "b"]), groups_of("joint", ["a"])
    ({}, {'both': ['a', 'b']}, None)
    """
    if not isinstance(factorisation, str):
        return factorisation
    if factorisation not in FACTORISATIONS:
        raise ValueError(
            f"factorisation: {factorisation!r} is not {', '.join(FACTORISATIONS)} or a mapping from group to features"
        )
    groups = FACTORISATIONS[factorisation].groups
    return None if groups is None else groups(features)
