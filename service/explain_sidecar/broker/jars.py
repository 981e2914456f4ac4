"""The jars of Apache Kafka: downloaded once per user by jgo, a Maven resolver in pure Python, and verified at every start.

``kafka-VERSION.sha256`` beside this file pins every jar of a version as ``SHA256  GROUP:ARTIFACT:VERSION``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from explain_sidecar.errors import UserError

if TYPE_CHECKING:
    from jgo.maven import MavenContext

KAFKA_VERSION = "4.3.0"
MISSING_EXTRA = "the local broker needs the extra `broker`: pip install 'explanation-sidecar[broker]'"

_SLF4J = "org.slf4j:slf4j-simple:1.7.36"  # Kafka logs through slf4j 1 and brings no implementation along
_TIMEOUT_SECONDS = 30


def cache_folder() -> Path:
    """Raises ``UserError`` where this user has no home directory, and nobody says where else."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "explanation-sidecar"
    except RuntimeError:
        raise UserError("this user has no home directory to keep a cache in; set XDG_CACHE_HOME") from None


def kafka_jars(version: str = KAFKA_VERSION, cache: Path | None = None) -> list[Path]:
    """The class path of a Kafka broker; ``cache`` is by default ``cache_folder()``.

    A version that has no pins is resolved by Maven's rules, and its jars are compared from then on with the sums of that
    first download; a warning on stderr says so.

    Raises ``UserError`` where a jar cannot be downloaded or is not the one that is pinned.
    """
    if not re.fullmatch(r"[\w.-]+", version):
        raise UserError(f"--kafka-version {version!r}: it is not a version such as {KAFKA_VERSION}")
    cache = cache or cache_folder()
    folder = cache / f"kafka-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    pins = Path(__file__).with_name(f"kafka-{version}.sha256")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not pins.exists():
            sys.stderr.write(
                f"warning: no checksums are pinned for Kafka {version}: its jars are what the repository serves; "
                f"version {KAFKA_VERSION} is verified\n"
            )
            pins = folder / "sha256"
            if not pins.exists():
                _resolve(version, folder, pins)
        wanted = [line.split() for line in pins.read_text().splitlines()]
        missing = [coordinate for _, coordinate in wanted if not _path(folder, coordinate).exists()]
        if missing:
            sys.stderr.write(f"downloading {len(missing)} jars of Apache Kafka {version} to {folder}\n")
            _download(missing, folder)
    for pinned, coordinate in wanted:
        found = hashlib.sha256(_path(folder, coordinate).read_bytes()).hexdigest()
        if found != pinned:
            raise UserError(
                f"{_path(folder, coordinate)}: its sha256 is {found} and not {pinned}, the one pinned for Kafka "
                f"{version}: the file was altered or damaged; remove it and start again"
            )
    return [_path(folder, coordinate) for _, coordinate in wanted]


def _path(folder: Path, coordinate: str) -> Path:
    _, artifact, version = coordinate.split(":")
    return folder / f"{artifact}-{version}.jar"


def _resolve(version: str, folder: Path, pins: Path) -> None:
    """Download a version without pins, and write what was downloaded to ``pins``."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        maven = resolver(Path(scratch))
        roots = [
            maven.create_dependency(coordinate)
            for coordinate in (f"org.apache.kafka:kafka_2.13:{version}", _SLF4J)
        ]
        try:
            inputs, transitive = maven.resolver.resolve(roots)
        except (OSError, RuntimeError) as error:
            raise _no_download(error) from error
        coordinates = sorted(
            f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}" for artifact in inputs + transitive
        )
    _download(coordinates, folder)
    lines = [
        f"{hashlib.sha256(_path(folder, coordinate).read_bytes()).hexdigest()}  {coordinate}\n"
        for coordinate in coordinates
    ]
    pins.write_text("".join(lines))


def _download(coordinates: list[str], folder: Path) -> None:
    """Each jar appears under its name only when it is whole."""

    def download(coordinate: str) -> None:
        jar = maven.create_dependency(coordinate).artifact.resolve()
        shutil.move(jar, _path(folder, coordinate))

    with tempfile.TemporaryDirectory(dir=folder) as scratch, ThreadPoolExecutor(8) as pool:
        maven = resolver(Path(scratch))
        try:
            list(pool.map(download, coordinates))
        except (OSError, RuntimeError) as error:
            raise _no_download(error) from error


def _no_download(error: Exception) -> UserError:
    return UserError(
        f"Apache Kafka cannot be downloaded ({error}); the first start needs a Maven repository: check the network, or name "
        "a mirror under [repositories] in jgo's configuration file"
    )


def resolver(cache: Path) -> MavenContext:
    """A resolver that downloads to a folder. Raises ``UserError`` where the extra ``broker`` is missing."""
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ImportError:
        raise UserError(MISSING_EXTRA) from None
    mirrors = GlobalSettings.load().repositories
    return MavenContext(repo_cache=cache, remote_repos=mirrors or None, timeout=_TIMEOUT_SECONDS)
