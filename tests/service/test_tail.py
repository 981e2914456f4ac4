"""What `tail` prints."""

import io
import json
from typing import Any

from rich.console import Console

from explain_client import Explanation
from explain_sidecar.commands import tail
from tests.feeds import newest, settings


def test_tail_calls_a_partition_by_its_label_else_by_its_only_key() -> None:
    def shown(message: dict[str, Any], **environment: str) -> str:
        console = Console(width=200, file=io.StringIO())
        console.print(tail.view(settings(**environment), {0: message}))
        return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]

    message = newest()
    assert shown(message).startswith("records k: 686 ")
    assert shown(message | {"keys": None}).startswith("records partition 0: ")
    del message["keys"]  # as messages of before
    assert shown(message).startswith("records partition 0: ")
    assert shown(message, EXPLAIN_PARTITION_LABELS__0="JFK").startswith("records JFK: ")
    assert Explanation.from_json(json.dumps(message).encode()).keys is None


def test_tail_names_the_version_what_was_served_and_the_skew() -> None:
    message = newest()
    message["version"] = {"name": "7", "sha256": "0" * 64, "records": 100}
    message["performance"]["cross_entropy"]["served"] = 0.1234
    message["skew"] = {"checked": 1000, "differing": 12, "largest": 0.25, "tolerance": 0.001}
    console = Console(width=300, file=io.StringIO())
    console.print(tail.view(settings(), {0: message}))
    shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert shown.startswith("records k, version 7: 686 records") and ", served 0.1234" in shown
    assert "12 of 1,000 served predictions are not the model's, by up to 0.25" in shown
