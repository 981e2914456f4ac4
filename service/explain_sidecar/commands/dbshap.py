"""``explain-sidecar dbshap``: why the risk of a model differs between two files of labelled rows."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from click import UsageError
from rich.console import Console
from rich.table import Table

from explain_client.words import figure, loss_name, of_loss, signed
from explain_core import losses
from explain_core.drift import RiskChange, dbshap
from explain_core.drift.change import Cause
from explain_core.markers import Markers, remarks
from explain_core.models import Model
from explain_core.report.rows import task_of
from explain_sidecar.commands.tables import read_table
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import load_model
from explain_sidecar.settings.model import ModelSettings
from explain_sidecar.terminal import plain

Columns = dict[str, list[Any]]


def run(
    baseline: Path,
    target: Path,
    *,
    label: str,
    model: str | None,
    hypothesis: str | None,
    loss: str | None,
    joint: bool,
    per_feature: bool,
    groups: Sequence[str],
    ignore: Sequence[str],
    missing: Sequence[str],
    max_cells: int,
    max_samples: int,
    bootstrap: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Print why the risk changed from the one file to the other, and draw it to a file.

    Raises ``UserError`` for a file that cannot be read, a model that cannot be made, and where ``dbshap`` refuses them.
    """
    if model and hypothesis:
        raise UsageError("--model and --hypothesis exclude each other; give one")
    if joint + per_feature + bool(groups) > 1:
        raise UsageError("--joint, --per-feature and --group exclude each other; give one kind")
    if plot is not None:
        _check_plot(plot)
    arguments = ("BASELINE", baseline), ("TARGET", target)
    first, second = (
        _labelled(of, table, label)
        for (of, _), table in zip(arguments, read_files(arguments, missing), strict=True)
    )
    known = [name for name in {**first, **second} if name != label]
    for name in ignore:
        if name not in known:
            raise UserError(
                f"--ignore {name}: neither file has a feature of that name; they have {', '.join(known)}"
            )
    learnt: Any = "tree"
    chosen = [] if loss is None else [loss]
    if not chosen:
        labels = [
            value
            for file in (first, second)
            for value in file.get(label, ())
            if isinstance(value, str | int | float)
        ]
        chosen = ["squared"] if task_of(labels) == "regression" else ["zero_one"]
        if labels and all(type(value) is int for value in labels):
            chosen = sorted(["squared", "zero_one"], key=lambda loss: loss not in chosen)
    try:
        if model is not None:
            learnt, loss = _load(model, chosen, seed)
        change = dbshap(
            first,
            second,
            label=label,
            hypothesis=learnt,
            loss=loss or chosen[0],
            factorisation=_groups(groups) or ("joint" if joint else "per_feature"),
            max_cells=max_cells,
            max_samples=max_samples,
            ignore=ignore,
            bootstrap=bootstrap,
            seed=seed,
            progress=not as_json and sys.stderr.isatty(),
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    for warning in (*remarks(_texts(first, second, label), "pass --missing"), *change.warnings):
        sys.stderr.write(f"warning: {plain(warning)}\n")
    if plot is not None:
        _draw(change, plot)
    if as_json:
        sys.stdout.write(change.to_json() + "\n")
    else:
        _print(change, baseline.name, target.name, ignore)


def _labelled(argument: str, table: Columns, label: str) -> Columns:
    """The rows that have a label, where some have; and a warning where some have none."""
    if table and label not in table:
        raise UserError(f"--label {label}: {argument} has no such column; it has {', '.join(table)}")
    there = [cell is not None for cell in table.get(label, ())]
    if all(there) or not any(there):
        return table
    sys.stderr.write(
        f"warning: {argument}: {len(there) - sum(there):,} of {len(there):,} rows have no label and are left out\n"
    )
    return {name: list(itertools.compress(cells, there)) for name, cells in table.items()}


def _load(factory: str, known: Sequence[str], seed: int) -> tuple[Model, str]:
    """The fitted model, and the first of the losses for which it is one: labels alone do not tell the classes 1 to 30 from numbers."""
    if not re.fullmatch(r"[\w.]+:[\w.]+", factory):
        raise UserError(f"--model {factory}: write module:function, what returns the fitted model")
    *before, last = known
    for loss in before:
        with suppress(UserError):
            return _load(factory, [loss], seed)
    task: Any = "regression" if losses.get(last).task == "regression" else "binary"
    try:
        return load_model(ModelSettings(factory=factory, static=True, task=task), seed), last
    except UserError as error:
        raise UserError(re.sub("^model.factory: ", "--model: ", str(error))) from None


def _groups(groups: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for group in groups:
        name, _, features = group.partition("=")
        if not name or not features or name in found:
            raise UsageError(f"--group {group}: write NAME=FEATURE,FEATURE,… with a name of its own")
        found[name] = features.split(",")
    return found


def _texts(first: Columns, second: Columns, label: str) -> dict[str, Markers]:
    """What the columns of texts hold, but the label's."""
    found: dict[str, Markers] = {}
    for name in [name for name in first if name in second and name != label]:
        cells = [cell for cell in (*first[name], *second[name]) if isinstance(cell, str | int | float)]
        if any(isinstance(cell, str) for cell in cells):
            found[name] = Markers()
            for cell in cells:
                found[name].add(cell)
    return found


def read_files(files: Sequence[tuple[str, Path]], missing: Sequence[str]) -> list[Columns]:
    """The columns of each (argument, file); a missing cell is None. What is text in one of them is text in all, as it stands there."""
    tables = [read_table(*path, None, missing) for path in files]
    kinds: dict[str, set[str]] = {}
    for name, kind in (item for table in tables for item in table.columns.items()):
        kinds.setdefault(name, set()).add("number" if kind == "integer" else kind)
    found = []
    for table in tables:
        rows = list(table.rows())
        found.append(
            {
                name: [
                    (row if len(kinds.get(name, ())) > 1 else cells)[name] if name in cells else None
                    for row, cells in rows
                ]
                for name in dict.fromkeys(name for row, _ in rows for name in row)
            }
        )
    return found


def _check_plot(file: Path) -> None:
    """Check, before a long computation, that the plot can be written to the file."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise UserError(
            f'--plot {file}: needs matplotlib; pip install "explanation-sidecar[plots]"'
        ) from None
    matplotlib.use("Agg")
    known = FigureCanvasAgg.get_supported_filetypes()
    if file.suffix.lstrip(".").lower() not in known:
        raise UserError(
            f"--plot {file}: the name must end in one of {', '.join(f'.{ending}' for ending in known)}"
        )
    if not file.parent.is_dir():
        raise UserError(f"--plot {file}: there is no directory {file.parent}")


def _draw(change: RiskChange, file: Path) -> None:
    from explain_core.plots import waterfall

    figure = waterfall(change).get_figure(root=True)
    assert figure is not None
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise UserError(f"--plot {file}: cannot be written: {error}") from None


def _print(change: RiskChange, baseline: str, target: str, ignored: Sequence[str]) -> None:
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False, emoji=False)

    def remedy(names: Sequence[str]) -> str:
        return "pass " + " ".join(f"--ignore {shlex.quote(name)}" for name in (*ignored, *names))

    console.print(plain(of_loss(change.sentence(baseline, target, remedy), change.loss)), style="bold")
    console.print()
    if change.verdict == "attributed":
        console.print(_causes(change))
        console.print()
    if change.differences:
        for found in change.differences:
            console.print(plain(found.sentence))
        console.print()
    console.print(_risks(change))
    product = change.product
    if product is not None and change.verdict == "attributed":
        by = (
            "its frequency table"
            if change.conditional == "table"
            else f"a tree per window, for a table would lack {change.back_off:.1%}"
        )
        how = f"{product.route}, {product.size:,}; P(y|x) by {by}; {change.bootstrap} resamples"
        console.print(f"\nsingle features: {how}", style="dim")


def _causes(change: RiskChange) -> Table:
    table = Table("cause", "contribution", "95 % interval", "", box=None, pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"

    def add(cause: Cause, indent: str = "") -> None:
        interval = (
            "" if cause.low is None or cause.high is None else f"{signed(cause.low)} … {signed(cause.high)}"
        )
        table.add_row(
            f"{indent}{plain(cause.name)}", signed(cause.value), interval, "◀" if cause.stands_out else ""
        )

    for cause in change.joint.players:
        add(cause)
    if change.product is not None:
        for cause in sorted(change.product.inputs, key=lambda cause: -abs(cause.value)):
            add(cause, "  ")
        table.add_row("  dependence", signed(change.dependence or 0.0))
    return table


def _risks(change: RiskChange) -> Table:
    table = Table("risk", "baseline", "target", box=None, pad_edge=False)
    windows = (change.baseline, change.target)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, values in (
        (f"{loss_name(change.loss)}, on the rows", [window.empirical for window in windows]),
        ("with independent inputs", [window.product for window in windows]),
    ):
        known = [figure(value) for value in values if value is not None]
        if len(known) == len(values):
            table.add_row(name, *known)
    table.add_row("rows", *(f"{window.rows:,}" for window in windows))
    table.add_row("alike in the other", *(f"{window.matched:.1%}" for window in windows))
    if any(window.evaluated < window.rows for window in windows):
        table.add_row("of them predicted", *(f"{window.evaluated:,}" for window in windows))
    return table
