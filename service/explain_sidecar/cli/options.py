"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, for programs.")

workers_option = click.option(
    "--workers",
    type=COUNT,
    default=1,
    show_default=True,
    help="Worker processes; they share the partitions.",
)

until_caught_up_option = click.option(
    "--until-caught-up",
    is_flag=True,
    help="Stop cleanly at the end offsets seen at the start; by default run until stopped.",
)

seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random draws."
)

missing_option = click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="A text that stands for a missing value, as an empty cell does. Can be repeated.",
)
