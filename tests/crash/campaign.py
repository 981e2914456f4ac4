"""The crash campaign: faults in a seeded order against workers on a real broker, and the oracle at the end."""

import json
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain_sidecar.errors import UserError
from tests.crash.faults import KINDS, MIN_WORKERS, SUPERVISED
from tests.crash.load import Load, Verdict
from tests.crash.proxy import proxied_broker
from tests.crash.streams import MIXED, Stream


@dataclass
class Done:
    """A fault that was injected."""

    index: int
    kind: str
    detail: str
    at: float
    seconds: float


def order_of_faults(seed: int, index: int, kinds: Sequence[str]) -> str:
    """The kind of a fault: every kind comes once before any comes again."""
    deck, position = divmod(index, len(kinds))
    return random.Random(f"{seed}/{deck}").sample(kinds, len(kinds))[position]


class Campaign(Load):
    """One slice: workers, a producer that never rests, faults, and the verdict."""

    def __init__(
        self,
        seed: int,
        number: int,
        data: Path | None = None,
        name: str = "crash",
        environment: Mapping[str, str] | None = None,
        stream: Stream = MIXED,
        **rate: Any,
    ) -> None:
        self.broker, self.proxy = proxied_broker(data, stream.broker)
        self.broker.start()
        self.spared: set[int] = set()
        """Slots of workers that no fault picks."""
        slice_number = number // stream.slice
        self.static = bool(slice_number % 2) and not stream.supervised
        name = f"{name}-{seed}-{number}"
        membership = {"EXPLAIN_KAFKA__GROUP_INSTANCE_ID": name} if self.static else {}
        behind = f"127.0.0.1:{self.proxy.port}"
        settings = {**stream.environment(slice_number), **membership, **(environment or {})}
        stages = len(stream.stages)
        workers = stages * (MIN_WORKERS if stream.supervised or stages > 1 else MIN_WORKERS + 1)
        super().__init__(name, self.broker, settings, workers, behind, stream=stream, **rate)

    def inject(self, kind: str, seed: str) -> str:
        """One fault; returns what it did."""
        rng = random.Random(seed)
        without = ", without the registry" if self.evolve() else ""
        detail = {**KINDS, **SUPERVISED, **self._stream.faults}[kind](self, rng)
        self.fleet.wait(rng.uniform(0.3, 2))
        return detail + without

    def start_broker(self) -> None:
        """A machine under load may need more than one try until the broker answers."""
        for attempt in range(3):
            try:
                self.broker.start()
                return
            except UserError:
                if attempt == 2:
                    raise

    def close(self) -> None:
        super().close()
        self.proxy.close()
        self.broker.stop()

    def keep(self, folder: Path) -> None:
        """What a difference can be explained by: settings, logs, and the data of the broker, which was stopped."""
        self.fleet.keep(folder / "logs")
        (folder / "environment.json").write_text(json.dumps(self.pipeline.environment, indent=1) + "\n")
        shutil.copytree(self.broker.data, folder / "broker", dirs_exist_ok=True)


def run_slice(
    seed: int,
    indices: range,
    kinds: Sequence[str],
    disk: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
    stream: Stream = MIXED,
    evidence: Path | None = None,
) -> tuple[list[Done], Verdict]:
    """Inject the faults with these indices, and compare.

    ``disk`` is a folder for the broker's data that can be filled. ``evidence`` is one for what is kept of a slice that does not pass.
    """
    place = disk or evidence
    data = None if place is None else place / f"broker-{indices.start}"
    campaign = Campaign(seed, indices.start, data, stream=stream)
    started, done, passed = time.monotonic(), [], False
    try:
        for index in indices:
            kind, began = order_of_faults(seed, index, kinds), time.monotonic()
            detail = campaign.inject(kind, f"{seed}/{index}")
            done.append(Done(index, kind, detail, began - started, time.monotonic() - began))
            tell(detail)
        verdict = campaign.verdict(len(done), time.monotonic() - started)
        passed = not verdict.problems
        return done, verdict
    finally:
        campaign.close()
        if evidence is not None and not passed:
            campaign.keep(evidence / f"evidence-{indices.start}")
        if data is not None:
            shutil.rmtree(data, ignore_errors=True)
