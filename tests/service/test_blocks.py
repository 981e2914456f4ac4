"""Whatever the settings, records folded in blocks, stored and restored at any time, cause the messages, and leave the state, that they do one by one."""

import itertools
import random
from operator import attrgetter

import msgspec
import pytest
from msgspec import structs
from river import linear_model, optim

from explain_core.foreign import dumps
from explain_core.learners.base import Learner
from explain_sidecar.fold.partition import FoldError
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import NAMED, SMALL, fold, messages, new_state, record, restored, settings, values
from tests.fuzz.partitions import SECTIONS, labelled_later
from tests.streams import nominal_stream
from tests.versions import content

IPFI, ISAGE = SMALL
ALARMS = {
    "enabled": True, "one_in": 1_000, "warm_up": 50, "baseline": 50, "min_change": 0,
    "subjects": ["loss", "gain", "importance", "missing", "rejected"],
}  # fmt: skip
FREE = [
    *SMALL,
    *({**kind, "name": f"{kind['kind']} of predictions", "losses": ["prediction"]} for kind in SMALL),
]
OF_THREE = ISAGE | {"name": "of three", "losses": ["prediction"], "n_samples": 3, "empty": "reservoir"}
BY = [IPFI | {"by": "colour", "segments": 2}, ISAGE | {"by": "flag"}]
SHIFTS = {"enabled": True, "window": 70, "bootstrap": 2}
TASKS = ("binary", "multiclass", "regression")
FILE = {"uri": "v1", "static": True}
VERSIONS = {
    "model": {"uri": None},
    "record": {"model_version": "by"},
    "models": {"pattern": "{version}", "max_open": 3, "close_after": 120},
}
CASES = {
    **{f"{name}, {task}": (task, {"model": {"name": name}}) for name in ("linear", "tree", "mixture") for task in TASKS},
    "forest, binary": ("binary", {"model": {"name": "forest"}}),
    "two losses and the mean prediction": (
        "binary",
        {
            "explainers": [
                {**kind, "losses": ["brier", "zero_one"]} for kind in (IPFI, ISAGE | {"empty": "ema"})
            ]
        },
    ),
    "reservoirs of their own": (
        "binary",
        {"explainers": [IPFI | {"reservoir": {"size": 10}}, ISAGE, ISAGE | {"name": "slow", "alpha": 0.001}]},
    ),
    "reservoirs that are full at different times": (
        "binary",
        {"explainers": [IPFI, ISAGE | {"reservoir": {"size": 33}}], "emit": {"every": 400}},
    ),
    **{
        f"without labels, {task}": (
            task,
            {"explainers": FREE, "alarms": ALARMS, "challenger": {"name": "tree"}}
            if task == "multiclass"
            else {"explainers": FREE, "alarms": ALARMS},
        )
        for task in TASKS
    },
    "without labels alone": (
        "binary",
        {"explainers": FREE[2:], "alarms": ALARMS, "drift": SHIFTS | {"on_alarm": True}},
    ),
    "without labels where there are some": (
        "regression",
        {"explainers": [*FREE, OF_THREE], "alarms": ALARMS, "explain": {"every": 3}, "record": {"unlabelled": "predict"}},
    ),
    "uniform": (
        "binary",
        {"explainers": [{**kind, "reservoir": {"kind": "uniform", "size": 20}} for kind in (IPFI, ISAGE)]},
    ),
    "from the reservoir, and groups": (
        "binary",
        {"explainers": [{**kind, "groups": {"g": ["a", "b"]}} for kind in (IPFI, ISAGE | {"empty": "reservoir"})]},
    ),
    "conditional": ("binary", {"explainers": [IPFI, ISAGE | {"removal": "conditional"}], "explain": {"every": 4}}),
    **{f"curves, {name}": ("binary", {"partial_dependence": {"top": 2, "every": 7}, "model": {"name": name}}) for name in ("linear", "forest")},
    "rows": (
        "binary",
        {"rows": {"enabled": True}, "explainers": BY, "emit": {"every": 20, "periods": [100]}, "challenger": {"name": "tree"}},
    ),
    "weight, time and id": ("binary", {"record": NAMED}),
    "features by name": ("binary", {"record": {**NAMED, "features": ["b", "colour", "a", "missing"]}}),
    "every third": ("multiclass", {"explain": {"every": 3}}),
    "periods": ("binary", {"emit": {"every": 7, "periods": [100, "hour"]}}),
    "segments": ("binary", {"explainers": BY}),
    **{f"alarms, {task}": (task, {"alarms": ALARMS, "emit": {"periods": ["alarm"]}}) for task in TASKS},
    "alarms of every third": ("binary", {"alarms": ALARMS, "explain": {"every": 3}}),
    "alarms by the hour": ("binary", {"alarms": ALARMS | {"season": "day"}, "record": NAMED}),
    "alarms of segments": (
        "binary",
        {"alarms": ALARMS | {"subjects": ["gain", "segments", "segment_importance"]}, "explainers": BY},
    ),
    **{f"windows, {task}": (task, {"drift": SHIFTS}) for task in TASKS},
    "windows of a time": ("binary", {"drift": SHIFTS | {"period": 60}, "record": NAMED, "alarms": ALARMS}),
    "records around an alarm": ("binary", {"drift": SHIFTS | {"on_alarm": True}, "alarms": ALARMS}),
    "records around an alarm, static": (
        "binary",
        {
            "drift": SHIFTS | {"on_alarm": True},
            "alarms": ALARMS,
            "model": {"factory": "tests.service.test_blocks:sure", "static": True},
        },
    ),
    **{
        f"chosen predictions, and records without a label, {task}": (
            task,
            {
                "predictions": {"enabled": True, "every": 20, "most": 1},
                "record": {"id": "id", "timestamp": "time", "unlabelled": "predict"},
                "explain": {"estimated_loss": True},
                "alarms": ALARMS | {"subjects": [*ALARMS["subjects"], "estimated_loss"]},
                "drift": SHIFTS,
            },
        )
        for task in TASKS
    },
    "predictions that wait": (
        "binary",
        {"predictions": {"enabled": True, "every": 4, "most": 1, "remember": 3}, "record": {"id": "id", "unlabelled": "predict"}},
    ),
    "challenger": ("binary", {"challenger": {"name": "tree", "every": 1}, "drift": SHIFTS}),
    "challenger of every second": (
        "binary",
        {"challenger": {"name": "tree", "every": 2}, "drift": SHIFTS, "explain": {"every": 3}},
    ),
    "challenger, multiclass": ("multiclass", {"challenger": {"name": "forest"}, "explainers": BY, "alarms": ALARMS}),
    "challenger, regression": ("regression", {"challenger": {"name": "mixture", "every": 3}, "record": NAMED}),
    "challenger that never learns": ("binary", {"challenger": {"uri": "v2", "static": True}}),
    "challenger, from few rows on": (
        "binary",
        {"challenger": {"name": "linear", "every": 7}, "explain": {"warm_up": 5}, "emit": {"every": 400}},
    ),
    "challenger, asked for the features it uses otherwise": (
        "binary",
        {"challenger": {"name": "tree", "shift_every": 7}, "record": {"unlabelled": "predict"}},
    ),
    "challenger, the same of numbers": (
        "regression",
        {"challenger": {"name": "linear", "shift_every": 2}, "record": {"unlabelled": "predict"}},
    ),
    "challenger, uniform": (
        "binary",
        {
            "explainers": [{**kind, "reservoir": {"kind": "uniform", "size": 20}} for kind in (IPFI, ISAGE)],
            "challenger": {"name": "linear", "every": 2},
        },
    ),
    "served": ("binary", {"record": {"prediction": "p"}}),
    "served by a model that never learns": ("binary", {"record": {**NAMED, "prediction": "p"}, "model": FILE, "drift": SHIFTS}),
    "served, multiclass": ("multiclass", {"record": {"prediction": "p"}}),
    "served, regression": ("regression", {"record": {"prediction": "p"}, "alarms": ALARMS}),
    "trained": ("binary", {"model": FILE, "alarms": ALARMS}),
    "trained, and a challenger": (
        "binary",
        {"model": FILE, "challenger": {"uri": "v3", "static": True}, "record": {"features": ["b", "a", "colour"]}},
    ),
    **{
        f"versions, {name}": ("binary", {**VERSIONS, **sections})
        for name, sections in {
            "and windows": {"drift": SHIFTS, "alarms": ALARMS},
            "and records around an alarm": {"drift": SHIFTS | {"on_alarm": True}, "alarms": ALARMS},
            "by header": {"record": {**NAMED, "model_version": "header:by", "features": ["colour", "flag", "late", "b", "a"]}},
            "and what they served": {"record": {"model_version": "by", "prediction": "p"}},
            "and a challenger": {"challenger": {"name": "linear", "every": 2}, "explainers": BY},
            "and a challenger of its own code": {"challenger": {"factory": "river.linear_model:LogisticRegression", "learner": "river", "every": 2}, "drift": SHIFTS},
            "and a challenger that never learns": {"challenger": {"uri": "v3", "static": True, "every": 1, "shift_every": 5}, "emit": {"every": 4}},
        }.items()
    },
}  # fmt: skip
ONE_BY_ONE = {"records around an alarm, static", "conditional", "versions, and a challenger of its own code"}
"""A model of its own code."""


