"""Where settings come from: a file and the environment. And what is said where one of them is wrong."""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from explain_sidecar.errors import SettingsError

PREFIX = "EXPLAIN_"
HIDDEN = "********"
DEFAULT = "default"

SettingPath = tuple[str | int, ...]
"""Names of sections and settings from the top, with the position in a list."""

Problem = tuple[SettingPath | str, str]
"""A setting by its path from the section that is validated, or by its name there, and what is wrong with it."""

_SECRET_KEY = re.compile(
    r"password|passphrase|secret|key|token(?!\.endpoint)|jaas|credential|user\.info|proxy|oauthbearer\.config",
    re.IGNORECASE,
)
_PROPERTIES = (("kafka", "config"), ("registry", "config"), ("model", "params"), ("challenger", "params"))
"""Settings that hold properties of a client or parameters of a model, passwords among them."""
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")
"""Of an address."""
_ADDRESSES = (("registry", "url"), ("tracing", "endpoint"))
_SECTIONS = (("kafka",), ("registry",), ("tracing",), ("http",), ("model",), ("challenger",))
_LONGEST_SHOWN = 100


class Layer(NamedTuple):
    """What one source sets, nested as the settings are."""

    source: str
    data: dict[str, Any]


def read_layers(config: Path | None, environ: Mapping[str, str]) -> list[Layer]:
    """The sources, the weakest first. Raises ``SettingsError`` that lists all that cannot be read."""
    layers, problems = [], []
    if config is not None:
        layers.append(Layer(f"file {config}", _read_file(config)))
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            path = variable.removeprefix(PREFIX).lower().split("__")
            try:
                data = _parse(environ[variable], path)
            except ValueError as error:
                problems.append(f"{variable}: {error}")
                continue
            for part in reversed(path):
                data = {part: data}
            layers.append(Layer(f"environment {variable}", data))
    if problems:
        raise SettingsError("\n".join(problems))
    return layers


def merged(layers: Iterable[Layer]) -> dict[str, Any]:
    """All layers as one, the strongest over the others."""
    result: dict[str, Any] = {}
    for layer in layers:
        result = merge(result, layer.data)
    return result


def source_of(path: SettingPath, layers: list[Layer]) -> str:
    """The source of the value at a path; that of the whole list or value where the path leads into one."""
    for layer in layers[::-1]:
        data: Any = layer.data
        in_list = False
        for part in path:
            if isinstance(data, list) and isinstance(part, int) and part < len(data):
                data, in_list = data[part], True
            elif isinstance(data, dict) and part in data:
                data = data[part]
            elif isinstance(data, dict):
                if in_list:  # a list is replaced whole: weaker sources do not reach into it
                    return DEFAULT
                break
            else:
                return layer.source
        else:
            return layer.source
    return DEFAULT


