"""Values in JSON by a JSON Schema: those that the schema does not allow are bad."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import orjson

from explain_sidecar.formats.errors import BadRecord, SchemaProblem
from explain_sidecar.formats.paths import levels

MAX_COST = 100_000_000
"""Largest product of a schema's units and a value's bytes; some four seconds, where all is at its worst."""

MAX_DETAIL = 30_000_000
"""Largest such product for which a complaint says what is wrong."""

MAX_TEXT = 300
"""Longest complaint, in characters."""

MAX_QUOTED = 60
"""Longest part of a text in a complaint, in characters."""

_BASE = "file:///"
_DRAFTS = {
    "http://json-schema.org/draft-04/schema": "Draft4",
    "http://json-schema.org/draft-06/schema": "Draft6",
    "http://json-schema.org/draft-07/schema": "Draft7",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012",
}
_CONTENTS = ("contentEncoding", "contentMediaType")
_MASK = "\0"
"""Stands for the value in the validator's words."""


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object in these bytes. Raises ``BadRecord`` where there is none."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRecord("not_json", f"the value is not JSON: {error}") from None
    if type(data) is not dict:
        raise BadRecord(
            "not_object", f"the value is a JSON {json_type(data)}; a labelled record is an object"
        )
    return data


def json_type(value: Any) -> str:
    """What JSON calls a value's type."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


class JsonSchema:
    """A JSON Schema of draft 4, 6, 7, 2019-09 or 2020-12, ready to validate by; ``format`` and unknown keywords mean nothing."""

    def __init__(self, source: bytes) -> None:
        """``source``: a JSON object of schemas by name, the one of the records under the empty name.

        Nothing is ever fetched: they include all referenced schemas. Raises ``SchemaProblem``.
        """
        import jsonschema_rs

        from explain_sidecar.formats.json_cost import MAX_PATTERN, SchemaCost

        documents: dict[str, Any] = orjson.loads(source)
        main = documents[""]
        head = main if isinstance(main, dict) else {}
        self.title = head["title"] if isinstance(head.get("title"), str) else None
        wanted = str(head.get("$schema", ""))
        if "draft-03" in wanted:
            raise SchemaProblem(f"$schema {wanted[:MAX_QUOTED]} is too old; write draft-07 or 2020-12")
        draft = _DRAFTS.get(wanted.rstrip("#"), "Draft7")
        resources, missing = {_BASE: main}, list[str]()

        def retrieve(address: str) -> Any:
            plain = unquote(address)
            names = [name for name in documents if name and (plain == name or plain.endswith("/" + name))]
            if not names:
                missing.append(address)
                raise LookupError
            resources[address] = documents[max(names, key=len)]
            return resources[address]

        try:
            registry = jsonschema_rs.Registry(
                [(_BASE, main)], draft=getattr(jsonschema_rs, draft), retriever=retrieve
            )
            cost = SchemaCost(_BASE, resources, registry)
            validator = getattr(jsonschema_rs, f"{draft}Validator")(
                main,
                registry=registry,
                base_uri=_BASE,
                validate_formats=False,
                mask=_MASK,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN),
                keywords={name: _Unasked for name in _CONTENTS if name.encode() in source},
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaProblem(f"it is no JSON Schema that can be used: {_words(error)}") from None
        except SchemaProblem:
            raise
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            if missing:
                raise SchemaProblem(
                    f"it refers to {missing[0][:MAX_QUOTED]}, which is not among its references"
                ) from None
            raise SchemaProblem(f"it is no JSON Schema that can be used: {error}"[:MAX_TEXT]) from None
        self._units, self._recursive = cost.units, cost.recursive
        self._is_valid, self._validate = validator.is_valid, validator.validate

    def read(self, body: bytes) -> dict[str, Any]:
        data = read_json(body)
        if self._units * len(body) > MAX_COST:
            raise BadRecord(
                "too_costly",
                f"validating the value may take {self._units:,} steps for each of its {len(body):,} bytes; make its JSON Schema simpler, "
                "or read it with format json, which validates nothing",
            )
        if not self._is_valid(data):
            raise BadRecord("not_valid", self._problem(data, len(body)))
        return data

    def _problem(self, data: dict[str, Any], size: int) -> str:
        """What is wrong with an invalid value: the first thing, unless it takes long to say so, as all alternatives are gone through again."""
        if self._units ** (sum(1 for _ in levels(data)) if self._recursive else 1) * size <= MAX_DETAIL:
            try:
                self._validate(data)
            except ValueError as error:
                if hasattr(error, "instance_path"):
                    return _words(error)
        return "it is not valid under its JSON Schema, which is too large, or the value too deep, for saying where; ask a validator"


class _Unasked:
    """A keyword that means nothing here, and something to the validator."""

    def __init__(self, *keyword: Any) -> None: ...

    def validate(self, value: Any) -> None: ...


def _words(error: Any) -> str:
    """What a validation error says, with where it is and a short quotation of the value."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"${''.join(parts)}: {error.message.replace(_MASK, _quoted(error.instance))}"[:MAX_TEXT]


def _quoted(value: Any) -> str:
    """A value in a message: numbers and short texts as they are."""
    if isinstance(value, dict | list):
        return f"the {json_type(value)}"
    text = orjson.dumps(value[:MAX_QUOTED] if isinstance(value, str) else value).decode()
    return f"{text[:-1]}…{text[-1]}" if isinstance(value, str) and len(value) > MAX_QUOTED else text
