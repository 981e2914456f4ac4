"""What pyproject.toml cannot say: the engine is compiled."""

import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "engine"))
from building import arguments  # noqa: E402

if __name__ == "__main__":  # not in the processes that translate
    setup(**arguments(HERE))
