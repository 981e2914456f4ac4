"""No message is larger than `emit.max_bytes`."""

import pytest
from msgspec import structs

from explain_sidecar.errors import UserError
from tests.folds import GOOD, SMALL, fold, messages, new_state, record, size


@pytest.mark.parametrize("character", ["x", "\x01", "é", "\U0001f600", '"'])
def test_names_that_are_let_in_fill_no_more_than_the_largest_message(character):
    limit = 200_000
    explainers = [
        {**explainer, "name": f"e{i}", "losses": ["cross_entropy", "brier"], "groups": {"look": ["a", "b"]}}
        for i, explainer in enumerate(SMALL)
    ]
    state = new_state(explainers=explainers, emit={"every": 1, "max_bytes": limit}, record={"id": "id"})
    given = [
        {"id": "\x01" * 1_000, "label": i % 2, "a": 1e-300 * i, f"{i:03}{character * (i % 200)}": -1e-300 / (i + 1)}
        for i in range(300)
    ]  # fmt: skip
    context = (("traceparent", b"1" * 55), ("tracestate", b"x" * 1_900))
    outputs = [
        output
        for offset, value in enumerate(given)
        for output in state.step(structs.replace(record(offset, value), headers=context))
    ]
    refused = [output for output in outputs if output.destination == "dead_letters"]
    assert {dict(output.headers)["__explain.errors.class"] for output in refused} == {b"names_too_long"}
    largest = max(size(output) for output in outputs if output.destination == "explanations")
    # The rest is kept free for what a message need not have: a period that ends, drivers, a long id, numbers of 24 characters.
    assert 0.1 * limit < largest < limit


def test_what_settings_alone_make_too_large_is_refused_before_any_record():
    named = {"features": [f"{i:03}" * 300 for i in range(100)]}
    with pytest.raises(UserError, match=r"emit\.max_bytes: 100000: .* takes up to \d+ bytes; raise it"):
        new_state(record=named, emit={"max_bytes": 100_000})


def test_trace_context_that_is_long_is_not_passed_on():
    state = new_state(emit={"every": 1})
    long = (("traceparent", b"1"), ("tracestate", b"x" * 900_000))
    (explanation,) = state.step(structs.replace(record(0, GOOD), headers=long))
    assert [name for name, _ in explanation.headers] == ["schema"]


def test_a_drift_message_that_would_be_too_large_has_its_sentence_alone():
    drift = {"enabled": True, "window": 20, "bootstrap": 2, "factorisation": "per_feature"}
    state = new_state(drift=drift, emit={"every": 10_000, "max_bytes": 60_000, "periods": []})
    given = [
        {**{f"f{j}": f"{j} {i % 8} " * 190 for j in range(40)}, "a": i % 5, "label": i % 2} for i in range(60)
    ]
    outputs = fold(state, given)
    found = messages(outputs, "drift")
    assert found and max(map(size, outputs)) < 60_000
    for output in found:
        assert output["change"] is None and "are left out: raise emit.max_bytes" in output["sentence"]
