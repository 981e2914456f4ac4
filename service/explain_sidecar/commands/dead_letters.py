"""``explain-sidecar dead-letters``: what could not be folded, and giving it back to the records topic."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from explain_client.fields import utc
from explain_sidecar.commands.printing import print_rows
from explain_sidecar.crash_points import reach
from explain_sidecar.errors import UserError
from explain_sidecar.fold.messages import LETTER_PREFIX, NOT_KEPT, letter_headers
from explain_sidecar.kafka.clients import CONNECT_SECONDS, ErrorLog, reading_consumer
from explain_sidecar.kafka.errors import Aborted, Fenced
from explain_sidecar.kafka.headers import offset_of, read_headers
from explain_sidecar.kafka.reading import read_to
from explain_sidecar.kafka.sent import Sent
from explain_sidecar.kafka.stream import messages
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.kafka.transaction import Transaction
from explain_sidecar.settings import Settings
from explain_sidecar.terminal import plain

BATCH = 1_000
"""Records given back in one transaction, together with how far the replay has come."""


log = logging.getLogger(__name__)


class DeadLetter(NamedTuple):
    """A dead letter: the original record, and what the sidecar's headers report."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    own_headers: list[tuple[str, bytes | None]]
    reported: dict[str, str]

    @property
    def error_class(self) -> str:
        return self.reported.get("errors.class", "unknown")

    def chosen(self, error_class: str | None) -> bool:
        """Whether it is given back where this class is asked for, or any (None)."""
        whole = self.error_class != NOT_KEPT and "masked" not in self.reported
        return whole and error_class in (None, self.error_class)


def show(
    settings: Settings, *, error_class: str | None = None, limit: int = 20, as_json: bool = False
) -> None:
    """Print how many there are of each class, and the newest; with ``as_json`` every one with its payload, one a line."""
    stream = messages(settings, settings.topics.dead_letters, "beginning", until_caught_up=True)
    letters = [_letter(message) for message in stream if message is not None]
    chosen = [letter for letter in letters if error_class in (None, letter.error_class)]
    if as_json:
        for letter in chosen:
            row = _row(letter) | {
                "key": _text(letter.key),
                "value": _text(letter.value),
                "headers": {k: _text(v) for k, v in letter.own_headers},
            }
            sys.stdout.write(orjson.dumps(row).decode() + "\n")
        return
    if not chosen:
        known = ", ".join(sorted({letter.error_class for letter in letters}))
        of_class = "" if error_class is None else f" of class {error_class}"
        sys.stdout.write(
            plain(f"there are no dead letters{of_class}{f', but of {known}' if known else ''}") + "\n"
        )
        return
    counts = Counter(letter.error_class for letter in chosen)
    print_rows([{"class": kind, "records": count} for kind, count in counts.most_common()], as_json=False)
    newest = sorted(
        chosen,
        key=lambda letter: (letter.reported.get("errors.timestamp", ""), letter.partition, letter.offset),
    )[-limit:]
    sys.stdout.write("\n")
    print_rows([_row(letter) for letter in newest], as_json=False)


