"""The model that the settings name."""

from __future__ import annotations

import importlib
import inspect
import numbers
from typing import Any

from service.errors import UserError
from service.settings import ModelSettings


def load_model(settings: ModelSettings, seed: int) -> Any:
    """A new model.

    A factory with a parameter ``seed`` or ``random_state`` gets ``seed`` unless ``model.params`` has it: a model that
    seeds itself from the clock could not be replayed.
    """
    if settings.factory is None:
        if settings.params:
            raise UserError(
                f"model.params: {settings.params!r} without model.factory; the default pipeline takes none"
            )
        return default_model(settings.task)
    factory, params = _import(settings.factory), dict(settings.params)
    try:
        signature: inspect.Signature | None = inspect.signature(factory)
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
            raise UserError(f"model.params: {settings.factory} {error}; it takes {known}") from None
    try:
        return factory(**params)
    except Exception as error:
        raise UserError(
            f"model.params: {settings.factory} failed with {settings.params!r}: {type(error).__name__}: {error}"
        ) from error


def default_model(task: str) -> Any:
    """A river pipeline for mixed features: numbers are standardised, strings one-hot encoded, missing ones left out.

    Classes are 0, 1, …; binary: logistic regression; multiclass: softmax regression; regression: linear regression on
    the standardised target.
    """
    from river import compose, linear_model, preprocessing

    estimators: dict[str, Any] = {
        "binary": linear_model.LogisticRegression,
        "multiclass": linear_model.SoftmaxRegression,
        "regression": lambda: preprocessing.TargetStandardScaler(linear_model.LinearRegression()),
    }
    features = (compose.SelectType(numbers.Number) | preprocessing.StandardScaler()) + (
        compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
    )
    return features | estimators[task]()


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
