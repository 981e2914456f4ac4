"""The crash campaign: faults in a seeded order against workers on a real broker, and the oracle at the end."""

import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import UserError
from tests.crash.faults import KINDS, MIN_WORKERS
from tests.crash.load import Load, Verdict
from tests.crash.proxy import proxied_broker

SLICE = 25
"""Faults between two verdicts; each slice has a broker of its own."""


@dataclass
class Done:
    """A fault that was injected."""

    index: int
    kind: str
    detail: str
    at: float
    seconds: float


def order_of_faults(seed: int, index: int, kinds: list[str]) -> str:
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
        **rate: Any,
    ) -> None:
        self.broker, self.proxy = proxied_broker(data)
        self.broker.start()
        self.spared: set[int] = set()
        """Slots of workers that no fault picks."""
        self.static = bool(number // SLICE % 2)
        name = f"{name}-{seed}-{number}"
        membership = {"EXPLAIN_KAFKA__GROUP_INSTANCE_ID": name} if self.static else {}
        behind = f"127.0.0.1:{self.proxy.port}"
        super().__init__(
            name, self.broker, {**membership, **(environment or {})}, MIN_WORKERS + 1, behind, **rate
        )

    def inject(self, kind: str, seed: str) -> str:
        """One fault; returns what it did."""
        rng = random.Random(seed)
        detail = KINDS[kind](self, rng)
        self.fleet.wait(rng.uniform(0.3, 2))
        return detail

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


def run_slice(
    seed: int,
    indices: range,
    kinds: list[str],
    disk: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[list[Done], Verdict]:
    """Inject the faults with these indices, and compare; ``disk`` is a folder for the broker's data that can be filled."""
    data = None if disk is None else disk / f"broker-{indices.start}"
    campaign = Campaign(seed, indices.start, data)
    started, done = time.monotonic(), []
    try:
        for index in indices:
            kind, began = order_of_faults(seed, index, kinds), time.monotonic()
            detail = campaign.inject(kind, f"{seed}/{index}")
            done.append(Done(index, kind, detail, began - started, time.monotonic() - began))
            tell(detail)
        return done, campaign.verdict(len(done), time.monotonic() - started)
    finally:
        campaign.close()
        if data is not None:
            shutil.rmtree(data, ignore_errors=True)
