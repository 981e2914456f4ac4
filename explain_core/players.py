"""Players: the features, or groups of features, that share an importance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Player(NamedTuple):
    """A name and the features that are perturbed together under it."""

    name: str
    features: tuple[str, ...]


class Players:
    """A partition of the features: each group is one player, every other feature is its own.

    ``features`` fixes them and their order; without it they are met in the stream, in order of appearance.
    Raises ``ValueError`` for a group that is empty, overlaps another, has the name of a feature outside it, or
    names an unknown feature where ``features`` fixes them.

    >>> players = Players(groups={"location": ["lat", "lon"]})
    >>> players.meet({"lat": 1.0, "lon": 2.0, "size": 3})
    >>> [player.name for player in players]
    ['location', 'size']
    """

    def __init__(
        self, features: Sequence[str] | None = None, groups: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        groups = groups or {}
        self._group_of: dict[str, str] = {}
        for name, members in groups.items():
            if not members:
                raise ValueError(f"groups: {name!r} is empty; name at least one feature")
            for feature in members:
                if feature in self._group_of:
                    raise ValueError(
                        f"groups: feature {feature!r} is in {self._group_of[feature]!r} and {name!r}; groups must be disjoint"
                    )
                if features is not None and feature not in features:
                    raise ValueError(
                        f"groups: {name!r} names the unknown feature {feature!r}; known are {', '.join(features)}"
                    )
                self._group_of[feature] = name
        self._groups = {name: tuple(members) for name, members in groups.items()}
        self._fixed = features is not None
        self._seen: dict[str, None] = {}
        self._players: list[Player] = []
        self._met: dict[str, None] = {}
        self._add(features or ())

    def meet(self, features: Iterable[str]) -> None:
        """Take in the features of a record that were not met before (none where they are fixed)."""
        if not self._fixed:
            seen = self._seen
            for feature in features:
                if feature not in seen:
                    self._add((feature,))

    def _add(self, features: Iterable[str]) -> None:
        for feature in features:
            self._seen[feature] = None
            name = self._group_of.get(feature)
            if name is None:
                if feature in self._groups:
                    raise ValueError(
                        f"groups: {feature!r} is also the name of a feature outside the group; rename the group"
                    )
                self._players.append(Player(feature, (feature,)))
            elif name not in self._met:
                self._met[name] = None
                self._players.append(Player(name, self._groups[name]))

    def __iter__(self) -> Iterator[Player]:
        return iter(self._players)

    def __len__(self) -> int:
        return len(self._players)

    def __getitem__(self, index: int) -> Player:
        return self._players[index]