def walk(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every setting under a model, sections before what is in them; ``*`` stands for the position in a list."""
    for name, field in model.model_fields.items():
        yield (*path, name), field
        annotation, inner = field.annotation, (*path, name)
        if typing.get_origin(annotation) is list:
            (annotation,), inner = typing.get_args(annotation), (*inner, "*")
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from walk(annotation, inner)


def is_secret(path: SettingPath, model: type[BaseModel]) -> bool:
    """Whether the value must never be shown: a ``SecretStr``, or a password or key among a client's properties."""
    if path[:2] in _PROPERTIES:
        return any(names_secret(name) for name in path[2:])
    return any(
        SecretStr in typing.get_args(field.annotation) for known, field in walk(model) if known == path
    )


def names_secret(name: object) -> bool:
    """Whether what a property or parameter of this name holds is a password, a key or the like."""
    return _SECRET_KEY.search(str(name)) is not None


def without_credentials(text: str) -> str:
    """An address as it may be shown.

    >>> without_credentials("http://me:secret@host/model")
    'http://********@host/model'
    """
    return _CREDENTIALS.sub(f"{HIDDEN}@", text)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise one validation error for all problems."""
    found = [((path,) if isinstance(path, str) else path, message) for path, message in problems]
    if found:
        text = "; ".join(f"{dotted(path)}: {message}" for path, message in found)
        raise PydanticCustomError("settings", "{text}", {"text": text, "problems": found})


def dotted(path: SettingPath) -> str:
    """The name of a setting as it is written in messages: ``explainers.0.alpha``."""
    return ".".join(map(str, path))


def describe(error: ValidationError, layers: list[Layer], model: type[BaseModel]) -> str:
    """One line for each problem: the setting, the value seen, its source, what is allowed."""
    lines: list[str] = []
    of_kinds: dict[str, list[str]] = {}
    fields = dict(walk(model))
    for detail in error.errors(include_url=False):
        path, kind = detail["loc"], detail["type"]
        if kind == "settings":
            for inner, message in detail["ctx"]["problems"]:
                lines.append(f"{dotted(path + inner)} ({source_of(path + inner, layers)}): {message}")
        elif kind == "extra_forbidden":
            lines.append(_unknown(path, source_of(path, layers), list(fields)))
        elif kind == "missing":
            lines.append(
                f"{dotted(path)} ({source_of(path[:-1], layers)}): is missing; {_meaning(path, fields)}"
            )
        else:
            shown = "" if _may_hold_secret(path, model) else f" = {_short(detail['input'])}"
            setting = _without_kind(path, layers)
            problem = detail["msg"].removeprefix("Value error, ")
            meaning = _meaning(path, fields)
            line = f"{dotted(setting)}{shown} ({source_of(setting, layers)}): "
            if setting == path:
                lines.append(line + problem + (f". {meaning}" if meaning else ""))
            else:
                known = of_kinds.setdefault(line, [])
                known.append(problem.removeprefix("Input should be ") if known else problem)
    lines += [line + ", or ".join(problems) for line, problems in of_kinds.items()]
    return "\n".join(lines)


def _without_kind(path: SettingPath, layers: list[Layer]) -> SettingPath:
    """The setting that was given, of a path that ends with one of the kinds that its value may have."""
    given = any(_leads(path[:-1], layer.data) for layer in layers)
    is_kind = given and path[-1] != "[key]" and not any(_leads(path, layer.data) for layer in layers)
    return path[:-1] if is_kind else path


def _leads(path: SettingPath, data: Any) -> bool:
    for part in path:
        if not (
            part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        ):
            return False
        data = data[part]
    return bool(path)


def _read_file(path: Path) -> dict[str, Any]:
    def refused(reason: object) -> SettingsError:
        return SettingsError(f"--config {path}: {reason}")

    if path.suffix not in (".toml", ".yaml", ".yml"):
        raise refused(f"{path.suffix or 'no ending'} is not known; use .yaml, .yml or .toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise refused(f"cannot be read: {error}") from None
    data: Any
    if path.suffix == ".toml":
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise refused(f"is not TOML: {error}") from None
    else:
        import yaml

        from explain_sidecar.settings.yaml_files import Loader

        try:
            data = yaml.load(text, Loader)
        except yaml.MarkedYAMLError as error:
            # Its own text quotes from the line, which may hold a secret.
            what, where = re.sub("'.*'", "…", error.problem or ""), error.problem_mark
            place = f" in line {where.line + 1}, column {where.column + 1}" if where else ""
            raise refused(f"is not YAML: {what}{place}") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise refused(f"is not YAML: {type(error).__name__}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise refused("the top level must be a mapping from names of settings")
    # A section whose lines are all commented out is null.
    return {name: value for name, value in data.items() if value is not None}


def _parse(text: str, path: list[str]) -> Any:
    """JSON where it is a mapping or a list, or a parameter of a model, or a label; else the text; nothing at all is null."""
    if text[:1] in ("[", "{"):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"it is not JSON: {error}; write a mapping or list as JSON") from None
    if path[:2] in (["model", "params"], ["join", "unlabelled"]):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    if path == ["http", "token"]:
        return text  # a secret that is missing must not open the door
    return text or None


def merge(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both as one: mappings are merged, everything else is replaced by what is over it."""
    result = dict(under)
    for key, value in over.items():
        known = result.get(key)
        result[key] = merge(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def _unknown(path: SettingPath, source: str, known: list[tuple[str, ...]]) -> str:
    places = [part for part in path if isinstance(part, int)]
    wanted = dotted(tuple("*" if isinstance(part, int) else part.lower() for part in path))
    near = difflib.get_close_matches(wanted, map(dotted, known), n=1, cutoff=0.4)
    if not near:
        remedy = "`explain-sidecar config show` lists them all"
    else:
        name = near[0]
        for place in places:
            name = name.replace("*", str(place), 1)
        if source.startswith("environment") and not places:
            name = PREFIX + name.replace(".", "__").upper()
        remedy = f"did you mean {name}?"
    return f"{dotted(path)} ({source}): no such setting; {remedy}"


def _meaning(path: SettingPath, fields: Mapping[tuple[str, ...], FieldInfo]) -> str:
    field = fields.get(tuple("*" if isinstance(part, int) else part for part in path))
    return (field.description or "") if field else ""


def _may_hold_secret(path: SettingPath, model: type[BaseModel]) -> bool:
    """Also true for a section with secrets in it, whose value is shown as it came: unparsed."""
    return path in (*_SECTIONS, *_ADDRESSES, *_PROPERTIES) or is_secret(path, model)


def _short(value: Any) -> str:
    text = without_credentials(repr(value))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
