"""``python .ci/lowest.py``: install the service with the lowest versions that pyproject.toml allows, and fold some records."""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.compiled import compiled

ROOT = Path(__file__).parents[1]
FOLD = """
import orjson
import explain_sidecar.http.site, explain_sidecar.worker
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

state, sent = PartitionState(Settings(), 0), 0
for i in range(500):
    x = {"a": i % 7, "b": i % 5, "colour": "red" if i % 3 else "blue", "label": i % 7 > 3}
    sent += len(state.step(InputRecord(i, i, None, orjson.dumps(x))))
assert sent == 5, sent
"""


def lowest(requirement: str) -> str:
    """``numpy>=2.3.4`` as ``numpy==2.3.4``, with its marker."""
    return re.sub(r">=([\d.]+)(,<[\d.]+)?", r"==\1", requirement)


def main() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        constraints = Path(folder, "lowest.txt")
        constraints.write_text("\n".join(map(lowest, needed)))
        python = f"{folder}/bin/python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        environment = compiled(Path(folder)) | {"SIDECAR_CHARTS": "none"}
        subprocess.run([*install, "--constraint", constraints, ROOT], env=environment, check=True)
        for command in (["-m", "explain_sidecar.cli", "config", "show"], ["-c", FOLD]):
            subprocess.run([python, "-P", *command], cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    main()
