"""``explain-sidecar mcp`` as an assistant starts it: a process, spoken to over stdin and stdout."""

import asyncio
import sys
from typing import Any

from tests.broker.harness import Factory, mixed_records


def test_an_assistant_is_told_what_a_broker_s_topics_hold(pipeline: Factory) -> None:
    from mcp import Client, StdioServerParameters

    line = pipeline(2)
    line.feed(mixed_records(2, 1_200))
    line.run_to_end()
    published = line.published()["explanations"]

    async def asked() -> tuple[dict[str, Any], dict[str, Any]]:
        server = StdioServerParameters(
            command=sys.executable, args=["-P", "-m", "explain_sidecar.cli", "mcp"], env=line.environment
        )
        async with Client(server) as client:
            found = [await client.call_tool(tool, {}) for tool in ("latest", "verify")]
        assert not any(answer.is_error for answer in found)
        first, second = (answer.structured_content for answer in found)
        assert first is not None and second is not None
        return first, second

    latest, verified = asyncio.run(asyncio.wait_for(asked(), 120))
    assert latest["problem"] is None
    assert {row["partition"]: row["records"] for row in latest["partitions"]} == {0: 600, 1: 600}
    chains = {chain["partition"]: (chain["verified"], chain["broken"]) for chain in verified["chains"]}
    assert chains == {number: (len(published[number]), None) for number in (0, 1)}
