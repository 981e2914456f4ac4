"""The promise under faults: a seeded slice of the crash campaign, short enough for every change; `make crash` runs the long one."""

from collections import Counter

import pytest

from tests.crash.campaign import run_slice

KINDS = [
    "SIGKILL",
    "SIGTERM",
    "SIGSTOP past the session timeout",
    "worker added",
    "worker removed",
    "broker SIGKILL",
    "slow broker",
    "coordinator down during commit",
    "zombie at commit",
    "crash point send_offsets.after",
    "crash point snapshot.between_chunks",
    "crash point replay",
]


@pytest.mark.timeout(900)  # a machine under load takes several times as long; nothing here asserts speed
def test_after_one_fault_of_each_kind_every_byte_is_that_of_the_oracle() -> None:
    done, verdict = run_slice(7, range(len(KINDS)), KINDS)
    assert verdict.problems == []
    assert Counter(fault.kind for fault in done) == Counter(KINDS)
    assert verdict.points, [fault.detail for fault in done]
    assert verdict.records > 1_000
    assert verdict.messages > verdict.records / 20
