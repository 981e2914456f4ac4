"""JSON Schemas: they mean what they mean elsewhere, and neither a schema nor a value makes a validation long."""

import random

import jsonschema
import orjson
import pytest

from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.formats.errors import BadRecord, SchemaProblem
from explain_sidecar.formats.json_nodes import MAX_STEPS
from explain_sidecar.formats.json_schema import JsonSchema
from explain_sidecar.settings import Settings

VALIDATORS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
NEW = "https://json-schema.org/draft/2020-12/schema"


def compiled(schema, **others):
    return JsonSchema(orjson.dumps({"": schema, **others}))


def refused(schema, value):
    """The class and the message of the bad record that a value is; None where it is a good one."""
    try:
        compiled(schema).read(value if isinstance(value, bytes) else orjson.dumps(value))
    except BadRecord as bad:
        return bad.error_class, str(bad)
    return None


# --- what a schema means ---------------------------------------------------------------------------------------------


def any_value(rng, depth=2):
    kind = rng.randrange(9 if depth else 7)
    if kind < 7:
        return [
            None,
            True,
            False,
            rng.randrange(-2, 4),
            rng.choice([0.5, 1.0, 2.5, 1e300]),
            "",
            rng.choice(["a", "ab", "ba"]),
        ][kind]
    if kind == 7:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice("abc"): any_value(rng, depth - 1) for _ in range(rng.randrange(4))}  # fmt: skip


def any_schema(rng, old, depth=3):
    if rng.random() < 0.1 and not old:
        return rng.random() < 0.7
    schema = {}

    def inner():
        return any_schema(rng, old, depth - 1)

    for _ in range(rng.randrange(1, 4)):
        plain = {
            "type": lambda: rng.choice(
                ["object", "array", "string", "integer", "number", ["null", "boolean"]]
            ),
            "enum": lambda: [any_value(rng) for _ in range(rng.randrange(1, 4))],
            "const": lambda: any_value(rng),
            "minimum": lambda: rng.choice([0, 1.5]),
            "maximum": lambda: 2,
            "exclusiveMinimum": lambda: True if old else 1,
            "exclusiveMaximum": lambda: False if old else 2,
            "multipleOf": lambda: rng.choice([2, 0.5]),
            "minLength": lambda: 1,
            "maxLength": lambda: 1,
            "pattern": lambda: rng.choice(["^a", "b$", "a|b"]),
            "minItems": lambda: 1,
            "maxItems": lambda: 2,
            "uniqueItems": lambda: rng.random() < 0.8,
            "minProperties": lambda: 1,
            "maxProperties": lambda: 1,
            "required": lambda: [rng.choice("abc")],
            "dependentRequired": lambda: {"a": ["b"]},
        }
        nested = {
            "items": lambda: inner() if old is None or rng.random() < 0.6 else [inner(), inner()],
            "additionalItems": inner,
            "prefixItems": lambda: [inner()],
            "contains": inner,
            "unevaluatedItems": inner,
            "properties": lambda: {name: inner() for name in "ab"},
            "patternProperties": lambda: {"^[bc]": inner()},
            "additionalProperties": lambda: rng.choice([False, inner()]),
            "unevaluatedProperties": lambda: rng.choice([False, inner()]),
            "propertyNames": inner,
            "dependencies": lambda: {"a": rng.choice([["b"], inner()])},
            "dependentSchemas": lambda: {"a": inner()},
            "allOf": lambda: [inner(), inner()],
            "anyOf": lambda: [inner(), inner()],
            "oneOf": lambda: [inner(), inner()],
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        }
        choices = {**plain, **nested} if depth else plain
        keyword = rng.choice(list(choices))
        schema[keyword] = choices[keyword]()
        if old and keyword.startswith("exclusive"):
            schema.setdefault("m" + keyword[10:].lower(), 1)
    return schema


@pytest.mark.parametrize("draft", VALIDATORS)
def test_values_are_valid_where_another_library_says_so(draft):
    rng = random.Random(draft)
    old = None if draft == NEW else "draft-04" in draft
    valid = tried = 0
    while tried < 1_500:
        schema = {"$schema": draft, "properties": {"x": any_schema(rng, old)}}
        try:
            VALIDATORS[draft].check_schema(schema)
        except jsonschema.SchemaError:
            continue
        tried += 1
        value = {"x": any_value(rng)}
        expected = VALIDATORS[draft](schema).is_valid(value)
        assert (refused(schema, value) is None) is expected, (schema, value)
        valid += expected
    assert 300 < valid < 1_200


