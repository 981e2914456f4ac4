"""``explain-sidecar explain``: the report of ``explain_core.watch`` on the rows of a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from explain_core.report import watch
from explain_sidecar.commands.tables import read_table
from explain_sidecar.errors import UserError
from explain_sidecar.terminal import plain


def run(
    file: Path,
    *,
    label: str,
    time: str | None,
    model: str | None,
    task: str | None,
    ignore: Sequence[str],
    missing: Sequence[str],
    seed: int,
    html: Path | None,
) -> None:
    """Print the report, and write it to a file.

    Raises ``UserError`` for a file that cannot be read or written, and for records and models that do not fit each other.
    """
    if html is not None and not html.parent.is_dir():
        raise UserError(f"--html {html}: there is no directory {html.parent}")
    table = read_table("FILE", file, None, missing)
    if not table.columns:
        raise UserError(f"FILE {file}: there are no rows; give a file with a header and rows, or objects")
    for option, names in (("--label", [label]), ("--time", [time] if time else []), ("--ignore", ignore)):
        for name in names:
            table.check(option, name)
    try:
        report = watch(
            [record for _, record in table.rows()],
            label,
            model=model,
            task=task,  # type: ignore[arg-type]
            time=time,
            ignore=ignore,
            seed=seed,
            progress=sys.stderr.isatty(),
        )
    except (ImportError, ValueError) as error:
        text = str(error)
        if (cause := text.removeprefix("model.uri: ")) != text:
            text = f"--model {cause}; by name there are mixture, linear, tree and forest"
        raise UserError(text) from None
    sys.stdout.write(plain(str(report), keep="\n") + "\n")
    if html is not None:
        try:
            html.write_text(report.to_html(), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--html {html}: cannot be written: {error}") from None
