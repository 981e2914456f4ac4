"""What the documentation shows exists: commands, options, targets, modules, settings; and its site is whole."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import river

from docs import generate
from explain_sidecar.cli import NAME, cli
from explain_sidecar.settings import Settings, load_settings
from tests.documentation import PAGES, ROOT, blocks, inline

OTHERS = {"export", "cp", "gunzip", "head", "(head", "chmod", "pip", "source"}
"""What the pages use besides; that they run is shown by running them (tests/broker/test_docs.py)."""


def parse(words: list[str]) -> None:
    """``click.UsageError`` where the command line has no such command, option or argument."""
    command: click.Command = cli
    context = click.Context(cli, info_name=NAME)
    while True:
        _, rest, _ = command.make_parser(context).parse_args(list(words))
        if not isinstance(command, click.Group):
            if rest:
                raise click.UsageError(f"{rest} is too much")
            return
        if not rest:
            return
        name, *words = rest
        if name not in command.commands:
            raise click.UsageError(f"no command {name!r}")
        command = command.commands[name]
        context = click.Context(command, info_name=name, parent=context)


def verify(line: str) -> None:
    """Assert that what a line of shell calls is there."""
    words = shlex.split(line, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):  # variables for this command alone
        words = words[1:]
    stop = [position for position, word in enumerate(words) if word in (">", "|", "&&")]
    first, *rest = words[: stop[0]] if stop else words
    if first == NAME:
        parse(rest)
    elif first == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert {word for word in rest if "=" not in word} <= targets
    elif first == "python" and rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]), rest[1]
    elif first == "python":
        assert rest[0] == "-c" or (ROOT / rest[0]).exists(), rest[0]
    elif first in ("docker", "helm"):
        paths = [word for word in rest if word.startswith("deploy/")]
        assert paths and all((ROOT / path).exists() for path in paths)
    elif first == "kubectl":
        assert rest[0] == "create" or (ROOT / rest[rest.index("-f") + 1]).exists()
    else:
        assert first in OTHERS, f"{first}: a command that no test knows"


def shown() -> Iterator[tuple[str, str]]:
    """Page and line of every command in a block and in the prose."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "sh":
                yield from ((page, line) for line in block.commands())
            elif block.language == "yaml" and (called := re.search(rf"{NAME} .*", block.text)):
                yield page, called.group(0)
        for code in inline(page):
            words = code.split()
            if words[0] in cli.commands and len(words) > 1:
                yield page, f"{NAME} {code}"
            elif words[0] in (NAME, "make") or code.startswith("python -m "):
                yield page, code


SHOWN = list(dict.fromkeys(shown()))


def test_every_page_and_every_kind_of_command_is_looked_at() -> None:
    assert len(SHOWN) > 60
    assert {page for page, _ in SHOWN} >= {
        "README.md",
        "EXPERIMENTS.md",
        "docs/tutorial.md",
        "docs/how-to/drift.md",
    }
    assert {line.split()[0] for _, line in SHOWN} >= {NAME, "make", "python", "docker", "helm"}


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=lambda part: part[:70])
def test_every_command_of_the_documentation_exists(page: str, line: str) -> None:
    if line.startswith(f"{NAME} COMMAND "):
        line = line.replace("COMMAND", "run")
    verify(line)


