"""The root of the command line: exit status, settings, and the group that every command joins."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from explain_sidecar.cli.options import FILE
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.pinned import PINNED

if TYPE_CHECKING:
    from explain_sidecar.settings import Settings

NAME = "explain-sidecar"
FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Run a command. Exit status: 0 done, 1 failed, 2 wrong usage or setting, 130 interrupted."""
    _prepare_streams()
    os.environ.update(PINNED)  # numpy is not imported yet
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


def _prepare_streams() -> None:
    """A character that the locale cannot print is escaped. What is printed to a closed stream goes nowhere: not to a file that has taken its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it has the lowest number that is free
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    type=FILE,
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


def load(context: click.Context) -> Settings:
    """The settings in force, with logging set up from them."""
    from explain_sidecar.logs import set_up_logging
    from explain_sidecar.settings import load_settings

    settings = load_settings(context.obj)
    set_up_logging(settings.log)
    return settings


def start(context: click.Context, modules: Sequence[str], **options: Any) -> int:
    """Run workers, from a process that imports ``modules`` while this one reads the settings; returns the exit status."""
    from explain_sidecar.forks import Forks

    forks = Forks(modules)
    from explain_sidecar.commands.run import run

    return run(load(context), forks, config=context.obj, **options)


def runs(target: str) -> Callable[[Callable[[], None]], Callable[..., None]]:
    """What a command does: the function ``module:name`` of this package, imported when the command runs.

    It gets the options by their names, and if it has such parameters the ``settings`` in force and the file that they are from (``config``).
    """

    place = f"explain_sidecar.{target}"

    def decorate(declared: Callable[[], None]) -> Callable[..., None]:
        def command(**options: Any) -> None:
            function, context = resolve_name(place), click.get_current_context()
            known = signature(function).parameters
            if "settings" in known:
                options["settings"] = load(context)
            if "config" in known:
                options["config"] = context.obj
            function(**options)

        command.target = place  # type: ignore[attr-defined]
        return update_wrapper(command, declared)

    return decorate


def _end(message: str, status: int) -> None:
    from explain_sidecar.terminal import plain

    click.echo(plain(message, keep="\n"), err=True)
    sys.exit(status)
