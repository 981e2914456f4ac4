"""``python -m benchmarks --data DIR --quix PYTHON [WORD…]``: run what docs/performance.md shows, and write into it what is printed.

The document names each run in a comment, ``<!-- run: python -m … -->``; all from there to ``<!-- end -->`` is replaced. Words choose the runs
whose command has one of them. A run whose DIR or PYTHON is not given stays as it is.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import click

DOCUMENT = Path("docs/performance.md")
RUN = re.compile(r"(?P<head><!-- run: python (?P<command>.*?) -->\n).*?(?P<tail><!-- end -->\n)", re.DOTALL)


@click.command(help=__doc__)
@click.argument("words", nargs=-1)
@click.option("--data", metavar="DIR", help="Folder of elec2.csv.gz.")
@click.option(
    "--quix",
    metavar="PYTHON",
    help="Interpreter of an environment with quixstreams, ixai and what explain-core needs.",
)
def main(words: tuple[str, ...], data: str | None, quix: str | None) -> None:
    given = {"DIR": data, "PYTHON": quix}
    for found in list(RUN.finditer(DOCUMENT.read_text())):
        command = found["command"]
        if words and not any(word in command for word in words):
            continue
        parts = [given.get(part, part) for part in shlex.split(command)]
        if None in parts:
            click.echo(f"left as it is: {command}", err=True)
            continue
        click.echo(command, err=True)
        printed = measured(list(filter(None, parts)))
        text = DOCUMENT.read_text()
        start = text.index(found["head"]) + len(found["head"])
        end = text.index(found["tail"], start)
        DOCUMENT.write_text(f"{text[:start]}\n{printed}\n\n{text[end:]}")


def measured(arguments: list[str]) -> str:
    """What a module prints, under the date, the machine's load before it and the time that it took, unless it says so itself."""
    load, started = os.getloadavg()[0], time.monotonic()
    wide = {**os.environ, "COLUMNS": "180"}
    done = subprocess.run([sys.executable, *arguments], env=wide, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise click.ClickException(
            f"{shlex.join(arguments)}: status {done.returncode}; the document is as it was"
        )
    minutes = (time.monotonic() - started) / 60.0
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    # Each line is a paragraph, and so is a table.
    inside = [line.startswith("|") and before.startswith("|") for before, line in pairwise(["", *lines])]
    spaced = [line if indented else f"\n{line}" for indented, line in zip(inside, lines, strict=True)]
    when = f"*{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {load:.1f} before, {minutes:.0f} min*"
    dated = re.match(r"\n*\d{4}-\d\d-\d\d, ", "\n".join(spaced))
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*([] if dated else [when, ""]), *spaced])).strip()


if __name__ == "__main__":
    main()
