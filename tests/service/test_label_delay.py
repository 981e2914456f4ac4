"""The distribution of label delay in the explanations: from the headers of joined records, and from nothing else."""

import pytest
from msgspec import structs

from explain_client import Explanation, SchemaError
from explain_sidecar.fold.label_delay import LabelDelays
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import SMALL, messages, new_state, record, restored, settings, values

EVERY = {"emit": {"every": 1}}


def joined(offset, value, delay):
    """As the join writes it: with its delay, or as one that expired."""
    outcome = ("outcome", b"expired" if delay is None else b"matched")
    more = () if delay is None else (("label_delay_ms", b"%d" % delay),)
    return structs.replace(record(offset, value), headers=(("own", b"1"), outcome, *more))


def told(state, records):
    """What the last explanation says of label delay."""
    (*_, last) = [message for record in records for message in messages(state.step(record))]
    return last["label_delay"]


def test_an_explanation_says_how_late_the_labels_were_and_how_many_are_implied():
    delays = [100, -5, None, 300, 200, None]
    state = new_state(**EVERY)
    records = [
        joined(n, value, delay) for n, (value, delay) in enumerate(zip(values(6), delays, strict=True))
    ]
    assert told(state, records) == {
        "labels": 4, "implied": 2, "p10": -5, "p50": 100, "p90": 300, "p99": 300,
    }  # fmt: skip


def test_without_a_join_nothing_is_said():
    assert told(new_state(**EVERY), [record(n, value) for n, value in enumerate(values(3))]) is None


def test_the_last_thousand_count_also_after_a_restart():
    known = {"emit": {"every": 5}, "explainers": SMALL[:1]}
    once, first = new_state(**known), new_state(**known)
    given = values(1_105)
    records = [joined(n, delay, n if n % 5 else None) for n, delay in enumerate(given)]
    uninterrupted = told(once, records)
    told(first, records[:1_003])
    again = restored(encode(first), settings(**known))
    assert told(again, records[1_003:]) == uninterrupted
    assert uninterrupted == {"labels": 800, "implied": 200, "p10": 204, "p50": 604, "p90": 1004, "p99": 1094}


def test_a_record_that_is_not_folded_says_nothing():
    state = new_state(**EVERY)
    good, bad = values(1)[0], b"{"
    assert told(state, [joined(0, bad, 7), joined(1, good, 3)])["labels"] == 1


@pytest.mark.parametrize(
    "value", [None, b"", b"-", b"1.5", b"soon", b"1_0", b" 1", b"9" * 5_000, b"\xd9\xa1"]
)
def test_a_header_without_a_number_says_nothing(value):
    delays = LabelDelays()
    delays.add((("label_delay_ms", value),))
    assert delays.summary() is None


def test_the_client_reads_it_and_refuses_what_is_no_number():
    state = new_state(**EVERY)
    (output, *_) = state.step(joined(0, values(1)[0], 60_000))
    found = Explanation.from_json(output.value).label_delay
    assert found is not None and (found.labels, found.implied, found.p50) == (1, 0, 60_000)
    with pytest.raises(SchemaError, match="p50"):
        Explanation.from_json(output.value.replace(b'"p50":60000', b'"p50":"60000"'))
