"""JSON Schemas: what is taken and what is refused, in words, and that neither a schema nor a value makes a validation long."""

import subprocess
import sys

import orjson
import pytest

from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.formats.errors import BadRecord, SchemaProblem
from explain_sidecar.formats.json_schema import MAX_COST, JsonSchema
from explain_sidecar.settings import Settings

OLD, NEW = "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"


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


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        # Which draft it is: 4 by its name, else 7.
        ({"$schema": OLD, "type": "integer"}, b"1", b"1.0"),
        ({"type": "integer"}, b"1.0", b"1.5"),
        ({"$schema": OLD, "maximum": 2, "exclusiveMaximum": True}, b"1", b"2"),
        ({"exclusiveMaximum": 2}, b"1", b"2"),
        ({"$schema": NEW, "prefixItems": [{"type": "null"}]}, b"[null]", b"[1]"),
        ({"$schema": "http://127.0.0.1:1/own", "prefixItems": False, "maximum": 2}, b"[1]", b"3"),
        # Numbers as they are read: of 64 bits, all others doubles.
        ({"const": 1}, b"1.0", b"true"),
        ({"enum": [9007199254740993]}, b"9007199254740993", b"9007199254740992"),
        ({"maximum": 2**53}, b"9007199254740992.0", b"9007199254740993"),
        ({"type": "integer"}, b"123456789012345678901234567890", b"1e-5"),
        ({"multipleOf": 0.01}, b"19.99", b"19.995"),
        # What means nothing.
        ({"format": "date", "contentMediaType": "application/json", "contentEncoding": "base64", "type": "string"}, b'"{"', b"1"),
        ({"own": {"$ref": "nowhere"}, "type": "null"}, b"null", b"1"),
    ],
)  # fmt: skip
def test_what_a_schema_means(schema, good, bad):
    draft = {"$schema": schema.pop("$schema")} if "$schema" in schema else {}
    whole = {**draft, "properties": {"x": schema}}
    assert refused(whole, b'{"x": %b}' % good) is None
    error_class, text = refused(whole, b'{"x": %b}' % bad)
    assert error_class == "not_valid" and text.startswith("$.x")


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
        (b'{"a": 10}', "$.a: 10 is greater than the maximum of 9"),
        (b'{"d": 10}', "$.d: 10 is greater than the maximum of 9"),
        (b'{"b": [null, 1]}', '$.b[1]: 1 is not of type "null"'),
        (
            b'{"c": {"next": {"x": 1}}}',
            "$.c.next: Additional properties are not allowed ('x' was unexpected)",
        ),
    ]:
        with pytest.raises(BadRecord) as bad:
            known.read(value)
        assert str(bad.value) == text


def test_a_dynamic_reference_leads_to_the_outermost_schema_that_has_its_anchor():
    tree = {"$id": "http://x/tree", "$dynamicAnchor": "node", "properties": {"kids": {"items": {"$dynamicRef": "#node"}}}}  # fmt: skip
    strict = {"$schema": NEW, "$id": "http://x/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": False}  # fmt: skip
    known = compiled(strict, **{"http://x/tree": tree})
    known.read(b'{"kids": [{"kids": []}]}')
    with pytest.raises(BadRecord, match="kid' was unexpected"):
        known.read(b'{"kids": [{"kid": []}]}')


LONG = """
import orjson
from explain_sidecar.formats.json_schema import JsonSchema
schema = {"properties": {name: {"anyOf": [{"maxLength": 5}, {"type": "null"}], "enum": ["a", "b"]} for name in "abcdef"}, "additionalProperties": False}
try:
    JsonSchema(orjson.dumps({"": schema})).read(orjson.dumps({name * n: "x" * 10_000 for n in (1, 2) for name in "fedcba"}))
except ValueError as bad:
    print(bad)
except Exception as bad:
    print(bad)
"""


def test_a_message_quotes_little_of_a_long_value_and_is_the_same_in_every_process():
    said = {
        subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    }
    assert len(said) == 1
    found = refused({"properties": {"a": {"maxLength": 5}}}, {"a": "x" * 10_000})
    assert found == ("not_valid", f'$.a: "{"x" * 60}…" is longer than 5 characters')
    assert len(refused({"additionalProperties": False}, {f"name{n}": 1 for n in range(5_000)})[1]) <= 300


# --- what is refused -------------------------------------------------------------------------------------------------

