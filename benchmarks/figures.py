"""How the benchmarks print figures: on which machine, in tables, by percentile."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.box import MARKDOWN
from rich.table import Table

from explain_sidecar.broker.jars import KAFKA_VERSION


def table_of(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left", box=MARKDOWN)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    return table


def machine() -> str:
    """The machine, the load on it, and the versions in use."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("river", "numpy", "confluent-kafka", "explanation-sidecar")
    )
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(names)} × {names[0] if names else platform.machine()}, "
        f"load {os.getloadavg()[0]:.1f} at the start, "
        f"Python {platform.python_version()}, {packages}, Apache Kafka {KAFKA_VERSION}"
    )


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
