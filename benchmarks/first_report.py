"""``python -m benchmarks.first_report --data DIR``: from ``pip install`` to a report, on elec2 and on 50,000 made rows.

A new virtual environment gets the library as wheels, which are built from this checkout, as a user of a published package does; then five lines of Python run in it.
It is installed as the README says, without compiling all modules ahead: the first run compiles those that it imports. Wall-clock seconds.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.figures import table_of

ROOT = Path(__file__).parents[1]
ELEC2 = """
import explain_core as ec
report = ec.watch({file!r}, label="class")
print(report)
"""
MADE = """
import numpy as np, pandas as pd, explain_core as ec
rng = np.random.default_rng(1)
frame = pd.DataFrame(rng.uniform(size=(50_000, 10)), columns=list("abcdefghij")).assign(late=lambda f: f.a + rng.uniform(size=50_000) > 1)
report = ec.watch(frame, label="late")
print(report)
"""


def seconds(*command: str) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with elec2.csv.gz")
    file = parser.parse_args().data / "elec2.csv.gz"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        sources = Path(folder, "sources")
        for name in ("explain_core", "explain_client"):  # a copy: pip leaves a build beside what it builds
            shutil.copytree(
                ROOT / name, sources / name, ignore=shutil.ignore_patterns("build", "*.so", "*.c")
            )
        wheels = Path(folder, "wheels")
        core, client = str(sources / "explain_core"), str(sources / "explain_client")
        pip = (python, "-m", "pip")
        build = seconds(*pip, "wheel", "-q", "--no-deps", "-w", str(wheels), core, client)
        install = seconds(
            *pip, "install", "-q", "--no-compile", f"--find-links={wheels}", "explain-core[watch]"
        )
        table = table_of("From pip install to a report, seconds", "", "alone", "with the installation")
        table.add_row("wheels built from the checkout", f"{build:.1f}", "–")
        table.add_row("pip install --no-compile of the wheels", f"{install:.1f}", "–")
        for name, code in (
            ("elec2, 45,312 rows", ELEC2.format(file=str(file))),
            ("50,000 rows of ten numbers", MADE),
        ):
            took = seconds(python, "-P", "-c", code)  # not by the package in this folder
            table.add_row(name, f"{took:.1f}", f"{install + took:.1f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
