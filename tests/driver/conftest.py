"""What hundreds of workers in one process would say of themselves hides what a test says, and no client reaches beyond the memory."""

import logging
from collections.abc import Iterator

import pytest

from explain_sidecar.kafka import operators


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(operators, "find_open", lambda settings, places: [])
    log = logging.getLogger("explain_sidecar")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)
