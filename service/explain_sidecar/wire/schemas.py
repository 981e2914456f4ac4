"""``python -m explain_sidecar.wire.schemas``: what is on the topics, as JSON Schemas and an AsyncAPI document, from the code into schemas/."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import Field, RootModel, TypeAdapter

from explain_client import DeadLetterHeaders
from explain_client.messages import OUTPUTS
from explain_sidecar.snapshots.snapshot import Manifest
from explain_sidecar.wire.asyncapi import document
from explain_sidecar.wire.avro import avro_schema
from explain_sidecar.wire.envelope import schema_id
from explain_sidecar.wire.registry import SCHEMAS

Scalar = float | int | str | bool | None


class LabelledRecord(RootModel[dict[str, Scalar | dict[str, Any]]]):
    """A record of the input with the default settings: a flat object of features and a field `label`.

    Features are numbers, strings and booleans; null and absent are a missing value. With `record.features` fields may be
    nested, and are named by paths such as `customer.age`.
    """

    root: dict[str, Scalar | dict[str, Any]] = Field(
        min_length=1,
        examples=[{"age": 31, "country": "PT", "returning": True, "income": None, "label": "bought"}],
    )


MODELS: dict[str, type] = {
    "record": LabelledRecord,
    **{SCHEMAS[output]: kind for output, kind in OUTPUTS.items()},
    "dead-letter-headers": DeadLetterHeaders,
    "checkpoint-manifest": Manifest,
}


def schemas() -> dict[str, str]:
    """File name and text of every schema."""
    return {f"{name}.schema.json": _text(_schema(name, model)) for name, model in MODELS.items()}


def documents() -> dict[str, str]:
    """File name and text of everything in schemas/: the schemas, those of Avro, and the AsyncAPI document that refers to them."""
    return {**schemas(), **avro_schemas(), "asyncapi.json": _text(document())}


def avro_schemas() -> dict[str, str]:
    """File name and text of the Avro schema of each message that a Schema Registry may frame."""
    return {f"{name}.avsc": _text(avro_schema(_schema(name, MODELS[name]))) for name in SCHEMAS.values()}


def _schema(name: str, model: type) -> dict[str, Any]:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": schema_id(f"{name}/1")}
    found = TypeAdapter(model).json_schema(by_alias=True, mode="serialization")
    if model is DeadLetterHeaders:  # a header that says nothing is left out
        known = found["properties"]
        found["required"] = [
            name for name in found["required"] if {"type": "null"} not in known[name].get("anyOf", [])
        ]
    return schema | found


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("schemas"))
