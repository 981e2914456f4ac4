"""Players: the features, or groups of features, that share an importance."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self


class Player(NamedTuple):
    """A name and the features that are perturbed together under it.

    >>> Player("location", ("lat", "lon")).features
    ('lat', 'lon')
    """

    name: str
    features: tuple[str, ...]


class Players:
    """A partition of the features: each group is one player, every other feature is its own.

    ``features`` fixes them and their order; without it they come from the stream, in order of appearance.
    Raises ``ValueError`` for a feature named twice and for a group that is empty, overlaps another, has the name of a
    feature outside it, or names an unknown feature where ``features`` fixes them.

    >>> players = Players(groups={"location": ["lat", "lon"]})
    >>> players.observe({"lat": 1.0, "lon": 2.0, "size": 3})
    >>> [player.name for player in players]
    ['location', 'size']
    """

    def __init__(
        self, features: Sequence[str] | None = None, groups: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        groups = groups or {}
        for argument, names in (
            ("features", features),
            *((f"groups: {name!r}", g) for name, g in groups.items()),
        ):
            if isinstance(names, str):
                raise ValueError(f"{argument}: {names!r} is one string; pass a list of names")
            if names is not None and len(set(names)) < len(names):
                raise ValueError(f"{argument}: {', '.join(names)} names a feature twice; name each once")
        self._group_of: dict[str, str] = {}
        for name, grouped in groups.items():
            if not grouped:
                raise ValueError(f"groups: {name!r} is empty; name at least one feature")
            for feature in grouped:
                if feature in self._group_of:
                    raise ValueError(
                        f"groups: feature {feature!r} is in {self._group_of[feature]!r} and {name!r}; groups must be disjoint"
                    )
                if features is not None and feature not in features:
                    raise ValueError(
                        f"groups: {name!r} names the unknown feature {feature!r}; known are {', '.join(features)}"
                    )
                self._group_of[feature] = name
        self._groups = {name: tuple(grouped) for name, grouped in groups.items()}
        self.fixed = features is not None
        self._seen: dict[str, None] = {}
        self._players: list[Player] = []
        self._seen_groups: dict[str, None] = {}
        self._add(features or ())

    def observe(self, row: Mapping[str, object]) -> None:
        """Add the features of a record that are new (none where they are fixed)."""
        if not self.fixed:
            self._add(self.outside(row))

    def after(self, row: Mapping[str, object]) -> Self:
        """These players after observing the record: themselves if it has no new feature, else a copy."""
        if self.fixed or row.keys() <= self._seen.keys():
            return self
        new = copy.copy(self)
        new._seen, new._players, new._seen_groups = (
            dict(self._seen),
            list(self._players),
            dict(self._seen_groups),
        )
        new.observe(row)
        return new

    def outside(self, features: Iterable[str]) -> tuple[str, ...]:
        """Those of the features that belong to no player."""
        seen = self._seen
        return tuple(feature for feature in features if feature not in seen)

    def _add(self, features: Sequence[str]) -> None:
        for feature in features:
            if feature in self._groups and feature not in self._group_of:
                raise ValueError(
                    f"groups: {feature!r} is also the name of a feature outside the group; rename the group"
                )
        for feature in features:
            self._seen[feature] = None
            name = self._group_of.get(feature)
            if name is None:
                self._players.append(Player(feature, (feature,)))
            elif name not in self._seen_groups:
                self._seen_groups[name] = None
                self._players.append(Player(name, self._groups[name]))

    def seen(self) -> list[str]:
        """The features seen so far, in order of appearance: with the arguments, the whole state."""
        return list(self._seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Players) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Player]:
        return iter(self._players)

    def __len__(self) -> int:
        return len(self._players)

    def __getitem__(self, index: int) -> Player:
        return self._players[index]
