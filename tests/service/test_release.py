"""One number names a release everywhere, and a release is built of nothing else. What is built: `make release`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOLDS = {
    "pyproject.toml": ['version = "{}"\n'],
    "explain_client/pyproject.toml": ['version = "{}"\n'],
    "explain_core/pyproject.toml": ['version = "{}"\n'],
    "deploy/chart/Chart.yaml": ["\nversion: {}\n", "\nappVersion: {}\n"],
    "schemas/asyncapi.json": ['"version": "{}"'],
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that hold the version, and the script."""
    for name in (*HOLDS, "CHANGELOG.md", ".ci/release.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def release(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, folder / ".ci" / "release.py", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_new_version_is_in_every_file_and_its_changes_have_a_section(copy: Path) -> None:
    before = (copy / "CHANGELOG.md").read_text()
    changes = before.split("## Unreleased\n")[1]
    assert release(copy, "version", "7.8.9", "--date", "2030-01-02") == (0, "")
    for name, lines in HOLDS.items():
        text, was = (copy / name).read_text(), (ROOT / name).read_text()
        for line in lines:
            assert line.format("7.8.9") in text
        assert len(text.splitlines()) == len(was.splitlines())
        differing = [old for old, new in zip(was.splitlines(), text.splitlines(), strict=True) if old != new]
        assert len(differing) == len(lines), name
    assert (copy / "CHANGELOG.md").read_text() == before.replace(
        f"## Unreleased\n{changes}", f"## Unreleased\n\n## 7.8.9 – 2030-01-02\n{changes}"
    )


def test_a_release_without_changes_is_refused(copy: Path) -> None:
    release(copy, "version", "7.8.9")
    status, output = release(copy, "version", "7.9.0")
    assert status == 1 and "nothing under Unreleased" in output
    assert 'version = "7.8.9"' in (copy / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", [*HOLDS, "CHANGELOG.md"])
def test_a_file_with_another_version_stops_the_release_by_its_name(copy: Path, name: str) -> None:
    release(copy, "version", "7.8.9")
    path = copy / name
    path.write_text(path.read_text().replace("7.8.9", "7.8.8"))
    status, output = release(copy, "build", "7.8.9")
    assert status == 1 and f"{name} says 7.8.8" in output
    assert sum(output.count(f"{other} says") for other in (*HOLDS, "CHANGELOG.md")) <= 2
    assert not (copy / "build").exists()


@pytest.mark.parametrize("number", ["1.2", "v1.2.3", "1.2.3-beta", ""])
def test_what_is_no_version_is_refused(copy: Path, number: str) -> None:
    status, output = release(copy, "version", number)
    assert status == 2 and "MAJOR.MINOR.PATCH" in output
    assert (copy / "pyproject.toml").read_text() == (ROOT / "pyproject.toml").read_text()


def test_a_release_is_built_from_a_commit(copy: Path) -> None:
    release(copy, "version", "7.8.9")
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    status, output = release(copy, "build", "7.8.9")
    assert status == 1 and "commit them first" in output