@pytest.mark.parametrize(
    "line",
    [
        f"{NAME} fold",
        f"{NAME} run --fast",
        f"{NAME} topics delete",
        f"{NAME} check now",
        "make tea",
        "kubectl apply -f deploy/none.yaml",
        "python -m no",
        "nc",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        verify(line)


def test_every_file_and_folder_that_the_pages_name_is_there() -> None:
    folders = (
        "benchmarks",
        "deploy",
        "docs",
        "experiments",
        "explain_client",
        "explain_core",
        "service",
        "tests",
    )
    there = {
        f"/{path.relative_to(ROOT).as_posix()}" for name in folders for path in (ROOT / name).rglob("*.py")
    }
    there |= {f"/{block.name}" for page in PAGES for block in blocks(page)}
    looked_at = 0
    for page in PAGES:
        for code in inline(page):
            if re.fullmatch(r"[\w./-]+\.py", code):
                assert any(path.endswith(f"/{code}") for path in there), f"{page}: {code}"
                looked_at += 1
            elif re.fullmatch(r"\w[\w/]*/", code):
                assert (ROOT / code).is_dir(), f"{page}: {code}"
                looked_at += 1
    assert looked_at > 50


SETTINGS = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language == "yaml" and (block.name or "").endswith(".yaml")
]


@pytest.mark.parametrize("block", SETTINGS, ids=lambda block: f"{block.page}-{block.name}")
def test_every_file_of_settings_in_the_documentation_is_valid(block, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(block.text)
    assert load_settings(path, environ={}) != Settings()


PROGRAMS = ("docs/how-to/move.md", "docs/how-to/notebook.md")
"""Pages whose programs run by themselves."""

LOCAL = [page for page in PAGES if page.startswith("docs/how-to/")]


@pytest.mark.parametrize("page", LOCAL)
def test_what_needs_no_broker_does_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("EXPLAIN_")]:
        monkeypatch.delenv(name)
    (tmp_path / "sites.csv.gz").write_bytes(DATA.read_bytes())
    for block in blocks(page):
        if block.name:
            (tmp_path / block.name).write_text(block.text)
        if block.language == "python" and page in PROGRAMS:
            exec(compile(block.text, page, "exec"), {})
        for line in block.commands() if block.language == "sh" else []:
            first, *rest = shlex.split(line, comments=True)
            if first == "export":
                for variable in rest:
                    monkeypatch.setenv(*variable.split("=", 1))
                if (
                    "PYTHONPATH=$PWD:$PYTHONPATH" in rest
                ):  # a command that is installed does not look into the folder
                    monkeypatch.syspath_prepend(tmp_path)
            elif (
                first == NAME
                and ("config" in rest or rest[0] in ("dbshap", "explain", "key"))
                and "--against-running" not in rest
            ):
                cli.main(rest, prog_name=NAME, standalone_mode=False)
            elif first not in (NAME, "make", "docker", "helm", "kubectl") and "explain_client" not in line:
                subprocess.run(["bash", "-ec", line], check=True)
    out, err = capsys.readouterr()
    for phrase in SAYS[page]:
        assert phrase in out + err, out + err
    assert "not-this-one" not in out + err


DATA = Path(river.__path__[0]) / "datasets" / "phishing.csv.gz"
SAYS = {
    "docs/how-to/move.md": ["What drives the model", "error rate", "empty_server_form_handler"],
    "docs/how-to/notebook.md": [
        "1,250 records",
        "drive the model",
        "What drives the model",
        "empty_server_form_handler",
    ],
    "docs/how-to/changes.md": [],
    "docs/how-to/pipeline.md": [
        "settings are valid; the model is a Mixture of linear and forest for binary",
        "sites-explained",
    ],
    "docs/how-to/named-models.md": [],
    "docs/how-to/river-model.md": ["the model is a ARFClassifier for multiclass"],
    "docs/how-to/model.md": ["the model is a Majority for binary"],
    "docs/how-to/extend.md": ["settings are valid"],
    "docs/how-to/challenger.md": ["settings are valid"],
    "docs/how-to/versions.md": [],
    "docs/how-to/trained-model.md": ["the model is a function for binary"],
    "docs/how-to/alarms.md": [],
    "docs/how-to/segments.md": [],
    "docs/how-to/operate.md": [],
    "docs/how-to/dashboard.md": [],
    "docs/how-to/consume.md": [],
    "docs/how-to/drift.md": ["error rate "],
    "docs/how-to/secure.md": ["sasl.mechanism", "http.token"],
    "docs/how-to/cost.md": ["settings are valid"],
    "docs/how-to/predictions.md": [],
    "docs/how-to/without-labels.md": [],
    "docs/how-to/late-labels.md": [
        "settings are valid; the model is a Mixture of linear and forest for binary"
    ],
    "docs/how-to/formats.md": ["settings are valid; the model is a Mixture of linear and forest for binary"],
}
"""What the commands of a page must have said."""


def test_every_python_program_in_the_documentation_compiles() -> None:
    programs = [block for page in PAGES for block in blocks(page) if block.language == "python"]
    assert len(programs) > 3
    for block in programs:
        compile(block.text, block.page, "exec")


class Page(HTMLParser):
    """Anchors of a page, where it leads, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attributes}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        if tag in ("script", "img", "iframe") and "src" in has:
            self.loaded.append(has["src"])
        if tag == "link" and "stylesheet" in has.get("rel", ""):
            self.loaded.append(has["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    generate.main(folder / "build" / "docs")
    (folder / "zensical.toml").write_text((ROOT / "zensical.toml").read_text())
    zensical = Path(sys.executable).parent / "zensical"
    done = subprocess.run(
        [zensical, "build", "--strict"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


def test_no_link_of_the_site_leads_nowhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    written = {*generate.pages().values(), *generate.reference()}
    assert {path.relative_to(site).with_suffix(".md").as_posix() for path in pages} == written
    checked = 0
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert link in page.links, f"{path.name} loads {link}"
                continue
            target = Path(os.path.normpath(path.parent / parts.path)) if parts.path else path
            if target.is_dir():
                target /= "index.html"
            assert target.exists(), f"{path.name}: {link}"
            if parts.fragment and target in pages:
                assert parts.fragment in pages[target].anchors, f"{path.name}: {link}"
                checked += 1
    assert checked > 100


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(listed) == sorted([*generate.pages().values(), *generate.reference()])


def test_a_link_to_a_file_that_is_not_there_stops_the_build() -> None:
    with pytest.raises(ValueError, match=r"README.md: \[x\]\(docs/no.md\) leads nowhere"):
        generate._with_links("see [x](docs/no.md)", "README.md", "index.md", generate.pages())


def test_the_reference_has_every_setting_message_command_and_metric() -> None:
    pages = generate.reference()
    names = [
        row.split("`")[1] for row in pages["reference/settings.md"].splitlines() if row.startswith("| `")
    ]
    assert {"app_id", "kafka.bootstrap_servers", "explainers[].reservoir.size", "http.token"} < set(names)
    for section in Settings.model_fields:
        assert any(name.split(".")[0] == section for name in names), section
    for word in ("explanation/1", "drift/1", "dead-letter/1", "`digest`"):
        assert word in pages["reference/messages.md"]
    for command in ("run", "dead-letters replay", "completion"):
        assert f"## {NAME} {command}\n" in pages["reference/commands.md"]
    for metric in ("records_total", "step_seconds", "consumer_lag_records", "importance"):
        assert f"| `explain_sidecar_{metric}` |" in pages["reference/metrics.md"]
