"""Who uses the library gets what the sidecar runs: the same digest, events and state, on real records."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from itertools import islice
from typing import Any, get_args

import msgspec
import numpy as np
import orjson
import pytest
from river import datasets, forest, linear_model, preprocessing, tree

from explain_client import Alarm as AlarmMessage
from explain_client import Drift, Explanation
from explain_client.messages import Prediction, Row
from explain_core import (
    Alarming,
    Comparing,
    Explainer,
    Following,
    Options,
    StreamExplainer,
    Windowing,
    alpha_of,
    learner_of,
    wrap,
)
from explain_core.alarms.detector import Position
from explain_core.foreign import loads
from explain_core.models import Model
from explain_core.random import derive_seed
from explain_core.state import StateError, decoded, versions_of
from explain_core.stream import Alarm, RiskChanged
from explain_core.stream.explainer import StreamData
from explain_core.stream.options import SUBJECTS
from explain_sidecar.fold.contents import alarm, drift, explanation
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.settings.drift import Watched
from explain_sidecar.snapshots.snapshot import encode
from explain_sidecar.wire.schemas import schemas
from tests.folds import messages, record, restored, settings

FEATURES = ("empty_server_form_handler", "popup_window", "https", "request_from_other_domain", "is_popular")
RECORDS = [
    ({name: x[name] for name in FEATURES}, bool(y) != (i >= 500))
    for i, (x, y) in enumerate(islice(datasets.Phishing(), 900))
]
"""Real ones; then the concept turns round, so that alarms are raised."""

SIDECAR: dict[str, Any] = {
    "explainers": [
        {"kind": "ipfi", "window": 500, "reservoir": {"size": 50}, "by": "https", "segments": 2},
        {"kind": "isage", "alpha": 0.01, "n_samples": 2, "losses": ["brier", "cross_entropy"], "removal": "conditional"},
    ],
    "alarms": {
        "enabled": True, "one_in": 1_000, "warm_up": 100, "baseline": 100,
        "subjects": ["loss", "gain", "importance", "missing", "segments", "segment_importance"],
    },
    "drift": {"enabled": True, "window": 200, "bootstrap": 2},
    "emit": {"every": 100, "periods": [500, "alarm", "all"]},
}  # fmt: skip

LIBRARY = Options(
    explainers=[
        Explainer(kind="ipfi", alpha=alpha_of(500), rows=50, by="https", segments=2),
        Explainer(
            kind="isage",
            alpha=0.01,
            n_samples=2,
            losses=["brier", "cross_entropy"],
            params={"removal": "conditional"},
        ),
    ],
    alarms=Alarming(
        one_in=1_000,
        warm_up=100,
        baseline=100,
        subjects=["loss", "gain", "importance", "missing", "segments", "segment_importance"],
    ),
    drift=Windowing(window=200, bootstrap=2),
    periods=["500", "alarm", "all"],
    comparing=Comparing(every=2),
)


MODELS = {
    "linear": ("river.linear_model:LogisticRegression", linear_model.LogisticRegression, {}),
    "adaptive tree": (
        "river.tree:HoeffdingAdaptiveTreeClassifier",
        tree.HoeffdingAdaptiveTreeClassifier,
        {"grace_period": 50},
    ),
    "forest": ("river.forest:ARFClassifier", forest.ARFClassifier, {"n_models": 3}),
    "own code": (
        "river.tree:ExtremelyFastDecisionTreeClassifier",
        tree.ExtremelyFastDecisionTreeClassifier,
        {"grace_period": 50},
    ),
}


def of_the_sidecar(name: str, **known: Any) -> PartitionState:
    factory, _, params = MODELS[name]
    challenger = {"factory": "river.tree:HoeffdingTreeClassifier", "every": 2} if name == "linear" else {}
    return PartitionState(
        settings(model={"factory": factory, "params": params}, challenger=challenger, **SIDECAR, **known), 3
    )


def of_the_library(name: str, seed: int, digest: bytes) -> StreamExplainer:
    _, kind, params = MODELS[name]
    seeded = {"seed": derive_seed(seed, "model") % 2**31} if "seed" in signature(kind).parameters else {}

    def fresh() -> Model:
        made = kind(**params, **seeded)
        return learner_of(made, "classification") or wrap(made, "classification")

    challenger = learner_of(tree.HoeffdingTreeClassifier(), "classification") if name == "linear" else None
    return StreamExplainer(fresh(), LIBRARY, seed, fresh=fresh, challenger=challenger, digest=digest)


@pytest.mark.parametrize("name", MODELS)
def test_the_library_finds_what_the_sidecar_publishes_with_the_same_digest(name: str) -> None:
    state = of_the_sidecar(name)
    seed = derive_seed(0, state.settings.app_id, state.settings.topics.records, 3, 0)
    explainer = of_the_library(name, seed, state.fold_digest)
    told, published = [], []
    for offset, (x, y) in enumerate(RECORDS[200:]):
        if offset in (150, 577):  # stored and restored, in the midst of everything
            stored, explainer = explainer.state(), of_the_library(name, seed, bytes(16))
            explainer.restore(stored, loads)
            assert explainer.state() == stored
            state = restored(encode(state), state.settings)
        one = record(offset, {**x, "label": y})
        published += state.step(one)
        told += explainer.update(x, y, timestamp=one.timestamp)
        assert explainer.digest == state.fold_digest, offset
        if explainer.records % 100 == 0:
            position = Position(one.offset, one.timestamp)
            said = explanation(explainer.newest, position, state.settings)
            message = messages(published)[-1]
            assert {key: message[key] for key in said if key in message} == json.loads(
                orjson.dumps({key: value for key, value in said.items() if key in message})
            )
    contents = {"alarms": alarm, "drift": drift}
    for destination, kind in (("alarms", Alarm), ("drift", RiskChanged)):
        found = [contents[destination](event, state.settings) for event in told if isinstance(event, kind)]
        sent = messages(published, destination)
        assert len(found) == len(sent) > 0
        for content, message in zip(found, sent, strict=True):
            assert {key: message[key] for key in content} == json.loads(orjson.dumps(content))
    if name != "own code":  # a pickle knows which of its equal strings are one object
        assert explainer.slots[""].state() == state.slots[""].state()
        assert explainer.parts_state() == state.stream.parts_state()


def written(part: Any) -> Any:
    """A message as it is on its topic, by the fields of its class."""
    if isinstance(part, Mapping):
        return {name: written(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [written(value) for value in part]
    if isinstance(part, datetime):
        return part.isoformat().replace("+00:00", "Z")
    if not is_dataclass(part):
        return part
    known = [each for each in fields(part) if not each.metadata.get("exclude")]
    return {each.metadata.get("alias", each.name): written(getattr(part, each.name)) for each in known}


def test_a_message_is_of_its_schema_and_has_the_fields_of_its_class_in_their_order_and_no_others() -> None:
    from jsonschema import Draft202012Validator

    state = of_the_sidecar("linear", rows={"enabled": True}, predictions={"enabled": True, "every": 50})
    published = [
        out for offset, (x, y) in enumerate(RECORDS) for out in state.step(record(offset, {**x, "label": y}))
    ]
    for destination, kind, schema in (
        ("explanations", Explanation, "explanation"),
        ("alarms", AlarmMessage, "alarm"),
        ("drift", Drift, "drift"),
        ("rows", Row, "row"),
        ("predictions", Prediction, "prediction"),
    ):
        sent = [out.value for out in published if out.destination == destination]
        assert sent
        validator = Draft202012Validator(json.loads(schemas()[f"{schema}.schema.json"]))
        for value in sent[::10] if schema == "row" else sent:
            validator.validate(json.loads(value))
        for value in sent:
            assert orjson.dumps(written(kind.from_json(value))) == value
    assert any(json.loads(out.value).get("segments") for out in published)


LEARNERS = {
    "linear": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(grace_period=50, seed=1),
    "forest": lambda: forest.ARFClassifier(n_models=3, seed=1),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_blocks_have_the_bits_of_one_record_after_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(i: int, x: dict[str, Any]) -> dict[str, Any]:
        """With missing values, NaN, a late feature and categories, where the model knows any."""
        changed = {**x, "https": float("nan")} if i % 97 == 5 else {**x, "late": i % 3} if i > 500 else x
        return changed if name == "linear" else {**changed, "letter": "abcd"[i % 3 if i < 700 else 3]}

    def made() -> StreamExplainer:
        return StreamExplainer(fresh(), options, 7, fresh=fresh)

    def fresh() -> Model:
        return learner_of(LEARNERS[name](), "classification")

    options = Options(
        explainers=[Explainer(rows=50, by="https"), Explainer(kind="isage", rows=50)],
        alarms=Alarming(one_in=1_000, warm_up=100, baseline=100),
        drift=Windowing(window=200, bootstrap=2),
    )
    one_by_one, in_blocks = made(), made()
    given = [(odd(i, x), y) for i, (x, y) in enumerate(RECORDS)]
    expected = [event for x, y in given for event in one_by_one.update(x, y)]
    taken, fold_block = [], in_blocks.fold_block
    monkeypatch.setattr(in_blocks, "fold_block", lambda *of: taken.append(fold_block(*of)) or taken[-1])
    found = [
        event
        for start in range(0, len(given), 130)
        for event in in_blocks.update_many(given[start : start + 130])
    ]
    assert sum(n for n, _ in taken) > 600
    assert len(found) > 1 and repr(found) == repr(expected)
    assert in_blocks.digest == one_by_one.digest and in_blocks.state() == one_by_one.state()


def test_numbers_of_other_libraries_are_those_of_python() -> None:
    plain = of_the_library("linear", 7, bytes(16))
    expected = [event for x, y in RECORDS[:250] for event in plain.update(x, y)]
    kinds: list[Callable[[float], Any]] = [np.float64, np.float32, Decimal, Fraction]
    for kind in kinds:
        given, in_blocks, again = (of_the_library("linear", 7, bytes(16)) for _ in range(3))
        records = [({name: kind(value) for name, value in x.items()}, np.bool_(y)) for x, y in RECORDS[:250]]
        assert repr([event for x, y in records for event in given.update(x, y)]) == repr(expected)
        assert repr(in_blocks.update_many(records)) == repr(expected)
        assert given.state() == in_blocks.state() == plain.state()
        again.restore(decoded(msgspec.msgpack.encode(given.state()), StreamData, versions_of(StreamData)))
        assert again.digest == plain.digest


ABSENT = object()


@pytest.mark.parametrize("name", ["forest", "own code"])
def test_a_value_that_is_none_or_nan_is_as_one_that_is_absent(name: str) -> None:
    def found(missing: Any) -> tuple[Any, ...]:
        explainer = of_the_library(name, 7, bytes(16))
        records = [
            ({**x, "https": missing if i % 3 else x["https"], "text": "a" if i > 20 else missing}, y)
            for i, (x, y) in enumerate(RECORDS[:300])
        ]
        records = [({name: v for name, v in x.items() if v is not ABSENT}, y) for x, y in records]
        for x, y in records[:40]:
            explainer.update(x, y)
        events = explainer.update_many(records[40:])
        explainer.update_unlabelled(x)
        return explainer.kinds, repr(events), explainer.predict(x), explainer.state()

    expected = found(ABSENT)
    assert found(None) == found(math.nan) == found(np.float32("nan")) == expected
    decoded(msgspec.msgpack.encode(expected[-1]), StreamData, versions_of(StreamData))


NO_RECORDS: list[tuple[Any, Any, str]] = [
    ({"https": float("inf")}, True, "feature 'https' is inf; a number is between ±1e[+]30"),
    ({"https": 1e200}, True, "feature 'https' is 1e[+]200; a number is between"),
    ({"https": 10**400}, True, "feature 'https' is 1000"),
    ({"https": [1.0]}, True, "feature 'https' is a list; a feature is a number"),
    ({"https": "\ud800"}, True, "feature 'https' is '.*', which is no valid Unicode"),
    (
        {"new": 1.0, "https": "text"},
        True,
        "feature 'https' is a string, 'text', and it was a number; convert it",
    ),
    ({1: 1.0}, True, "the name of a feature is 1; a name is a text"),
    ([1.0], True, "it is a list; pass a dict"),
    ({"https": 1.0}, None, "the label is missing; update_unlabelled"),
    ({"https": 1.0}, [True], "the label is a list; a class is"),
    ({"https": 1.0}, 10**20, "the label is 1000.*at most 64 bits"),
]


def test_what_is_no_record_is_refused_in_words_and_changes_nothing() -> None:
    explainer, undisturbed = (of_the_library("linear", 7, bytes(16)) for _ in range(2))
    before, after = RECORDS[:150], RECORDS[150:250]
    explainer.update_many(before)
    for x, y, message in NO_RECORDS:
        with pytest.raises(ValueError, match=f"record 150: {message}"):
            explainer.update_many([(x, y), *after])
        if y is not None:
            with pytest.raises(ValueError, match=message):
                explainer.update_unlabelled(x) if y is True else explainer.update(x, y)
    explainer.update_many(after)
    undisturbed.update_many(before + after)
    assert explainer.state() == undisturbed.state()


@pytest.mark.parametrize(
    "time", [datetime(2026, 1, 1), "2026-01-01", 1.5, 2**63, np.datetime64("2026-01-01")]
)
def test_a_time_of_another_kind_is_refused_in_words_and_one_of_numpy_is_python_s(time: Any) -> None:
    plain, explainer, in_blocks = (of_the_library("linear", 7, bytes(16)) for _ in range(3))
    dated = [(x, y, 10**12 + i) for i, (x, y) in enumerate(RECORDS[:120])]
    for x, y, at in dated:
        plain.update(x, y, timestamp=at)
        explainer.update(x, y, timestamp=np.int64(at))  # type: ignore[arg-type]
    for refused in (explainer.update, explainer.update_unlabelled):
        with pytest.raises(ValueError, match=r"^record 120: the event time is .*milliseconds since 1970"):
            refused(*[x, y][: 2 - (refused == explainer.update_unlabelled)], timestamp=time)
    with pytest.raises(ValueError, match=r"^record 120: the event time is "):
        list(in_blocks.updates([*dated, (x, y, time)]))
    assert plain.state() == explainer.state() == in_blocks.state()


@pytest.mark.parametrize("first", ["no", "yes"])
def test_what_was_served_is_of_labels_and_not_of_their_codes(first: str) -> None:
    explainer = StreamExplainer(
        learner_of(linear_model.LogisticRegression(), "classification"), Options(served=True)
    )
    for label in [first, *("no", "yes") * 40]:
        other = "yes" if label == "no" else "no"
        explainer.update({"a": 1.0}, label, served={label: np.float64(0.75), other: 0.25})
    served = explainer.newest.explained.served
    assert served is not None and served.performance.of("cross_entropy")[0] == pytest.approx(-math.log(0.75))
    before = explainer.state()
    for wrong in (0.75, True, {"no": "x"}, {"no": -1.0}, {"no": math.nan}):
        with pytest.raises(ValueError, match=r"^record 81: the served prediction .*is .* probability"):
            explainer.update({"a": 1.0}, "no", served=wrong)  # type: ignore[arg-type]
    assert explainer.state() == before


def test_a_regression_takes_numbers_of_any_kind_and_refuses_what_is_none() -> None:
    def made() -> StreamExplainer:
        return StreamExplainer(
            fresh(),
            Options(explainers=[Explainer(rows=20)], drift=Windowing(window=50, bootstrap=2)),
            fresh=fresh,
        )

    def fresh() -> Model:
        return learner_of(linear_model.LinearRegression(), "regression")

    plain, given = made(), made()
    records = [({"a": float(i % 7)}, i % 5) for i in range(200)]
    kinds = [float, np.int64, Decimal, np.float32, Fraction, bool]
    for i, (x, y) in enumerate(records):
        kind = kinds[i % 6]
        plain.update(x, float(kind(y)))
    given.update_many([(x, kinds[i % 6](y)) for i, (x, y) in enumerate(records)])
    assert given.state() == plain.state()
    for y, message in [
        ("1.5", "a regression needs a number"),
        (1e80, "a number is between"),
        (np.nan, "missing"),
    ]:
        with pytest.raises(ValueError, match=f"record 200: the label is .*{message}"):
            given.update_many([({"a": 1.0}, y)])


def test_a_stored_model_of_its_own_code_is_read_only_by_who_asks_for_it() -> None:
    explainer = of_the_library("own code", 7, bytes(16))
    explainer.update_many(RECORDS[:50])
    with pytest.raises(StateError, match="only its own code can read"):
        of_the_library("own code", 7, bytes(16)).restore(explainer.state())


@pytest.mark.parametrize("first", ["no", "yes"])
def test_a_model_that_never_learns_predicts_labels_and_not_their_codes(first: str) -> None:
    model = wrap(lambda x: {"yes": 0.9 * x["a"], "no": 1.0 - 0.9 * x["a"]}, "classification")
    explainer = StreamExplainer(model, static=True)
    for label in [first, *("no", "yes") * 40]:
        explainer.update({"a": float(label == "yes")}, label)
    loss, *_ = explainer.newest.explained.performance.of("cross_entropy")
    assert next(iter(explainer.labels)) == first and loss < -math.log(0.9)


def test_options_that_do_not_suit_the_model_are_refused_in_words() -> None:
    model = learner_of(linear_model.LogisticRegression(), "classification")
    with pytest.raises(ValueError, match=r"explainers: ipfi: .*squared"):
        StreamExplainer(model, Options(explainers=[Explainer(losses=["squared"])]))
    with pytest.raises(ValueError, match=r"drift: .*fresh"):
        StreamExplainer(model, Options(drift=Windowing(window=100)))
    with pytest.raises(ValueError, match="evaluator"):
        StreamExplainer(model, Options(evaluator="fast"))  # type: ignore[arg-type]


REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (Alarming, {"subjects": ["losses"]}, "subjects: 'losses' is not one of loss, gain, .*missing"),
    (Alarming, {"subjects": "loss"}, "subjects: 'loss' is one string; pass a list"),
    (Alarming, {"season": "year"}, "season: 'year' is not one of none, day, week, auto"),
    (Alarming, {"baseline": 0}, "baseline: 0 is not a whole number from 1 on"),
    (Windowing, {"window": 0}, "window: 0 is not a whole number from 2 on"),
    (Windowing, {"factorisation": "each"}, "factorisation: 'each' is not joint, per_feature"),
    (Windowing, {"ignore": "day"}, "ignore: 'day' is one string"),
    (Comparing, {"shift_every": 0}, "shift_every: 0 is not"),
    (Following, {"every": 0}, "every: 0 is not"),
    (Options, {"every": 1.5}, "every: 1.5 is not a whole number from 1 on"),
    (Options, {"periods": ["year"]}, "periods: 'year' is not one of hour, day, week, alarm, all, a number"),
    (Options, {"periods": "day"}, "periods: 'day' is one string"),
    (Options, {"periods": [500]}, "periods: 500 is not one of .*'1000'"),
    (Options, {"explainers": ["ipfi"]}, r"explainers: 'ipfi' is no Explainer; pass Explainer\(kind=…\)"),
    (Options, {"explainers": [Explainer(), Explainer(rows=9)]}, "explainers: there is more than one ipfi"),
]


@pytest.mark.parametrize(("kind", "values", "message"), REFUSED)
def test_options_that_would_do_nothing_are_refused_in_words(
    kind: type, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        kind(**values)


def test_alarms_of_the_library_watch_what_the_settings_name() -> None:
    assert {subject for kind in get_args(Watched) for subject in get_args(kind) or [kind]} == {*SUBJECTS}
