"""The models that the settings name."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from explain_core.artefacts.artefact import Artefact, ArtefactError
from explain_core.artefacts.load import load_artefact
from explain_core.learners.base import Learner
from explain_core.learners.choice import learner_of
from explain_core.learners.defaults import Default
from explain_core.learners.mixture import Mixture
from explain_core.learners.named import named_model, river_of
from explain_core.losses import Task
from explain_core.models import Model, wrap
from explain_sidecar.errors import UserError
from explain_sidecar.settings import Settings
from explain_sidecar.settings.model import PLACE, ModelSettings
from explain_sidecar.settings.records import RecordSettings

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""Names of versions that may become part of a path: a record must not choose the folder."""


def load_model(settings: ModelSettings, seed: int) -> Model:
    """The model of a file, or a new one, wrapped for its task.

    A factory with a parameter ``seed`` or ``random_state`` gets ``seed`` unless ``model.params`` has it: a model that
    seeds itself from the clock could not be replayed. Raises ``UserError`` where the factory cannot be imported or
    refuses its parameters, and where what it makes is no model for the task, or cannot learn and is not static.
    """
    if settings.uri is not None:
        return artefact(settings).model
    if settings.factory is None and settings.params:
        raise UserError(
            f"model.params: {', '.join(settings.params)} without model.factory; the models that model.name knows take none"
        )
    name = settings.name or "mixture"
    key = f"{settings.factory or name} {settings.task} {settings.params!r}"
    repeats = not settings.static and settings.learner != "river"
    made = _again(key, settings.params, seed) if repeats else None
    if made is None and settings.factory:
        made = _make(settings.factory, settings.params, seed)
    elif made is None:
        made = named_model(name, settings.task, seed % 2**31)
        if isinstance(made, Default) and not repeats:
            made = river_of(made)
    task: Task = "regression" if settings.task == "regression" else "classification"
    mixed = isinstance(made, Mixture)
    if mixed and settings.learner == "river":
        raise UserError(
            "model.learner: river has no mixture; take it out, or name a model of river in model.factory"
        )
    try:
        learner = learner_of(made, task) if repeats or mixed else None
        model = learner or wrap(made, task)
    except ValueError as error:
        raise UserError(
            f"model.factory: {settings.factory} with model.task {settings.task}: {error}"
        ) from None
    if (
        repeats
        and learner is not None
        and (settings.factory is None or _import(settings.factory) is type(made))
    ):
        _UNTAUGHT[key] = made
    if not settings.static and type(model).learn is Model.learn:
        raise UserError(
            f"model.factory: {settings.factory} makes a {type(made).__name__}, which cannot learn one record at a time; "
            "set model.static to true to explain it as it is"
        )
    return model


def artefact(settings: ModelSettings) -> Artefact:
    """The model that ``model.uri`` names, read once a process: a replaced file is read at the next start. Raises ``UserError``
    where it is no model for the task.
    """
    uri, task = settings.uri, settings.task
    assert uri is not None
    features = None if settings.features is None else tuple(settings.features)
    classes = None if settings.classes is None else tuple(settings.classes)
    found = _read(uri, task, features, classes, tuple(map(type, classes or ())))
    if task == "binary" and len(found.classes or ()) != 2:
        raise UserError(
            f"model.task: binary, and {uri} has {len(found.classes or ())} classes; set model.task to multiclass"
        )
    return found


def version_artefact(settings: Settings, version: str) -> Artefact:
    """The model of a version. Raises ``UserError`` where ``models`` does not have it, or it is no model for the task."""
    versions = settings.models
    uri = versions.uris.get(version)
    if uri is None and versions.pattern is not None and _SAFE.fullmatch(version):
        uri = versions.pattern.replace(PLACE, version)
    if uri is None:
        known = ", ".join(list(versions.uris)[:10]) or "none by name"
        raise UserError(f"models: there is no version {version!r}; models.uris has {known}")
    try:
        return artefact(settings.model.model_copy(update={"uri": uri}))
    except UserError as error:
        raise UserError(f"models: version {version!r}: {error}") from None


@functools.lru_cache(maxsize=16)
def _read(
    uri: str,
    task: str,
    features: tuple[str, ...] | None,
    classes: tuple[Any, ...] | None,
    kinds: tuple[type, ...],  # 0, 1 and false, true are the same keys
) -> Artefact:
    try:
        return load_artefact(
            uri, "regression" if task == "regression" else "classification", features, classes
        )
    except ArtefactError as error:
        raise UserError(str(error)) from None


def forget_artefacts() -> None:
    """Read files again that were read before."""
    _read.cache_clear()


def described(settings: Settings) -> str:
    """A description of the file of ``model.uri``, or of each that ``models.uris`` names; empty without any."""
    lines = [_described(settings.model.uri, artefact(settings.model))] if settings.model.uri else []
    for version, uri in settings.models.uris.items():
        lines.append(f"version {version}: {_described(uri, version_artefact(settings, version))}")
    return "\n".join(lines)


def described_challenger(settings: Settings) -> str:
    """A description of the file of ``challenger.uri``; empty without one."""
    file = challenger_artefact(settings)
    return "" if file is None else _described(str(settings.challenger.uri), file)


def _described(uri: str, found: Artefact) -> str:
    parts = [
        f"{uri}: {found.kind}",
        f"version {found.version}" if found.version else "",
        f"{len(found.features)} features: {first(found.features)}",
        f"{len(found.classes)} classes: {first(found.classes)}" if found.classes else "",
        f"categories of {first(list(found.categories))}" if found.categories else "",
        f"sha256 {found.sha256}",
    ]
    return "; ".join(filter(None, parts))


