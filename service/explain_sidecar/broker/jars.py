"""The jars of Apache Kafka: downloaded once per user by jgo, a Maven resolver in pure Python, and verified at every start.

``kafka-VERSION.sha256`` beside this file pins every jar of a version as ``SHA256  GROUP:ARTIFACT:VERSION``.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from explain_sidecar.caches import cache_folder, filled
from explain_sidecar.errors import UserError

if TYPE_CHECKING:
    from jgo.maven import MavenContext

KAFKA_VERSION = "4.3.0"
MISSING_EXTRA = "the local broker needs the extra `broker`: pip install 'explanation-sidecar[broker]'"

_SLF4J = "org.slf4j:slf4j-simple:1.7.36"  # Kafka logs through slf4j 1 and brings no implementation along
_TIMEOUT_SECONDS = 30


def kafka_jars(version: str = KAFKA_VERSION, cache: Path | None = None) -> list[Path]:
    """The class path of a Kafka broker; ``cache`` is by default ``cache_folder()``.

    A version that has no pins is resolved by Maven's rules, and its jars are compared from then on with the sums of that
    first download; a warning on stderr says so.

    Raises ``UserError`` where a jar cannot be downloaded or is not the one that is pinned.
    """
    if not re.fullmatch(r"[\w.-]+", version):
        raise UserError(f"--kafka-version {version!r}: it is not a version such as {KAFKA_VERSION}")
    pinned = Path(__file__).with_name(f"kafka-{version}.sha256")
    if not pinned.exists():
        sys.stderr.write(
            f"warning: no checksums are pinned for Kafka {version}: its jars are what the repository serves; "
            f"version {KAFKA_VERSION} is verified\n"
        )
    folder = filled((cache or cache_folder()) / f"kafka-{version}", lambda to: _fill(to, version, pinned))
    wanted = pinned if pinned.exists() else folder / "sha256"
    if not wanted.exists():
        raise UserError(f"{wanted} was removed: remove the folder {folder} too, and start again")
    return verified(folder, wanted, f"Kafka {version}")


def verified(folder: Path, pinned: Path, what: str) -> list[Path]:
    """The jars in a folder that a file of pins names. Raises ``UserError`` where one is not there, or is another one."""
    pins = [line.split() for line in pinned.read_text().splitlines()]
    for sha256, coordinate in pins:
        jar = _path(folder, coordinate)
        found = hashlib.sha256(jar.read_bytes()).hexdigest() if jar.exists() else "that of no file"
        if found != sha256:
            raise UserError(
                f"{jar}: its sha256 is {found} and not {sha256}, the one pinned for {what}: the file was "
                f"altered, damaged or removed; remove the folder {folder} and start again"
            )
    return [_path(folder, coordinate) for _, coordinate in pins]


def _fill(folder: Path, version: str, pinned: Path) -> None:
    """Download a version: what is pinned, or else what Maven's rules give, whose checksums become the file ``sha256``."""
    if pinned.exists():
        coordinates = [line.split()[1] for line in pinned.read_text().splitlines()]
    else:
        coordinates = _resolve(version, folder)
    download(coordinates, folder, f"Apache Kafka {version}")
    if not pinned.exists():
        sums = [hashlib.sha256(_path(folder, name).read_bytes()).hexdigest() for name in coordinates]
        lines = [f"{sha256}  {name}\n" for sha256, name in zip(sums, coordinates, strict=True)]
        (folder / "sha256").write_text("".join(lines))


def _path(folder: Path, coordinate: str) -> Path:
    _, artifact, version = coordinate.split(":")
    return folder / f"{artifact}-{version}.jar"


def _resolve(version: str, folder: Path) -> list[str]:
    """The coordinates of a version that has no pins, by Maven's rules."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        maven = resolver(Path(scratch))
        roots = [
            maven.create_dependency(coordinate)
            for coordinate in (f"org.apache.kafka:kafka_2.13:{version}", _SLF4J)
        ]
        try:
            inputs, transitive = maven.resolver.resolve(roots)
        except (OSError, RuntimeError) as error:
            raise _no_download(error, f"Apache Kafka {version}") from error
        return sorted(
            f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}" for artifact in inputs + transitive
        )


def download(coordinates: list[str], folder: Path, what: str) -> None:
    """Those of the jars that are not there. Each appears under its name only when it is whole; raises ``UserError``."""
    missing = [coordinate for coordinate in coordinates if not _path(folder, coordinate).exists()]
    sys.stderr.write(f"downloading {len(missing)} jars of {what}\n")

    def fetch(coordinate: str) -> None:
        jar = maven.create_dependency(coordinate).artifact.resolve()
        shutil.move(jar, _path(folder, coordinate))

    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, ThreadPoolExecutor(8) as pool:
        maven = resolver(Path(scratch))
        try:
            list(pool.map(fetch, missing))
        except (OSError, RuntimeError) as error:
            raise _no_download(error, what) from error


def _no_download(error: Exception, what: str) -> UserError:
    return UserError(
        f"{what} cannot be downloaded ({error}); the first start needs a Maven repository: check the network, or name "
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
