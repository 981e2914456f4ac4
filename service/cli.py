"""The command line. Nothing heavy is imported before a command runs, so that ``--help`` answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from service.errors import SettingsError, UserError

if TYPE_CHECKING:
    from service.settings import Settings

NAME = "explain-sidecar"
FAILED, USAGE, INTERRUPTED = 1, 2, 130

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COUNT = click.IntRange(min=1)
_as_json = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, for programs.")
_workers = click.option(
    "--workers",
    type=_COUNT,
    default=1,
    show_default=True,
    help="Worker processes; they share the partitions.",
)
_until_caught_up = click.option(
    "--until-caught-up",
    is_flag=True,
    help="Stop cleanly at the end offsets seen at the start; by default run until stopped.",
)


def main() -> None:
    """Run a command. Exit status: 0 done, 1 failed, 2 wrong usage or setting, 130 interrupted."""
    try:
        sys.exit(cli.main(prog_name=NAME, standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SettingsError as error:
        _end(f"error: {error}", USAGE)
    except UserError as error:
        _end(f"error: {error}", FAILED)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output is gone; Python must not find that out again when it flushes.
        sys.stdout = None
        sys.exit(FAILED)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    type=_FILE,
    metavar="FILE",
    help="File with settings, YAML or TOML. The environment (EXPLAIN_…) overrides it.",
)
@click.version_option(package_name="explanation-sidecar", prog_name=NAME)
@click.pass_context
def cli(context: click.Context, config: Path | None) -> None:
    """Explain an online model that learns from a Kafka topic of labelled records.

    Settings come from the environment (EXPLAIN_KAFKA__BOOTSTRAP_SERVERS=…, `__` nests) or from a file;
    `config show` lists them all. To try it on this machine: `explain-sidecar demo`.
    """
    context.obj = config


@cli.command()
@_workers
@_until_caught_up
@click.option(
    "--with-join", is_flag=True, help="Run the join of events and labels beside it, with as many workers."
)
@click.pass_context
def run(context: click.Context, workers: int, until_caught_up: bool, with_join: bool) -> int:
    """Learn from records and publish explanations.

    Every explanation is published exactly once. The state is restored from the checkpoints topic. SIGTERM and Ctrl-C stop the workers cleanly.
    """
    from service.commands.run import run

    if with_join and until_caught_up:
        raise click.UsageError(
            "--until-caught-up stops before the join has written everything; run `join --until-caught-up` first"
        )
    return run(
        _load(context),
        config=context.obj,
        workers=workers,
        until_caught_up=until_caught_up,
        stages=("fold", "join") if with_join else ("fold",),
    )


@cli.group(invoke_without_command=True)
@_workers
@_until_caught_up
@click.pass_context
def join(context: click.Context, workers: int, until_caught_up: bool) -> int | None:
    """Join events and late labels into records.

    An event waits for its label as long as join.wait; every event has one outcome, exactly once.
    """
    if context.invoked_subcommand is not None:
        return None
    from service.commands.run import run

    return run(
        _load(context),
        config=context.obj,
        workers=workers,
        until_caught_up=until_caught_up,
        stages=("join",),
    )


@join.command("show")
@_as_json
@click.pass_context
def join_show(context: click.Context, as_json: bool) -> None:
    """Show what became of every event.

    matched + expired + dropped + pending = events, in each partition.
    """
    from service.commands.join import show

    show(_load(context), as_json=as_json)


@cli.command()
@click.option(
    "--input",
    "file",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="CSV file with a header, .csv or .csv.gz.",
)
@click.option(
    "--label",
    required=True,
    metavar="COLUMN",
    help="Column of the label; it is written to the field record.label.",
)
@click.option("--topic", metavar="T", help="Topic to write to; by default topics.records.")
@click.option("--key", metavar="COLUMN", help="Column of the Kafka key; by default records have no key.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="R",
    help="Records per second; by default as fast as possible.",
)
@click.option("--limit", type=_COUNT, metavar="N", help="Stop after this many records.")
@click.option(
    "--partitions", type=_COUNT, metavar="N", help="Partitions of the topic, if it must be created."
)
@click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="Cells of this text are missing values, as empty ones are; repeatable.",
)
@click.pass_context
def produce(
    context: click.Context,
    file: Path,
    label: str,
    topic: str | None,
    key: str | None,
    rate: float | None,
    limit: int | None,
    partitions: int | None,
    missing: tuple[str, ...],
) -> None:
    """Write the rows of a CSV file to a topic, in order.

    Each row becomes a labelled record: a JSON object with a field for each column. Empty cells are missing values.
    """
    from service.commands.produce import produce

    produce(
        _load(context),
        file=file,
        label=label,
        topic=topic,
        key=key,
        rate=rate,
        limit=limit,
        partitions=partitions,
        missing=missing,
    )


@cli.command()
@_as_json
@click.option(
    "--until-caught-up", is_flag=True, help="Stop at the end offsets seen at the start; by default follow."
)
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest message instead of the next one.")
@click.option("--drift", is_flag=True, help="Follow the drift topic instead: why the risk changed, in words.")
@click.option(
    "--alarms", is_flag=True, help="Follow the alarms topic instead: what changed since when, in words."
)
@click.pass_context
def tail(
    context: click.Context,
    as_json: bool,
    until_caught_up: bool,
    from_beginning: bool,
    drift: bool,
    alarms: bool,
) -> None:
    """Follow the explanations as they are published.

    Prints a table that refreshes; with --json one message per line.
    """
    from service.commands.tail import tail

    if drift and alarms:
        raise click.UsageError("--drift and --alarms are two topics; choose one of them")
    tail(
        _load(context),
        as_json=as_json,
        until_caught_up=until_caught_up,
        from_beginning=from_beginning,
        output="drift" if drift else "alarms" if alarms else "explanations",
    )


@cli.command()
@click.option("--open", "browser", is_flag=True, help="Open the dashboard in a browser.")
@click.pass_context
def dashboard(context: click.Context, browser: bool) -> None:
    """Serve the dashboard: what drives the model, in a browser.

    Reads only the output topics, of all instances. With http.enabled, `run` serves the dashboard too.
    """
    from service.http.dashboard import dashboard

    dashboard(_load(context), browser=browser)


@cli.group()
def topics() -> None:
    """Create the topics, or show them."""


@topics.command("create")
@click.option(
    "--partitions", type=_COUNT, metavar="N", help="Partitions of the records topic, if it is missing."
)
@click.pass_context
def topics_create(context: click.Context, partitions: int | None) -> None:
    """Create missing topics with the right configuration."""
    from service.commands.topics import create

    create(_load(context), partitions=partitions)


@topics.command("show")
@_as_json
@click.pass_context
def topics_show(context: click.Context, as_json: bool) -> None:
    """Show each topic's partitions, configuration and problems."""
    from service.commands.topics import show

    show(_load(context), as_json=as_json)


