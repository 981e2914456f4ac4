"""The house keeps its floors: import-linter checks their order, and here is what it cannot count."""

import ast
import inspect
import re
from collections import Counter

import grimp
import pytest

import explain_core
from tests.documentation import ROOT

ARROWS = 60
"""Arrows between folders of ``explain_sidecar``, at the most."""

LINES = 600
"""Lines of a file, at the most: beyond that, look for the second concept in it."""

POSITIONAL = 8
"""Parameters of a function that may be given without their names, at the most."""


def test_the_folders_of_the_service_know_few_others() -> None:
    graph = grimp.build_graph("explain_sidecar")
    folders = {name for name in graph.modules if name.count(".") == 1 and graph.find_children(name)}

    def folder(module: str) -> str:
        return ".".join(module.split(".")[:2])

    arrows = {
        (folder(module), folder(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if folder(module) != folder(imported)
    }
    between = {(importer, imported) for importer, imported in arrows if {importer, imported} <= folders}
    assert 20 < len(between) <= ARROWS
    assert not {(importer, imported) for importer, imported in between if (imported, importer) in between}


@pytest.mark.parametrize(
    "root", ["benchmarks", "experiments", "explain_client", "explain_core", "service", "tests"]
)
def test_no_file_is_long(root: str) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / root).rglob("*.py")}
    assert len(lengths) > 5
    assert not {str(path): lines for path, lines in lengths.items() if lines > LINES}


def test_what_a_quick_check_leaves_out_exists() -> None:
    names = (ROOT / "tests" / "slow.txt").read_text().split()
    assert names and names == sorted(set(names))
    named = (name.split("::") for name in names)
    assert not [name for path, name in named if f"def {name}(" not in (ROOT / path).read_text()]


def test_nothing_is_computed_by_blas() -> None:
    """Its kernels, and with them the last bit of a sum of products, depend on the processor: use ``einsum``."""
    found, calls = [], {"dot", "inner", "matmul", "tensordot", "vdot", "linalg"}
    for root in ("explain_core", "service"):
        for path in (ROOT / root).rglob("*.py"):
            found += [
                f"{path}:{node.lineno}"
                for node in ast.walk(ast.parse(path.read_text()))
                if (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult))
                or (isinstance(node, ast.Attribute) and node.attr in calls)
            ]
    assert not found


@pytest.mark.parametrize("root", ["explain_client", "explain_core", "service"])
def test_no_function_has_many_positional_parameters(root: str) -> None:
    """What comes ninth in a call cannot be told from what comes eighth: it has its name there."""
    found = {}
    for path in (ROOT / root).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                found[f"{path}:{node.lineno}"] = len([name for name in names if name not in ("self", "cls")])
    assert max(found.values()) > 3
    assert not {place: number for place, number in found.items() if number > POSITIONAL}


@pytest.mark.parametrize("root", ["explain_client", "explain_core", "service/explain_sidecar"])
def test_no_two_classes_have_one_name(root: str) -> None:
    """Not even in different files: a name stands for one thing."""
    names = [
        node.name
        for path in (ROOT / root).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert len(names) > 20
    assert [name for name, times in Counter(names).items() if times > 1] == []


PUBLIC = sorted(name for name in explain_core.__all__ if inspect.isclass(getattr(explain_core, name)))


@pytest.mark.parametrize("name", PUBLIC)
def test_the_page_of_a_class_of_the_library_names_every_parameter(name: str) -> None:
    kind = getattr(explain_core, name)
    known = inspect.signature(kind).parameters.values()
    names = [each.name for each in known if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    page = inspect.getdoc(kind) or ""
    headings = re.findall(r"^(\w+(?:, \w+)*)$", page.partition("Parameters\n-----")[2], re.MULTILINE)
    told = {*", ".join(headings).split(", "), *re.findall(r"``(\w+)``", page)}
    assert names and set(names) <= told


def test_the_architecture_names_every_folder_and_file_of_the_sidecar() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    held = {path.name for path in (ROOT / "service" / "explain_sidecar").iterdir()} - {
        "__init__.py",
        "py.typed",
    }
    here = {name for name in held if not name.startswith("__")}
    assert {"cli", "worker.py"} <= here
    assert not {
        name
        for name in here
        if f"`{name}`" not in page and f"](../service/explain_sidecar/{name}/)" not in page
    }


def test_no_process_of_python_that_the_sidecar_starts_imports_from_the_working_directory() -> None:
    sources = [path.read_text() for path in (ROOT / "service" / "explain_sidecar").rglob("*.py")]
    started = [after for text in sources for after in re.findall(r"sys\.executable,\s*(\S+)", text)]
    assert len(started) == sum(text.count("sys.executable") for text in sources) > 3
    assert set(started) <= {'"-P",', '"-IS",'}
    image = (ROOT / "deploy" / "Dockerfile").read_text()
    assert image.count("bin/python") == len(re.findall(r"bin/python(?:\", \"-IS\"| -P)", image)) == 1
