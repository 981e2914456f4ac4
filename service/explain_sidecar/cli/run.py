"""The command ``run``."""

from __future__ import annotations

import os

import click

from explain_sidecar.cli.options import until_caught_up_option, workers_option
from explain_sidecar.cli.root import cli, start


@cli.command()
@workers_option
@until_caught_up_option
@click.option(
    "--with-join", is_flag=True, help="Run the join of events and labels beside it, with as many workers."
)
@click.option(
    "--new-model",
    is_flag=True,
    help="Accept that the model begins anew where changed settings make another one (checkpoint.on_mismatch=new_model).",
)
@click.pass_context
def run(context: click.Context, workers: int, until_caught_up: bool, with_join: bool, new_model: bool) -> int:
    """Learn from records and publish explanations.

    Every explanation is published exactly once. The state is restored from the checkpoints topic. SIGTERM and Ctrl-C stop the workers cleanly.
    """
    from explain_sidecar.forks import FOLD

    if with_join and until_caught_up:
        raise click.UsageError(
            "--until-caught-up stops before the join has written everything; run `join --until-caught-up` first"
        )
    if new_model:  # the workers' settings are of this environment too
        os.environ["EXPLAIN_CHECKPOINT__ON_MISMATCH"] = "new_model"
    stages = ("fold", "join") if with_join else ("fold",)
    return start(context, FOLD, workers=workers, until_caught_up=until_caught_up, stages=stages)
