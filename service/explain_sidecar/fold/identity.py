"""What a partition's state belongs to: the settings that the fold depends on, and the parts of the state that each belongs to.

A setting says in its section which part it belongs to (``explain_sidecar.settings.base.Part``). One that has its default is left out, so that
a setting that a later version adds changes nothing of a state from before. The default of such a setting therefore never changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from explain_core.artefacts.artefact import Artefact
from explain_core.losses import DEFAULT, Task, get
from explain_core.stream.alarms import OF_NO_MODEL, OF_RECORDS
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import artefact, challenger_artefact
from explain_sidecar.formats import files
from explain_sidecar.formats.json_schema import MAX_COST
from explain_sidecar.settings import Settings
from explain_sidecar.settings.base import OPERATION, Part
from explain_sidecar.settings.drift import AlarmSettings
from explain_sidecar.settings.explain import ExplainerSettings, ReservoirSettings
from explain_sidecar.settings.records import FormatSettings
from explain_sidecar.settings.sources import merge, names_secret


def fold_settings(settings: Settings) -> dict[str, Any]:
    """The settings that the fold depends on and that differ from their defaults, as plain JSON types; a state belongs to them.

    Of a file with a schema or a model the content counts, not the path, and the names of its columns and outputs. A model's passwords and
    keys are none of them: everybody who reads the checkpoints topic reads this."""
    found = {"app_id": settings.app_id, "explainers": [], "model": {}, "record": {}, **_given(settings)}
    found["explainers"] = [_given(explainer) for explainer in settings.explainers]
    model, record = found["model"], found["record"]
    for section in (model, found.get("challenger", {})):
        if "params" in section:
            section["params"] = _without_secrets(section["params"])
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
        record["max_cost"] = MAX_COST
    if settings.record.schema_file is not None:
        record["schema_file"] = files.digest(settings.record.schema_file, "record.schema_file")
    return {name: value for name, value in found.items() if value != {}}


def settings_digest(identity: Mapping[str, Any]) -> str:
    """Stands for settings as ``fold_settings`` returns them."""
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()


def settings_of(identity: Mapping[str, Any], now: Settings) -> Settings:
    """Settings with which the fold does what it did under ``identity``; all that the fold does not read is as ``now``.

    Raises ``UserError`` where the file of a model or a schema is another now, or this version of the sidecar does not know a setting."""
    found = json.loads(json.dumps(identity))
    here = fold_settings(now)
    # The limit of the validator before; a replay by this one that differs is found by its digests.
    found.get("record", {}).pop("max_steps", None)
    if found.get("record", {}).pop("max_cost", MAX_COST) != MAX_COST:
        raise UserError("record.format: JSON Schemas were validated within another cost")
    for section, name in (("model", "uri"), ("challenger", "uri"), ("record", "schema_file")):
        if name in found.get(section, {}):
            if found[section][name] != here.get(section, {}).get(name):
                raise UserError(f"{section}.{name}: it is another file now")
            of = getattr(now, section)
            found[section][name] = getattr(of, name)
            if name == "uri":
                found[section] |= of.model_dump(include={"features", "classes"}, exclude_none=True)
    try:
        return Settings(**merge(_operation(now), found))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _operation(section: BaseModel) -> dict[str, Any]:
    """The settings of a section that the fold does not read, where they are given."""
    found: dict[str, Any] = {}
    kind = type(section)
    for name in section.model_fields_set:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            found[name] = _operation(value)
        elif name != "explainers" and part_of(kind, kind.model_fields[name]).name is None:
            found[name] = value
    return found


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


def _without_secrets(params: Any) -> Any:
    """Parameters without those whose names are those of secrets."""
    if isinstance(params, dict):
        return {name: _without_secrets(value) for name, value in params.items() if not names_secret(name)}
    return [_without_secrets(value) for value in params] if isinstance(params, list) else params


def _content(file: Artefact) -> dict[str, Any]:
    return {"sha256": file.sha256, "features": list(file.features), "classes": list(file.classes or ())}


def parts(identity: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parts that a state of these settings (as ``fold_settings`` returns them) has, by name, each with the settings that it depends on.

    A part of another state that depends on equal settings can be taken over. Not among them are ``explainers.losses`` and
    ``record.features``: of these a part can take over what is common."""
    own = _by_part(Settings, identity, "")

    def of(*names: str) -> dict[str, Any]:
        return {name: value for part in names for name, value in own.get(part, {}).items()}

    task = identity.get("model", {}).get("task", "binary")
    wire = {name: value for name, value in of("messages").items() if name.removeprefix("record.") in WIRE}
    file = {what: identity.get(what, {}).get("uri", {}).get("classes") for what in ("model", "challenger")}
    found = {"schemas": wire, "labels": {**of("labels"), "classes": file}}
    found["model"] = model = found["labels"] | of("model")
    records = of("records")
    chosen = {name_of(given): ExplainerSettings.model_validate(given) for given in identity["explainers"]}
    for given, (name, explainer) in zip(identity["explainers"], chosen.items(), strict=True):
        mine = _by_part(ExplainerSettings, given, "")
        reservoir = reservoir_of(given)
        found[reservoir] = records
        found[f"explainer {name}"] = {
            **model, **records, **of("explainers"), **mine.get("explainers", {}), "reservoir": reservoir
        }  # fmt: skip
        if explainer.by is not None:
            shape = of("features") | mine.get("losses", {}) | mine.get("segments", {})
            found[f"segments {name}"] = found[f"explainer {name}"] | shape
    first = next(iter(chosen.values()))
    explained = losses_of(identity)
    losses = {"losses": explained, "measured": measured(identity)}
    found["performance"] = model | records | {"alpha": first.alpha, "window": first.window}
    every = (
        {name: part for name, part in found.items() if name.startswith("explainer ")}
        | of("features")
        | losses
        | {"order": [*chosen]}
    )
    segments = {name: part for name, part in found.items() if name.startswith("segments ")}
    if own.get("served"):
        found["served"] = found["performance"] | of("served") | losses
    if own.get("estimated"):
        found["estimated"] = found["performance"] | of("features") | losses
    found["periods"] = found["performance"] | of("periods", "time")
    if identity.get("drift"):
        found["drift"] = model | records | of("features", "time", "drift")
    if identity.get("alarms"):
        subjects = AlarmSettings.model_validate(identity["alarms"]).subjects
        watching = {key: value for key, value in of("alarms").items() if key != "alarms.subjects"}
        own_gain = [subject for subject in ("loss", "gain") if subject in subjects]
        if own_gain:
            found["alarms performance"] = watching | found["performance"] | losses | {"of": own_gain}
        if "estimated_loss" in subjects:
            found["alarms estimated"] = watching | found["estimated"]
        for name in chosen if "importance" in subjects else ():
            for loss in explained[name]:
                found[f"alarms importance/{name}/{loss}"] = (
                    watching | found[f"explainer {name}"] | of("features")
                )
        for name, kind in OF_RECORDS.items():
            if name in subjects:
                found[f"alarms {name}"] = watching | of(*kind.depends)
        if {"segments", "segment_importance"} & set(subjects):
            found["alarms segments"] = watching | every | segments | {"of": subjects}
    if identity.get("challenger"):
        found["challenger"] = found["labels"] | of("challenger")
        found["comparison"] = model | found["challenger"] | of("comparison") | every
        if own.get("shift"):
            found["shift"] = found["comparison"] | of("shift")
    curves = identity.get("partial_dependence", {})
    if curves.get("features") or curves.get("top"):
        importances = of("explainers") | of("features") if curves.get("top") else {}
        found["partial dependence"] = (
            found["performance"]
            | of("dependence")
            | {"reservoir": reservoir_of(identity["explainers"][0])}
            | importances
        )
    if own.get("waiting"):
        found["waiting"] = found["labels"] | of("waiting")
    if own.get("versions"):  # all but these is of each version
        whole = {"schemas", "labels", "model", "drift", "challenger", "waiting"}
        whole |= {f"alarms {name}" for name in OF_NO_MODEL}
        versions = model | of("versions") | every | found
        found = {name: part for name, part in found.items() if name in whole} | {"versions": versions}
    return {name: part | {"task": task} for name, part in found.items()}


