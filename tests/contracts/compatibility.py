"""Whether what reads messages by an old schema can read those of a new one."""

from typing import Any

Schema = dict[str, Any]


def breaks(old: Schema, new: Schema) -> list[str]:
    """What a reader by ``old`` may trip over in messages by ``new``; a reader ignores fields that it does not know.

    Nothing that a reader may rely on goes away: no field, no type, no bound. A field, and a value of a new key of a map, may come.
    """
    return list(dict.fromkeys(_breaks(old, new, old, new, "")))


def _breaks(old: Schema, new: Schema, old_root: Schema, new_root: Schema, path: str) -> list[str]:
    old, new = _resolved(old, old_root), _resolved(new, new_root)
    found: list[str] = []
    before, after = _kinds(old, old_root), _kinds(new, new_root)
    for kind in sorted(after - before if before else set()):
        if not (kind == "integer" and "number" in before):
            found.append(f"{path}: may be {kind}, and was {' or '.join(sorted(before))}")
    if before and not after:
        found.append(f"{path}: may be anything, and was {' or '.join(sorted(before))}")
    for keyword in ("const", "pattern"):
        if keyword in old and old[keyword] != new.get(keyword):
            found.append(f"{path}: {keyword} is {new.get(keyword)!r}, and was {old[keyword]!r}")
    if "enum" in old and not set(new.get("enum", [new.get("const", ...)])) <= set(old["enum"]):
        found.append(f"{path}: has values that were not in {old['enum']}")
    if "minimum" in old and new.get("minimum", float("-inf")) < old["minimum"]:
        found.append(f"{path}: may be less than {old['minimum']}")
    if old.get("x-unit") != new.get("x-unit"):
        found.append(f"{path}: its unit is {new.get('x-unit')}, and was {old.get('x-unit')}")
    for name in old.get("required", []):
        if name not in new.get("required", []):
            found.append(f"{path}/{name}: may be absent")
    for name, schema in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            found += _breaks(schema, new["properties"][name], old_root, new_root, f"{path}/{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(old.get(name), dict):
            found += _breaks(old[name], new.get(name) or {}, old_root, new_root, f"{path}/*")
    return found


def _resolved(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def _kinds(schema: Schema, root: Schema) -> set[str]:
    parts = schema.get("anyOf")
    if parts:
        return set().union(*(_kinds(_resolved(part, root), root) for part in parts))
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)
