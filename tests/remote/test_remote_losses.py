"""Workers that die in the middle of a call, in processes of their own."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.remote.remote_tools import spec_named, worker_process

from windlass import AsyncClient, ToolContext, ToolError
from windlass.testing import ScriptedModel, call
from windlass.toolsets.remote import RemoteSession
from windlass.toolsets.remote.bridge import WATCH_SECONDS, Bridge
from windlass.toolsets.remote.calls import RETURN_SECONDS

MakeBridge = Callable[..., Bridge]

HANG = """
    import asyncio
    from windlass import tool

    @tool(idempotent={idempotent})
    async def work() -> str:
        "Works."
        print("begun", flush=True)
        await asyncio.Event().wait()
        return "never"
"""
DONE = """
    from windlass import tool

    @tool(idempotent=True)
    async def work() -> str:
        "Works."
        print("done", flush=True)
        return "done"
"""


async def test_a_call_whose_worker_is_killed_ends_as_a_tool_error(
    nats: str, session: str, tmp_path: Path
) -> None:
    source = HANG.format(idempotent=False)
    remote = RemoteSession(session, nats=nats)
    async with (
        worker_process(nats, session, source, tmp_path) as worker,
        AsyncClient(ScriptedModel([call("work"), "I see."]), tools=[remote]) as client,
    ):
        run = await client.start("Work!")
        assert await worker.line() == "begun"
        worker.kill()
        reply = await run.result()
    await remote.aclose()
    assert "effect unknown: the worker" in str(reply.results[0].error)
    assert reply.rounds[0].answers[0].effect_unknown
    assert reply.text == "I see."


async def test_an_idempotent_tool_is_tried_elsewhere_under_the_same_key(
    nats: str, session: str, tmp_path: Path, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of()
    context = ToolContext(run_id="run_1", call_id="call_1")
    async with worker_process(nats, session, HANG.format(idempotent=True), tmp_path) as first:
        spec = await spec_named(bridge, session, "work")
        running = asyncio.create_task(bridge.call(session, spec, {}, context))
        assert await first.line() == "begun"
        async with worker_process(nats, session, DONE, tmp_path) as second:
            first.kill()
            assert (await running).output == "done"
            assert await second.line() == "done"


async def test_a_worker_that_is_asked_to_stop_answers_its_calls_as_stopped(
    nats: str, session: str, tmp_path: Path, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of()
    context = ToolContext(run_id="run_1", call_id="call_1")
    async with worker_process(nats, session, HANG.format(idempotent=False), tmp_path) as worker:
        spec = await spec_named(bridge, session, "work")
        running = asyncio.create_task(bridge.call(session, spec, {}, context))
        assert await worker.line() == "begun"
        worker.stop()
        with pytest.raises(ToolError, match="stopped"):
            await running
        assert await worker.ended() == 0
        assert await bridge.specs(session) == []


def test_a_call_that_dies_with_its_worker_is_told_within_a_second() -> None:
    assert WATCH_SECONDS + RETURN_SECONDS + WATCH_SECONDS < 1
