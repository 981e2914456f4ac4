"""The command ``check``."""

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, runs


@cli.command()
@json_option
@runs("commands.check:check")
def check() -> None:
    """Check whether `run` can work here.

    Changes nothing. Looks at the broker, the topics, the rights and the model, and decodes the newest 100 records to show their features.
    """
