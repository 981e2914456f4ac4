"""What is read from a model's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from explain_core.models import Model

MAX_BYTES = 2**30
"""Of an artefact's file, and of what is in it once decompressed."""


class ArtefactError(ValueError):
    """A file that is no model of a known format, is damaged, or does not fit what is asked of it."""


@dataclass(frozen=True)
class Artefact:
    """A static model and what its file says about it.

    ``classes`` are the labels in the order of the probabilities, None of a regression; ``categories`` those of the features that
    are nominal, by feature. ``sha256`` is that of the file, or of all files of a directory. ``version`` is the one that wrote the
    file, or that the registry gave, where there is one.
    """

    model: Model
    kind: str
    features: Sequence[str]
    classes: Sequence[Any] | None
    sha256: str
    version: str | None = None
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def named(kind: str, own: Sequence[str], given: Sequence[str] | None, n: int) -> list[str]:
    """The names of n columns: the file's, or those given where it has none.

    Given ones must be the file's. Raises ``ArtefactError`` where there are none, or not n different ones.
    """
    if own and given is not None and list(map(str, given)) != list(own):
        raise ArtefactError(
            f"features: {kind} has the columns {', '.join(own)}, in this order; pass these or none, not {', '.join(map(str, given))}"
        )
    if not own and given is None:
        raise ArtefactError(
            f"features: {kind} does not name its {n} columns; pass features=[…] in their order (model.features)"
        )
    names = [str(name) for name in own or given or ()]
    if len(names) != n or len(set(names)) != n:
        raise ArtefactError(f"features: {len(set(names))} different names for the {n} columns of {kind}")
    return names


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Around the import of an optional package: where it is missing, say which extra brings it."""
    try:
        yield
    except ImportError:
        raise ArtefactError(
            f"model.uri: the file needs {package}, which is not installed: pip install 'explanation-sidecar[{extra}]'"
        ) from None
