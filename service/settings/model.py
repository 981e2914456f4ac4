"""The section of the model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from service.settings.base import Section
from service.settings.sources import SettingPath, refuse


class ModelSettings(Section):
    """The model that the sidecar explains."""

    factory: str | None = Field(
        None,
        pattern=r"^[\w.]+:[\w.]+$",
        description="`module:Class` or `module:function` that makes the model, e.g. river.forest:ARFClassifier; by default a pipeline for mixed features.",
    )
    params: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the factory.")
    task: Literal["binary", "multiclass", "regression"] = Field(
        "binary", description="Kind of label: one of two classes, one of several, or a number."
    )
    uri: str | None = Field(
        None,
        min_length=1,
        description="Instead of a factory a trained model, explained as it is: a file of XGBoost, LightGBM, scikit-learn (skops), ONNX or CatBoost, an MLflow directory, or models:/name@alias of an MLflow registry.",
    )
    features: list[str] | None = Field(
        None, min_length=1, description="Columns of the file in their order, where it does not name them."
    )
    classes: list[str | int | bool] | None = Field(
        None,
        min_length=2,
        description="Labels of the file's probabilities in their order, where its library numbers them from 0.",
    )
    static: bool = Field(False, description="Explain the model, never teach it; true with model.uri.")
    learner: Literal["auto", "river"] = Field(
        "auto",
        description="auto: known models of river learn in flat arrays, with the same bits and several times faster; river: river's own code learns.",
    )
    modules: list[str] = Field(
        default_factory=list,
        description="More modules of yours whose classes a snapshot may hold, besides the factory's.",
    )

    @model_validator(mode="before")
    @classmethod
    def _a_file_is_static(cls, data: Any) -> Any:
        return {"static": True, **data} if isinstance(data, dict) and data.get("uri") else data

    @model_validator(mode="after")
    def _one_source(self) -> ModelSettings:
        problems: list[tuple[SettingPath, str]] = []
        if self.uri is not None:
            problems += [
                ((name,), "and model.uri are both given; keep one")
                for name in ("factory", "params")
                if getattr(self, name)
            ]
            if not self.static:
                problems.append((("static",), "is false, and a model of model.uri never learns; take it out"))
        else:
            problems += [
                ((name,), "describes the file of model.uri, which is not set; take it out")
                for name in ("features", "classes")
                if getattr(self, name) is not None
            ]
        refuse(problems)
        return self