def test_references_lead_within_a_document_and_to_others():
    schema = {
        "$id": "http://x/main.json",
        "definitions": {"old": {"$id": "#small", "maximum": 9}, "deep": {"$id": "in/er.json", "items": {"$ref": "#/$defs/a~1b%25"}, "$defs": {"a/b%": {"type": "null"}}}},
        "properties": {"a": {"$ref": "#small"}, "b": {"$ref": "in/er.json"}, "c": {"$ref": "tree"}, "d": {"$ref": "#/properties/a"}},
    }  # fmt: skip
    tree = {"properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    known = compiled(schema, tree=tree)
    known.read(b'{"a": 9, "b": [null], "c": {"next": {"next": {}}}, "d": 1}')
    for value, text in [
        (b'{"a": 10}', "$.a: 10 is more than the maximum of 9"),
        (b'{"d": 10}', "$.d: 10 is more than the maximum of 9"),
        (b'{"b": [null, 1]}', "$.b[1]: 1 is no null"),
        (b'{"c": {"next": {"x": 1}}}', "$.c.next.x: 1 is not allowed here"),
    ]:
        with pytest.raises(BadRecord) as bad:
            known.read(value)
        assert str(bad.value) == text


def test_a_dynamic_reference_leads_to_the_outermost_schema_that_has_its_anchor():
    tree = {"$id": "http://x/tree", "$dynamicAnchor": "node", "properties": {"kids": {"items": {"$dynamicRef": "#node"}}}}  # fmt: skip
    strict = {"$schema": NEW, "$id": "http://x/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": False}  # fmt: skip
    known = compiled(strict, **{"http://x/tree": tree})
    known.read(b'{"kids": [{"kids": []}]}')
    with pytest.raises(BadRecord, match=r"\$.kids\[0\].kid: "):
        known.read(b'{"kids": [{"kid": []}]}')


def test_a_message_quotes_little_of_a_long_value_and_is_the_same_in_every_process():
    long = {f"name{n}": "x" * 10_000 for n in range(50)}
    found = refused({"additionalProperties": {"maxLength": 5}}, long)
    assert found == ("not_valid", f'$.name0: "{"x" * 60}…" has more than 5 characters')
    assert refused({"additionalProperties": False}, long) == (
        "not_valid",
        f'$.name0: "{"x" * 60}…" is not allowed here',
    )


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"pattern": "^(?!x)"}}}, "the pattern ^(?!x) is not one of RE2 (invalid perl operator: (?!), which has no look-around"),
        ({"patternProperties": {r"(a)\1": {}}}, r"invalid escape sequence: \1"),
        ({"pattern": ".{1,2000}"}, "no repetitions above 1,000; write it without, or read the records with format json"),
        ({"pattern": 5}, "pattern is 5, which it cannot be"),
        ({"type": "date"}, 'type "date" does not exist'),
        ({"minimum": "5"}, 'minimum is "5", and must be a number'),
        ({"multipleOf": 0}, "multipleOf is 0, and must be more than 0"),
        ({"allOf": {}}, "allOf is the object, which it cannot be"),
        ({"properties": {"a": 1}}, "1 is where a schema must be"),
        ({"required": True}, "required is true, which it cannot be"),
        ({"$ref": "#/definitions/x"}, 'it refers to "#/definitions/x", which does not exist'),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "which is not among its references"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "is too old; write draft-07 or 2020-12"),
        (orjson.loads(b'{"items":' * 200 + b"{}" + b"}" * 200), "it has more than 150 levels"),
        ({"$id": "http://x/" + "a" * 1_000}, "an address of more than 1000 characters"),
        ({"allOf": [{"pattern": rf"\pL{{30}}{n}"} for n in range(200)]}, "taking it up takes more than"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_validated_by_is_refused_when_it_is_taken_up(schema, text):
    with pytest.raises(SchemaProblem) as problem:
        compiled(schema)
    assert text in str(problem.value)


# --- what takes long -------------------------------------------------------------------------------------------------

PERSON = "^([A-Za-z0-9]+[ .'-]?)*$"
DOUBLING = {
    "d0": {"type": "object"},
    **{f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n - 1}"}] * 2} for n in range(1, 61)},
}


@pytest.mark.parametrize(
    ("schema", "value", "error_class"),
    [
        # Python's own engine needs some 2 ** 60 tries here.
        ({"properties": {"name": {"pattern": PERSON}}}, {"name": "a" * 60 + "!"}, "not_valid"),
        ({"patternProperties": {PERSON: {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}, "not_valid"),
        ({"properties": {"name": {"pattern": "(a|b)*a(a|b){900}c"}}}, {"name": "ab" * 400_000}, "too_costly"),
        ({"$ref": "#/definitions/d60", "definitions": DOUBLING}, {}, "too_costly"),
        ({"unevaluatedProperties": False, "$schema": NEW, "$ref": "#/definitions/d60", "definitions": DOUBLING}, {}, "too_costly"),
        ({"properties": {"a": {"anyOf": [{"enum": [[1]]}] * 20_000}}}, {"a": list(range(50_000))}, "too_costly"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}] * 20_000}}}, {"a": list(range(50_000))}, "not_valid"),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [[n, {}] for n in range(50_000)] + [[0, {}]]}, "not_valid"),
        ({"$ref": "#"}, {}, "too_costly"),
        ({"allOf": [{"$ref": "#"}]}, {}, "too_costly"),
        ({"properties": {"a": {"$ref": "#"}}}, b'{"a":' * 900 + b"1" + b"}" * 900, "too_costly"),
        ({"properties": {"a": {"uniqueItems": True}}}, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "too_costly"),
    ],
)  # fmt: skip
def test_no_schema_and_no_value_makes_a_validation_long(schema, value, error_class):
    found = refused(schema, value)
    assert found is not None and found[0] == error_class
    if error_class == "too_costly":
        assert "read it with format json, which validates nothing" in found[1]


def test_the_steps_are_counted_and_belong_to_the_state():
    flat = {"properties": {"a": {"items": {"type": "integer"}}}}
    assert refused(flat, {"a": [1] * 400_000}) is None
    assert refused(flat, {"a": [1] * 700_000}) == refused(flat, {"a": [1] * 900_000})
    record = {"format": "json_schema"}
    known = Settings(record=record, registry={"url": "http://127.0.0.1:1"})
    assert fold_settings(known)["record"]["max_steps"] == MAX_STEPS
    assert "record" not in fold_settings(Settings())