DOUBLING = {
    "d0": {"type": "object"},
    **{f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n - 1}"}] * 2} for n in range(1, 31)},
}
STUBS = {
    f"s{n}": {"$id": f"s{n}", "$dynamicRef": f"#a{n}", "$defs": {"a": {"$dynamicAnchor": f"a{n}"}}}
    for n in range(20)
}
DYNAMIC = {f"a{n}": {"$dynamicAnchor": f"a{n}", "allOf": [{"$ref": f"s{n - 1}"}] * 2} for n in range(1, 21)}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"pattern": "^(?!x)"}}}, "the pattern ^(?!x) cannot be matched in linear time: it has look-around"),
        ({"patternProperties": {r"(a)\1": {}}}, r"the pattern (a)\1 cannot be"),
        ({"pattern": ".{1,2000}"}, "write it in another way, or read the records with format json"),
        ({"pattern": 5}, '$.pattern: 5 is not of type "string"'),
        ({"type": "date"}, '$.type: "date" is not'),
        ({"minimum": "5"}, '$.minimum: "5" is not of type "number"'),
        ({"multipleOf": 0}, "$.multipleOf: 0 is"),
        ({"allOf": {}}, "$.allOf: the object is not of type"),
        ({"properties": {"a": 1}}, "$.properties.a: 1 is not of types"),
        (5, "5 is not of type"),
        ({"$ref": "#/definitions/x"}, "it refers to '#/definitions/x', which does not exist"),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "refers to http://127.0.0.1:1/x.json, which is not among its references"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "is too old; write draft-07 or 2020-12"),
        (orjson.loads(b'{"items":' * 200 + b"{}" + b"}" * 200), "it has more than 64 schemas within each other"),
        ({"$ref": "#/definitions/d0", "definitions": {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(200)} | {"d200": {}}}, "more than 64"),
        ({"allOf": [{"pattern": rf"\w{{900}}{n}"} for n in range(2_000)]}, "takes more than 1,000,000 steps to take up"),
        # Few references make millions of schemas, also those that lead elsewhere from an outer document.
        ({"$ref": "#/definitions/d30", "definitions": DOUBLING}, "takes more than 1,000,000 steps"),
        ({"unevaluatedProperties": False, "$schema": NEW, "$ref": "#/definitions/d30", "definitions": DOUBLING}, "takes more than"),
        ({"$schema": NEW, "$ref": "#/$defs/a20", "$defs": {**STUBS, **DYNAMIC, "a0": {"$dynamicAnchor": "a0"}}}, "takes more than"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_validated_by_is_refused_when_it_is_taken_up(schema, text):
    with pytest.raises(SchemaProblem) as problem:
        compiled(schema)
    assert text in str(problem.value)


# --- what takes long -------------------------------------------------------------------------------------------------

PERSON = "^([A-Za-z0-9]+[ .'-]?)*$"
BOTH_WAYS = {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "type": type} for type in ("object", ["object"])]}


@pytest.mark.parametrize(
    ("schema", "value", "error_class"),
    [
        # Python's own engine needs some 2 ** 60 tries here.
        ({"properties": {"name": {"pattern": PERSON}}}, {"name": "a" * 60 + "!"}, "not_valid"),
        ({"patternProperties": {PERSON: {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}, "not_valid"),
        ({"properties": {"name": {"pattern": "(a|b)*a(a|b){900}c"}}}, {"name": "ab" * 400_000}, "too_costly"),
        ({"properties": {"a": {"anyOf": [{"enum": [[1]]}] * 2_000}}}, {"a": list(range(50_000))}, "too_costly"),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [[n, {}] for n in range(50_000)] + [[0, {}]]}, "not_valid"),
        # Schemas that lead to themselves meet each part of a value once, and what is wrong with a deep one takes too long to say.
        ({"$ref": "#"}, {}, None),
        ({"properties": {"a": {"$ref": "#"}}}, b'{"a":' * 900 + b"1" + b"}" * 900, None),
        (BOTH_WAYS, b'{"a":' * 900 + b"{}" + b"}" * 900, None),
        (BOTH_WAYS, b'{"a":' * 900 + b"1" + b"}" * 900, "not_valid"),
        ({"properties": {"a": {"uniqueItems": True}}}, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", None),
        ({"properties": {"a": {"type": "null"}}}, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "not_valid"),
        ({"properties": {"a": {"enum": [orjson.loads(b"[" * 200 + b"]" * 200)]}}}, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "not_valid"),
    ],
)  # fmt: skip
def test_no_schema_and_no_value_makes_a_validation_long(schema, value, error_class):
    found = refused(schema, value)
    assert (found and found[0]) == error_class
    if error_class == "too_costly":
        assert "read it with format json, which validates nothing" in found[1]


def test_the_cost_is_that_of_the_schema_and_the_bytes_and_belongs_to_the_state():
    flat = {"properties": {"a": {"items": {"type": "integer"}}}}
    assert refused(flat, {"a": [1] * 400_000}) is None
    text = refused({"allOf": [flat] * 40}, {"a": [1] * 600_000})[1]
    assert text.startswith("validating the value may take 125 steps for each of its 1,200,007 bytes; ")
    known = Settings(record={"format": "json_schema"}, registry={"url": "http://127.0.0.1:1"})
    assert fold_settings(known)["record"]["max_cost"] == MAX_COST
    assert "record" not in fold_settings(Settings())
