"""The command ``completion``."""

from __future__ import annotations

import click

from explain_sidecar.cli.root import NAME, cli


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
