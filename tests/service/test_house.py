"""The house keeps its floors: import-linter checks their order, and here is what it cannot count."""

import grimp
import pytest

from tests.documentation import ROOT

ARROWS = 60
"""Arrows between folders of ``service``, at the most."""

LINES = 400
"""Lines of a file, at the most: beyond that, look for the second concept in it."""


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
