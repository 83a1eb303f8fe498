"""Workers call tools of the host: only during a call, and only as that call."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.support.remote_tools import spec_named

import windlass
from windlass import Approval, AsyncClient, ToolContext, ToolError, tool
from windlass.content import FunctionCall, FunctionResponse
from windlass.events import ApprovalRequested
from windlass.messaging.connection import Connection, Msg
from windlass.testing import ScriptedModel, call
from windlass.toolsets.remote import execute_in_session, subjects
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import (
    CALL,
    REPLY,
    Announcement,
    Call,
    CallRefused,
    HostCall,
    Result,
    ToolSpec,
    decode,
    encode,
)
from windlass.toolsets.remote.host import NOT_PROVEN, HostCaller
from windlass.worker import Worker, call_host, call_host_async

MakeBridge = Callable[..., Bridge]
SPEC = ToolSpec(name="work", parameters={"type": "object", "properties": {}})


def context(run: str = "run_1", **more: Any) -> ToolContext:
    return ToolContext(run_id=run, call_id="call_1", **more)


class Host:
    """A host tool that notes who called it."""

    def __init__(self) -> None:
        self.callers: list[tuple[str, str]] = []

    async def __call__(self, caller: HostCaller, asked: HostCall) -> Result | CallRefused:
        self.callers.append((caller.session, caller.context.run_id))
        return Result(response=FunctionResponse(asked.name, {"output": caller.context.run_id}))


class HeldCall(NamedTuple):
    """A call that waits at a worker, as the worker sees it."""

    call: Call
    finish: Callable[[], Any]


@asynccontextmanager
async def held_call(
    wire: Connection, bridge: Bridge, session: str, run: str = "run_1"
) -> AsyncIterator[HeldCall]:
    """A call of `work` in this session. The worker is a plain connection."""
    calls: asyncio.Queue[Msg] = asyncio.Queue()

    async def on_message(message: Msg) -> None:
        if message.subject.endswith(".call"):
            calls.put_nowait(message)
        elif message.subject.endswith(".ping"):
            await message.respond(b'{"type": "pong"}')

    async def announce(_: Msg | None = None) -> None:
        frame = Announcement(worker="w", session=session, tools=(SPEC,))
        await wire.publish(subjects.announce(session, "w"), encode(frame))

    await wire.subscribe(subjects.to_worker(session, "w", "*"), on_message)
    await wire.subscribe(subjects.hello(session), announce)
    await wire.flush()
    await spec_named(bridge, session, "work")
    running = asyncio.create_task(bridge.call(session, SPEC, {}, context(run)))
    message = await calls.get()

    async def finish() -> None:
        result = Result(response=FunctionResponse("work", {"output": "done"}))
        await message.respond(encode(result))
        await running

    yield HeldCall(decode(message.data, CALL), finish)
    if not running.done():
        await finish()


async def ask_host(wire: Connection, session: str, frame: HostCall) -> Result | CallRefused:
    answer = decode(await wire.request(subjects.host(session), encode(frame), 60.0), REPLY)
    assert isinstance(answer, Result | CallRefused)
    return answer


def host_call(held: HeldCall, **more: Any) -> HostCall:
    frame = HostCall(key=held.call.key, name="who", arguments="{}", token=held.call.token)
    return replace(frame, **more)


async def test_a_host_call_with_the_token_of_its_call_is_answered(
    session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    host = Host()
    bridge = bridge_of(on_host_call=host)
    async with held_call(wire, bridge, session) as held:
        answer = await ask_host(wire, session, host_call(held))
    assert isinstance(answer, Result)
    assert answer.response.output == "run_1"
    assert host.callers == [(session, "run_1")]


async def test_a_worker_that_claims_the_call_of_another_run_or_session_is_refused(
    session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    host = Host()
    bridge = bridge_of(on_host_call=host)
    other = f"{session}-other"
    async with (
        held_call(wire, bridge, session, "run_mine") as mine,
        held_call(wire, bridge, other, "run_theirs") as theirs,
    ):
        attacks = {
            "their key without a token": (session, host_call(theirs, token="")),
            "their key with my token": (session, host_call(mine, key=theirs.call.key)),
            "my key with their token": (session, host_call(theirs, key=mine.call.key)),
            "their call in my session": (session, host_call(theirs)),
            "my call in their session": (other, host_call(mine)),
            "my gateway with a guessed secret": (
                session,
                host_call(mine, token=mine.call.token.partition(".")[0] + ".guessed"),
            ),
            "a gateway that does not exist": (session, host_call(mine, token="gateway-x.y")),
            "a token with a wildcard": (session, host_call(mine, token="*.y")),
            "a token that is not ASCII": (session, host_call(mine, token="ü")),
        }
        for what, (where, frame) in attacks.items():
            assert await ask_host(wire, where, frame) == CallRefused(reason=NOT_PROVEN), what
    assert host.callers == []


async def test_a_token_is_invalid_after_its_call(
    session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    host = Host()
    bridge = bridge_of(on_host_call=host)
    async with held_call(wire, bridge, session) as held:
        await held.finish()
        assert await ask_host(wire, session, host_call(held)) == CallRefused(reason=NOT_PROVEN)
    assert host.callers == []


async def test_a_host_tool_ends_with_the_call_that_called_it(
    session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def host(caller: HostCaller, asked: HostCall) -> Result | CallRefused:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    bridge = bridge_of(on_host_call=host)
    async with held_call(wire, bridge, session) as held:
        asking = asyncio.create_task(ask_host(wire, session, host_call(held)))
        await begun.wait()
        await held.finish()
        await cancelled.wait()
        assert await asking == CallRefused(reason="the call that it belongs to has ended")


async def test_any_gateway_of_a_fleet_forwards_a_host_call_to_the_one_that_sent_the_call(
    session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    """NATS delivers each host call to one of them, chosen at random."""
    hosts = [Host() for _ in range(3)]
    bridges = [bridge_of(on_host_call=host) for host in hosts]
    for bridge in bridges:
        await bridge.start()
    async with held_call(wire, bridges[0], session) as held:
        for _ in range(20):
            assert isinstance(await ask_host(wire, session, host_call(held)), Result)
    assert [len(host.callers) for host in hosts] == [20, 0, 0]


async def test_without_host_tools_host_calls_are_refused(nats: str, session: str) -> None:
    @tool
    async def visit() -> str:
        """Calls the host."""
        return await call_host_async("greeting")

    async with Worker([visit], nats=nats, session=session):
        with pytest.raises(ToolError, match=r"this host has no tools for workers \(host_tools\)"):
            await execute_in_session(session, "visit", {}, nats=nats)


@tool
def greeting(name: str, context: ToolContext) -> str:
    """Greets."""
    return f"Hello, {name}, in {context.run_id}"


@tool(approve=True)
def secret(what: str) -> str:
    """Tells a secret."""
    return f"the secret of {what}"


@tool
async def visit(tool: str, arguments: dict[str, str]) -> str:
    """Calls the host."""
    return await call_host_async(tool, **arguments)


@tool
def visit_sync(tool: str, arguments: dict[str, str]) -> str:
    """Calls the host."""
    return call_host(tool, **arguments)


async def test_host_tools_work_with_a_remote_session(nats: str, session: str) -> None:
    script = [
        call("visit", tool="greeting", arguments={"name": "Ada"}),
        call("visit_sync", tool="greeting", arguments={"name": "Bob"}),
        call("visit", tool="greeting", arguments={}),
        call("visit", tool="other", arguments={}),
        "Done.",
    ]
    remote = windlass.remote(session, nats=nats, host_tools=[greeting])
    async with (
        Worker([visit, visit_sync], nats=nats, session=session),
        AsyncClient(ScriptedModel(script), tools=[remote]) as client,
    ):
        run = await client.start("Visit!")
        reply = await run.result()
    await remote.aclose()
    assert [result.output for result in reply.results[:2]] == [
        f"Hello, Ada, in {run.id}",
        f"Hello, Bob, in {run.id}",
    ]
    assert "name" in str(reply.results[2].error)
    assert reply.results[3].error == "the host has no tool 'other' for workers"


async def test_two_sessions_have_their_own_host_tools(nats: str, session: str) -> None:
    other = f"{session}-other"
    script = [call("visit", tool="greeting", arguments={"name": "Ada"}), "Done."]
    with_tools = windlass.remote(session, nats=nats, host_tools=[greeting])
    without = windlass.remote(other, nats=nats)
    answers: list[str | None] = []
    async with (
        Worker([visit], nats=nats, session=session),
        Worker([visit], nats=nats, session=other),
    ):
        for remote in (with_tools, without):
            async with AsyncClient(ScriptedModel(script), tools=[remote]) as client:
                answers.append((await client.generate("Visit!")).results[0].error)
            await remote.aclose()
    assert answers == [None, "this host has no tools for workers (host_tools)"]


@pytest.mark.parametrize("approved", [True, False])
async def test_the_run_s_approver_decides_about_a_host_tool(
    nats: str, session: str, approved: bool
) -> None:
    asked: list[FunctionCall] = []

    def decide(call: FunctionCall) -> Approval:
        asked.append(call)
        return Approval(approved, reason=None if approved else "not today")

    script = [call("visit", tool="secret", arguments={"what": "life"}), "Done."]
    remote = windlass.remote(session, nats=nats, host_tools=[secret])
    async with (
        Worker([visit], nats=nats, session=session),
        AsyncClient(ScriptedModel(script), tools=[remote], approve=decide) as client,
    ):
        run = await client.start("Visit!")
        events = [event async for event in client.subscribe(run.id)]
        reply = await run.result()
    await remote.aclose()
    assert [each.name for each in asked] == ["secret"]
    assert [e.call.name for e in events if isinstance(e, ApprovalRequested)] == ["secret"]
    if approved:
        assert reply.results[0].output == "the secret of life"
    else:
        assert reply.results[0].error == "The call was denied: not today."
