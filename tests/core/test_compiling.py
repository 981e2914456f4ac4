"""Compiled code that is kept: it is made anew when anything that it calls has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import explain_core

CALLER = """
from explain_core.compiling import compiled
from explain_core.sums import total

@compiled
def twice(values):
    return 2.0 * total(values, len(values))
"""


def test_a_change_in_another_file_that_a_kernel_calls_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "explain_core"
    shutil.copytree(Path(explain_core.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "caller.py").write_text(CALLER)

    def answer() -> float:
        code = "import numpy as np; from explain_core.caller import twice; print(twice(np.array([1.0, 2.0])))"
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    assert answer() == 6.0
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("caller.twice*.nbc")}
    assert answer() == 6.0 and kept
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # it was loaded
    sums = package / "sums.py"
    sums.write_text(sums.read_text().replace("    result = 0.0\n", "    result = 1.0\n"))
    assert answer() == 8.0