QUICK = {"grace_period": 20, "delta": 0.1}
"""Trees that split within a hundred records."""
EAGER = {**QUICK, "tau": 0.25}


def drawn(features):
    """Records of these features, whose label is drawn."""

    def stream(n):
        rng = random.Random(1)
        return [features(rng) | {"label": rng.randrange(2)} for _ in range(n)]

    return stream


def one_weight(rng):
    """Now and then a value of one feature has the weight of a value of another."""
    x = {"a": rng.gauss(0, 1), "hue": rng.choice(["red", "blue"]), "hue_mix": rng.choice(["1", "2"])}
    return x | ({"hue": "mix_1"} if rng.random() < 0.02 else {})


def name_of_a_number(rng):
    """Now and then a category has the weight of a number."""
    x = {"hue_red": rng.gauss(0, 1), "hue": rng.choice(["green", "blue"])}
    return x | ({"hue": "red"} if rng.random() < 0.02 else {})


def seldom_there(rng):
    """A category, and a number, that are absent for longer than the reservoir remembers."""
    x = strings_alone(rng)
    return x | ({"n": rng.gauss(0, 1)} if rng.random() < 0.01 else {})


def strings_alone(rng):
    x = {"hue": rng.choice(["red", "blue"]), "size": rng.choice("SML")}
    return x | ({"odd": rng.choice("xyz")} if rng.random() < 0.01 else {})


