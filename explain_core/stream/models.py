"""A model as state: a learner as data, any other as what its own code stores."""

from __future__ import annotations

from explain_core.learners.base import Learner, LearnerState
from explain_core.models import Model
from explain_core.state import Pack, State, Unpack, check


class ModelData(State, frozen=True):
    """A model in a snapshot: a learner as data, or what the model's own code stored; neither for a static model, which is given anew."""

    learner: LearnerState | None = None
    foreign: bytes | None = None


def model_data(model: Model, static: bool, pack: Pack) -> ModelData:
    """The model as data; ``pack`` stores a model that is not a learner."""
    if static:
        return ModelData()
    return ModelData(model.state()) if isinstance(model, Learner) else ModelData(foreign=pack(model))


def restored_model(fresh: Model, data: ModelData, static: bool, unpack: Unpack) -> Model:
    """A new model with a stored state. Raises ``StateError`` where the state is of another kind of model."""
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
        check(same, f"model: it is no {fresh.title}")
        return found  # type: ignore[no-any-return]
    return fresh
