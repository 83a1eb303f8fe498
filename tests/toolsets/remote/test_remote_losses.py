"""Workers that are killed in the middle of a call, each in its own process."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.remote_tools import spec_named, worker_process

from windlass import AsyncClient, ToolContext, ToolError, tool
from windlass.messaging.connection import Connection, Msg
from windlass.testing import ScriptedModel, call
from windlass.toolsets.remote import RemoteSession, calls
from windlass.toolsets.remote.bridge import WATCH_SECONDS, Bridge
from windlass.toolsets.remote.calls import RETURN_SECONDS
from windlass.toolsets.remote.frames import REPLY, Call, CallRefused, Cancel, Result, decode, encode
from windlass.worker import Worker

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


PAYMENT = """
    from windlass import tool

    @tool
    async def pay() -> str:
        "Pays."
        print("paid", flush=True)
        return "paid"

    @tool
    async def look() -> str:
        "Looks."
        print("looked", flush=True)
        return "looked"
"""


async def test_a_worker_that_was_paused_does_not_begin_a_call_that_was_given_up(
    nats: str,
    session: str,
    tmp_path: Path,
    bridge_of: MakeBridge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bridge = bridge_of()
    async with worker_process(nats, session, PAYMENT, tmp_path) as worker:
        pay = await spec_named(bridge, session, "pay")
        look = await spec_named(bridge, session, "look")
        worker.pause()
        with (
            monkeypatch.context() as patch,
            pytest.raises(ToolError, match="pay was interrupted, effect unknown"),
        ):
            patch.setattr(calls, "SILENT_SECONDS", 1.5)
            await bridge.call(session, pay, {}, ToolContext(run_id="run_1", call_id="call_1"))
        worker.wake()
        # Blocks our event loop: the worker only reads what has already been sent.
        time.sleep(0.25)  # noqa: ASYNC251
        await bridge.call(session, look, {}, ToolContext(run_id="run_1", call_id="call_2"))
        assert await worker.line() == "looked"


async def test_a_worker_that_was_paused_refuses_a_call_whose_deadline_has_passed(
    nats: str, session: str, tmp_path: Path, bridge_of: MakeBridge, wire: Connection
) -> None:
    """Even if its caller could not cancel it, as one that was killed meanwhile."""
    bridge = bridge_of()
    async with worker_process(nats, session, PAYMENT, tmp_path) as worker:
        look = await spec_named(bridge, session, "look")
        member = bridge._directory.members(session)[0]
        answers: asyncio.Queue[bytes] = asyncio.Queue()

        async def hear(message: Msg) -> None:
            answers.put_nowait(message.data)

        await wire.subscribe("test.answers", hear)
        worker.pause()
        data = encode(Call(key="k", name="pay", arguments="{}", seconds=1.0))
        await wire.publish(f"windlass.v1.worker.{session}.{member.id}.call", data, "test.answers")
        await wire.flush()
        answer = asyncio.create_task(answers.get())
        answered, _ = await asyncio.wait([answer], timeout=1.5)
        assert not answered
        worker.wake()
        refused = decode(await answer, REPLY)
        assert isinstance(refused, CallRefused)
        assert "deadline passed" in refused.reason
        await bridge.call(session, look, {}, ToolContext(run_id="run_1", call_id="call_2"))
        assert await worker.line() == "looked"


async def test_a_call_that_is_cancelled_before_it_begins_is_answered_and_can_be_repeated(
    nats: str, session: str, wire: Connection
) -> None:
    ran: list[str] = []

    @tool
    async def note() -> str:
        """Notes."""
        ran.append("once")
        return "noted"

    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(message: Msg) -> None:
        answers.put_nowait(message.data)

    async with Worker([note], nats=nats, session=session) as worker:
        await wire.subscribe("test.answers", hear)
        subject = f"windlass.v1.worker.{session}.{worker.id}"
        call = encode(Call(key="k", name="note", arguments="{}"))
        await wire.publish(f"{subject}.call", call, "test.answers")
        await wire.publish(f"{subject}.cancel", encode(Cancel(key="k")))
        stopped = decode(await answers.get(), REPLY)
        assert isinstance(stopped, Result)
        assert (stopped.outcome, ran) == ("stopped", [])
        await wire.publish(f"{subject}.call", call, "test.answers")
        noted = decode(await answers.get(), REPLY)
        assert isinstance(noted, Result)
        assert (noted.response.output, ran) == ("noted", ["once"])


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


def test_a_lost_call_of_a_killed_worker_is_reported_within_a_second() -> None:
    assert WATCH_SECONDS + RETURN_SECONDS + WATCH_SECONDS < 1
