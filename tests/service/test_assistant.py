"""What an assistant is told by the Model Context Protocol: the dashboard's own sentences and numbers, and nothing that writes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from explain_sidecar.http import assistant
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.views import Page, ViewSelection
from tests.feeds import IMPORTANCE, fed, settings

if TYPE_CHECKING:
    from mcp import Client


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feeds here have read all there is."""
    monkeypatch.setattr(assistant, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(assistant, "MOST_SECONDS", 0.2)


def with_client(feed: Feed, do: Callable[["Client"], Coroutine[Any, Any, Any]]) -> Any:
    from mcp import Client

    async def run() -> Any:
        async with Client(assistant.server_of(feed)) as client:
            return await do(client)

    return asyncio.run(run())


def told(feed: Feed, tool: str, **arguments: Any) -> dict[str, Any]:
    found = with_client(feed, lambda client: client.call_tool(tool, arguments))
    assert not found.is_error, found.content
    return dict(found.structured_content)


def test_every_tool_only_reads_and_says_what_it_is_for() -> None:
    tools = with_client(fed(), lambda client: client.list_tools()).tools
    assert {tool.name for tool in tools} == {"latest", "drivers", "history", "alarms", "drift", "verify"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)


def test_the_sentences_are_those_of_the_dashboard() -> None:
    feed = fed()
    for tool, view in (
        ("latest", "overview"),
        ("drivers", "importance"),
        ("alarms", "changes"),
        ("verify", "integrity"),
    ):
        assert told(feed, tool)["sentence"] == Page(feed, ViewSelection(view=view)).next()["sentence"]
    changes = Page(feed, ViewSelection(view="changes")).next()
    assert [story["sentence"] for story in told(feed, "alarms")["stories"]] == [
        story["sentence"] for story in changes["stories"]
    ]
    assert [change["sentence"] for change in told(feed, "drift")["changes"]] == [
        change["sentence"] for change in changes["changes"]
    ]
    assert told(feed, "drivers")["rows"] == Page(feed, IMPORTANCE).next()["rows"]
    assert told(feed, "verify")["chains"][0]["verified"] > 300


def test_a_feature_s_course_ends_with_its_value_of_now() -> None:
    feed = fed()
    course = told(feed, "history", feature="turned")["course"]
    (row,) = [row for row in told(feed, "drivers")["rows"] if row["feature"] == "turned"]
    assert len(course) == assistant.POINTS
    assert (course[-1]["value"], course[-1]["half"]) == (row["value"], row["half"])
    assert course[-1]["time"].startswith("2023-11-15 09:5")
    assert [point["time"] for point in course] == sorted(point["time"] for point in course)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("history", {"feature": "turnd"}, "no feature 'turnd' in partition 0; there are signal, turned"),
        ("drivers", {"partition": 7}, "partition 7 has no explanation; those that have one: [0]"),
        ("drift", {"partition": "first"}, "partition"),
    ],
)
def test_what_does_not_exist_is_said_with_what_does(
    tool: str, arguments: dict[str, Any], message: str
) -> None:
    found = with_client(fed(), lambda client: client.call_tool(tool, arguments))
    assert found.is_error and message in found.content[0].text


def test_before_the_first_explanation_it_says_so() -> None:
    feed = Feed(settings())
    found = told(feed, "latest")
    assert found["sentence"].startswith("No explanation yet") and found["problem"] == "connecting to Kafka"
    asked = with_client(feed, lambda client: client.call_tool("history", {"feature": "x"}))
    assert asked.is_error and "there are none yet" in asked.content[0].text
