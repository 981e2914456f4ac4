"""The model that the settings name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from explain_core.learners.base import Learner, LearnerState
from explain_core.learners.choice import learner_of
from explain_core.losses import Task
from explain_core.models import Model, wrap
from explain_core.state import Pack, State, Unpack, check
from service.errors import UserError
from service.fold.default_models import default_model
from service.settings import ModelSettings, Settings


def load_model(settings: ModelSettings, seed: int) -> Model:
    """A new model, wrapped for its task.

    A factory with a parameter ``seed`` or ``random_state`` gets ``seed`` unless ``model.params`` has it: a model that
    seeds itself from the clock could not be replayed. Raises ``UserError`` where the factory cannot be imported or
    refuses its parameters, and where what it makes is no model for the task, or cannot learn and is not static.
    """
    if settings.factory is None and settings.params:
        raise UserError(
            f"model.params: {', '.join(settings.params)} without model.factory; the default pipeline takes none"
        )
    made = (
        _make(settings.factory, settings.params, seed) if settings.factory else default_model(settings.task)
    )
    task: Task = "regression" if settings.task == "regression" else "classification"
    try:
        learner = None if settings.static or settings.learner == "river" else learner_of(made, task)
        model = learner or wrap(made, task)
    except ValueError as error:
        raise UserError(
            f"model.factory: {settings.factory} with model.task {settings.task}: {error}"
        ) from None
    if not settings.static and type(model).learn is Model.learn:
        raise UserError(
            f"model.factory: {settings.factory} makes a {type(made).__name__}, which cannot learn one record at a time; "
            "set model.static to true to explain it as it is"
        )
    return model


class ModelData(State, frozen=True):
    """A model in a snapshot: a learner as data, or what its own code stored; neither for a static model, which the settings name."""

    learner: LearnerState | None = None
    foreign: bytes | None = None


def model_data(model: Model, static: bool, pack: Pack) -> ModelData:
    """The model as data; ``pack`` stores one that is no learner."""
    if static:
        return ModelData()
    return ModelData(model.state()) if isinstance(model, Learner) else ModelData(foreign=pack(model))


def restored_model(fresh: Model, data: ModelData, static: bool, unpack: Unpack) -> Model:
    """A new model of the settings with a stored state. Raises ``StateError`` where that is one of another kind of model."""
    kinds = static, isinstance(fresh, Learner) and not static, not isinstance(fresh, Learner) and not static
    check(
        kinds == (data == ModelData(), data.learner is not None, data.foreign is not None),
        "model: of another kind",
    )
    if isinstance(fresh, Learner) and data.learner is not None:
        fresh.restore(data.learner)
    elif data.foreign is not None:
        found = unpack(data.foreign)
        same = type(found) is type(fresh) and type(found.wrapped) is type(fresh.wrapped)
        check(same, f"model: it is no {type(fresh.wrapped).__name__}")
        return found  # type: ignore[no-any-return]
    return fresh


def foreign_code(settings: Settings) -> str | None:
    """What of a partition's state only its own code can read, in words; None where a snapshot is data alone."""
    if settings.model.static:
        return None
    model = load_model(settings.model, settings.seed)
    return None if isinstance(model, Learner) else f"the model ({type(model.wrapped).__name__})"


def trusted_modules(settings: ModelSettings) -> list[str]:
    """Modules whose classes a snapshot may hold besides river's: those that the settings name."""
    factory = [settings.factory.partition(":")[0]] if settings.factory else []
    return [*factory, *settings.modules]


def _import(factory: str) -> Any:
    module_name, _, name = factory.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(
            f"model.factory: {factory!r} cannot be imported: {error}; install its package beside the sidecar"
        ) from None
    except Exception as error:
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
    except Exception as error:
        raise UserError(
            f"model.params: {factory} failed with {given!r}: {type(error).__name__}: {error}"
        ) from error
