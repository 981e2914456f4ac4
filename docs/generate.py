"""``python -m docs.generate``: the pages of the site into build/docs, those of the repository and those made from the code."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import click

from explain_sidecar.cli import NAME, cli
from explain_sidecar.http.metrics import Workers
from explain_sidecar.settings import Settings
from explain_sidecar.settings.sources import PREFIX
from explain_sidecar.wire import asyncapi
from explain_sidecar.wire.schemas import MODELS, schemas

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^ *```")
LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]+)\)")


def pages() -> dict[str, str]:
    """Path in the repository and path in the site of every page that is written by hand."""
    outside = {
        "README.md": "index.md",
        "EXPERIMENTS.md": "experiments.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "SECURITY.md": "security.md",
        "explain_client/README.md": "client.md",
        "explain_core/README.md": "library.md",
    }
    inside = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return outside | {f"docs/{page}": page for page in inside}


def reference() -> dict[str, str]:
    """Path in the site and text of every page that is made from the code."""
    return {
        f"reference/{name}.md": "\n".join(lines) + "\n"
        for name, lines in {
            "settings": _settings(),
            "messages": _messages(),
            "commands": _commands(),
            "metrics": _metrics(),
        }.items()
    }


def main(folder: Path) -> None:
    """Write all pages and images to ``folder``, anew. ``ValueError`` names a link that leads nowhere."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    written, made = pages(), reference()
    places = written | {f"docs/{page}": page for page in made}
    for source, page in written.items():
        _write(folder / page, _with_links((ROOT / source).read_text(encoding="utf-8"), source, page, places))
    for page, text in made.items():
        _write(folder / page, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _with_links(text: str, source: str, page: str, places: Mapping[str, str]) -> str:
    """The text with its links between files of the repository as links between pages; to other files there are none."""

    def moved(link: re.Match[str]) -> str:
        target, _, anchor = link.group(2).partition("#")
        if ":" in target or not target:
            return link.group(0)
        path = os.path.normpath(PurePosixPath(source).parent / target)
        place = places.get(path) or (path[5:] if path.startswith("docs/images/") else None)
        if not (place and path in places) and not (ROOT / path).exists():
            raise ValueError(f"{source}: {link.group(0)} leads nowhere")
        if place is None:
            return link.group(1)
        where = os.path.relpath(place, PurePosixPath(page).parent) + ("#" + anchor if anchor else "")
        return link.group(0).replace(f"({link.group(2)})", f"({where})")

    lines, fenced = [], False
    for line in text.split("\n"):
        fenced ^= bool(FENCE.match(line))
        lines.append(line if fenced else LINK.sub(moved, line))
    return "\n".join(lines)


def _table(*rows: tuple[str, ...]) -> Iterator[str]:
    """Lines of a table; the first row is its heading."""
    for number, row in enumerate(rows):
        yield "| " + " | ".join(map(_cell, row)) + " |"
        if number == 0:
            yield "| --- " * len(row) + "|"
    yield ""


def _cell(text: str) -> str:
    """On one line, and outside of code with nothing that would set it in italics."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if number % 2 else part.replace("*", "\\*") for number, part in enumerate(parts))


def _code(value: object) -> str:
    return f"`{value}`"


def _kind(schema: Mapping[str, Any]) -> str:
    """What values a JSON Schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["anyOf"]))
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for name in ("enum", "const"):
        if name in schema:
            values = schema[name] if name == "enum" else [schema[name]]
            return ", ".join(_code(value) for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    if isinstance(inner := schema.get("additionalProperties"), dict):
        return f"{{name: {_kind(inner)}}}"
    bounds = [
        f"{sign} {schema[key]:,}"
        for key, sign in {
            "minimum": "≥",
            "exclusiveMinimum": ">",
            "maximum": "≤",
            "exclusiveMaximum": "<",
        }.items()
        if key in schema
    ]
    return " ".join([schema.get("type", "any"), ", ".join(bounds)]).strip()


def _settings() -> Iterator[str]:
    schema = Settings.model_json_schema()
    yield "# Settings\n"
    yield (
        f"Each setting is a key of the file given by `--config` (YAML or TOML), or an environment variable, which overrides the "
        f"file: `model.factory` is `{PREFIX}MODEL__FACTORY`. Lists and objects are JSON there. `{NAME} config show` prints the "
        "settings in force with the source of each; `config check` also builds the model.\n"
    )
    yield from _section("", schema, schema["$defs"])


def _section(path: str, section: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """The settings of a section, then the sections in it."""
    rows, inner = [("setting", "values", "default", "meaning")], []
    for name, setting in section["properties"].items():
        reference = setting.get("$ref") or setting.get("items", {}).get("$ref")
        if reference:
            inner.append((name + ("[]" if "items" in setting else ""), known[reference.rsplit("/", 1)[-1]]))
        if not reference or "items" in setting:
            values = f"list, see [{name}](#{name})" if reference else _kind(setting)
            rows.append((_code(path + name), values, _default(setting), setting["description"]))
    yield from _table(*rows)
    for name, part in inner:
        yield f"## {(path + name).removesuffix('[]')}\n"
        yield f"{part['description']}\n"
        yield from _section(f"{path}{name}.", part, known)


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema or schema["default"] is None:
        return ""
    value = schema["default"]
    return _code(str(value).lower() if isinstance(value, bool) else "''" if value == "" else value)


def _messages() -> Iterator[str]:
    document = asyncapi.document()
    yield "# Messages\n"
    yield document["info"]["description"] + "\n"
    operations = [
        (
            operation["action"] + "s",
            _code(document["channels"][operation["channel"]["$ref"].rsplit("/", 1)[-1]]["address"]),
            operation["summary"],
        )
        for operation in document["operations"].values()
    ]
    yield from _table(("the sidecar", "topic, by default", "what for"), *operations)
    yield "The JSON Schemas and the AsyncAPI document are in schemas/ of the repository; this page is made from them.\n"
    seen: set[str] = set()
    for name in MODELS:
        schema = json.loads(schemas()[f"{name}.schema.json"])
        yield f"## {name}\n"
        yield from _fields(schema)
        for part, inner in schema.get("$defs", {}).items():
            if part not in seen:
                seen.add(part)
                yield f"### {part}\n"
                yield from _fields(inner)


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    yield schema["description"] + "\n"
    rows = [
        (
            _code(name),
            _kind(field),
            field.get("x-unit", ""),
            field["description"],
        )
        for name, field in schema.get("properties", {}).items()
    ]
    if rows:
        yield from _table(("field", "values", "unit", "meaning"), *rows)
    else:
        yield _kind(schema) + "\n"


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield (
        "Data goes to stdout, logs and messages go to stderr. The exit status is 0 if done, 1 if failed, 2 for wrong usage or a wrong setting, "
        "130 if interrupted.\n"
    )
    yield from _command(cli, click.Context(cli, info_name=NAME))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n"
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    records = [option.get_help_record(context) for option in command.get_params(context)]
    yield from _table(("option", ""), *((_code(names), text) for names, text in filter(None, records)))
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))


def _metrics() -> Iterator[str]:
    yield "# Metrics\n"
    yield "`/metrics` of `run` with `http.enabled`, in Prometheus' text format. The series of a partition end when the worker gives it away.\n"
    families = sorted(Workers([], {}, {}, importance=True).collect(), key=lambda family: family.name)
    yield from _table(
        ("metric", "kind", "labels", "meaning"),
        *(
            (
                _code(family.name + ("_total" if family.type == "counter" else "")),
                family.type,
                ", ".join(map(_code, family._labelnames)),
                family.documentation,
            )
            for family in families
        ),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs")
