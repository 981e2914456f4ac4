"""``explain-sidecar tail``: the explanation stream in a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import orjson
from click import UsageError
from confluent_kafka import Message
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from explain_client import (
    Drift,
    EstimatedLoss,
    Explanation,
    Prediction,
    Stories,
    Story,
    control_of,
)
from explain_client.errors import SchemaError
from explain_client.fields import read
from explain_client.frames import period_rows
from explain_client.messages import OUTPUTS
from explain_client.periods import WORSE, Driven
from explain_client.words import estimator_name, figure, loss_name, minute, of_loss
from explain_sidecar.errors import UserError
from explain_sidecar.fold.rejections import LAST, MANY
from explain_sidecar.headline import differing, made_of
from explain_sidecar.kafka.stream import Start, messages
from explain_sidecar.settings import Settings
from explain_sidecar.terminal import plain, plain_json

Segments = dict[tuple[int, int, str], dict[str | None, dict[str, Any]]]
"""By partition, epoch and estimator: what was told last of each value."""

log = logging.getLogger(__name__)

REFRESH_SECONDS = 0.25
TOP = 8


def tail(
    settings: Settings,
    *,
    as_json: bool = False,
    until_caught_up: bool = False,
    from_beginning: bool = False,
    drift: bool = False,
    alarms: bool = False,
    predictions: bool = False,
    periods: str | None = None,
) -> None:
    """Follow the explanations, or the output that is asked for: one JSON message a line, else a table that refreshes, for the others a sentence a line.

    With ``periods``, a name of ``emit.periods``, what drove the model over each that ended: a sentence a line, or a row of JSON for each mean.
    Raises ``UserError`` for alarms where they are off, and for a period that the setting does not have.
    """
    asked = {"drift": drift, "alarms": alarms, "predictions": predictions}
    outputs = [name for name, wanted in asked.items() if wanted]
    if len(outputs) + (periods is not None) > 1:
        raise UsageError(
            "--drift, --alarms, --predictions and --periods show different things; choose one of them"
        )
    (output,) = outputs or ["explanations"]
    if periods is not None and periods not in (known := [str(period) for period in settings.emit.periods]):
        raise UserError(
            f"--periods {periods}: emit.periods has {', '.join(known) or 'none'}; choose one of them"
        )
    if output not in settings.outputs:
        raise UserError(f"{output}.enabled is false: no {output} are published; set it to true")
    start: Start = "beginning" if from_beginning or until_caught_up else "newest"
    if output == "alarms" and not as_json:
        _stories(settings, start, until_caught_up)
        return
    stream = messages(settings, getattr(settings.topics, output), start, until_caught_up)
    told = (message for message in stream if message is not None)
    if periods is not None:
        for message in told:
            if _has_periods(message) and (explanation := _read(settings, message)) is not None:
                _periods(settings, explanation, periods, as_json)
        return
    if as_json:
        for message in told:
            sys.stdout.buffer.write((message.value() or b"") + b"\n")
            sys.stdout.buffer.flush()
        return
    console = Console(markup=False, emoji=False)
    if output != "explanations":
        for message in told:
            one: Prediction | Drift | None = _read(settings, message)
            if one is None:
                continue
            source = f"{one.topic} {settings.name_of(one.partition, one.keys)} offset {one.offset}"
            if isinstance(one, Prediction):
                source += f", id {one.id}" if one.id is not None else ""
                said = one.sentence(settings.predictions.top)
            else:
                said = one.told
            console.print(Text(plain(f"{source}: {said}")), soft_wrap=True)
        return
    latest: dict[int, dict[str, Any]] = {}
    segments: Segments = {}
    drawn = 0.0
    with Live(console=console, auto_refresh=False) as live:
        for came in stream:
            if came is not None and _read(settings, came) is not None:
                body = latest[came.partition() or 0] = orjson.loads(came.value() or b"{}")
                for name, segment in body.get("segments", {}).items():
                    whose = body["partition"], body["epoch"], name
                    segments.setdefault(whose, {})[segment["value"]] = segment
            if time.monotonic() - drawn > REFRESH_SECONDS:
                live.update(view(settings, latest, segments), refresh=True)
                drawn = time.monotonic()
        live.update(view(settings, latest, segments), refresh=True)
    if not console.is_terminal:
        console.line()  # which rich writes to terminals alone


def _stories(settings: Settings, start: Start, until_caught_up: bool) -> None:
    """A line whenever a story is told otherwise: once all messages of a moment have come."""
    topics, console = settings.topics, Console()
    also = [topic for topic in (topics.control, topics.drift, topics.explanations) if topic is not None]
    stories, told = Stories(), dict[tuple[int, str], str]()
    changed: dict[tuple[int, str], Story] = {}
    console.print(Text(f"At most one change in {settings.alarms.one_in:,} records is told by chance alone."))
    stream = messages(settings, topics.alarms, start, until_caught_up, also=also)
    for message in chain(stream, [None]):
        if message is not None:
            if message.topic() == topics.explanations and not _has_periods(message):
                continue
            found = stories.add(part) if (part := _read(settings, message)) is not None else []
            changed |= {(story.partition, story.key): story for story in found}
            continue
        for place, story in changed.items():
            if (text := story.sentence()) != told.get(place):
                told[place] = text
                source = f"{story.topic} {settings.name_of(story.partition, story.keys)}"
                console.print(Text(plain(f"{source}: {text}")), soft_wrap=True)
        changed = {}


def _has_periods(message: Message) -> bool:
    return b'"periods":[{' in (message.value() or b"")


def _read(settings: Settings, message: Message) -> Any:
    """A message, by its topic; None, and a warning, for what is none."""
    topics, topic = settings.topics, message.topic()
    kinds = {getattr(topics, output): kind for output, kind in OUTPUTS.items()}
    try:
        read_as = control_of if topic == topics.control else kinds[topic].from_json
        return read_as(message.value() or b"")
    except SchemaError as error:
        log.warning(
            "%s partition %s offset %s: %s", message.topic(), message.partition(), message.offset(), error
        )
        return None


def _periods(settings: Settings, explanation: Explanation, name: str, as_json: bool) -> None:
    if as_json:
        for row in period_rows(explanation):
            if row["name"] == name:
                sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
        sys.stdout.buffer.flush()
        return
    for period in explanation.periods:
        if period.name != name:
            continue
        where = f"{explanation.topic} {settings.name_of(explanation.partition, explanation.keys)}"
        for estimator, by_loss in period.importances.items():
            if not by_loss:  # too young for any mean
                continue
            said = period.sentence(estimator, next(iter(by_loss)))
            begin, until, by = minute(period.begin), minute(period.until), estimator_name(estimator)
            Console().print(Text(plain(f"{where} {begin} to {until}, {by}: {said}")), soft_wrap=True)


def view(settings: Settings, latest: dict[int, dict[str, Any]], segments: Segments | None = None) -> Group:
    """The newest explanation of each partition: is the model worth something, and what drives it; and its segments, as told last."""
    if not latest:
        return Group(
            Text(
                "no explanation yet: the sidecar publishes one every emit.every records that it can use; `explain-sidecar dead-letters show` has the others",
                style="dim",
            )
        )
    tables: list[Table | Text] = []
    for partition in sorted(latest):
        message = plain_json(latest[partition])
        tables += _partition(settings, message)
        for (number, epoch, name), known in (segments or {}).items():
            if (number, epoch) == (partition, message["epoch"]):
                tables.append(_by_segment(plain(name), plain_json(list(known.values()))))
    return Group(*tables)


def _name(settings: Settings, message: dict[str, Any]) -> str:
    return settings.name_of(message["partition"], message.get("keys"))


def _partition(settings: Settings, message: dict[str, Any]) -> Iterator[Table | Text]:
    loss, performance = next(iter(message["performance"].items()))
    losses = performance["model"], performance["empty"]
    model, empty = ("unknown" if one is None else figure(one) for one in losses)
    gain = None if None in losses else losses[1] - losses[0]
    better = "" if gain is None else f" ({'better' if gain > 0 else 'worse'} by {figure(abs(gain))})"
    version = f", version {message['version']['name']}" if message.get("version") else ""
    title = (
        f"{message['topic']} {_name(settings, message)}{version}: {message['records']:,} records, {loss_name(loss)} "
        f"{model}, without features {empty}{better}"
    )
    state = message.get("model") or {}
    if state.get("weights"):
        title += f", {made_of(state['weights'])}"
    if performance.get("served") is not None:
        title += f", served {figure(performance['served'])}"
    skew = message.get("skew")
    if skew is not None and skew["differing"]:
        title += f"; {skew['differing']:,} of {skew['checked']:,} served predictions are not the model's, by up to {figure(skew['largest'])}"
    if performance.get("clipped"):
        title += f"; {performance['clipped']:,} losses count as the largest"
    if message["status"] == "warming":
        title += f", warming up ({message['explained']:,} explained)"
    if performance.get("floor") is not None:
        title += f", alarms from a change of {figure(performance['floor'])}"
    if message["rejected_recently"] > MANY:
        title += f"; {message['rejected_recently']:,} of the last {LAST:,} records could not be used"
    yield Text(title, style="bold")
    for name, estimated in (message.get("estimated_loss") or {}).items():
        yield Text(read(EstimatedLoss, estimated).sentence(loss_name(name)))
    worse = state.get("worse_since")
    if worse is not None:
        said = WORSE.format(f"{minute(worse['timestamp'])}, offset {worse['offset']}")
        yield Text(f"{said[0].upper()}{said[1:]}.", style="red")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("feature", max_width=30, overflow="fold")
    names = [name for name, by_loss in message["importance"].items() if loss in by_loss]
    free = [
        name for name, by_loss in message["importance"].items() if not {*by_loss} & {*message["performance"]}
    ]
    yield from (_moved_by(name, message) for name in free)
    if not names:
        return
    for name in names:
        over = _remembered((message.get("estimators") or {}).get(name) or {})
        table.add_column(Text(f"{estimator_name(name)} [low, high]{over}"), justify="right")
    first = names[0]
    columns = [message["importance"][name][loss] for name in names]
    for feature in ranking(message, first)[:TOP]:
        table.add_row(Text(feature), *(_cell(cells.get(feature), _form(cells)) for cells in columns))
    hidden = len(message["importance"][first][loss]) - TOP
    if hidden > 0:
        table.add_row(Text(f"and {hidden} more", style="dim"))
    yield table
    driven = (message.get("drivers") or {}).get(first, {}).get(loss)
    if driven is not None:
        yield Text(f"{estimator_name(first)}: {read(Driven, driven).sentence(loss=loss_name(loss))}")
    if message.get("challenger"):
        yield Text(_compared(message["challenger"], first, loss))


def _remembered(estimator: dict[str, Any]) -> str:
    """How many records a value is smoothed over, as the sentence below the table is about others; nothing where that is not told."""
    if "alpha" not in estimator:
        return ""
    alpha = estimator["alpha"]
    return "\nall records" if alpha is None else f"\n~{float(f'{2.0 / alpha - 1.0:.1g}'):,.0f} records"


def _compared(challenger: dict[str, Any], estimator: str, loss: str) -> str:
    """Which model is better, and what matters more to which."""
    more, less = differing(challenger["importance_difference"][estimator][loss])
    matters = "; ".join(
        f"{', '.join(names[:TOP])} matter{'s' * (len(names) == 1)} {how} to the challenger"
        for names, how in ((more, "more"), (less, "less"))
        if names
    )
    shift = (challenger.get("explanation_shift") or {}).get("sentence")
    return f"{challenger['name']}: " + "; ".join(
        filter(None, (of_loss(challenger["difference"][loss]["sentence"], loss), matters, shift))
    )


def _moved_by(name: str, message: dict[str, Any]) -> Text:
    """What moves the predictions most, by an estimator without labels."""
    cells = next(iter(message["importance"][name].values()))
    known = [feature for feature in ranking(message, name) if cells[feature]["value"] is not None][:TOP]
    return Text(
        f"{estimator_name(name)}: the predictions are moved most by {', '.join(known) or 'nothing that is known yet'}"
    )


def _by_segment(estimator: str, segments: list[dict[str, Any]]) -> Table:
    """The segments of an estimator with most records."""
    segments = sorted(segments, key=lambda segment: -segment["records"])
    loss = next(iter(segments[0]["performance"]))
    feature = segments[0]["feature"]
    title = Text(f"by {feature}, {estimator_name(estimator)}", style="bold")
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(Text(feature), max_width=30, overflow="fold")
    for column in ("records", loss_name(loss), "without features", "what matters most"):
        table.add_column(column, justify="right")
    for segment in segments[:TOP]:
        performance, cells = segment["performance"][loss], segment["importance"][loss]
        known = {name: cell["value"] for name, cell in cells.items() if cell["value"] is not None}
        first = max(known, key=lambda name: known[name], default=None)
        table.add_row(
            Text("others" if segment["value"] is None else segment["value"]),
            f"{segment['records']:,}",
            figure(performance["model"]),
            figure(performance["empty"]),
            Text("–" if first is None else f"{first} {_cell(cells[first], _form(cells))}"),
        )
    if len(segments) > TOP:
        table.add_row(Text(f"and {len(segments) - TOP} more", style="dim"))
    return table


def ranking(message: dict[str, Any], estimator: str) -> list[str]:
    """Features of a message, the most important first."""
    cells = next(iter(message["importance"][estimator].values()))
    known = {feature: cell["value"] for feature, cell in cells.items()}
    return sorted(known, key=lambda feature: -known[feature] if known[feature] is not None else 0.0)


def _form(cells: Mapping[str, Mapping[str, float | None]]) -> str:
    """How the numbers of a column are written, by the largest of them.

    >>> [_form({"a": {"value": value}}) for value in (0.02, -2e3, 3e10, 4e-8, None)]
    ['+.4f', '+,.0f', '+.3g', '+.3g', '+.4f']
    """
    largest = max((abs(cell["value"]) for cell in cells.values() if cell["value"]), default=1.0)
    return "+.4f" if 1e-3 <= largest < 1e3 else "+,.0f" if 1e3 <= largest < 1e9 else "+.3g"


def _cell(cell: Mapping[str, float | None] | None, form: str) -> str:
    if cell is None or cell["value"] is None:
        return "–"
    band = "" if cell["low"] is None else f" [{cell['low']:{form}}, {cell['high']:{form}}]"
    return f"{cell['value']:{form}}{band}"
