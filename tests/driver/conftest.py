"""What hundreds of workers in one process would say of themselves hides what a test says."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    log = logging.getLogger("explain_sidecar")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)
