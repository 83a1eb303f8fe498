"""The tools of an MCP server, in runs: over stdio and HTTP, in both eras of the protocol."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.toolsets.mcp.serving import PREFIX, appearing

from windlass import (
    Approval,
    ApprovalRequested,
    AsyncClient,
    Client,
    FunctionCall,
    InlineData,
    ToolRunProgress,
)
from windlass.testing import ScriptedModel, call, calls
from windlass.toolsets.mcp.toolset import McpToolset

pytestmark = pytest.mark.process


def scripted(*turns: Any, **options: Any) -> AsyncClient:
    return AsyncClient(ScriptedModel([*turns, "done"]), **options)


async def response(sample: McpToolset, name: str, **arguments: Any) -> Any:
    async with scripted(call(f"{PREFIX}{name}", **arguments)) as client:
        reply = await client.generate("go", tools=[sample])
    (result,) = reply.results
    return result


async def test_a_run_calls_a_servers_tools_by_their_prefixed_names(sample: McpToolset) -> None:
    assert (await response(sample, "add", a=1, b=2)).output == "3"


async def test_the_model_reads_the_message_of_the_server(sample: McpToolset) -> None:
    model = ScriptedModel(["done"])
    async with AsyncClient(model) as client:
        await client.generate("go", tools=[sample])
    told: dict[str, Any] = {getattr(each, "name", ""): each for each in model.requests[0].tools}
    assert told[f"{PREFIX}add"].description == "Adds two numbers."
    assert told[f"{PREFIX}add"].parameters["required"] == ["a", "b"]


def test_sync_code_uses_the_same_server(sample: McpToolset) -> None:
    turn = calls(call(f"{PREFIX}add", a=1, b=2), call(f"{PREFIX}add", a=3, b=4))
    with Client(ScriptedModel([turn, "done"])) as client:
        reply = client.generate("go", tools=[sample])
    assert [result.output for result in reply.results] == ["3", "7"]


async def test_a_name_that_no_provider_takes_still_reaches_its_tool(sample: McpToolset) -> None:
    strange = await response(sample, "files_x2e_read_x2f_all", context="there", self="you")
    assert strange.output == "there you"


async def test_structured_output_is_a_value(sample: McpToolset) -> None:
    assert (await response(sample, "weather", city="Oslo")).output == {
        "city": "Oslo",
        "degrees": 20.5,
    }


async def test_an_image_is_a_part_beside_the_text(sample: McpToolset) -> None:
    result = await response(sample, "picture")
    (image,) = result.parts
    assert isinstance(image, InlineData)
    assert image.mime_type == "image/png"
    assert image.data.startswith(b"\x89PNG")
    assert result.output == ["One pixel:", f"[image/png, {len(image.data)} bytes]"]


async def test_the_model_reads_what_a_failed_tool_says(sample: McpToolset) -> None:
    assert (await response(sample, "fails")).error == "no such city: Atlantis"


async def test_wrong_arguments_never_reach_the_server(sample: McpToolset) -> None:
    assert "a: expected an integer" in (await response(sample, "add", a="x", b=1)).error


async def test_readers_of_a_run_receive_the_progress_of_a_server(sample: McpToolset) -> None:
    async with (
        scripted(call(f"{PREFIX}counts")) as client,
        client.stream("go", tools=[sample]) as stream,
    ):
        events = [event async for event in stream if isinstance(event, ToolRunProgress)]
    assert [(event.progress, event.message) for event in events] == [(0.5, "half"), (1.0, None)]


async def test_log_messages_of_a_server_are_in_the_log_of_their_run(
    sample: McpToolset,
) -> None:
    async with scripted(call(f"{PREFIX}logs")) as client:
        run = await client.start("go", tools=[sample])
        await run.result()
        events = [event async for event in client.subscribe(run.id)]  # as they are stored
    logged = [event for event in events if isinstance(event, ToolRunProgress)]
    assert [(event.message, event.data) for event in logged] == [
        ("watch out", {"log": {"level": "warning", "logger": "pump"}}),
        ('{"code":7}', {"log": {"level": "error", "logger": None}}),
    ]
    assert {event.call_id for event in logged} == {(await run.result()).calls[0].id}


async def test_questions_of_a_server_go_to_the_approver(sample: McpToolset) -> None:
    asked: list[FunctionCall] = []

    def approve(question: FunctionCall) -> Approval:
        asked.append(question)
        return Approval(True, {"name": "Ada"})

    async with scripted(call(f"{PREFIX}books"), approve=approve) as client:
        reply = await client.generate("go", tools=[sample])
    assert reply.results[0].output == "2 seats for Ada"
    (question,) = asked
    assert question.name == f"{PREFIX}books:question"
    shown = question.arguments
    assert isinstance(shown, dict)
    assert shown["message"] == "How many seats?"
    assert shown["answer"] == {"seats": 2}


async def test_a_question_waits_for_a_reader_of_the_run(sample: McpToolset) -> None:
    async with scripted(call(f"{PREFIX}books")) as client:
        run = await client.start("go", tools=[sample])
        async for event in run.events():
            if isinstance(event, ApprovalRequested):
                assert run.approve(event.call.id, arguments={"name": "Ada", "seats": 4})
        reply = await run.result()
    assert reply.results[0].output == "4 seats for Ada"


async def test_a_declined_question_is_reported_to_the_server_and_the_model(
    sample: McpToolset,
) -> None:
    async with scripted(call(f"{PREFIX}books"), approve=lambda question: False) as client:
        reply = await client.generate("go", tools=[sample])
    assert "decline" in (reply.results[0].error or "")


async def test_a_tool_that_the_server_adds_is_in_the_next_run(sample: McpToolset) -> None:
    before = {each.name for each in await sample.list_tools()}
    await response(sample, "grows")
    for _ in range(3000):
        if f"{PREFIX}grown" in {each.name for each in await sample.list_tools()}:
            break
        await asyncio.sleep(0.01)
    assert (await response(sample, "grown")).output == "grown"
    assert before <= {each.name for each in await sample.list_tools()}


def test_nothing_of_a_servers_command_or_address_is_in_its_text(sample: McpToolset) -> None:
    assert "sample_server.py" not in repr(sample)
    assert "127.0.0.1:" not in repr(sample)


async def test_concurrent_runs_receive_only_their_own_questions(
    sample: McpToolset, request: pytest.FixtureRequest
) -> None:
    """Where the protocol says which call a question is for, both users are asked."""

    async def booked(name: str) -> str:
        def approve(question: FunctionCall) -> Approval:
            return Approval(True, {"name": name})

        script = [call(f"{PREFIX}books"), "done"]
        async with AsyncClient(ScriptedModel(script), approve=approve) as client:
            reply = await client.generate("go", tools=[sample])
        return str(reply.results[0].output or reply.results[0].error)

    names = [f"user {number}" for number in range(4)]
    said = await asyncio.gather(*map(booked, names))
    if "stdio 2025-11-25" in request.node.name:
        assert all(
            text == f"2 seats for {name}" or "decline" in text
            for name, text in zip(names, said, strict=True)
        )
    else:
        assert said == [f"2 seats for {name}" for name in names]


async def test_a_stopped_run_cancels_the_call_at_the_server(
    sample: McpToolset, directory: Path
) -> None:
    """The last test of each server: the server may still ask for the cancelled call."""
    for told in ("waiting", "cancelled"):
        (directory / told).unlink(missing_ok=True)
    async with AsyncClient(ScriptedModel([call(f"{PREFIX}waits", reports=1), "done"])) as client:
        run = await client.start("go", tools=[sample])
        async for event in run.events():
            if isinstance(event, ToolRunProgress):
                break
        await run.stop()
    assert await asyncio.to_thread(appearing, directory / "cancelled")
    assert "effect unknown" in (run.reply.results[0].error or "")
