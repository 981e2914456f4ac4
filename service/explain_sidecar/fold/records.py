"""Input records: from the bytes of a Kafka message to features, label and weight, or to the reason for rejecting it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from explain_core.losses import MAX_NUMBER, fits_64_bits
from explain_sidecar.fold.selection import Choice, Selection
from explain_sidecar.formats.errors import BadRecord, Headers
from explain_sidecar.formats.json_schema import json_type
from explain_sidecar.formats.paths import ABSENT, find, path_of, roots
from explain_sidecar.formats.reading import ValueReader
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.settings.model import MAX_VERSION
from explain_sidecar.settings.records import HEADER, RecordSettings

Task = Literal["binary", "multiclass", "regression"]

ROUNDING = 1e-6
"""How far a served probability may be below 0 or above 1, as 32-bit floats may be."""

SUM_TOLERANCE = 1e-3
"""How far the sum of served probabilities may be from 1."""

MAX_CLASSES = 1_000
"""A label with more classes than this is taken for an id or a number; bounds the state."""


class InputRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message of the records topic. ``timestamp`` is Kafka's, in milliseconds since 1970.

    ``unreadable_headers`` counts the headers whose names are not UTF-8; they are not among ``headers``.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    unreadable_headers: int = 0

    @property
    def size(self) -> int:
        """Bytes that key, value and headers take in Kafka's format at the most."""
        lengths = (len(name.encode()) + len(value or b"") + 8 for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + sum(lengths)


class Sample(NamedTuple):
    """What the fold learns from: features by name, the label, a weight, event time in milliseconds, and the record's id.

    ``version`` is the version of the model that served the record, and ``served`` its prediction: a number, or probabilities by class. The label
    is ``ABSENT`` where a record without one is to be predicted. ``told`` says whether its prediction is published.
    """

    x: dict[str, Any]
    y: Any
    weight: float
    timestamp: int
    id: str | None
    version: str | None = None
    served: float | dict[str, float] | None = None
    told: bool = False

    @property
    def labelled(self) -> bool:
        return self.y is not ABSENT


Further = tuple[float, int, str | None, float | dict[str, float] | None]


class Decoder:
    """Decodes one record; every instance is bound to the record settings, the task, and the schemas of the records so far.

    ``columns`` gives the names of the features, where they depend on the version of the model that served the record; it raises
    what ``Versions.find`` does. ``choice`` has the records whose predictions are published.

    Features are numbers, strings and booleans; a null or absent feature, and one of the texts of
    ``record.missing``, is a missing value and left out.
    Raises ``BadRecord`` for everything else, and ``UnknownSchema`` where the record's schema is not there yet.
    """

    def __init__(
        self,
        settings: RecordSettings,
        task: Task,
        schemas: Schemas,
        columns: Callable[[str], Sequence[str]] | None = None,
        choice: Choice | None = None,
    ) -> None:
        self._settings, self._choice = settings, choice
        self._predicts = settings.unlabelled == "predict"
        self._read = ValueReader(settings, schemas).read
        self._regression, self._binary = task == "regression", task == "binary"
        self._label = path_of(settings.label)
        self._begins = "" if settings.root is None else f"; its path begins at record.root, {settings.root!r}"
        roles = {
            "weight": settings.weight,
            "timestamp": settings.timestamp,
            "id": settings.id,
            "prediction": settings.prediction,
        }
        self.further = {role: name for role, name in roles.items() if name is not None}
        """The fields that are neither label nor features nor the version, by their role."""
        self._further = {name: path_of(name) for name in self.further.values()}
        self._columns_of, self._columns = columns, list(settings.features or ())
        by_header = (settings.model_version or "").startswith(HEADER)
        self._version = None if by_header else path_of(settings.model_version)
        self.version_field = None if by_header else settings.model_version
        """The field that names the version of the model; None where a header does, or nothing."""
        self._renamed = [(old, path_of(new)) for old, new in settings.renamed.items()]
        named = (self._label, *self._further.values(), self._version)
        self._selection = Selection(settings)
        own = (name for path in named if path for name in roots(path))
        moved = (name for _, path in self._renamed for name in roots(path))
        self._reserved = (*own, *moved, *self._selection.reserved)
        self._features = (
            None if settings.features is None else [(name, path_of(name)) for name in settings.features]
        )
        self._missing = frozenset(settings.missing)
        self._names: tuple[str, ...] | None = None  # the field names of the last good record

    @property
    def plain(self) -> bool:
        """Whether records are JSON objects whose own fields are all that is read."""
        own = self._settings
        kept = (
            "label",
            "weight",
            "timestamp",
            "id",
            "prediction",
            "prediction_tolerance",
            "model_version",
            "features",
            "max_bytes",
            "max_string",
            "max_features",
            "masked",
            "on_bad",
            "unlabelled",
        )
        fields = [own.label, *self.further.values(), self.version_field, *(own.features or ())]
        names = [name for name in fields if name is not None]
        single = len(set(names)) == len(names) and not any("." in name for name in names)
        return single and own == type(own)(**{name: getattr(own, name) for name in kept})

    def decode(self, record: InputRecord) -> Sample | None:
        """The sample to learn from; None where ``record.where`` or ``record.deletes`` excludes the record."""
        value, settings = record.value, self._settings
        if record.unreadable_headers:
            raise BadRecord(
                "bad_header",
                f"{record.unreadable_headers} of the record's headers have names that are not UTF-8; the dead letter has the others",
            )
        if not self._selection.has_headers(record.headers):
            return None
        if value is None:
            self._selection.delete("the record has no value")
            return None
        if len(value) > settings.max_bytes:
            raise BadRecord(
                "too_large", f"the value has {len(value)} bytes; record.max_bytes is {settings.max_bytes}"
            )
        whole, schema = self._read(value, record.headers)
        data = self._selection.object_of(whole, schema)
        if data is None:
            return None
        for old, path in self._renamed:
            value_there = find(data, path)
            if value_there is not ABSENT:
                data = {**data, old: value_there}
        version = None
        if self._columns_of is not None:
            version = self._decode_version(data, record.headers)
            self._name_features(self._columns_of(version))
        y = self._decode_label(find(data, self._label))
        x = self._decode_features(data)
        further = {name: find(data, path) for name, path in self._further.items()}
        weight, timestamp, identity, served = self.decode_further(
            further, record.timestamp, labelled=y is not ABSENT
        )
        choice = self._choice
        told = choice is not None and choice.has(record.offset, record.headers, whole, schema)
        return Sample(x, y, weight, timestamp, identity, version, served, told)

    def decode_further(self, fields: dict[str, Any], timestamp: int, labelled: bool = True) -> Further:
        """Weight, time, id and, of a labelled record, served prediction by the fields that ``further`` names, for a record with that timestamp."""
        weight, identity, served = 1.0, None, None
        for role, name in self.further.items():
            value = fields.get(name, ABSENT)
            if role == "weight":
                weight = self._decode_weight(value)
            elif role == "timestamp":
                timestamp = milliseconds(value, name, self._begins)
            elif role == "id":
                identity = self._decode_id(value)
            elif labelled:
                served = self._decode_prediction(value)
        return weight, timestamp, identity, served

    def names_of(self, version: str) -> list[str] | None:
        """The features that are read of a record of that version of the model, in their order; None for all fields that are nothing else."""
        if self._columns_of is not None:
            self._name_features(self._columns_of(version))
        return None if self._features is None else [name for name, _ in self._features]

    def is_feature(self, field: str) -> bool:
        """Whether a field of a record is one by the settings alone."""
        if self._features is None:
            return field not in self._reserved
        return any(field == name for name, _ in self._features)

    def _name_features(self, columns: Sequence[str]) -> None:
        if self._settings.features is None and columns != self._columns:
            self._columns = list(columns)
            self._features = [(name, path_of(name)) for name in columns]

    def _decode_features(self, data: dict[str, Any]) -> dict[str, Any]:
        settings = self._settings
        if self._features is None:
            found = data.copy()
            for name in self._reserved:
                found.pop(name, None)
            if None in found.values():
                found = {name: value for name, value in found.items() if value is not None}
        else:
            found = {}
            for name, path in self._features:
                value = find(data, path)
                if value is not None and value is not ABSENT:
                    found[name] = value
        if self._missing:
            missing = self._missing
            found = {n: value for n, value in found.items() if type(value) is not str or value not in missing}
        names = tuple(found)
        if names != self._names:
            self._check_names(names)
        least, most, longest = -MAX_NUMBER, MAX_NUMBER, settings.max_string
        for name, value in found.items():
            kind = type(value)
            if kind is float:
                if not least <= value <= most:
                    raise BadRecord(
                        "not_finite",
                        f"feature {short(name)} is {value}; features are numbers between ±{MAX_NUMBER:g}",
                    )
            elif kind is str:
                if len(value) > longest:
                    raise BadRecord(
                        "string_too_long",
                        f"feature {short(name)} has {len(value)} characters; record.max_string is {longest}",
                    )
            elif kind is not int and kind is not bool:
                raise BadRecord(
                    "nested_feature",
                    f"feature {short(name)} is a JSON {json_type(value)}; name paths into it in record.features",
                )
        return found

    def _check_names(self, names: tuple[str, ...]) -> None:
        settings = self._settings
        if not names:
            raise BadRecord("no_features", "the record has no feature that is not null")
        if len(names) > settings.max_features:
            raise BadRecord(
                "too_many_features",
                f"the record has {len(names)} features; record.max_features is {settings.max_features}",
            )
        longest = max(map(len, names))
        if longest > settings.max_string:
            raise BadRecord("string_too_long", f"a feature's name has {longest} characters")
        self._names = names

    def _decode_label(self, label: Any) -> Any:
        name, kind = self._settings.label, type(label)
        if label is ABSENT or label is None:
            if self._predicts:
                return ABSENT
            raise BadRecord(
                "missing_label",
                f"the label {name!r} is {'null' if label is None else f'absent{self._begins}'}",
            )
        if self._regression:
            if kind is not float and kind is not int:
                raise BadRecord(
                    "bad_label", f"the label {name!r} is {short(label)}; a regression needs a number"
                )
            if not -MAX_NUMBER <= label <= MAX_NUMBER:
                raise BadRecord(
                    "not_finite",
                    f"the label {name!r} is {label}; a regression needs a number between ±{MAX_NUMBER:g}",
                )
            return float(label)
        if kind is float and label.is_integer():
            label, kind = int(label), int
        if kind is int and not fits_64_bits(label):
            raise BadRecord(
                "bad_label",
                f"the label {name!r} is {label:.0e}; a class that is a whole number has at most 64 bits",
            )
        if kind is not str and kind is not int and kind is not bool:
            raise BadRecord(
                "bad_label",
                f"the label {name!r} is {short(label)}; a class is a string, a whole number or a boolean",
            )
        if kind is str and len(label) > self._settings.max_string:
            raise BadRecord("string_too_long", f"the label {name!r} has {len(label)} characters")
        return label

    def _decode_weight(self, weight: Any) -> float:
        if weight is ABSENT or weight is None:
            return 1.0
        if type(weight) not in (int, float) or not 1 / MAX_NUMBER <= weight <= MAX_NUMBER:
            raise BadRecord(
                "bad_weight",
                f"the weight {self._settings.weight!r} is {short(weight)}; it must be a number between {1 / MAX_NUMBER:g} and {MAX_NUMBER:g}",
            )
        return float(weight)

    def is_of(self, version: str, record: InputRecord) -> bool:
        """Whether a record's headers name that version of the model, where it is for them to name it."""
        if self._columns_of is None or self._version is not None:
            return True
        try:
            return self._decode_version({}, record.headers) == version
        except BadRecord:
            return False

    def _decode_version(self, data: dict[str, Any], headers: Headers) -> str:
        name = self._settings.model_version or ""
        if self._version is None:
            wanted = name.removeprefix(HEADER)
            value: Any = next((value for key, value in reversed(headers) if key == wanted), None)
        else:
            value = find(data, self._version)
        if value is ABSENT or value is None:
            raise BadRecord(
                "missing_version",
                f"the model's version {name!r} is absent, or null; record.model_version names it{self._begins}",
            )
        if type(value) is bytes:
            value = value.decode(errors="replace")
        if type(value) not in (str, int) or not 0 < len(str(value)) <= MAX_VERSION:
            raise BadRecord(
                "bad_version",
                f"the model's version {name!r} is {short(value)}; it must be a whole number or a string of at most {MAX_VERSION} characters",
            )
        return str(value)

    def _decode_prediction(self, served: Any) -> float | dict[str, float]:
        """Probabilities are cut off at 0 and 1, between which they may be but for rounding."""
        name, kind = self._settings.prediction, type(served)
        if served is ABSENT or served is None:
            raise BadRecord(
                "missing_prediction",
                f"the served prediction {name!r} is {'null' if served is None else 'absent'}; record.prediction names it{self._begins}",
            )
        if kind is float or kind is int:
            if self._regression:
                if -MAX_NUMBER <= served <= MAX_NUMBER:
                    return float(served)
            elif self._binary and -ROUNDING <= served <= 1.0 + ROUNDING:
                return min(max(float(served), 0.0), 1.0)
        elif kind is dict and not self._regression and 0 < len(served) <= MAX_CLASSES:
            longest = self._settings.max_string
            if all(
                type(p) in (float, int) and -ROUNDING <= p <= 1.0 + ROUNDING and len(label) <= longest
                for label, p in served.items()
            ):
                found = {label: min(max(float(p), 0.0), 1.0) for label, p in served.items()}
                if abs(sum(found.values()) - 1.0) <= SUM_TOLERANCE:
                    return found
        wanted = "a number" if self._regression else "a mapping from class to probability, which add up to 1"
        if self._binary:
            wanted += ", or one probability"
        shown = (
            ", ".join(f"{label!r}: {short(p)}" for label, p in list(served.items())[:5])
            if kind is dict and served
            else short(served)
        )
        raise BadRecord("bad_prediction", f"the served prediction {name!r} is {shown}; it must be {wanted}")

    def _decode_id(self, value: Any) -> str | None:
        if value is ABSENT or value is None:
            return None
        if type(value) not in (str, int) or len(str(value)) > self._settings.max_string:
            raise BadRecord(
                "bad_id",
                f"the id {self._settings.id!r} is {short(value)}; it must be a short string or integer",
            )
        return str(value)


def milliseconds(value: Any, name: str | None, begins: str = "") -> int:
    """Milliseconds since 1970 from such a number, or from an ISO 8601 string (UTC unless it says otherwise). ``begins``: where its path does."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    try:
        if type(value) in (int, float):
            found = int(value)
        else:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            found = round(moment.timestamp() * 1000)
        if not -(2**63) <= found < 2**63:
            raise OverflowError
    except (TypeError, ValueError, OverflowError):
        raise BadRecord(
            "bad_timestamp",
            f"the timestamp {name!r} is {f'absent{begins}' if value is ABSENT else short(value)}; "
            "it must be milliseconds since 1970 or ISO 8601",
        ) from None
    return found


def short(value: Any) -> str:
    """A value for a message: its beginning, however long it is."""
    if isinstance(value, list | dict):
        return f"a JSON {json_type(value)}"
    text = repr(value[:101] if isinstance(value, str) else value)
    return text if len(text) <= 100 else text[:100] + "…"
