"""What a user brings is explained with, folded and stored as what is built in."""

import orjson
import pytest
from river import dummy

from explain_client.testing import FoldDriver
from explain_core.learners import choice
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.fold.metrics import METRICS
from explain_sidecar.http.metrics import exposition
from explain_sidecar.kafka.report import decode
from tests.driver.driver import Driver
from tests.driver.driver import values as bad_and_good
from tests.extensions import classes_seen

SETTINGS = {
    "record.label": "label",
    "emit.every": 50,
    "explainers": [
        {"kind": "ipfi", "window": 200, "losses": ["cross_entropy", "tests.extensions:overconfident"]},
        {
            "kind": "tests.extensions:Absent",
            "name": "absent",
            "window": 200,
            "losses": ["zero_one", "cross_entropy"],
            "params": {"times": 2.0},
        },
    ],
}


def records(n: int) -> list[dict[str, object]]:
    return [{"a": i % 2, "b": i % 7, "colour": "red" if i % 3 else "blue", "label": i % 2} for i in range(n)]


def test_an_estimator_and_a_loss_of_a_user_s_are_in_the_messages_and_survive_restarts() -> None:
    driver = FoldDriver(SETTINGS)
    driver.send(records(400))
    last = driver.explanations[-1]
    assert last.importance("absent", "cross_entropy").top(1)[0][0] == "a"
    assert last.importance("ipfi", "overconfident").top(1)[0][0] == "a"
    driver.verify(every=70)


def test_an_estimator_s_own_parameter_reaches_it() -> None:
    def largest(times: float) -> float:
        absent = {**SETTINGS["explainers"][1], "params": {"times": times}}
        driver = FoldDriver(SETTINGS | {"explainers": [absent]})
        driver.send(records(400))
        return driver.explanations[-1].importance("absent", "cross_entropy").top(1)[0][1].value

    assert largest(3.0) == pytest.approx(3.0 * largest(1.0))


@pytest.mark.parametrize(
    ("explainer", "error", "message"),
    [
        ({"kind": "shap"}, SettingsError, "'shap' is not one of ipfi, isage"),
        ({"kind": "ipfi", "params": {"times": 2}}, SettingsError, "are for a class of yours, and ipfi is none"),
        ({"kind": "tests.extensions:Nothing"}, UserError, "names no class that extends explain_core's IncrementalEstimator"),
        ({"kind": "tests.extensions:family"}, UserError, "names no class that extends explain_core's IncrementalEstimator"),
        ({"kind": "no.such.module:Class"}, UserError, "No module named 'no'"),
        ({"kind": "tests.extensions:Absent", "params": {"time": 2}}, UserError, "unexpected keyword argument 'time'"),
        ({"kind": "ipfi", "losses": ["tests.extensions:nothing"]}, SettingsError, "'tests.extensions:nothing' cannot be imported"),
        ({"kind": "ipfi", "losses": ["nothing"]}, SettingsError, "name one of these, or a loss of yours as module:name"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_with_its_remedy(
    explainer: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=r"explainers") as caught:
        FoldDriver(SETTINGS | {"explainers": [explainer]}).send(records(1))
    assert message in str(caught.value)


def test_a_learner_of_a_family_of_a_user_s_is_explained_and_survives_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = dummy.PriorClassifier()
    assert choice.learner_of(model, "classification") is None
    monkeypatch.setattr(choice, "FAMILIES", [*choice.FAMILIES, "tests.extensions:family"])
    learner = choice.learner_of(model, "classification")
    assert learner is not None and learner.kind == "shares"
    driver = FoldDriver(
        {"model.factory": "river.dummy:PriorClassifier", "drift.enabled": True, "drift.window": 200}
    )
    driver.send(records(600))
    assert driver.explanations[-1].importance("ipfi").top(1)[0][1].value == 0.0  # it uses no feature
    assert driver.drifts
    driver.verify(every=150)


def test_a_metric_of_a_user_s_is_reported_and_served() -> None:
    METRICS.append(classes_seen)
    try:
        driver = Driver(partitions=1)
        driver.feed(0, bad_and_good(40))
        worker = driver.start().worker
        while driver.committed() != driver.ends():
            driver.turn(0)
        report = decode(orjson.dumps(worker.report(0.0)))
        served = exposition([report], {partition.partition: partition for partition in report.partitions}, {})
    finally:
        METRICS.remove(classes_seen)
    assert b'explain_sidecar_classes_seen{partition="0"} 2.0' in served
    driver.stop(0)