@cli.command()
@click.option(
    "--partition", type=click.IntRange(min=0), required=True, metavar="P", help="Partition to reset."
)
@click.option("--yes", is_flag=True, help="Do it; by default only say what would be lost.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "committed", "latest"]),
    default="committed",
    show_default=True,
    help="Offset of the new epoch's first record.",
)
@click.pass_context
def reset(context: click.Context, partition: int, yes: bool, start: str) -> None:
    """Begin a new epoch of a partition, with a new model.

    The explainers are new too. The old state is lost; published messages stay. Stop the sidecar first.
    """
    from service.commands.reset import reset

    reset(_load(context), partition=partition, yes=yes, start=start)


@cli.group()
def schemas() -> None:
    """Manage the messages' schemas in a Schema Registry."""


@schemas.command("register")
@_as_json
@click.pass_context
def schemas_register(context: click.Context, as_json: bool) -> None:
    """Register the schemas of explanations and drift messages.

    Registers them at registry.url, in registry.format, under the subjects TOPIC-value. A schema that is registered already stays as it is.
    """
    from service.commands.schemas import register

    register(_load(context), as_json=as_json)


@cli.group()
def checkpoint() -> None:
    """Show the snapshots."""


@checkpoint.command("show")
@_as_json
@click.option(
    "--clean",
    is_flag=True,
    help="Fail unless every snapshot is at its committed offset, so that a new version can be deployed.",
)
@click.pass_context
def checkpoint_show(context: click.Context, as_json: bool, clean: bool) -> None:
    """Show the snapshot of each partition.

    Prints its size, age and offsets, and whether it verifies."""
    from service.commands.checkpoint import show

    show(_load(context), as_json=as_json, clean=clean)


