"""What a partition's state belongs to: the settings that the fold depends on, and the parts of the state that each belongs to.

A setting says in its section which part it belongs to (``explain_sidecar.settings.base.Part``). One that has its default is left out, so that
a setting that a later version adds changes nothing of a state from before. The default of such a setting therefore never changes.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from explain_core.artefacts.artefact import Artefact
from explain_sidecar.fold.models import artefact, challenger_artefact
from explain_sidecar.formats import files
from explain_sidecar.formats.json_nodes import MAX_STEPS
from explain_sidecar.settings import Settings
from explain_sidecar.settings.base import OPERATION, Part


def fold_settings(settings: Settings) -> dict[str, Any]:
    """The settings that the fold depends on and that differ from their defaults, as plain JSON types; a state belongs to them.

    Of a file with a schema or a model the content counts, not the path, and the names of its columns and outputs."""
    found = {"app_id": settings.app_id, "explainers": [], "model": {}, "record": {}, **_given(settings)}
    found["explainers"] = [_given(explainer) for explainer in settings.explainers]
    model, record = found["model"], found["record"]
    for name in ("features", "classes"):
        if not settings.models.enabled:
            model.pop(name, None)
        found.get("challenger", {}).pop(name, None)
    if settings.model.uri is not None:
        model["uri"] = _content(artefact(settings.model))
    file = challenger_artefact(settings)
    if file is not None:
        found["challenger"]["uri"] = _content(file)
    if settings.record.format == "json_schema":
        record["max_steps"] = MAX_STEPS
    if settings.record.schema_file is not None:
        record["schema_file"] = files.digest(settings.record.schema_file, "record.schema_file")
    return {name: value for name, value in found.items() if value != {}}


def part_of(section: type[BaseModel], field: FieldInfo) -> Part:
    """The part of the state that a setting belongs to: its own, else that of its section."""
    default: Part = getattr(section, "part", OPERATION)
    return next((marker for marker in field.metadata if isinstance(marker, Part)), default)


def _given(section: BaseModel) -> dict[str, Any]:
    """The settings of a section that the fold reads and that differ from their defaults; none of a section that is off."""
    found: dict[str, Any] = {}
    if not getattr(section, "enabled", True):
        return found
    kind = type(section)
    for name, field in kind.model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            inner = _given(value)
            if inner:
                found[name] = inner
        elif part_of(kind, field).name is not None:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            if value != default:
                found |= section.model_dump(mode="json", include={name})
    return found


def _content(file: Artefact) -> dict[str, Any]:
    return {"sha256": file.sha256, "features": list(file.features), "classes": list(file.classes or ())}
