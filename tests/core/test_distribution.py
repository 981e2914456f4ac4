"""explain_core as a distribution of its own: what its README shows runs on it alone."""

import json
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import explain_core as ec
from tests.compiled import compiled
from tests.documentation import ROOT, blocks

HOME = ROOT / "explain_core"
ALONE = """
import io, json, sys
from contextlib import redirect_stdout
import explain_core

STRANGERS = {"confluent_kafka", "starlette", "pydantic", "explain_sidecar", "explain_client"}
printed = []
for program, known in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as said:
        exec(program, {"explain_core": explain_core})
    printed.append(said.getvalue())
    strangers = (STRANGERS - set(known)) & set(sys.modules)
    assert not strangers, strangers
assert "installed" in explain_core.__file__, explain_core.__file__
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it, without what it needs, in a folder."""
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(HOME, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    target = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", target, folder / "source"], env=compiled(folder), check=True)
    return target


def test_the_readme_s_examples_run_on_the_distribution_alone_and_print_what_it_says(installed: Path) -> None:
    """And every name that is promised is there, and imports nothing of the service."""
    shown = list(blocks("explain_core/README.md"))
    examples = [(block.text, after.text) for block, after in pairwise(shown) if block.language == "python"]
    assert len(examples) > 1
    names = "for name in explain_core.__all__: getattr(explain_core, name)"
    # A report has the client's sentences, and the README says to install it.
    programs: list[tuple[str, list[str]]] = [(names, [])]
    programs += [(text, ["explain_client", "confluent_kafka"] if "ec.watch(" in text else []) for text, _ in examples]  # fmt: skip
    expected = ["", *(f"{printed}\n" for _, printed in examples)]
    order = sorted(range(len(programs)), key=lambda i: len(programs[i][1]))  # what one imports stays
    done = subprocess.run(
        [sys.executable, "-P", "-c", ALONE, json.dumps([programs[i] for i in order])],
        cwd=installed.parent,
        env={"PATH": "/usr/bin:/bin", "HOME": str(installed.parent), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected[i] for i in order]


def test_every_folder_of_the_package_is_in_the_distribution() -> None:
    listed = tomllib.loads((HOME / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for path in HOME.rglob("__init__.py")}
    assert sorted(listed) == sorted(".".join(folder.parts) for folder in folders)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="IncrementalPfi"):
        ec.IncrementalPfi  # noqa: B018
    assert "IncrementalPFI" in dir(ec)


def test_what_the_distributions_need_alike_they_need_in_the_same_versions() -> None:
    own, whole = (
        set(tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"])
        for folder in (HOME, ROOT)
    )
    assert own < whole
