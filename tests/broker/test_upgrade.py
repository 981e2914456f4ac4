"""An upgrade on a real broker: what it would change is known before, and instances of two versions work side by side."""

import re

from benchmarks import KEY_FILE
from tests.broker.harness import Factory, Pipeline, Process, mixed_records
from tests.broker.test_past import rewind_snapshot


def test_software_that_gives_the_same_bytes_is_known_before_it_takes_over(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    for last, earliest, latest in ((50, 300, 350), (10_000, 0, 300)):
        said = line.cli("upgrade", "check", "--last", str(last)).stdout
        told = re.fullmatch(r"partition 0: (\d+) records from offset (\d+) on: same bytes\n", said)
        assert told is not None, said
        count, offset = map(int, told.groups())
        assert count == 400 - offset and earliest <= offset <= latest


def test_software_that_gives_other_bytes_is_named_with_offset_and_digit(pipeline: Factory) -> None:
    line = pipeline(
        1,
        EXPLAIN_MODEL__FACTORY="tests.broker.custom_models:Unpredictable",
        EXPLAIN_CHECKPOINT__HMAC_KEY_FILE=str(KEY_FILE),
    )
    line.feed(mixed_records(1, 300))
    line.run_to_end()
    rewind_snapshot(line)
    checked = line.cli("upgrade", "check", status=1)
    assert " on: other bytes from offset " in checked.stdout and " digit (" in checked.stdout, checked.stdout
    assert "partitions 0: a replay by this software would differ" in checked.stderr


def test_an_instance_of_an_earlier_version_leaves_partitions_to_those_of_the_later_one(
    pipeline: Factory,
) -> None:
    line = pipeline(2)
    line.feed(mixed_records(2, 200))
    old = line.worker()
    line.wait_for(lambda: all(place.offset == 100 for place in line.committed().values()))
    assert old.stop() == 0, old.log()
    later = Process(["-m", "benchmarks.later", "--slot", "1"], line.environment)
    line.feed(mixed_records(2, 200, seed=1))
    line.wait_for(lambda: all(place.offset == 200 for place in line.committed().values()))
    assert later.stop() == 0, later.log()
    line.feed(mixed_records(2, 100, seed=2))
    said = line.fails()
    assert (
        "was written by a later version of the sidecar" in said
        and "leaves the partition to instances" in said
    )
    later = Process(["-m", "benchmarks.later", "--slot", "1"], line.environment)
    line.wait_for(lambda: all(place.offset == 250 for place in line.committed().values()))
    assert later.stop() == 0, later.log()
    line.verify()
