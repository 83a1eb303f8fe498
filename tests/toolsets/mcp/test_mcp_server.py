"""Our tools as an MCP server, as the SDK's own client sees them, in both eras."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

import mcp_types as types
import pytest
from mcp import Client, MCPError

from windlass import (
    Depends,
    FileData,
    FunctionDeclaration,
    InlineData,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    tool,
)
from windlass.cli.mcp_server import LocalTools
from windlass.toolsets.mcp.serving.server import ToolServer, current_call

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def connected(
    era: str, *tools: Any, registry: ToolRegistry | None = None, **options: Any
) -> AsyncIterator[Client]:
    registry = registry or ToolRegistry(tools)
    server = ToolServer(LocalTools(registry.list), version="1")
    async with Client(server, mode=ERAS[era], cache=None, **options) as client:
        assert client.protocol_version == era
        yield client


async def called(era: str, item: Any, **arguments: Any) -> types.CallToolResult:
    async with connected(era, item) as client:
        (listed,) = (await client.list_tools()).tools
        return await client.call_tool(listed.name, arguments)


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_tool_is_listed_with_its_schema_and_its_hints(era: str) -> None:
    @tool(idempotent=True, cache=60)
    def find(city: str, limit: int = 3) -> str:
        """Finds a city.

        Args:
            city: Its name.
        """
        return city

    @tool
    def plain() -> str:
        return ""

    async with connected(era, find, plain) as client:
        first, second = (await client.list_tools()).tools
    assert (first.name, first.description) == ("find", "Finds a city.")
    assert first.input_schema["properties"]["city"]["description"] == "Its name."
    assert first.input_schema["required"] == ["city"]
    assert first.annotations is not None
    assert (first.annotations.read_only_hint, first.annotations.idempotent_hint) == (True, True)
    assert second.annotations is None


async def test_a_tool_that_is_only_declared_is_not_offered(era: str) -> None:
    async with connected(era, Tool(FunctionDeclaration("declared"))) as client:
        assert (await client.list_tools()).tools == []


async def test_text_is_sent_as_text(era: str) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    result = await called(era, greet, name="Ada")
    assert text_of(result) == "hello Ada"


@pytest.mark.parametrize(
    ("kind", "value", "schema", "structured"),
    [
        (int, 3, {"type": "integer"}, {"result": 3}),
        (str, "x", {"type": "string"}, {"result": "x"}),
        (list[int], [1, 2], {"type": "array", "items": {"type": "integer"}}, {"result": [1, 2]}),
        (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"result": None}),
    ],
)
async def test_a_list_or_a_scalar_with_a_type_is_wrapped(
    era: str, kind: Any, value: Any, schema: Any, structured: Any
) -> None:
    def typed() -> Any:
        return value

    typed.__annotations__["return"] = kind
    async with connected(era, typed) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool("typed", {})
    assert listed.output_schema == {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
    }
    assert result.structured_content == structured


async def test_an_object_with_a_type_has_its_schema(era: str) -> None:
    class Place(TypedDict):
        city: str
        degrees: float

    def place() -> Place:
        return {"city": "Oslo", "degrees": 3.5}

    async with connected(era, place) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool("place", {})
    assert listed.output_schema is not None
    assert listed.output_schema["required"] == ["city", "degrees"]
    assert result.structured_content == {"city": "Oslo", "degrees": 3.5}


async def test_a_value_without_a_type_has_no_schema(era: str) -> None:
    def anything() -> Any:
        return [1]

    def image() -> InlineData:
        return InlineData(b"", "image/png")

    async with connected(era, anything, image) as client:
        listed = (await client.list_tools()).tools
        result = await client.call_tool("anything", {})
    assert [each.output_schema for each in listed] == [None, None]
    assert result.structured_content is None


async def test_a_stored_result_is_a_resource(era: str) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    async with connected(era, greet) as client:
        await client.call_tool("greet", {"name": "Ada"})
        (resource,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource(resource.uri)).contents
        with pytest.raises(MCPError):
            await client.read_resource("windlass://runs/other/results/other")
    assert isinstance(content, types.TextResourceContents)
    assert json.loads(content.text) == {"output": "hello Ada"}


async def test_log_messages_of_a_tool_reach_its_client(era: str) -> None:
    heard: list[tuple[str, Any]] = []

    async def listen(params: types.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.data))

    logger = logging.getLogger("tests.talkative")
    logger.setLevel(logging.DEBUG)

    def talks() -> str:
        logger.debug("too fine")
        logger.warning("watch out")
        return "done"

    async with connected(era, talks, logging_callback=listen, log_level="info") as client:
        await client.call_tool("talks", {})
    assert heard == [("warning", "watch out")]


async def test_an_object_is_also_sent_as_structured_content(era: str) -> None:
    def place() -> dict[str, Any]:
        return {"city": "Oslo", "degrees": 3}

    result = await called(era, place)
    assert result.structured_content == {"city": "Oslo", "degrees": 3}
    assert text_of(result) == '{"city":"Oslo","degrees":3}'


async def test_media_keep_their_position_in_a_result(era: str) -> None:
    def shows() -> list[Any]:
        return [
            "an image",
            InlineData(b"png", "image/png"),
            "a sound",
            InlineData(b"wav", "audio/wav"),
            InlineData(b"pdf", "application/pdf"),
            FileData("https://example.com/a.txt", "text/plain"),
        ]

    blocks = (await called(era, shows)).content
    kinds = "text image text audio resource resource_link"
    assert [block.type for block in blocks] == kinds.split()
    image = blocks[1]
    assert isinstance(image, types.ImageContent)
    assert base64.b64decode(image.data) == b"png"


async def test_one_image_is_sent_alone(era: str) -> None:
    def shows() -> InlineData:
        return InlineData(b"png", "image/png")

    assert [block.type for block in (await called(era, shows)).content] == ["image"]


async def test_the_message_of_a_tool_error_reaches_the_model(era: str) -> None:
    def refuses() -> str:
        raise ToolError("only on Mondays")

    result = await called(era, refuses)
    assert result.is_error
    assert text_of(result) == "only on Mondays"


async def test_the_message_of_a_crash_stays_on_the_server(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    def crashes() -> str:
        raise ValueError("password=hunter2")

    result = await called(era, crashes)
    assert result.is_error
    assert text_of(result) == "crashes failed."
    assert "hunter2" in caplog.text


async def test_wrong_arguments_are_reported_with_a_message(era: str) -> None:
    def count(number: int) -> int:
        return number

    result = await called(era, count, number="many")
    assert result.is_error
    assert "number: expected an integer" in text_of(result)


async def test_an_unknown_tool_is_an_error_of_the_protocol(era: str) -> None:
    async with connected(era) as client:
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})


async def test_progress_arrives_in_order_and_before_the_answer(era: str) -> None:
    def works(context: ToolContext) -> str:
        context.progress(0.25, "a quarter")
        context.progress(1.0)
        return "done"

    seen: list[Any] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with connected(era, works) as client:
        result = await client.call_tool("works", {}, progress_callback=progressed)
    assert text_of(result) == "done"
    assert seen == [(0.25, 1.0, "a quarter"), (1.0, 1.0, None)]


async def test_a_report_without_a_number_counts_itself(era: str) -> None:
    def works(context: ToolContext) -> str:
        context.progress(message="one")
        context.progress(message="two")
        context.progress(data={"progress": 7})
        return "done"

    seen: list[Any] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with connected(era, works) as client:
        await client.call_tool("works", {}, progress_callback=progressed)
    assert seen == [(1, None, "one"), (2, None, "two"), (7, None, None)]


async def test_a_value_that_is_no_object_is_text_beside_a_medium(era: str) -> None:
    def shows() -> list[Any]:
        return [{"n": 1}, InlineData(b"png", "image/png")]

    first, second = (await called(era, shows)).content
    assert isinstance(first, types.TextContent)
    assert (first.text, second.type) == ('{"n":1}', "image")


async def test_a_cancelled_call_cancels_the_tool(era: str) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def waits() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async with connected(era, waits) as client:
        calling = asyncio.create_task(client.call_tool("waits", {}))
        await started.wait()
        calling.cancel()
        async with asyncio.timeout(10):
            await stopped.wait()


async def test_dependencies_and_time_outs_are_those_of_the_loop(era: str) -> None:
    closed: list[str] = []

    async def database() -> AsyncIterator[str]:
        yield "db"
        closed.append("db")

    @tool(timeout=0.5)
    async def asks(wait: bool, db: Annotated[str, Depends(database)]) -> str:
        if wait:
            await asyncio.Event().wait()
        return db

    assert text_of(await called(era, asks, wait=False)) == "db"
    late = await called(era, asks, wait=True)
    assert late.is_error
    assert "did not answer within 0.5 seconds" in text_of(late)
    assert closed == ["db", "db"]


@tool(approve=True)
def deletes(path: str) -> str:
    return f"deleted {path}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (types.ElicitResult(action="accept", content={"approve": True}), "deleted /tmp"),
        (types.ElicitResult(action="accept", content={"approve": False}), "The call was denied."),
        (types.ElicitResult(action="decline"), "The call was denied."),
    ],
)
async def test_a_tool_with_approval_asks_the_remote_client(
    era: str, answer: types.ElicitResult, said: str
) -> None:
    asked: list[str] = []

    async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return answer

    async with connected(era, deletes, elicitation_callback=elicited) as client:
        result = await client.call_tool("deletes", {"path": "/tmp"})
    assert text_of(result) == said
    assert asked == ['Run deletes with {"path":"/tmp"}?']


async def test_it_does_not_run_without_a_terminal(era: str) -> None:
    assert text_of(await called(era, deletes, path="/tmp")) == "The call was denied."


async def test_a_change_of_the_tools_is_announced(era: str) -> None:
    registry = ToolRegistry()
    heard = asyncio.Event()

    @registry.register
    def grows() -> str:
        @registry.register
        def grown() -> str:
            return "grown"

        return "done"

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    async with connected(era, registry=registry, message_handler=on_message) as client:
        await client.list_tools()
        if era == "2026-07-28":
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("grows", {})
                await anext(changes)
        else:
            await client.call_tool("grows", {})
            async with asyncio.timeout(10):
                await heard.wait()
        assert [each.name for each in (await client.list_tools()).tools] == ["grows", "grown"]


async def test_a_tool_may_return_the_sdks_result_types(era: str) -> None:
    def speaks() -> types.CallToolResult:
        call = current_call()
        assert call is not None
        words = f"{call[1].name} in {call[0].protocol_version}"
        return types.CallToolResult(content=[types.TextContent(text=words)])

    assert text_of(await called(era, speaks)) == f"speaks in {era}"