def first(names: Sequence[Any]) -> str:
    """The first ten, and how many there are more."""
    more = f", … {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(str, names[:10])) + more


def labels_of(settings: Settings) -> list[Any]:
    """The labels that a model's file has, else the challenger's, in the order of their codes: records may have no others; none for models that learn them."""
    own = None if settings.model.uri is None else artefact(settings.model)
    files = (own, challenger_artefact(settings))
    return next((list(file.classes) for file in files if file is not None and file.classes), [])


def challenger_artefact(settings: Settings) -> Artefact | None:
    """The model that ``challenger.uri`` names; None without one. Raises ``UserError`` as ``artefact`` does."""
    model_settings = settings.challenger_model
    if model_settings is None or model_settings.uri is None:
        return None
    with _of_the_challenger():
        return artefact(model_settings)


def load_challenger(settings: Settings, seed: int) -> Model:
    """A new challenger, wrapped for the model's task. Raises ``UserError`` as ``load_model`` does, and where its labels are others than the model's."""
    model_settings, labels, file = (
        settings.challenger_model,
        labels_of(settings),
        challenger_artefact(settings),
    )
    assert model_settings is not None
    own = list(file.classes or ()) if file else []
    if own and set(own) != set(labels):
        raise UserError(
            f"challenger.classes: {first(own)}, and those of the model are {first(labels)}; two models are compared on the same labels"
        )
    with _of_the_challenger():
        return load_model(model_settings, seed)


@contextmanager
def _of_the_challenger() -> Iterator[None]:
    """Make messages about the section ``model`` ones about ``challenger``, but for the task, which is the model's."""
    try:
        yield
    except UserError as error:
        raise UserError(re.sub(r"(?<![\w.])model\.(?!task\b)(?=[a-z])", "challenger.", str(error))) from None


def record_settings(settings: Settings) -> RecordSettings:
    """The record settings with the columns of the model's file, and then of the challenger's, as features where none are named.

    Raises ``UserError`` where the label is one of them, where none of the features is a column, and where an explainer names another.
    """
    record, model = settings.record, settings.model
    own = None if model.uri is None else artefact(model)
    other = challenger_artefact(settings)
    for file, uri in ((own, model.uri), (other, settings.challenger.uri)):
        if file is not None and record.label in file.features:
            raise UserError(
                f"record.label: {record.label!r} is also a column of {uri}, which would be told the label; name the label's own field"
            )
    if own is None:
        return record
    if record.features is not None:
        if set(record.features).isdisjoint(own.features):
            raise UserError(
                f"record.features: none is a column of {model.uri}, which has {first(own.features)}"
            )
        return record
    columns = dict.fromkeys([*own.features, *(other.features if other else ())])
    for explainer in settings.explainers:
        for name in (*filter(None, [explainer.by]), *itertools.chain(*explainer.groups.values())):
            if name not in columns:
                raise UserError(
                    f"explainers: {name!r} is no column of {model.uri}; name it in record.features with the columns, or choose another"
                )
    return record.model_copy(update={"features": list(columns)})


def foreign_code(settings: Settings) -> str | None:
    """A description of the state that only the models' own code can read; None where the snapshot is pure data."""
    model_settings = settings.challenger_model
    learning = {} if settings.model.static else {"model": load_model(settings.model, settings.seed)}
    if model_settings is not None and not model_settings.static:
        learning["challenger"] = load_challenger(settings, settings.seed)
    found = [
        f"the {what} ({model.title})" for what, model in learning.items() if not isinstance(model, Learner)
    ]
    return " and ".join(found) or None


_UNTAUGHT: dict[str, Any] = {}
"""River models whose learners learn instead of them, by what made them: to construct a forest takes longer than to restore its learner."""


def _again(key: str, given: dict[str, Any], seed: int) -> Any:
    """A river model as it would be made, from one that was made before and never learns; None where there is none."""
    made: Any = _UNTAUGHT.get(key)
    return made if "seed" in given else _seeded(made, seed)


def _seeded(made: Any, seed: int) -> Any:
    """A model that has learnt nothing, or each member of a mixture, with another seed where it has one."""
    if isinstance(made, Mixture):
        return made._replace(members={name: _seeded(member, seed) for name, member in made.members.items()})
    if isinstance(made, Default):
        return made._replace(seed=seed % 2**31)
    if isinstance(getattr(made, "_rng", None), random.Random):
        made = copy.copy(made)
        made.seed = seed % 2**31
        made._rng = random.Random(made.seed)
    return made


def _import(factory: str) -> Any:
    module_name, _, name = factory.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(
            f"model.factory: {factory!r} cannot be imported: {error}; install its package beside the sidecar"
        ) from None
    except (Exception, SystemExit) as error:
        raise UserError(
            f"model.factory: importing {module_name!r} failed: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"model.factory: {module_name!r} has no {name!r}; name a class or function in it")
        found = getattr(found, part)
    if not callable(found):
        raise UserError(f"model.factory: {factory!r} is a {type(found).__name__}; name a class or a function")
    return found


def _make(factory: str, given: dict[str, Any], seed: int) -> Any:
    make, params = _import(factory), dict(given)
    try:
        signature: inspect.Signature | None = inspect.signature(make)
    except (TypeError, ValueError):
        signature = None
    if signature is not None:
        for name in ("seed", "random_state"):
            if name in signature.parameters:
                params.setdefault(name, seed % 2**31)
        try:
            signature.bind(**params)
        except TypeError as error:
            known = ", ".join(signature.parameters) or "none"
            raise UserError(f"model.params: {factory} {error}; it takes {known}") from None
    try:
        return make(**params)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"model.params: {factory} failed with {given!r}: {type(error).__name__}: {error}"
        ) from error
