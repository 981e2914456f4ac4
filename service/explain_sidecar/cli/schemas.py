"""The command ``schemas``."""

from explain_sidecar.cli.options import json_option
from explain_sidecar.cli.root import cli, runs


@cli.group()
def schemas() -> None:
    """Manage the messages' schemas in a Schema Registry."""


@schemas.command("register")
@json_option
@runs("commands.schemas:register")
def schemas_register() -> None:
    """Register the schemas of explanations and drift messages.

    Registers them at registry.url, in registry.format, under the subjects TOPIC-value. A schema that is registered already stays as it is.
    """
