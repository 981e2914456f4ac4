"""The command ``mcp``."""

from explain_sidecar.cli.root import cli, runs


@cli.command()
@runs("http.assistant:serve")
def mcp() -> None:
    """Answer an assistant's questions (Model Context Protocol).

    It is spoken to over stdin and stdout. Reads only the output topics, as the dashboard does, and writes nothing. Needs the extra `mcp`.
    """
