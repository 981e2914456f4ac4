"""What pyproject.toml cannot say: the engine is compiled."""

import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "engine"))
from building import BuildEngine, extensions  # noqa: E402

setup(ext_modules=extensions(HERE), cmdclass={"build_ext": BuildEngine})
