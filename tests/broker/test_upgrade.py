"""What an upgrade would change is known before it is made."""

import re

import pytest

from benchmarks import KEY_FILE
from explain_sidecar.kafka.checkpoints import Pointer
from tests.broker import custom_models
from tests.broker.harness import Factory, Pipeline, mixed_records


def rewind_snapshot(line: Pipeline, records: int = 200) -> None:
    """Fold on without a new snapshot at the end: killed, so that a restart has something to replay."""
    line.feed(mixed_records(1, records, seed=1))
    process = line.worker()
    total = len(line.inputs[0])
    line.wait_for(lambda: line.committed()[0].offset == total)
    process.kill()
    pointer = Pointer.decode(line.committed()[0].metadata)
    assert pointer is not None and pointer.next_offset < total


def test_software_that_gives_the_same_bytes_is_known_before_it_takes_over(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    for last, earliest, latest in ((50, 300, 350), (10_000, 0, 300)):
        said = line.cli("upgrade", "check", "--last", str(last)).stdout
        told = re.fullmatch(r"partition 0: (\d+) records from offset (\d+) on: same bytes\n", said)
        assert told is not None, said
        count, offset = map(int, told.groups())
        assert count == 400 - offset and earliest <= offset <= latest


def test_software_that_gives_other_bytes_is_named_with_offset_and_digit(
    memory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = memory(
        1,
        EXPLAIN_MODEL__FACTORY="tests.broker.custom_models:Unpredictable",
        EXPLAIN_CHECKPOINT__HMAC_KEY_FILE=str(KEY_FILE),
    )
    line.feed(mixed_records(1, 300))
    line.run_to_end()
    rewind_snapshot(line)
    monkeypatch.setattr(custom_models, "PROCESS", custom_models.PROCESS ^ 1 << 31)
    checked = line.cli("upgrade", "check", status=1)
    assert " on: other bytes from offset " in checked.stdout and " digit (" in checked.stdout, checked.stdout
    assert "partitions 0: a replay by this software would differ" in checked.stderr
