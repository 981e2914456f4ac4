"""The sidecar's fold without a broker: records in, messages out. For tests of a model; the sidecar must be installed beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from explain_client.errors import ClientError
from explain_client.messages import OUTPUTS, Alarm, Drift, Explanation, Prediction, Row

if TYPE_CHECKING:
    from explain_sidecar.fold.messages import Output
    from explain_sidecar.fold.partition import PartitionState
    from explain_sidecar.fold.records import InputRecord

FIRST_TIMESTAMP = 1_700_000_000_000
"""Of the first record, milliseconds since 1970; each further record is a second later."""


def environment_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables that give a sidecar its settings, from values by dotted name."""
    return {
        "EXPLAIN_" + name.upper().replace(".", "__"): str(value)
        if isinstance(value, (str, Path))
        else orjson.dumps(value).decode()
        for name, value in settings.items()
    }


class DeadLetter(NamedTuple):
    """A record that was rejected: its offset, the class of the error, the error in words, and its value."""

    offset: int
    error_class: str
    error_message: str
    value: bytes | None


def encoded(number: int, record: Mapping[str, Any]) -> bytes:
    """A record in JSON. Raises ``ClientError`` with the field that JSON cannot hold."""
    try:
        return orjson.dumps(record)
    except TypeError:
        for name, value in record.items():
            try:
                orjson.dumps({name: value})
            except TypeError as error:
                raise ClientError(
                    f"record {number}: {name!r:.40} is {value!r:.40}: {error}; pass what JSON can hold: a whole number of at most 64 bits, "
                    "a float, a text or a boolean, or the bytes of the record as they are"
                ) from None
        raise


class FoldDriver:
    """One partition of a sidecar, driven by hand: what a record causes is there when ``send`` returns.

    ``settings`` are the sidecar's by dotted name, such as ``{"model.factory": "majority:Majority", "emit.every": 10}``; settings of
    the environment do not count. Model, explainers, drift windows and snapshots are those of a running sidecar, to the last byte.

    ``explanations``, ``drifts``, ``alarms``, ``rows``, ``predictions`` and ``dead_letters`` have what was published so far, oldest first. Raises ``UserError`` of the sidecar
    for a wrong setting, or a model that cannot be explained or stored.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, partition: int = 0) -> None:
        from explain_sidecar.fold.version_source import VersionSource
        from explain_sidecar.settings import load_settings

        self.settings = load_settings(environ=environment_of(settings or {}))
        self.partition = partition
        self.explanations: list[Explanation] = []
        self.drifts: list[Drift] = []
        self.alarms: list[Alarm] = []
        self.rows: list[Row] = []
        self.predictions: list[Prediction] = []
        self.dead_letters: list[DeadLetter] = []
        self._inputs: list[InputRecord] = []
        self._outputs: list[Output] = []
        self._versions = VersionSource(self.settings)
        self._state = self._begin()

    def send(self, records: Iterable[Mapping[str, Any] | bytes | None]) -> None:
        """Fold labelled records; bytes and None are values as they are, for records that are to be rejected.

        Raises ``FoldError`` of the sidecar where the model fails, and ``ClientError`` for what JSON cannot hold.
        """
        from explain_sidecar.fold.records import InputRecord

        for record in records:
            offset = len(self._inputs)
            value = record if record is None or isinstance(record, bytes) else encoded(offset, record)
            made = InputRecord(offset, FIRST_TIMESTAMP + 1_000 * offset, None, value)
            outputs = self._step(self._state, made)
            self._inputs.append(made)
            self._outputs += outputs
            for output in outputs:
                self._take(offset, output)

    def restart(self) -> None:
        """What a restart does to the state: a snapshot of it is taken and restored. Raises ``SnapshotError`` of the sidecar."""
        self._state = self._restored(self._state)

    def verify(self, every: int = 1) -> None:
        """Fold all records again, with a restart after each ``every`` of them, and compare every byte of what is published.

        Raises ``AssertionError`` with the first record where it differs. A sidecar that was killed there would refuse to go on: the model is not
        a function of its input, or has state that a snapshot does not keep.
        """
        state, expected = self._begin(), iter(self._outputs)
        for record in self._inputs:
            for output in self._step(state, record):
                assert output == next(expected), (
                    f"the {output.destination} message of record {record.offset} differs when the records are folded again with a "
                    f"restart after each {every}: is the model's state all in its pickle, and is it free of clock and chance?"
                )
            if (record.offset + 1) % every == 0:
                state = self._restored(state)
        assert state.fold_digest == self._state.fold_digest, (
            "the model predicts something else when the records are folded again"
        )

    def _step(self, state: PartitionState, record: InputRecord) -> list[Output]:
        return state.supplied(record, lambda key: None, self._versions.find)

    def _begin(self) -> PartitionState:
        from explain_sidecar.snapshots.files import first_state

        return first_state(self.settings, self.partition)

    def _restored(self, state: PartitionState) -> PartitionState:
        from explain_sidecar.fold.identity import fold_settings
        from explain_sidecar.snapshots.snapshot import load, take

        settings = self.settings
        taken = take(state, settings.app_id, settings.topics.records, "", fold_settings(settings))
        return load(taken.model_copy(update={"trusted": True}), settings)  # it has not left this process

    def _take(self, offset: int, output: Output) -> None:
        from explain_sidecar.fold.messages import letter_headers

        if output.destination == "dead_letters":
            headers = letter_headers(output.headers)
            self.dead_letters.append(
                DeadLetter(offset, headers["errors.class"], headers["errors.message"], output.value)
            )
        else:
            found = self.drifts if output.destination == "drift" else getattr(self, output.destination)
            found.append(OUTPUTS[output.destination].from_json(output.value or b""))
