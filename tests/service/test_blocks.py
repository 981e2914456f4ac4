"""Whatever the settings, records folded in blocks, stored and restored at any time, cause the messages, and leave the state, that they do one by one."""

import itertools
import random

import pytest

from explain_sidecar.snapshots.snapshot import encode
from tests.folds import NAMED, SMALL, new_state, record, restored, settings, values

IPFI, ISAGE = SMALL
ALARMS = {
    "enabled": True, "one_in": 1_000, "warm_up": 50, "baseline": 50, "min_change": 0,
    "subjects": ["loss", "gain", "importance", "missing", "rejected"],
}  # fmt: skip
FREE = [
    *SMALL,
    *({**kind, "name": f"{kind['kind']} of predictions", "losses": ["prediction"]} for kind in SMALL),
]
BY = [IPFI | {"by": "colour", "segments": 2}, ISAGE | {"by": "flag"}]
SHIFTS = {"enabled": True, "window": 70, "bootstrap": 2}
TASKS = ("binary", "multiclass", "regression")
CASES = {
    **{f"{name}, {task}": (task, {"model": {"name": name}}) for name in ("linear", "tree") for task in TASKS},
    **{f"{name}, binary": ("binary", {"model": {"name": name}}) for name in ("forest", "mixture")},
    "mixture, regression": ("regression", {"model": {"name": "mixture"}}),
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
    "uniform": (
        "binary",
        {"explainers": [{**kind, "reservoir": {"kind": "uniform", "size": 20}} for kind in (IPFI, ISAGE)]},
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
    "challenger": ("binary", {"challenger": {"name": "tree", "every": 1}, "drift": SHIFTS}),
    "challenger of every second": (
        "binary",
        {"challenger": {"name": "tree", "every": 2}, "drift": SHIFTS, "explain": {"every": 3}},
    ),
}


def sure():
    """A model that never learns, which half of the records prove wrong."""
    return lambda x: {0: 0.1, 1: 0.9} if x.get("a", 0) > 0 else {0: 0.9, 1: 0.1}


def odd(n, task):
    """Records of which some lack values, are no objects, or bring a category, a feature or a kind that is new."""
    rng, found = random.Random(n), []
    for i, given in enumerate(values(n, task)):
        if i > n // 2 and type(given["label"]) is bool:
            given["label"] = not given["label"]
        late = 200_000 * (rng.random() < 0.05)
        value = {**given, "id": i, "time": 1_000_000 + 1_000 * i - late, "weight": rng.choice([1, 0.5, None])}
        if rng.random() < 0.02:
            value[rng.choice(["id", "time", "weight"])] = "no number" * 200
        for name in [name for name in value if name != "label" and rng.random() < 0.05]:
            value[name] = None
        if i in (n // 3, n // 2) and value.get("colour"):
            value["colour"] = f"new {i}"
        if i > n // 2 and rng.random() < 0.5:
            value["late"] = rng.choice([0.5, 3, True])
        if rng.random() < 0.02:
            value = dict(reversed(value.items()))
        if rng.random() < 0.01:
            value["a"] = rng.choice(["text", [1], 1e31])
        found.append(rng.choice([b"{", b"[1]", b"", None]) if rng.random() < 0.01 else value)
    return [record(offset, value) for offset, value in enumerate(found)]


@pytest.mark.parametrize("case", CASES)
def test_blocks_and_restores_have_the_bytes_of_one_record_after_another(case):
    task, sections = CASES[case]
    known = {"explainers": SMALL, **sections, "model": {"task": task, **sections.get("model", {})}}
    given = odd(500, task)
    alone, together = new_state(**known), new_state(**known)
    drawn = random.Random(case).sample(range(2, len(given)), 12)
    i, in_blocks = 0, 0
    for start, end in itertools.pairwise([0, 1, *sorted(drawn), len(given)]):
        expected = [output for one in given[start:end] for output in alone.step(one)]
        found = []
        while i < end:
            folded, outputs = together.fold(iter(given[i : min(end, i + 70)]))
            in_blocks += len(folded)
            found += outputs if folded else together.step(given[i])
            i += len(folded) or 1
        assert found == expected
        assert encode(together) == encode(alone)
        together = restored(encode(together), settings(**known))
    assert in_blocks > 330 or {"challenger", "model"} & sections.keys()


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
        {"challenger": {"name": "tree"}},
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