def replay(
    settings: Settings, *, error_class: str | None = None, from_beginning: bool = False, yes: bool = False
) -> None:
    """Write the records back to the records topic, exactly once, beginning where the last replay ended.

    They are this sidecar's, and come as they were, without the sidecar's headers, at the end of the partition that they came from. How far the
    replay has come is committed with them, in the group ``app_id.dead-letters``. Records of other classes
    are passed over, and those that were too large to be kept or have masked fields.
    """
    topics = Topics(settings).written(settings.topics.records, settings.topics.dead_letters)
    group = reading_consumer(settings, group=f"{settings.app_id}.dead-letters")
    try:
        # Before anything is read: of two replays at the same time, one fences the other.
        name = f"{settings.app_id}-dead-letters"
        transaction = Transaction(settings, name, ErrorLog(), renews=False) if yes else None
        letters = list(
            _unreplayed(settings, group, topics[settings.topics.dead_letters].partitions, from_beginning)
        )
        classes = sorted({letter.error_class for letter in letters})
        if error_class and classes and error_class not in classes:
            raise UserError(
                f"--class: {error_class!r} is none of {', '.join(classes)}, of which there are dead letters to replay; nothing was passed over"
            )
        places = [letter.partition for letter in letters if letter.chosen(error_class)]
        count = topics[settings.topics.records].partitions
        if (last := max(places, default=0)) >= count:
            raise UserError(
                f"topics.records: {settings.topics.records!r} has no partition {last}, and {sum(place >= count for place in places)} dead "
                "letters came from where none is now; nothing was written. Give it as many by kafka-topics --alter --topic "
                f"{settings.topics.records} --partitions {last + 1}"
            )
        chosen = Counter(letter.error_class for letter in letters if letter.chosen(error_class))
        passed = len(letters) - chosen.total()
        rows = [{"class": kind, "records": count} for kind, count in chosen.most_common()]
        print_rows(rows, as_json=False)
        sys.stdout.write(
            f"{chosen.total():,} records to write to {settings.topics.records}"
            + (f"; {passed:,} of other classes, masked, or too large to be kept, are passed over for good" if passed else "") + "\n"
        )  # fmt: skip
        if not letters:
            return
        if transaction is None:
            raise UserError("nothing was written; correct the cause first, then add --yes")
        reach("dead_letters.read")
        for start in range(0, len(letters), BATCH):
            _give_back(settings, transaction, group, letters[start : start + BATCH], error_class)
    except Aborted as error:
        raise UserError(
            f"a transaction was aborted: {error}; the replay goes on from there when it is run again"
        ) from None
    except Fenced:
        raise UserError(
            "another `dead-letters replay` was begun meanwhile, and goes on from the last record that this one gave back"
        ) from None
    except KafkaException as error:
        raise UserError(f"dead letters: {error.args[0].str()}") from None
    finally:
        group.close()
    sys.stdout.write("done\n")


def _give_back(
    settings: Settings,
    transaction: Transaction,
    group: Consumer,
    letters: list[DeadLetter],
    error_class: str | None,
) -> None:
    transaction.begin()
    for letter in letters:
        if letter.chosen(error_class):
            transaction.send(
                Sent(settings.topics.records, letter.partition, letter.key, letter.value, letter.own_headers)
            )
    ends = {letter.partition: letter.offset + 1 for letter in letters}
    # The group has no members, so its metadata has no generation to check.
    transaction.commit(
        [TopicPartition(settings.topics.dead_letters, p, end) for p, end in ends.items()], group
    )


def _unreplayed(
    settings: Settings, group: Consumer, partitions: int, from_beginning: bool
) -> Iterator[DeadLetter]:
    topic = settings.topics.dead_letters
    committed = group.committed(
        [TopicPartition(topic, p) for p in range(partitions)], timeout=CONNECT_SECONDS
    )
    for position in committed:
        low, high = group.get_watermark_offsets(position, timeout=CONNECT_SECONDS)
        start = low if from_beginning or position.offset < low else position.offset
        if not from_beginning and max(position.offset, 0) < low:
            log.warning(
                "dead letters of partition %d before offset %d are gone: retention deleted them before they were replayed; the records topic may still have "
                "their records",
                position.partition,
                low,
            )
        for message in read_to(group, TopicPartition(topic, position.partition, start), high):
            letter = _letter(message)
            if letter.reported.get("app_id") == settings.app_id:
                yield letter


def _letter(message: Message) -> DeadLetter:
    headers = read_headers(message).headers
    reported = letter_headers(headers)
    own = [(name, value) for name, value in headers if not name.startswith(LETTER_PREFIX)]
    partition: int = message.partition()  # type: ignore[assignment]
    return DeadLetter(partition, offset_of(message), message.key(), message.value(), own, reported)


def _row(letter: DeadLetter) -> dict[str, Any]:
    reported = letter.reported
    moment = reported.get("errors.timestamp", "")
    return {
        "class": letter.error_class,
        "partition": letter.partition,
        "offset": reported.get("errors.offset"),
        "time": utc(int(moment)).replace(microsecond=0) if moment.isdecimal() and len(moment) < 20 else None,
        "message": reported.get("errors.message"),
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