WIRE = frozenset(FormatSettings.model_fields)
"""The settings of ``record`` that schemas are learnt for."""


def name_of(explainer: Mapping[str, Any]) -> str:
    """The name of an explainer of ``fold_settings``."""
    return str(explainer.get("name") or explainer["kind"])


def reservoir_of(explainer: Mapping[str, Any]) -> str:
    """The part that an explainer of ``fold_settings`` takes its rows from."""
    rows = ReservoirSettings.model_validate(explainer.get("reservoir", {}))
    return f"reservoir {rows.kind} {rows.size}"


def measured(identity: Mapping[str, Any]) -> list[str]:
    """The losses that the model's performance is measured by: those of the explainers that need labels."""
    free = {name_of(of) for of in identity["explainers"] if ExplainerSettings.model_validate(of).label_free}
    losses = [loss for name, of in losses_of(identity).items() if name not in free for loss in of]
    return list(dict.fromkeys(losses)) or [DEFAULT[_task(identity)]]


def _task(identity: Mapping[str, Any]) -> Task:
    return "regression" if identity.get("model", {}).get("task") == "regression" else "classification"


def losses_of(identity: Mapping[str, Any]) -> dict[str, list[str]]:
    """The losses of each explainer, by its name."""
    task = _task(identity)
    found = {name_of(given): given.get("losses") or [DEFAULT[task]] for given in identity["explainers"]}
    return {name: [get(loss, task, None, True).name for loss in losses] for name, losses in found.items()}


def _by_part(section: type[BaseModel], given: Mapping[str, Any], path: str) -> dict[str, dict[str, Any]]:
    """The settings in ``given`` by dotted name, by the part that they belong to; of ``explainers`` none."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        field = section.model_fields.get(name)
        kind = None if field is None else field.annotation
        if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, BaseModel):
            for part, settings in _by_part(kind, value, f"{path}{name}.").items():
                found.setdefault(part, {}).update(settings)
        elif name != "explainers" and field is not None:
            found.setdefault(part_of(section, field).name or "", {})[path + name] = value
    return found
