"""What every section of the settings has in common: each setting is declared once, with its meaning, unit, bounds and default."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from explain_sidecar.settings.sources import Problem, SettingPath, refuse


@dataclass(frozen=True)
class Part:
    """The part of a partition's state that a setting belongs to: a change of the setting begins that part anew.

    ``explain_sidecar.fold.identity`` has the parts, and says which of them depend on others.
    """

    name: str | None


OPERATION = Part(None)
"""Of settings that the fold does not read: they may change while a state lives on."""

MESSAGES = Part("messages")
"""Of settings that change what is published, and nothing that was learnt: a change begins a new epoch, with all that is known."""


class Section(BaseModel):
    """A section of the settings. ``part`` is that of its settings, but for those that name another: ``Annotated[int, Part("drift")]``."""

    part: ClassVar[Part] = OPERATION

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    def problems(self) -> Iterable[Problem]:
        """What of the section does not go together."""
        return ()

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        refuse(self.problems())
        return self


def topic_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("a topic's name has 1 to 249 of the characters A-Z a-z 0-9 . _ -")
    return name


TopicName = Annotated[str, AfterValidator(topic_name)]


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address is http://host:port or https://host:port, and a path where it has one")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong into an address, which is shown in logs")
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]


def twice(name: str, values: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with a list that may have each value once."""
    for position, value in enumerate(values):
        if value in values[:position]:
            yield name, f"has {value!r} twice; take one out"


def not_among(
    features: Sequence[str] | None, path: SettingPath | str, names: Iterable[str]
) -> Iterator[Problem]:
    """What is wrong with names of features where ``record.features`` has others."""
    for name in names:
        if features is not None and name not in features:
            yield path, f"{name!r} is not among record.features; add it there or take it out"
