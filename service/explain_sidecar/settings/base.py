"""What every section of the settings has in common: each setting is declared once, with its meaning, unit, bounds and default."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict


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

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _topic_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("a topic's name has 1 to 249 of the characters A-Z a-z 0-9 . _ -")
    return name


TopicName = Annotated[str, AfterValidator(_topic_name)]


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address is http://host:port or https://host:port, and a path where it has one")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong into an address, which is shown in logs")
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]


def fits_64_bits(number: int) -> bool:
    """Whether a whole number has at most 64 bits, as those in the JSON that is written here do."""
    return -(2**63) <= number < 2**64


def duplicates(names: Sequence[str]) -> list[str]:
    return [name for position, name in enumerate(names) if name in names[:position]]
