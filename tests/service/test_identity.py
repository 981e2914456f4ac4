"""What a state belongs to: only what somebody set, and each setting of the fold says which part of the state it belongs to."""

from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.kafka.recovery import settings_difference
from explain_sidecar.settings import Settings
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


def test_a_difference_says_what_is_the_default():
    before, now = fold_settings(settings()), fold_settings(settings(emit={"every": 7}, seed=3))
    assert settings_difference(before, now).splitlines() == [
        "  emit.every: was 10, is 7",
        "  seed: was the default (0), is 3",
    ]
    assert "emit.every: was the default (100), is 7" in settings_difference({}, {"emit": {"every": 7}})
