"""What was served: the predictions that records carry, as the model predicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from explain_core.losses import Prediction
from explain_sidecar.fold.records import short
from explain_sidecar.formats.errors import BadRecord

UNSEEN = ""
"""The code of the classes without one: names of classes that may be anything do not become state."""


def coded(served: Any, y: Any, labels: Mapping[Any, int], classes: Collection[Any]) -> Prediction:
    """What was served, with the codes of its classes; those that no record has had yet are one, ``UNSEEN``.

    ``served`` is as ``Decoder`` returns it, ``y`` the record's label. ``classes`` are those that the model has, where they are fixed.
    Raises ``BadRecord`` where it names others, or none.
    """
    codes = labels if y in labels else {**labels, y: len(labels)}
    if isinstance(served, float):
        names = [label_text(label) for label in classes] if len(classes) == 2 else ["0", "1"]
        if not classes and set(map(label_text, codes)) <= {"false", "true"}:
            names = ["false", "true"]
        elif not classes and not set(map(label_text, codes)) <= {"0", "1"}:
            raise BadRecord(
                "bad_prediction",
                f"the served probability {served:g} names no class, and the labels are {', '.join(map(repr, codes))}; send a mapping "
                "from class to probability",
            )
        served = {names[0]: 1.0 - served, names[1]: served}
    by_name = {label_text(label): codes[label] for label in classes or codes}
    unknown = [name for name in served if name not in by_name]
    if unknown and classes:
        raise BadRecord(
            "bad_prediction",
            f"the served prediction names the class {short(unknown[0])}, and the model has {', '.join(list(by_name)[:5])}",
        )
    found: dict[Any, float] = {}
    for name, p in served.items():
        code = by_name.get(name, UNSEEN)
        found[code] = found.get(code, 0.0) + p
    return found


def label_text(label: Any) -> str:
    """A label as JSON writes it as a key."""
    return str(label).lower() if isinstance(label, bool) else str(label)
