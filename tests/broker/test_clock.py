"""The clock of the machine is set while a worker runs."""

import itertools
import struct
import subprocess
import sys
import time
from pathlib import Path

from tests.broker.harness import Factory, Process, mixed_records

HOUR = 3_600


class Clock:
    """What processes with ``environment`` take for the time of day."""

    def __init__(self, folder: Path) -> None:
        library = folder / "clock.so"
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._file = folder / "seconds"
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(self._file)}
        self._file.write_bytes(bytes(8))

    def set(self, seconds: int) -> None:
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))


def test_a_clock_that_is_set_is_seen_as_it_is_set(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    clock.set(-2 * HOUR)
    program = (
        "import datetime, time; print(time.time(), datetime.datetime.now().timestamp(), time.monotonic())"
    )
    wanted = time.time() - 2 * HOUR, time.time() - 2 * HOUR, time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], env=clock.environment, capture_output=True, text=True, check=True
    )
    reported = [float(number) for number in done.stdout.split()]
    assert all(abs(here - there) < 20 for here, there in zip(reported, wanted, strict=True))


def test_a_clock_that_is_set_changes_no_byte_and_is_named_where_kafka_refuses_its_times(
    pipeline: Factory, tmp_path: Path
) -> None:
    line, clock = pipeline(2, EXPLAIN_HTTP__ENABLED="false"), Clock(tmp_path)
    process = Process(["-m", "explain_sidecar.cli", "run"], {**line.environment, **clock.environment})
    line.wait_for(lambda: process.log().count("running from") >= 2)
    # While records come, and while nothing does.
    for seed, (seconds, idle) in enumerate(itertools.product((0, -2 * HOUR, HOUR // 2, -24 * HOUR), (0, 3))):
        clock.set(seconds)
        time.sleep(idle)
        line.feed(mixed_records(2, 200, seed))
        line.wait_for(line.folded, 120)
    clock.set(2 * HOUR)  # an hour ahead is what Kafka takes of a message at the most
    line.feed(mixed_records(2, 200))
    assert process.wait(60) == 1, process.log()
    assert "set this machine's clock" in process.log() and "Traceback" not in process.log()
    line.run_to_end()
    line.verify()
