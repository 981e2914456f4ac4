"""Debian's Pythons of any release, unpacked beside those of this machine: each runs with the C library that it came with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SUITE = "sid"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
WRAPPER = """#!/bin/sh
exec {linker} --argv0 "$0" --library-path {libraries} {python} "$@"
"""


def unpacked(name: str, folder: Path) -> Path | None:
    """A Python such as ``python3.14`` with all that it needs, below a folder; None where there is no apt, or no such Python in Debian.

    apt resolves and checks the packages with a state of its own, in which nothing is installed yet.
    """
    if not (shutil.which("apt-get") and Path(KEYS).exists()):
        return None
    root, sources = folder / "root", folder / "sources.list"
    for part in ("root", "state", "cache"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    sources.write_text(f"deb [signed-by={KEYS}] http://deb.debian.org/debian {SUITE} main\n")
    options = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(text for name, value in options.items() for text in ("-o", f"{name}={value}"))]
    wanted = ["install", "--yes", "--download-only", "--no-install-recommends", name]
    for command in (["update"], wanted):
        if subprocess.run([*apt, *command], stdout=subprocess.DEVNULL).returncode:
            return None
    for package in (folder / "cache" / "archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    binary = root / "usr" / "bin" / name
    real = binary.rename(folder / name)
    (linker,) = root.glob("usr/lib*/ld-linux-*.so.*")
    (libraries,) = (path.parent for path in root.glob("usr/lib/*/libc.so.6"))
    binary.write_text(WRAPPER.format(linker=linker, libraries=libraries, python=real))
    binary.chmod(0o755)
    return binary
