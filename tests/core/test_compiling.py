"""Compiled code that is kept: it is made anew when anything that it calls has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import explain_core
from explain_core import compiling

CALLER = """
from explain_core.compiling import compiled
from explain_core.sums import total

@compiled
def twice(values):
    return 2.0 * total(values, len(values))
"""

TYPES = ("float64", "float32", "int64", "int32")

COMPILE = """
import os, sys, time
import numpy as np
from explain_core.caller import thrice

whole = os.replace
os.replace = lambda *names: (time.sleep(0.5), whole(*names))  # a slow disk
open(f"{sys.argv[1]}.ready", "w").close()
while len([name for name in os.listdir() if name.endswith(".ready")]) < int(sys.argv[2]):
    time.sleep(0.01)
thrice(np.ones(2, sys.argv[1]))
"""

LOAD = """
import sys
import numpy as np
from explain_core.caller import thrice

for name in sys.argv[1:]:
    answer = thrice(np.array([1, 2], name))
    assert answer.dtype == name and answer.tolist() == [3, 6], (name, answer)
assert sum(thrice.stats.cache_hits.values()) == len(sys.argv) - 1, thrice.stats
"""


def test_processes_that_compile_for_different_types_at_the_same_time_lose_nothing_of_each_others(
    tmp_path: Path,
) -> None:
    package = tmp_path / "explain_core"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(compiling.__file__, package)
    (package / "caller.py").write_text(
        "from explain_core.compiling import compiled\n\n@compiled\ndef thrice(values):\n    return values + values + values\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}

    def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=tmp_path, env=environment)

    running = [start(COMPILE, name, str(len(TYPES))) for name in TYPES]
    assert [process.wait() for process in running] == [0] * len(TYPES)
    assert start(LOAD, *TYPES).wait() == 0


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
    assert not any(path.exists() for path in kept), "what was compiled before the change is removed"
