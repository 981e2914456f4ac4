"""One version number in every file that holds it, and a release built and checked under that number.

``release.py version 0.2.0`` writes the number; ``release.py build 0.2.0`` builds the wheels of all platforms, the documentation, the
chart and, from the wheels, the image into build/release. Status 3: what can be built here is built, and what cannot is named.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
BIN = Path(sys.executable).parent
IMAGE = "explanation-sidecar"
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "explain_client/pyproject.toml": r'^version = "(.+)"$',
    "explain_core/pyproject.toml": r'^version = "(.+)"$',
    "deploy/chart/Chart.yaml": r"^(?:version|appVersion): (.+)$",
    "schemas/asyncapi.json": r'^    "version": "(.+)",$',
    "CHANGELOG.md": r"^## (\d+\.\d+\.\d+) ",
}
"""Every file that holds the version, and the lines that do; of the changelog the first counts."""


def versions() -> Iterator[tuple[str, str]]:
    """File and version, once for each line that holds it."""
    for name, pattern in PLACES.items():
        found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        for version in (found or ["none"])[: 1 if name == "CHANGELOG.md" else None]:
            yield name, version


def _number(_: click.Context, __: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"\d+\.\d+\.\d+", value):
        raise click.BadParameter(f"{value!r} is not MAJOR.MINOR.PATCH, such as 0.2.0")
    return value


@click.group()
def cli() -> None:
    pass


@cli.command()
@click.argument("number", callback=_number)
@click.option(
    "--date", default=lambda: datetime.date.today().isoformat(), help="Of the release; by default today."
)
def version(number: str, date: str) -> None:
    """Write NUMBER into every file that holds it, and make the changelog's Unreleased its section."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if unreleased is None or not unreleased.group(1).strip():
        raise click.ClickException(
            "CHANGELOG.md: there is nothing under Unreleased; say what the release changes"
        )
    heading = f"## Unreleased\n\n## {number} – {date}\n"
    (ROOT / "CHANGELOG.md").write_text(changes.replace("## Unreleased\n", heading, 1), encoding="utf-8")
    for name, pattern in PLACES.items():
        if name != "CHANGELOG.md":
            _write(ROOT / name, pattern, number)


def _write(path: Path, pattern: str, number: str) -> None:
    def put(found: re.Match[str]) -> str:
        return found.group(0).replace(found.group(1), number)

    path.write_text(
        re.sub(pattern, put, path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8"
    )


@cli.command()
@click.argument("number", callback=_number, default=lambda: next(versions())[1])
@click.option(
    "--folder",
    default=ROOT / "build" / "release",
    type=click.Path(path_type=Path),
    help="Where the files go.",
)
def build(number: str, folder: Path) -> None:
    """Build the release NUMBER from the last commit, and check what was built."""
    wrong = [f"{name} says {found}" for name, found in versions() if found != number]
    if wrong:
        raise click.ClickException(f"not {number}: {', '.join(wrong)}; run `make version VERSION={number}`")
    if _run("git", "status", "--porcelain", cwd=ROOT):
        raise click.ClickException("the work tree has changes; commit them first")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        source = _export(Path(name) / "source")
        missing = [
            *_wheels(source, folder, number, Path(name)),
            *_documentation(source, folder, number),
            *_chart(source, folder, number),
            *_image(source, number),
        ]
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    click.echo("\n".join(sums))
    for name in missing:
        click.echo(f"not built: {name}", err=True)
    sys.exit(3 if missing else 0)


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What a command prints; ``ClickException`` with all that it said where it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def _expect(number: str, said: str, what: str) -> None:
    if number not in said:
        raise click.ClickException(f"{what} is not {number}: {said.strip()}")


def _export(folder: Path) -> Path:
    """The last commit."""
    archive = folder.with_suffix(".tar")
    _run("git", "archive", "--output", archive, "HEAD", cwd=ROOT)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder


def _wheels(source: Path, folder: Path, number: str, scratch: Path) -> Iterator[str]:
    """The wheels: the client's, and those with the engine for each platform. This machine's are installed and started in an environment of the locked packages
    alone, for each Python that is here; all must say the same of the same records."""
    sys.path.insert(0, str(source / "explain_core" / "engine"))
    from building import PLATFORMS

    packages = {
        source / "explain_client": [""],
        source / "explain_core": list(PLATFORMS),
        source: list(PLATFORMS),
    }
    for package, platforms in packages.items():
        for platform in platforms:
            build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, package)
            _run(BIN / "python", "-m", "pip", *build, cwd=source, ENGINE_PLATFORM=platform)
    (source / "wheels").mkdir()
    for wheel in folder.glob("explanation_sidecar-*.whl"):
        shutil.copy(wheel, source / "wheels")
    digests = {}
    for name in PYTHONS:
        found = shutil.which(name) or (
            sys.executable if name in Path(sys.executable).resolve().name else None
        )
        if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
            yield f"the proof that the wheels work with {name}: it is not here"
        else:
            digests[name] = _installed(found, source, folder, number, scratch / name)
            click.echo(f"{name}: {digests[name]}", err=True)
    if not shutil.which("apt-get") or os.geteuid():
        yield "the proof that the wheels work on aarch64, emulated: it needs Debian, and root"
    else:
        (wheel,) = folder.glob("explanation_sidecar-*_aarch64.whl")
        _run(source / ".ci" / "aarch64.sh", scratch / "aarch64", wheel, BIN / "python", cwd=source)
        python = scratch / "aarch64" / "bin" / "python"
        emulated = _run(python, source / ".ci" / "digest.py", cwd=source).split()
        at = emulated.index("linear")
        digests["aarch64"] = f"linear {emulated[at + 1]}"
        click.echo(f"aarch64: {digests['aarch64']}", err=True)
    if len({said.splitlines()[0] for said in digests.values()}) != 1 or len(set(digests.values())) > 2:
        raise click.ClickException(f"the Pythons do not agree: {digests}")


