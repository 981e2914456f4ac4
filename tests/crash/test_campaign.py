"""The promise under faults: a seeded slice of the crash campaign, short enough for every change; `make crash` runs the long one."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from explain_sidecar.settings import load_settings
from tests.crash.__main__ import STREAMS
from tests.crash.campaign import run_slice
from tests.crash.load import BASE
from tests.crash.rollouts import CHANGES
from tests.crash.streams import MIXED

KINDS = [
    "SIGKILL",
    "SIGTERM",
    "SIGSTOP past the session timeout",
    "worker added",
    "worker removed",
    "slow broker",
    "coordinator down during commit",  # a SIGKILL of the broker, at its worst moment
    "zombie at commit",
    "crash point send_offsets.after",
    "crash point snapshot.between_chunks",
    "crash point replay",
]


@pytest.mark.timeout(900)  # a machine under load takes several times as long; nothing here asserts speed
def test_after_one_fault_of_each_kind_every_byte_is_that_of_the_oracle() -> None:
    done, verdict = run_slice(7, range(len(KINDS)), KINDS, stream=replace(MIXED, partitions=4, rate=40))
    assert verdict.problems == []
    assert Counter(fault.kind for fault in done) == Counter(KINDS)
    assert verdict.points, [fault.detail for fault in done]
    assert verdict.records > 1_000
    assert verdict.messages > verdict.records / 20


@pytest.mark.parametrize("name", STREAMS)
def test_the_settings_of_a_stream_are_taken_whatever_of_them_has_changed(name: str) -> None:
    stream = STREAMS[name](None)
    for number in range(6):
        environment = BASE | stream.environment(number)
        for changes in combinations(CHANGES if name == "rollouts" else [], 2):
            load_settings(
                environ=environment | {f"EXPLAIN_{k}": v for change in changes for k, v in change.items()}
            )
        load_settings(environ=environment)
