"""What a state belongs to: only what somebody set, and each setting of the fold says which part of the state it belongs to."""

import pytest
from pydantic import BaseModel

from explain_sidecar.fold.identity import fold_settings, part_of
from explain_sidecar.kafka.recovery import settings_difference
from explain_sidecar.settings import ExplainerSettings, Settings
from explain_sidecar.settings.base import OPERATION
from tests.folds import settings


def test_defaults_never_enter_an_identity():
    """So that a setting that a later version adds, with its default, changes nothing of the states from before."""
    kinds = [{"kind": "ipfi"}, {"kind": "isage"}]
    assert fold_settings(Settings()) == {"app_id": "explanation-sidecar", "explainers": kinds}
    said = Settings(explain={"every": 1}, emit={"every": 100}, drift={"enabled": False}, explainers=kinds)
    assert fold_settings(said) == fold_settings(Settings())


def test_a_section_that_is_off_changes_nothing():
    assert fold_settings(Settings(alarms={"one_in": 5_000}, drift={"window": 50})) == fold_settings(
        Settings()
    )


def declared(section: type[BaseModel], path: str = "") -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, field in section.model_fields.items():
        kind = field.annotation
        if name == "explainers":
            found |= declared(ExplainerSettings, "explainers.")
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= declared(kind, f"{path}{name}.")
        else:
            found[path + name] = part_of(section, field).name
    return found


@pytest.mark.parametrize(
    ("section", "part"),
    [("emit.", "messages"), ("drift.", "drift"), ("alarms.", "alarms"), ("model.", "model")],
)
def test_a_setting_belongs_to_the_part_of_its_section_unless_it_names_another(section, part):
    parts = {name: found for name, found in declared(Settings).items() if name.startswith(section)}
    assert part in parts.values() and len(parts) > 1


def test_what_only_shapes_messages_belongs_to_no_learnt_part():
    parts = declared(Settings)
    shaping = {name for name, part in parts.items() if part == "messages"}
    assert {
        "emit.every", "emit.max_bytes", "record.on_bad", "record.max_bytes", "record.max_features", "explainers.confidence",
        "explainers.band",
    } <= shaping  # fmt: skip
    assert {parts[name] for name in ("explainers.alpha", "explain.every")} == {"explainers"}


def test_settings_of_the_operation_belong_to_no_state():
    parts = declared(Settings)
    for section in ("kafka.", "commit.", "checkpoint.", "http.", "log.", "join.", "registry.", "tracing."):
        assert {part for name, part in parts.items() if name.startswith(section)} == {OPERATION.name}


def test_a_difference_says_what_is_the_default():
    before, now = fold_settings(settings()), fold_settings(settings(emit={"every": 7}, seed=3))
    assert settings_difference(before, now).splitlines() == [
        "  emit.every: was 10, is 7",
        "  seed: was the default (0), is 3",
    ]
    assert "emit.every: was the default (100), is 7" in settings_difference({}, {"emit": {"every": 7}})
