"""Values in JSON by a JSON Schema: those that the schema does not allow are bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from explain_sidecar.formats.errors import BadRecord, SchemaProblem

Read = Callable[[bytes], dict[str, Any]]

MAX_TEXT = 300
"""Longest message of a validator, in characters: it quotes the value."""


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
    """A JSON Schema, ready to validate by."""

    def __init__(self, source: bytes) -> None:
        """``source``: a JSON object of schemas by name, the one of the records under the empty name.

        Nothing is ever fetched: they include all referenced schemas. Raises ``SchemaProblem``.
        """
        import jsonschema
        import referencing
        from jsonschema.validators import validator_for
        from referencing.jsonschema import DRAFT7

        try:
            schemas = orjson.loads(source)
            main = schemas.pop("")
            resources = [
                (name, referencing.Resource.from_contents(schema, default_specification=DRAFT7))
                for name, schema in schemas.items()
            ]
            kind = validator_for(main, default=jsonschema.Draft7Validator)
            kind.check_schema(main)
            title = main.get("title") if isinstance(main, dict) else None
            self.title = title if isinstance(title, str) else None
            self._validator = kind(main, registry=referencing.Registry().with_resources(resources))
        except (
            jsonschema.SchemaError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            complaint = getattr(error, "message", None) or str(error)
            raise SchemaProblem(f"it is no JSON Schema: {complaint[:MAX_TEXT]}") from None

    def read(self, body: bytes) -> dict[str, Any]:
        data = read_json(body)
        try:
            error = next(self._validator.iter_errors(data), None)
        except RecursionError:
            raise BadRecord("not_valid", "the value has too many levels to be validated") from None
        # A dangling reference is found where it is used, by an exception of the underlying library.
        except Exception as problem:
            raise BadRecord("not_valid", f"the schema cannot be used: {problem}"[:MAX_TEXT]) from None
        if error is not None:
            raise BadRecord("not_valid", f"{error.json_path}: {error.message[:MAX_TEXT]}")
        return data