@cli.group()
def kafka() -> None:
    """Run a local broker, for development."""


@kafka.command("run")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="P", help="Port on 127.0.0.1; by default a free one."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder that keeps the data; by default a temporary one.",
)
@click.option(
    "--kafka-version", "release", metavar="V", help="Apache Kafka's release; by default the pinned one."
)
def kafka_run(port: int | None, data: Path | None, release: str | None) -> None:
    """Run Apache Kafka in the foreground, until Ctrl-C.

    Once the broker answers, the first line on stdout is bootstrap.servers=127.0.0.1:PORT.
    """
    from service.broker.embedded import run_foreground
    from service.broker.jars import KAFKA_VERSION

    run_foreground(port, data, release or KAFKA_VERSION)


@cli.command()
@_as_json
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Check whether `run` can work here.

    Changes nothing. Looks at the broker, the topics, the rights and the model, and decodes the newest 100 records to show their features.
    """
    from service.commands.check import check

    check(_load(context), as_json=as_json)


@cli.group("dead-letters")
def dead_letters() -> None:
    """Show dead letters, or write them to the records topic again."""


_error_class = click.option("--class", "error_class", metavar="CLASS", help="Only those of this error class.")


@dead_letters.command("show")
@_as_json
@_error_class
@click.option("--limit", type=_COUNT, default=20, show_default=True, metavar="N", help="Show the newest N.")
@click.pass_context
def dead_letters_show(context: click.Context, as_json: bool, error_class: str | None, limit: int) -> None:
    """Count dead letters by error class, and show the newest.

    With --json, print all of them with their payloads, one per line.
    """
    from service.commands.dead_letters import show

    show(_load(context), error_class=error_class, limit=limit, as_json=as_json)


@dead_letters.command("replay")
@_error_class
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Replay all that the topic holds, including what was replayed before.",
)
@click.option("--yes", is_flag=True, help="Do it; by default only say what would be written.")
@click.pass_context
def dead_letters_replay(
    context: click.Context, error_class: str | None, from_beginning: bool, yes: bool
) -> None:
    """Write dead letters to the records topic again, exactly once.

    Begins where the last replay ended. Records that still cannot be used become dead letters again.
    """
    from service.commands.dead_letters import replay

    replay(_load(context), error_class=error_class, from_beginning=from_beginning, yes=yes)


@cli.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell's completion script.

    SHELL is bash, zsh or fish. For bash, put this into ~/.bashrc: eval "$(explain-sidecar completion bash)". For zsh, put the same with zsh into
    ~/.zshrc. For fish, write the script to ~/.config/fish/completions/explain-sidecar.fish.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(cli, {}, NAME, f"_{NAME.upper().replace('-', '_')}_COMPLETE").source())


@cli.command()
@click.option(
    "--follow", is_flag=True, help="Keep the broker and the sidecar running at the end, until Ctrl-C."
)
@click.option("--limit", type=_COUNT, metavar="N", help="Stop after this many flights.")
@click.option(
    "--no-browser",
    "browser",
    is_flag=True,
    default=True,
    flag_value=False,
    help="Print the dashboard's address instead of opening it.",
)
def demo(follow: bool, limit: int | None, browser: bool) -> None:
    """Explain real flights: who is late, and why.

    Reads a year of departures from New York in time order, in under three minutes. Starts a local broker unless EXPLAIN_KAFKA__BOOTSTRAP_SERVERS names one.
    """
    from service.demo import demo

    demo(follow=follow, limit=limit, browser=browser)


@cli.command()
@click.argument("baseline", type=_FILE)
@click.argument("target", type=_FILE)
@click.option("--label", required=True, metavar="COLUMN", help="Column of the label.")
@click.option(
    "--model",
    metavar="FACTORY",
    help="`module:function` that returns the fitted model, e.g. mine:load. It must not have learnt from these rows.",
)
@click.option(
    "--hypothesis",
    type=click.Choice(["tree"]),
    help="Instead of a model: learn a tree from one half of BASELINE, and explain the other half. The default.",
)
@click.option(
    "--loss",
    metavar="NAME",
    help="zero_one (the default), cross_entropy, brier or hinge; for a number squared, absolute or huber.",
)
@click.option("--joint", is_flag=True, help="Treat the inputs as one cause.")
@click.option(
    "--per-feature",
    is_flag=True,
    help="Also split the inputs by feature, as if features were independent. The default.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME=A,B",
    help="Like --per-feature, with these features as one cause. Can be repeated.",
)
@click.option(
    "--bootstrap",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Resamples for the intervals of single features; 0 for none.",
)
@click.option(
    "--max-cells",
    type=_COUNT,
    default=100_000,
    show_default=True,
    help="Enumerate up to this many cells; sample if there are more.",
)
@click.option(
    "--max-samples",
    type=click.IntRange(min=100),
    default=200_000,
    show_default=True,
    help="Largest number of predictions, on rows and on samples each.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random draws."
)
@_as_json
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the change to this file, e.g. change.png.",
)
def dbshap(
    baseline: Path,
    target: Path,
    label: str,
    model: str | None,
    hypothesis: str | None,
    loss: str | None,
    joint: bool,
    per_feature: bool,
    groups: tuple[str, ...],
    bootstrap: int,
    max_cells: int,
    max_samples: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Say why a model errs more on one file than on another.

    Says whether the concept or the inputs changed, and which of the inputs.

    BASELINE and TARGET are files of labelled rows with the same columns, from two periods, regions or populations: CSV (.csv, .csv.gz), JSON
    lines (.jsonl, .jsonl.gz) or Parquet. Empty cells are missing values.
    """
    if model and hypothesis:
        raise click.UsageError("--model and --hypothesis exclude each other; give one")
    if joint + per_feature + bool(groups) > 1:
        raise click.UsageError("--joint, --per-feature and --group exclude each other; give one kind")
    members = {}
    for group in groups:
        name, _, features = group.partition("=")
        if not name or not features or name in members:
            raise click.UsageError(f"--group {group}: write NAME=FEATURE,FEATURE,… with a name of its own")
        members[name] = features.split(",")
    from service.commands.dbshap import run

    run(
        baseline,
        target,
        label=label,
        model=model,
        loss=loss,
        factorisation="joint" if joint else "per_feature",
        groups=members,
        max_cells=max_cells,
        max_samples=max_samples,
        bootstrap=bootstrap,
        seed=seed,
        as_json=as_json,
        plot=plot,
    )


@cli.group()
def config() -> None:
    """Show the settings in force, or check them."""


@config.command("show")
@_as_json
@click.pass_context
def config_show(context: click.Context, as_json: bool) -> None:
    """Show every setting with its source.

    Passwords, keys and tokens are hidden.
    """
    from service.commands.config import show

    show(_load(context), config=context.obj, as_json=as_json)


@config.command("check")
@_as_json
@click.pass_context
def config_check(context: click.Context, as_json: bool) -> None:
    """As show, and make the model once.

    Fails where `run` could not start for a setting or the model. Does not connect to Kafka.
    """
    from service.commands.config import check

    check(_load(context), config=context.obj, as_json=as_json)


def _load(context: click.Context) -> Settings:
    """The settings in force, with logging set up from them."""
    from service.logs import set_up_logging
    from service.settings import load_settings

    settings = load_settings(context.obj)
    set_up_logging(settings.log)
    return settings


def _end(message: str, status: int) -> None:
    click.echo(message, err=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
