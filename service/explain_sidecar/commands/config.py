"""``explain-sidecar config``: the settings in force, with the source of each."""

from __future__ import annotations

import json  # integers of any size
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from explain_sidecar.commands.printing import console
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.formats.source import check_formats
from explain_sidecar.settings import Effective, Settings, effective
from explain_sidecar.settings.sources import DEFAULT
from explain_sidecar.snapshots.signatures import check_trust, read_keys
from explain_sidecar.terminal import plain

if TYPE_CHECKING:
    from explain_core.models import Model


def show(settings: Settings, *, config: Path | None = None, as_json: bool = False) -> None:
    """Print every setting, its value and its source on stdout; ``config`` is the file they were loaded from."""
    rows = effective(settings, config)
    if as_json:
        data = {row.name: {"value": row.value, "source": row.source} for row in rows}
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    else:
        console().print(_table(rows))


def check(
    settings: Settings, *, config: Path | None = None, as_json: bool = False, against_running: bool = False
) -> None:
    """As ``show``, and make the models once; say what a restart keeps of the newest snapshots. Raises ``UserError`` where that fails, or where ``run`` would ask for a key."""
    from explain_sidecar.fold.models import (
        described,
        described_challenger,
        foreign_code,
        load_challenger,
        load_model,
        record_settings,
    )
    from explain_sidecar.kafka.clients import check_properties
    from explain_sidecar.snapshots.files import check_first

    show(settings, config=config, as_json=as_json)
    # Some models print remarks on their parameters; stdout is for data.
    with redirect_stdout(sys.stderr):
        model = None if settings.models.enabled else load_model(settings.model, settings.seed)
        challenger = None if settings.challenger_model is None else load_challenger(settings, settings.seed)
        record_settings(settings)
        check_formats(settings)
        check_properties(settings)
        files, file = described(settings), described_challenger(settings)
        check_trust(read_keys(settings.checkpoint), foreign_code(settings))
        check_first(settings)
    task = settings.model.task
    lines = [
        f"settings are valid; versions of a model for {task} are explained as they are"
        if model is None
        else f"settings are valid; the model is a {model.title} for {task} and {_how(model, settings.model.static)}",
        files,
    ]
    if challenger is not None:
        how = _how(challenger, settings.challenger.static)
        lines += [f"the challenger is a {challenger.title} for {task} and {how}", file]
    lines += [f"warning: {sentence}" for sentence in settings.warnings]
    sys.stderr.write("".join(f"{line}\n" for line in lines if line))
    if against_running:
        _against(settings)


def _against(settings: Settings) -> None:
    """Say what a restart with these settings keeps of the newest snapshot of each partition.

    Raises ``UserError`` where a worker would stop instead.
    """
    from explain_sidecar.commands.stopped import stopped
    from explain_sidecar.fold.carry import carry_over
    from explain_sidecar.fold.identity import fold_settings
    from explain_sidecar.kafka.recovery import settings_difference

    found: dict[str, list[int]] = {}
    unusable: list[str] = []
    how, stops = settings.checkpoint.on_mismatch, False
    with stopped(settings, "check", hold=False, running=True) as sidecar:
        for partition in range(sidecar.records.partitions):
            said, manifest = "no snapshot yet", None
            try:
                manifest = sidecar.newest(partition)
            except SnapshotError as error:
                said = f"the newest snapshot cannot be used: {error}"
                unusable.append(str(partition))
            if manifest is not None:
                difference = settings_difference(manifest.settings, fold_settings(settings))
                said = "nothing changes: the state goes on"
                if difference:
                    carry = carry_over(manifest.settings, settings)
                    stops = stops or how == "fail" or (how == "carry" and carry.loses_model)
                    said = (
                        carry.sentence
                        if how != "reset"
                        else "nothing is carried over (checkpoint.on_mismatch is reset)"
                    )
                    said = f"a new epoch begins; {said}\n{difference}"
            found.setdefault(said, []).append(partition)
    for said, partitions in found.items():
        sys.stdout.write(f"partitions {', '.join(map(str, partitions))}: {said}\n")
    if unusable:
        raise UserError(
            f"with these settings the workers stop where they need the newest snapshot of partitions {', '.join(unusable)}; do what is said there"
        )
    if stops:
        raise UserError(
            "with these settings the workers stop: the model would begin anew, or checkpoint.on_mismatch is fail. "
            "Set them back; or accept a new model: explain-sidecar run --new-model"
        )


def _how(model: Model, static: bool) -> str:
    from explain_core.learners.base import Learner

    if static:
        return "is explained as it is"
    return f"learns in arrays ({model.kind})" if isinstance(model, Learner) else "learns by its own code"


def _table(rows: Iterable[Effective]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "source"):
        table.add_column(heading, overflow="fold")
    for name, value, source in rows:
        shown = (
            "-"
            if value is None
            else value
            if isinstance(value, str)
            else json.dumps(value, ensure_ascii=False)
        )
        table.add_row(
            name, plain(shown, keep="\n"), plain(source), style="dim" if source == DEFAULT else None
        )
    return table
