"""The sections of the model, of its versions, and of the one that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from explain_sidecar.settings.base import OPERATION, Part, Section
from explain_sidecar.settings.sources import Problem

MAX_VERSION = 200
"""Characters of a version's name."""


class SourceSettings(Section):
    """Where a model comes from, and how it learns."""

    name: Literal["mixture", "linear", "tree", "forest"] | None = None
    """A model for mixed features: linear, a logistic, softmax or linear regression; tree, an adaptive tree; forest, ten of them; mixture, linear, forest and no model weighted by what each has predicted. The model is a mixture where there is no name, factory or uri; a challenger has no default."""
    factory: str | None = Field(None, pattern=r"^[\w.]+:[\w.]+$")
    """`module:Class` or `module:function` that makes the model, e.g. river.forest:ARFClassifier."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the factory. Those whose names are those of secrets (password, key, token) are never shown, and a change of them is no change of the model."""
    uri: str | None = Field(None, min_length=1)
    """Instead of a factory a trained model, explained as it is: a file of XGBoost, LightGBM, scikit-learn (skops), ONNX or CatBoost, an MLflow directory, or models:/name@alias of an MLflow registry."""
    features: list[str] | None = Field(None, min_length=1)
    """Columns of the file in their order, where it does not name them."""
    classes: list[str | int | bool] | None = Field(None, min_length=2)
    """Labels of the file's probabilities in their order, where its library numbers them from 0."""
    static: bool = False
    """Explain the model, never teach it; true with uri, and with models."""
    learner: Literal["auto", "river"] = "auto"
    """auto: known models of river learn in flat arrays, with the same bits and several times faster; river: river's own code learns."""

    @property
    def source(self) -> str | None:
        """What names the model: the name, the factory or the uri; None where it is the default."""
        return self.uri or self.factory or self.name

    @model_validator(mode="before")
    @classmethod
    def _a_file_is_static(cls, data: Any) -> Any:
        return {"static": True, **data} if isinstance(data, dict) and data.get("uri") else data

    def problems(self) -> Iterator[Problem]:
        if self.name is not None and self.factory is not None:
            yield "factory", "and name are both given; keep one"
        if self.uri is not None:
            for name in ("name", "factory", "params"):
                if getattr(self, name):
                    yield name, "and uri are both given; keep one"
            if not self.static:
                yield "static", "is false, and a model of uri never learns; take it out"


Task = Literal["binary", "multiclass", "regression"]


def _not_merged(value: Any) -> Any:
    if value == "merge":
        text = "models that have learnt from different records cannot be merged into one; use copy, and grow by a multiple, such as from 4 to 8: then one partition had all keys of a new one"
        raise PydanticCustomError("merge", text)
    return value


class ModelSettings(SourceSettings):
    """The model that the sidecar explains."""

    part = Part("model")

    initial: Annotated[Path | None, OPERATION] = None
    """File of `model export` or `warm-up`: a partition that has no state yet begins with that model. It must be of the same factory, parameters and task."""
    on_new_partition: Annotated[Literal["copy", "fresh"], BeforeValidator(_not_merged), OPERATION] = "copy"
    """What a partition begins with that the records topic has gained: copy, the model of the partition that had its keys before; fresh, a new model."""
    task: Annotated[Task, Part("labels")] = "binary"
    """Kind of label: one of two classes, one of several, or a number."""


class ChallengerSettings(SourceSettings):
    """A second model that sees the same records and is compared with the first one; there is none without factory or uri."""

    part = Part("challenger")

    confidence: Annotated[float, Part("comparison")] = Field(0.95, gt=0.0, le=0.999999)
    """Probability that the interval of a loss's mean difference holds, at all times together, in a partition."""
    every: Annotated[int, Part("comparison")] = Field(4, ge=1)
    """Explain the challenger on each so-manyth of the records that the model is explained on; losses are compared on all."""
    limits: Annotated[dict[str, Annotated[float, Field(gt=0.0)]], Part("comparison")] = Field(
        default_factory=dict
    )
    """By loss: a record's difference counts up to ± this. By default the loss's largest value, such as zero_one's 1, which cuts nothing; of a loss without one the records say."""
    shift_every: Annotated[int | None, Part("shift")] = Field(None, ge=1)
    """Ask on each so-manyth record which features the two use otherwise, without any label; by default never."""

    @property
    def enabled(self) -> bool:
        return self.source is not None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for name, field in type(self).model_fields.items():
            if getattr(self, name) == field.get_default(call_default_factory=True):
                continue
            if not self.enabled:
                yield (
                    name,
                    "is set without challenger.name, challenger.factory or challenger.uri; name the challenger",
                )
            elif self.uri is None and name in ("features", "classes"):
                yield name, "describes the file of challenger.uri, which is not set; take it out"

    def model_settings(self, task: Task) -> ModelSettings:
        """The challenger as a model for the task."""
        given = self.model_dump(include=self.model_fields_set & set(SourceSettings.model_fields))
        return ModelSettings.model_validate({**given, "task": task})


PLACE = "{version}"
"""Stands for the version in ``models.pattern``."""


class VersionSettings(Section):
    """The versions of a model that changes while the sidecar runs; records name the one that served them (record.model_version)."""

    uris: dict[Annotated[str, Field(min_length=1, max_length=MAX_VERSION)], str] = Field(default_factory=dict)
    """Where the model of each version is, as for model.uri."""
    pattern: str | None = Field(None, min_length=1)
    """Where the models of all other versions are: the same with {version} in it, such as models/{version}/model.json or models:/churn/{version}."""
    unknown: Literal["dead_letter", "wait"] = "dead_letter"
    """What to do with a record of a version whose model is not there: a dead letter, or its partition waits until the model is there."""
    close_after: Annotated[int, Part("versions")] = Field(100_000, ge=1)
    """A version is closed, and its explanations forgotten, once so many records of the partition in a row were served by others."""
    max_open: Annotated[int, Part("versions")] = Field(4, ge=1, le=100)
    """Versions that are open at once in a partition, at the most; one more closes that which was seen longest ago."""

    @property
    def enabled(self) -> bool:
        return bool(self.uris) or self.pattern is not None

    def problems(self) -> Iterator[Problem]:
        if self.pattern is not None and PLACE not in self.pattern:
            yield (
                "pattern",
                f"{self.pattern!r} is the same for all versions; write {PLACE} where the version's name belongs",
            )