def concepts(n):
    """Trees split, prune, wake leaves that no split could better, and drift; categories come late, values are missing."""
    return [x | {"label": y} for x, y in nominal_stream(n, 1)]


def categories(n):
    return [x | {"label": y} for x, y in nominal_stream(n, 1, numbers=False)]


STREAMS = {
    "a weight of two values": (drawn(one_weight), {}),
    "a category with the name of a number": (drawn(name_of_a_number), {}),
    "values seldom there": (drawn(seldom_there), {}),
    "whose way depends on the type": (drawn(seldom_there), {"factory": "tests.models:floats_and_strings"}),
    "one-hot encoder alone": (drawn(strings_alone), {"factory": "tests.models:one_hot"}),
    "tree": (categories, {"factory": "river.tree:HoeffdingTreeClassifier", "params": EAGER}),
    "adaptive tree": (concepts, {"factory": "river.tree:HoeffdingAdaptiveTreeClassifier", "params": {"drift_window_threshold": 30, **EAGER}}),
    "forest": (concepts, {"factory": "river.forest:ARFClassifier", "params": {"n_models": 3}}),
    "forest on categories": (categories, {"factory": "river.forest:ARFClassifier", "params": {"n_models": 3, **EAGER}}),
    "bagging": (concepts, {"factory": "tests.models:bagging"}),
}  # fmt: skip
"""Records of categories, and the models that learn from them."""

MODELS = [
    ("multiclass", "river.tree:HoeffdingTreeClassifier", QUICK),
    ("multiclass", "river.tree:HoeffdingAdaptiveTreeClassifier", QUICK),
    ("multiclass", "river.tree:ExtremelyFastDecisionTreeClassifier", QUICK),
    ("multiclass", "river.tree:LASTClassifier", {}),
    ("regression", "river.tree:HoeffdingTreeRegressor", QUICK),
    ("regression", "river.tree:HoeffdingAdaptiveTreeRegressor", QUICK),
    ("regression", "river.tree:SGTRegressor", QUICK),
    ("multiclass", "river.forest:ARFClassifier", {"n_models": 3, **QUICK}),
    ("regression", "river.forest:ARFRegressor", {"n_models": 3, **QUICK}),
    ("multiclass", "river.forest:AMFClassifier", {"n_estimators": 3}),
    ("regression", "river.forest:AMFRegressor", {"n_estimators": 3}),
    ("regression", "river.forest:OXTRegressor", {"n_models": 3}),
    *(("multiclass", f"tests.models:{name}", {}) for name in (
        "random_patches", "bagging", "adwin_bagging", "leveraging_bagging", "boosting", "adaboost", "stacking",
    )),
    ("multiclass", "river.naive_bayes:GaussianNB", {}),
    ("multiclass", "river.naive_bayes:BernoulliNB", {}),
    ("multiclass", "river.neighbors:KNNClassifier", {}),
    ("regression", "river.neighbors:KNNRegressor", {}),
    ("binary", "river.linear_model:LogisticRegression", {}),
    ("binary", "river.linear_model:PAClassifier", {}),
    ("regression", "river.linear_model:BayesianLinearRegression", {}),
    ("binary", "river.facto:FMClassifier", {"seed": 1}),
    *(("binary", f"tests.models:{name}", {}) for name in ("selected", "undersampled", "Majority", "fitted")),
]  # fmt: skip

