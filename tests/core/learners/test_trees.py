"""The tree learners are river's trees, to the last bit and node by node."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest
from river import drift, forest, tree
from river.datasets import synth
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif

from explain_core.learners.tree import tree_learner
from tests.core.learners.lockstep import Labelled, mixed, records
from tests.core.learners.tree_state import assert_same


def agrawal(n: int, **parameters: Any) -> Iterator[Labelled]:
    return ((x, y, 1.0) for x, y in synth.Agrawal(seed=42, perturbation=0.1, **parameters).take(n))


def clusters(n: int) -> Iterator[Labelled]:
    stream = synth.RandomRBF(seed_model=1, seed_sample=2, n_classes=4, n_features=6, n_centroids=20)
    return (({f"x{i}": value for i, value in x.items()}, f"class {y}", 1.0) for x, y in stream.take(n))


def tied(n: int) -> Iterator[Labelled]:
    """Features that are copies of each other, and a constant."""
    for x, y, w in clusters(n):
        yield (
            {
                "a": x["x0"],
                "b": x["x0"],
                "c": 1.0,
                "d": round(x["x1"], 1),
                "e": round(x["x1"], 1),
                "s": str(x["x2"] > 0.5),
            },
            y,
            w,
        )


def drifting(n: int, functions: tuple[int, ...] = (0, 4, 7)) -> Iterator[Labelled]:
    part = n // len(functions) + 1
    for function in functions:
        yield from islice(agrawal(part, classification_function=function), min(part, n))


def flipping(n: int) -> Iterator[Labelled]:
    """Numbers whose meaning turns round at each quarter."""
    for i in range(4):
        for x, y in synth.SEA(seed=i).take(n // 4):
            yield {f"x{k}": value for k, value in x.items()}, int(y) ^ (i % 2), 1.0


def turning(n: int) -> Iterator[Labelled]:
    """Mixed records whose meaning turns round now and then."""
    return ((x, y ^ (i // 300 % 2), w) for i, (x, y, w) in enumerate(mixed(n, 11)))


STREAMS: dict[str, Callable[[int], Iterator[Labelled]]] = {
    "agrawal": agrawal,
    "clusters": clusters,
    "tied": tied,
    "drifting": drifting,
    "flipping": flipping,
    "turning": turning,
    "mixed": lambda n: mixed(n, 1),
    "mixed, weighted": lambda n: mixed(n, 2, weighted=True),
    "mixed, four classes late": lambda n: mixed(n, 3, task="multiclass"),
    "nominal, much missing": lambda n: mixed(n, 4, numeric=False, missing=0.4),
    "numeric": lambda n: mixed(n, 5, nominal=False),
}
EAGER: dict[str, Any] = {"grace_period": 25, "delta": 0.01, "tau": 0.2}
TREES: dict[str, dict[str, Any]] = {
    "default": {},
    "eager": EAGER,
    "majority, gini": {**EAGER, "leaf_prediction": "mc", "split_criterion": "gini"},
    "bayes, shallow": {**EAGER, "leaf_prediction": "nb", "nb_threshold": 30, "max_depth": 3},
    "hellinger, binary": {**EAGER, "split_criterion": "hellinger", "binary_split": True},
    "binary, no pruning": {**EAGER, "binary_split": True, "merit_preprune": False, "leaf_prediction": "nb"},
    "stops": {**EAGER, "max_depth": 2, "stop_mem_management": True, "remove_poor_attrs": True},
    "named": {**EAGER, "nominal_attributes": ["elevel", "car", "zipcode"]},
    "shares": {**EAGER, "max_share_to_split": 0.7, "min_branch_fraction": 0.2, "splitter": tree.splitter.GaussianSplitter(n_splits=4), "max_depth": 1},
}  # fmt: skip


FORESTS: dict[str, dict[str, Any]] = {
    "default": {},
    "majority, few": {"leaf_prediction": "mc", "n_models": 3, "lambda_value": 1, "max_features": 2},
    "bayes, all features": {"leaf_prediction": "nb", "n_models": 3, "max_features": None, "binary_split": True},
    "equal votes, quick to drift": {
        "n_models": 3,
        "disable_weighted_vote": True,
        "max_features": 0.7,
        "drift_detector": drift.ADWIN(0.05, clock=8, max_buckets=3, min_window_length=3, grace_period=20),
        "warning_detector": drift.ADWIN(0.5, clock=8),
    },
    "no warnings": {"n_models": 3, "warning_detector": drift.NoDrift(), "drift_detector": drift.ADWIN(0.1)},
    "no drifts": {"n_models": 3, "warning_detector": drift.ADWIN(0.2), "drift_detector": drift.NoDrift()},
    "many features": {"n_models": 2, "max_features": 7, "split_criterion": "hellinger"},
}  # fmt: skip


ADAPTIVE: dict[str, dict[str, Any]] = {
    "default": {},
    "eager": {**EAGER, "drift_window_threshold": 20, "drift_detector": drift.ADWIN(0.5, clock=4), "switch_significance": 0.9},
    "restless": {"grace_period": 60, "delta": 0.05, "tau": 0.3, "drift_window_threshold": 20, "drift_detector": drift.ADWIN(0.9, clock=1), "switch_significance": 1.5},
    "eager, majority": {**EAGER, "drift_window_threshold": 20, "drift_detector": drift.ADWIN(0.5, clock=4), "leaf_prediction": "mc", "bootstrap_sampling": False, "max_depth": 3},
    "eager, bayes": {**EAGER, "drift_window_threshold": 20, "drift_detector": drift.ADWIN(0.5, clock=4), "leaf_prediction": "nb", "nb_threshold": 40, "binary_split": True},
}  # fmt: skip

KINDS = {
    "tree": (tree.HoeffdingTreeClassifier, TREES),
    "adaptive tree": (partial(tree.HoeffdingAdaptiveTreeClassifier, seed=3), ADAPTIVE),
    "forest": (partial(forest.ARFClassifier, seed=7), FORESTS),
}
LATE = "mixed, four classes late"
CASES = {
    "tree": [("eager", stream) for stream in STREAMS]
    + [(name, stream) for name in TREES if name not in ("eager", "named") for stream in ("tied", LATE)]
    + [("named", "drifting")],
    "adaptive tree": [(name, stream) for name in ADAPTIVE for stream in ("drifting", LATE)]
    + [(name, stream) for name in ("eager", "restless") for stream in ("flipping", "turning")]
    + [("eager", stream) for stream in ("mixed, weighted", "nominal, much missing", "numeric")],
    "forest": [
        ("default", "drifting"),
        ("default", LATE),
        *((name, "mixed") for name in FORESTS if name != "default"),
    ]
    + [(name, "drifting") for name in ("equal votes, quick to drift", "no warnings", "no drifts")],
}


@pytest.fixture(autouse=True)
def sets_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let river take the smallest of the categories whose splits are equally good, as the learner does, not a set's first."""

    class Sorted(set[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(sorted(super().__iter__()))

    def made(splitter: NominalSplitterClassif) -> None:
        make(splitter)
        splitter._att_values = Sorted()

    make = NominalSplitterClassif.__init__
    monkeypatch.setattr(NominalSplitterClassif, "__init__", made)


@pytest.mark.parametrize(
    ("kind", "parameters", "stream"), [(kind, *case) for kind in CASES for case in CASES[kind]]
)
def test_a_tree_or_forest_is_rivers(kind: str, parameters: str, stream: str, lockstep: Any) -> None:
    make, known = KINDS[kind]
    given = STREAMS[stream](records(kind, known[parameters]))
    share = 0.5 if parameters == "restless" and stream in ("flipping", "turning") else 0.3
    case = lambda: make(**known[parameters]), tree_learner, "classification", given
    for learner, river in lockstep(*case, share=share):
        happened = assert_same(learner, river.wrapped)
        assert share < 0.5 or min(happened[:2]) > 0


@pytest.mark.parametrize("make", [forest.ARFClassifier, forest.ARFRegressor])
def test_a_record_counts_in_a_forest_by_its_weight_times_what_each_tree_draws(make: Any) -> None:
    """Leaves that never split hold the sums of the weights."""
    regression, sums = make is forest.ARFRegressor, []
    for weight in (1.0, 2.5):
        learner = tree_learner(
            make(n_models=3, seed=1, grace_period=10**6), "regression" if regression else "classification"
        )
        assert learner is not None
        assert learner.takes_weight
        for x, y, _ in mixed(200, 3, task="regression" if regression else "multiclass", nominal=False):
            learner.learn(x, y, weight)
        sums.append(learner.arrays["stats"])
    assert sums[0].any()
    assert (sums[1] == 2.5 * sums[0]).all()
