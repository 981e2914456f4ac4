"""Values in Protobuf: what its types mean to the fold.

Fields are named as in the .proto file. A scalar without presence that a record leaves out has its default; every other field that a record
leaves out, members of a oneof among them, is absent. Timestamps become milliseconds since 1970, durations milliseconds, wrappers
and Struct what is in them, enums their names, bytes Base64.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from explain_sidecar.formats.errors import BadRecord, Read, SchemaProblem
from explain_sidecar.formats.names import Names

Convert = Callable[[Any], Any]

_WELL_KNOWN = "google.protobuf."

MAX_DEPTH = 150
"""Types in a row, each with a field of the next. The library calls itself for each, and reads no value deeper than 100."""


class ProtobufSchema:
    """The messages of a file, ready to read. ``names``: those of its messages, the topmost first and in its order."""

    def __init__(self, source: bytes, names: Names | None = None) -> None:
        """``source``: a serialised FileDescriptorSet, dependencies first, the file with the messages last.

        ``names`` keeps renamed fields under the name of before. Raises ``SchemaProblem``.
        """
        self._pool = descriptor_pool.DescriptorPool()
        self._plans: dict[str, Convert] = {}
        self._open = 0
        self._names: dict[str, list[str]] = {}
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(source).file
            for file in files:
                self._pool.Add(file)
            found = [self._pool.FindFileByName(file.name) for file in files]
        except (DecodeError, TypeError, KeyError, ValueError) as error:
            raise SchemaProblem(f"it is no Protobuf file that can be used: {error}") from None
        if not found or not found[-1].message_types_by_name:
            raise SchemaProblem("it has no message")
        self._file = found[-1]
        for file in found:
            for message in _messages(file):
                fields = [(field.name, [str(field.number)]) for field in message.fields]
                known = names.of([message.full_name], fields) if names else [name for name, _ in fields]
                self._names[message.full_name] = known
        for name in self._names:
            self._plan(self._pool.FindMessageTypeByName(name))
        self.names = [message.full_name for message in self._file.message_types_by_name.values()]

    def at(self, path: tuple[int, ...]) -> str:
        """Full name of the message at a path of positions. Raises ``BadRecord`` where there is none."""
        inside: Any = self._file.message_types_by_name.values()
        name = ""
        for index in path:
            messages = list(inside)
            if not 0 <= index < len(messages):
                raise BadRecord(
                    "bad_frame",
                    f"the frame names message {list(path)} of a Protobuf file that has no such message",
                )
            name, inside = messages[index].full_name, messages[index].nested_types
        return name

    def has(self, name: str) -> bool:
        """Whether there is a message of this full name."""
        return name in self._names

    def message(self, name: str) -> Any:
        """The library's class of messages of this full name. Raises ``SchemaProblem`` where there is none."""
        if name not in self._names:
            raise SchemaProblem(f"it has no message {name!r}; it has {', '.join(self.names)}")
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def reader(self, name: str) -> Read:
        """A reader of messages of this full name. Raises ``SchemaProblem`` where there is none."""
        message = self.message(name)
        parse, convert = message.FromString, self._plan(message.DESCRIPTOR)

        def read(body: bytes) -> dict[str, Any]:
            try:
                found: dict[str, Any] = convert(parse(body))
            except (DecodeError, UnicodeDecodeError, OverflowError, ValueError, RecursionError) as error:
                raise BadRecord("not_protobuf", f"the value is no {name}: {error}") from None
            return found

        return read

    def _plan(self, message: Descriptor) -> Convert:
        """A converter from a message to a dictionary, or from a well-known type to the value that it stands for."""
        known = _KNOWN.get(message.full_name)
        if known is not None:
            return known
        if message.full_name in self._plans:
            return self._plans[message.full_name]
        if self._open == MAX_DEPTH:
            raise SchemaProblem(f"it has more than {MAX_DEPTH} types in a row, each with a field of the next")
        self._open += 1
        always: list[tuple[str, str, Convert | None]] = []
        present: list[tuple[str, str, Convert | None]] = []
        lists: list[tuple[str, str, Convert]] = []

        def convert(value: Any) -> dict[str, Any]:
            found = {
                name: getattr(value, field) if inner is None else inner(getattr(value, field))
                for name, field, inner in always
            }
            for name, field, inner in present:
                if type(value).HasField(value, field):  # a field may have the name of a method
                    content = getattr(value, field)
                    found[name] = content if inner is None else inner(content)
            for name, field, inner in lists:
                many = getattr(value, field)
                if many:
                    found[name] = inner(many)
            return found

        self._plans[message.full_name] = convert  # a message may hold others of its own type
        for field, name in zip(message.fields, self._names[message.full_name], strict=True):
            inner = self._of(field)
            if field.is_repeated:
                lists.append((name, field.name, self._repeated(field)))
            elif field.has_presence:
                present.append((name, field.name, inner))
            else:
                always.append((name, field.name, inner))
        self._open -= 1
        return convert

    def _of(self, field: FieldDescriptor) -> Convert | None:
        if field.message_type is not None:
            return self._plan(field.message_type)
        if field.enum_type is not None:
            texts = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda number: texts.get(number) or str(number)
        return _base64 if field.type == FieldDescriptor.TYPE_BYTES else None

    def _repeated(self, field: FieldDescriptor) -> Convert:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            inner = self._of(entry.fields_by_name["value"])
            # Protobuf promises no order of a map's entries.
            return lambda many: {
                str(key): many[key] if inner is None else inner(many[key]) for key in sorted(many)
            }
        each = self._of(field)
        return lambda many: list(many) if each is None else [each(item) for item in many]


def _messages(inside: FileDescriptor | Descriptor) -> Iterator[Descriptor]:
    nested = (
        inside.message_types_by_name.values() if isinstance(inside, FileDescriptor) else inside.nested_types
    )
    for message in nested:
        yield message
        yield from _messages(message)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _milliseconds(value: Any) -> float:
    whole: int
    rest: int
    whole, rest = divmod(value.nanos, 1_000_000)
    milliseconds: int = value.seconds * 1_000 + whole
    return milliseconds + rest / 1_000_000 if rest else milliseconds


def _json(value: Any) -> Any:
    """What a google.protobuf.Value stands for."""
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    inner = getattr(value, kind)
    return _struct(inner) if kind == "struct_value" else _list(inner) if kind == "list_value" else inner


def _struct(value: Any) -> dict[str, Any]:
    return {key: _json(value.fields[key]) for key in sorted(value.fields)}


def _list(value: Any) -> list[Any]:
    return [_json(value) for value in value.values]


def _plain(value: Any) -> Any:
    return value.value


_KNOWN: dict[str, Convert] = {
    f"{_WELL_KNOWN}Timestamp": _milliseconds,
    f"{_WELL_KNOWN}Duration": _milliseconds,
    f"{_WELL_KNOWN}Struct": _struct,
    f"{_WELL_KNOWN}Value": _json,
    f"{_WELL_KNOWN}ListValue": _list,
    f"{_WELL_KNOWN}FieldMask": lambda value: ",".join(value.paths),
    f"{_WELL_KNOWN}BytesValue": lambda value: _base64(value.value),
    **{
        f"{_WELL_KNOWN}{name}Value": _plain
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String")
    },
}
"""Messages that stand for something else than an object of their fields; an Any stays one, of type_url and value."""
