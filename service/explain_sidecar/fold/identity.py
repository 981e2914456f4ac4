"""What a partition's state belongs to: the settings that the fold depends on."""

from __future__ import annotations

from typing import Any

from explain_core.artefacts.artefact import Artefact
from explain_sidecar.fold.models import artefact, challenger_artefact
from explain_sidecar.formats import files
from explain_sidecar.formats.json_nodes import MAX_STEPS
from explain_sidecar.settings import Settings


def fold_settings(settings: Settings) -> dict[str, Any]:
    """The settings that the fold depends on, as plain JSON types; a state belongs to them.

    Of a file with a schema or a model the content counts, not the path."""
    alarms = {"alarms": True} if settings.alarms.enabled else {}
    found = settings.model_dump(
        mode="json",
        include={
            "app_id": True,
            "seed": True,
            "topics": {"records"},
            "record": True,
            "model": {"factory", "params", "task", "static", "learner"},
            "explainers": True,
            "explain": True,
            "emit": True,
            "drift": True,
            **alarms,
        },
    )
    # The file's content counts, not its path, and the names of its columns and outputs.
    if settings.model.uri is not None:
        found["model"] |= _content(artefact(settings.model))
    if settings.challenger.enabled:
        challenger = {"factory", "params", "static", "learner", "confidence", "every", "limits"}
        found["challenger"] = settings.challenger.model_dump(mode="json", include=challenger)
        file = challenger_artefact(settings)
        if file is not None:
            found["challenger"] |= _content(file)
    if settings.models.enabled:
        # Where a version is does not count, and what it is counts in the state.
        found["models"] = settings.models.model_dump(mode="json", include={"close_after", "max_open"})
        found["model"] |= settings.model.model_dump(mode="json", include={"features", "classes"})
    if settings.record.format == "json_schema":
        found["record"]["max_steps"] = MAX_STEPS
    if settings.record.schema_file is not None:
        found["record"]["schema_file"] = files.digest(settings.record.schema_file, "record.schema_file")
    return found


def _content(file: Artefact) -> dict[str, Any]:
    return {"sha256": file.sha256, "features": list(file.features), "classes": list(file.classes or ())}
