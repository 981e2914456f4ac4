"""Values in JSON by a JSON Schema: those that the schema does not allow are bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from explain_sidecar.formats.errors import BadRecord, SchemaProblem
from explain_sidecar.formats.json_compiler import compiled
from explain_sidecar.formats.json_nodes import Run

Read = Callable[[bytes], dict[str, Any]]

MAX_TEXT = 300
"""Longest complaint about a schema, in characters."""


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
        try:
            schemas = orjson.loads(source)
            main = schemas[""]
            title = main.get("title") if isinstance(main, dict) else None
            self.title = title if isinstance(title, str) else None
            self._node = compiled(schemas)
        except BadRecord as costly:
            raise SchemaProblem(str(costly)) from None
        except SchemaProblem:
            raise
        # Keywords have values of the wrong types in as many ways as there are keywords.
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SchemaProblem(f"it is no JSON Schema that can be used: {error}"[:MAX_TEXT]) from None

    def read(self, body: bytes) -> dict[str, Any]:
        data = read_json(body)
        problem = self._node.apply(data, Run())
        if problem is not None:
            raise BadRecord("not_valid", str(problem))
        return data