def _installed(base: str, source: Path, folder: Path, number: str, environment: Path) -> str:
    """The digest of ``.ci/digest.py`` by the wheels of this machine."""
    _run(base, "-m", "venv", environment, cwd=folder)
    python = environment / "bin" / "python"
    locked = source / "requirements" / "service.txt"
    _run(python, "-m", "pip", "install", "--require-hashes", "--requirement", locked, cwd=folder)
    for distribution, command in {
        "explain-client": (
            "-c",
            "import explain_client as it, importlib.metadata as m; print(it.__name__, m.version('explain-client'))",
        ),
        "explain-core": (
            "-c",
            "import explain_core as it, importlib.metadata as m; print(it.IncrementalPFI.__name__, m.version('explain-core'))",
        ),
        "explanation-sidecar": ("-m", "explain_sidecar.cli", "--version"),
    }.items():
        wanted = ("install", "--no-deps", "--no-index", "--find-links", folder, f"{distribution}=={number}")
        _run(python, "-m", "pip", *wanted, cwd=folder)
        _run(python, "-m", "pip", "check", cwd=folder)
        _expect(number, _run(python, *command, cwd=folder), distribution)
        if distribution != "explanation-sidecar":
            _run(python, "-m", "pip", "uninstall", "--yes", distribution, cwd=folder)
    return _run(python, source / ".ci" / "digest.py", cwd=folder).strip()


def _documentation(source: Path, folder: Path, number: str) -> Iterator[str]:
    _run(BIN / "python", "setup.py", "build_ext", "--inplace", cwd=source)  # the pages are the code's
    _run(BIN / "python", "-m", "docs.generate", cwd=source)
    _run(BIN / "zensical", "build", "--clean", "--strict", cwd=source)
    shutil.make_archive(str(folder / f"{IMAGE}-docs-{number}"), "gztar", source / "build" / "site")
    yield from ()


def _chart(source: Path, folder: Path, number: str) -> Iterator[str]:
    helm = shutil.which("helm", path=f"{BIN}") or shutil.which("helm")
    if helm is None:
        yield "the chart: there is no helm; `make .venv/bin/helm` builds it with Go"
        return
    minimal = (
        "--kube-version",
        "1.31.0",
        "--set",
        "kafka.bootstrapServers=kafka:9092",
        "--set",
        "checkpoint.existingSecret=keys",
    )
    _run(helm, "lint", "--strict", "deploy/chart", *minimal, cwd=source)
    _expect(
        f"{IMAGE}:{number}", _run(helm, "template", "deploy/chart", *minimal, cwd=source), "the chart's image"
    )
    _run(helm, "package", "deploy/chart", "--destination", folder, cwd=source)


def _image(source: Path, number: str) -> Iterator[str]:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        yield "the image: no Docker engine answers"
        return
    for requirements, tag in {"service": f"{IMAGE}:{number}", "full": f"{IMAGE}:{number}-full"}.items():
        build = ("build", "--network", "host", "--build-arg", f"REQUIREMENTS={requirements}")
        _run(docker, *build, "--file", "deploy/Dockerfile", "--tag", tag, ".", cwd=source)
        _expect(number, _run(docker, "run", "--rm", tag, "--version", cwd=source), tag)


if __name__ == "__main__":
    cli()