OF_MODELS = {
    **{
        f"{factory}, {task}": (
            task,
            {
                "model": {"factory": factory, "params": params, "static": factory.endswith("fitted")},
                "explain": {"every": 3},
            },
            lambda n, task=task: values(n, task, numeric=True),
        )
        for task, factory, params in MODELS
    },
    **{f"{name} of categories": ("binary", {"model": model}, stream) for name, (stream, model) in STREAMS.items()},
    **{  # a tree, AdaBoost, bagging
        f"windows of a model whose kind the seed {seed} decides": (
            "binary",
            {"drift": SHIFTS, "seed": seed, "model": {"factory": "tests.models:drawn_by_seed"}},
            values,
        )
        for seed in (0, 1, 6)
    },
}  # fmt: skip
"""The same of any model, with the records that it learns from."""


def sure():
    """A model that never learns, which half of the records prove wrong."""
    return lambda x: {0: 0.1, 1: 0.9} if x.get("a", 0) > 0 else {0: 0.9, 1: 0.1}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The paths of trained models by the names that the settings have for them."""
    folder = tmp_path_factory.mktemp("models")
    for version, columns in {"v1": ["a", "b"], "v2": ["b", "flag", "late"], "v3": ["flag", "a"]}.items():
        (folder / f"{version}.json").write_bytes(content(version, columns, columns[0]))
    return folder


def placed(given, folder):
    """The settings with the paths of their files."""
    if isinstance(given, dict):
        return {
            name: f"{folder}/{value}.json" if name in ("uri", "pattern") and value else placed(value, folder)
            for name, value in given.items()
        }
    return given


def served(value, task, rng):
    """A prediction that a record may carry."""
    p = round(rng.random(), 3)
    if task == "regression":
        return value["label"] + p
    if task == "binary":
        return rng.choice([p, {"true": p, "false": 1.0 - p}]) if value["label"] else 0.5
    return {"up": p, "down": 1.0 - p}


def odd(n, task, record_section):
    """Records of which some lack values, are no objects, or bring a category, a feature or a kind that is new."""
    rng, found, versions = random.Random(n), [], iter(())
    for i, given in enumerate(values(n, task)):
        if i > n // 2 and type(given["label"]) is bool:
            given["label"] = not given["label"]
        late = 200_000 * (rng.random() < 0.05)
        value = {
            **given,
            "id": i // 2,
            "time": 1_000_000 + 1_000 * i - late,
            "weight": rng.choice([1, 0.5, None]),
        }
        version = next(versions, None)
        if version is None:
            version = rng.choice(
                ["v1", "v2", "nobody"] if 60 < i < 350 else ["v3", "v2"] if i > 60 else ["v1"]
            )
            versions = itertools.repeat(version, rng.choice([0, 3, 30, 50]) * (version != "nobody"))
        if i == 300:  # two versions that go at nearly the same time
            versions = itertools.chain(["v1"] * 10, ["v2"] * 3, ["v3"] * 180)
        if "prediction" in record_section:
            value["p"] = served(given, task, rng) if rng.random() < 0.98 else 2.0
        if record_section.get("model_version") == "by":
            value["by"] = version if rng.random() < 0.99 else None
        if rng.random() < 0.02:
            value[rng.choice(["id", "time", "weight"])] = "no number" * 200
        for name in [name for name in value if name != "label" and rng.random() < 0.05]:
            value[name] = None
        if i in (n // 3, n // 2) and value.get("colour"):
            value["colour"] = f"new {i}"
        if i > n // 2 and rng.random() < 0.5:
            value["late"] = rng.choice([0.5, 3, True])
        if record_section.get("unlabelled") and rng.random() < 0.05:
            value["label"] = None
        if rng.random() < 0.02:
            value = dict(reversed(value.items()))
        if rng.random() < 0.01:
            value["a"] = rng.choice(["text", [1], 1e31])
        if rng.random() < 0.02:
            value["colour"] = 7
        value = rng.choice([b"{", b"[1]", b"null", b"", None]) if rng.random() < 0.01 else value
        found.append(structs.replace(record(i, value), headers=(("by", version.encode()),)))
    return found


def ended(state):
    """The rows of the window before, or of all chunks but the newest: they are read once, if at all, and wait for it."""
    parts = state.stream.parts
    windows, recent = parts.get("windows"), parts.get("recent")
    kept = [windows.baseline] if windows and windows.baseline else recent._chunks[:-1] if recent else []
    return [of.rows for of in kept]


def step(state, given):
    """The outputs of one record, with the version of the model that it names."""
    return state.supplied(given, lambda key: None, VersionSource(state.settings, lambda: 0.0).find)


def same_bytes(known, given, cuts, stored=encode):
    """Fold these records one by one, and in blocks and restored at the cuts; the state, and how many went in blocks."""
    alone, together = new_state(**known), new_state(**known)
    i, in_blocks, as_bytes = 0, 0, []
    for end in [1, *sorted(cuts), len(given)]:
        while i < end:
            folded, outputs = together.fold(iter(given[i : min(end, i + 70)]))
            in_blocks += len(folded)
            outputs = outputs if folded else step(together, given[i])
            after = i + (len(folded) or 1)
            assert outputs == [output for one in given[i:after] for output in step(alone, one)]
            assert list(together.slots) == list(alone.slots)
            i = after
        assert i == end and stored(together) == stored(alone)
        assert [rows.read().pack() for rows in ended(together)] == [rows.pack() for rows in ended(alone)]
        together = restored(encode(together), settings(**known))
        as_bytes += [
            len(rows) == 0 < len(rows.read()) for state in (alone, together) for rows in ended(state)
        ]
    assert all(as_bytes) and ("drift" in known) == (as_bytes != [])
    return alone, in_blocks


@pytest.mark.parametrize("case", CASES)
def test_blocks_and_restores_have_the_bytes_of_one_record_after_another(case, files):
    task, sections = CASES[case]
    known = {"explainers": SMALL, **sections, "model": {"task": task, **sections.get("model", {})}}
    known = placed(known, files)
    given = odd(500 if "models" in known else 270, task, known.get("record", {}))
    alone, in_blocks = same_bytes(known, given, random.Random(case).sample(range(2, len(given)), 7))
    assert in_blocks > alone.records / 2 if case not in ONE_BY_ONE else in_blocks == 0


@pytest.mark.parametrize("case", OF_MODELS)
def test_so_have_those_of_any_model(case):
    task, sections, stream = OF_MODELS[case]
    known = {**sections, "model": {"task": task, **sections["model"]}}
    given = [record(i, value) for i, value in enumerate(stream(300 if case.endswith("categories") else 130))]
    # A pickle knows which of its equal strings are one object.
    stored = encode if isinstance(new_state(**known).explained.model, Learner) else attrgetter("fold_digest")
    alone, _ = same_bytes(known, given, random.Random(case).sample(range(2, len(given)), 4), stored)
    assert alone.records == len(given)


@pytest.mark.parametrize(
    "case",
    [
        "alarms, binary",
        "alarms of segments",
        "without labels where there are some",
        *(f"without labels, {task}" for task in TASKS),
    ],
)
def test_compiled_code_and_python_lead_to_the_same_state_and_messages(case):
    task, sections = CASES[case]
    states, told = [], []
    for evaluator in ("arrays", "generic"):
        explain = {**sections.get("explain", {}), "evaluator": evaluator}
        states.append(
            new_state(**{"explainers": SMALL, **sections, "explain": explain, "model": {"task": task}})
        )
        outputs = [
            output for one in odd(500, task, sections.get("record", {})) for output in step(states[-1], one)
        ]
        told.append([output.value for output in outputs if output.destination == "alarms"])
        told[-1] += [{**one, "estimators": None, "digest": ""} for one in messages(outputs)]
    assert told[0] == told[1] and (bytes in map(type, told[0]) or "explain" in sections)
    own, other = (msgspec.msgpack.encode(state.stream.state(dumps)) for state in states)
    assert own == other and states[0].explained.evaluator.fallbacks == 0


def wild():
    """A model whose weights are so large that only a large number makes its prediction one that nobody may make."""
    return linear_model.LinearRegression(optimizer=optim.SGD(1e40))


def test_a_block_ends_before_the_record_that_the_challenger_fails_on():
    known = {
        "model": {"task": "regression"},
        "challenger": {"factory": "tests.service.test_blocks:wild", "every": 2},
        "emit": {"every": 400},
    }
    given = values(140, "regression", numeric=True)
    given[133]["b"] = 1e28
    alone, together = new_state(**known), new_state(**known)
    given = [record(offset, value) for offset, value in enumerate(given)]
    for one in given[:133]:
        alone.step(one)
    i = 0
    while i < 133:
        folded, _ = together.fold(given[i:])
        if not folded:
            together.step(given[i])
        i += len(folded) or 1
    assert i == 133 and encode(together) == encode(alone)
    assert together.fold(given[i:]) == ([], []) and encode(together) == encode(alone)
    for state in (alone, together):
        with pytest.raises(FoldError, match=r"offset 133: the challenger .* failed: PredictionError"):
            state.step(given[133])


LATE = {name: {"model": {"name": name}} for name in ("linear", "tree", "forest", "mixture")} | {
    "challenger": {"challenger": {"name": "tree", "every": 1}},
    "challenger of few": {"challenger": {"name": "forest", "every": 4}, "model": {"name": "tree"}},
}


@pytest.mark.parametrize("case", LATE)
def test_a_label_that_comes_late_is_in_all_predictions_that_follow(case):
    known = {**LATE[case], "model": {"task": "multiclass", **LATE[case].get("model", {})}}
    given = values(250, "multiclass")
    for i, value in enumerate(given):
        value["label"] = "up" if i < 100 or (i > 101 and i % 40) else "down" if i < 200 else "flat"
    given = [record(offset, value) for offset, value in enumerate(given)]
    _, in_blocks = same_bytes(known, given, range(10, 250, 40))
    assert in_blocks > 150


def test_a_block_ends_with_the_record_that_causes_messages():
    state = new_state()
    given = [record(offset, value) for offset, value in enumerate(values(200))]
    i = 0
    while i < len(given):
        folded, outputs = state.fold(given[i:])
        outputs = outputs if folded else state.step(given[i])
        i += len(folded) or 1
        assert [output.event.schema for output in outputs] == (["explanation/1"] if i % 10 == 0 else [])


@pytest.mark.parametrize(
    "sections",
    [
        {"challenger": {"factory": "tests.service.test_blocks:sure", "static": True}},
        {"record": {"where": {"b": [0, 1, 2]}}},
        {"record": {"label": "nested.label"}},
    ],
)
def test_what_blocks_do_not_know_is_folded_record_by_record(sections):
    alone, together = new_state(**sections), new_state(**sections)
    given = [
        record(offset, {**value, "nested": {"label": 1}, "nested.label": True})
        for offset, value in enumerate(values(250))
    ]
    for offset, one in enumerate(given):
        assert together.fold(given[offset:]) == ([], [])
        assert together.step(one) == alone.step(one)
    assert encode(together) == encode(alone)


@pytest.mark.parametrize(("stream", "model"), STREAMS.values(), ids=STREAMS)
def test_it_is_what_the_model_says_copy_by_copy(stream, model):
    given, states = (
        stream(300),
        [new_state(model=model, explain={"evaluator": name}) for name in ("auto", "generic")],
    )
    fast, plain = (messages(fold(state, given)) for state in states)
    assert [message["importance"] for message in fast] == [message["importance"] for message in plain]
    assert states[0].explained.evaluator.fallbacks < 200, "compiled code explained next to nothing"


@pytest.mark.parametrize(
    ("name", "start"), [("default", 90), ("segments", 90), ("curves, and predictions that wait", 205)]
)
def test_a_feature_that_comes_up_with_the_last_record_of_a_block_leaves_a_state_that_is_restored(name, start):
    sections = SECTIONS[name]
    state, known = new_state(**sections), settings(**sections)
    given = labelled_later(values(start + 30)) if "predictions" in sections else values(start + 30)
    fold(state, given[:start])
    for offset, value in enumerate(given[start:]):
        fold(state, [value | {f"late {offset}": 1.0}])
        raw = encode(state)
        assert encode(restored(raw, known)) == raw
