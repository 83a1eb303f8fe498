"""Tools in other processes: registered by session, called there, answered once."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.remote_tools import (
    always_failing,
    count_to,
    get_weather,
    spec_named,
    worker_process,
)

import windlass
from windlass import AsyncClient, Client, ConfigError, Tool, ToolContext, ToolError, tool
from windlass.content import FunctionResponse
from windlass.errors import InvalidArguments
from windlass.events import ToolRunEnded, ToolRunProgress
from windlass.messaging.connection import Connection
from windlass.testing import ScriptedModel, call, calls
from windlass.toolsets.remote import (
    execute_in_session,
    from_worker_tool,
    get_tools_for_model,
)
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import CallRefused, HostCall, Result, encode
from windlass.toolsets.remote.host import HostCaller
from windlass.worker import Worker, call_host, call_host_async

MakeBridge = Callable[..., Bridge]


def context(call_id: str = "call_1", **more: Any) -> ToolContext:
    return ToolContext(run_id="run_1", call_id=call_id, **more)


async def test_a_session_s_tools_are_what_its_worker_registered(nats: str, session: str) -> None:
    async with Worker([get_weather, always_failing], nats=nats, session=session):
        declared = await get_tools_for_model(session, nats=nats)
    assert [each.name for each in declared] == ["get_weather", "always_failing"]
    assert declared[0] == get_weather.declaration


async def test_a_worker_s_description_of_a_tool_becomes_a_declaration(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    async with Worker([get_weather], nats=nats, session=session):
        spec = await spec_named(bridge_of(), session, "get_weather")
    assert from_worker_tool(spec) == get_weather.declaration


async def test_a_tool_is_executed_in_its_session(nats: str, session: str) -> None:
    async with Worker([get_weather, always_failing], nats=nats, session=session):
        found = await execute_in_session(session, "get_weather", {"city": "Boston"}, nats=nats)
        assert found == {"city": "Boston", "unit": "celsius"}
        with pytest.raises(ToolError, match="no luck today"):
            await execute_in_session(session, "always_failing", {}, nats=nats)
        with pytest.raises(ConfigError, match=r"no worker of the session .* has a tool 'other'"):
            await execute_in_session(session, "other", {}, nats=nats)


async def test_the_whole_workflow_goes_through_the_loop(nats: str, session: str) -> None:
    script = [calls(call("get_weather", city="Boston"), call("count_to", number=2)), "Windy."]
    async with Worker([get_weather, count_to], nats=nats, session=session):
        remote = windlass.remote(session, nats=nats)
        async with AsyncClient(ScriptedModel(script), tools=[remote]) as client:
            run = await client.start("Weather in Boston?")
            events = [event async for event in client.subscribe(run.id)]
            reply = await run.result()
        await remote.aclose()
    assert reply.text == "Windy."
    assert reply.results[0].output == {"city": "Boston", "unit": "celsius"}
    assert reply.results[1].output == f"{run.id}:{reply.calls[1].id}"
    told = [event.message for event in events if isinstance(event, ToolRunProgress)]
    assert told == ["step 1", "step 2"]
    assert events.index(next(e for e in events if isinstance(e, ToolRunProgress))) < max(
        number for number, event in enumerate(events) if isinstance(event, ToolRunEnded)
    )


def test_sync_code_uses_remote_tools_too(nats: str, session: str, tmp_path: Path) -> None:
    async def serve() -> str:
        source = """
            from windlass import tool

            @tool
            def double(number: int) -> int:
                "Doubles."
                return 2 * number
        """
        async with worker_process(nats, session, source, tmp_path):
            return await asyncio.to_thread(ask)

    def ask() -> str:
        remote = windlass.remote(session, nats=nats)
        with Client(ScriptedModel([call("double", number=21), "42"]), tools=[remote]) as client:
            reply = client.generate("?")
        assert reply.results[0].output == 42
        return reply.text

    assert asyncio.run(serve()) == "42"


async def test_arguments_that_do_not_fit_never_reach_the_worker(nats: str, session: str) -> None:
    reached: list[int] = []

    @tool
    async def double(number: int) -> int:
        """Doubles."""
        reached.append(number)
        return 2 * number

    async with Worker([double], nats=nats, session=session):
        with pytest.raises(InvalidArguments, match="number"):
            await execute_in_session(session, "double", {"number": "many"}, nats=nats)
        with pytest.raises(InvalidArguments, match="number"):
            await execute_in_session(session, "double", {}, nats=nats)
    assert reached == []


async def test_a_session_without_a_worker_has_no_tools(nats: str, session: str) -> None:
    assert await get_tools_for_model(session, nats=nats) == []


async def test_a_worker_that_leaves_takes_its_tools_with_it(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of()
    async with Worker([get_weather], nats=nats, session=session):
        assert len(await bridge.specs(session)) == 1
    while bridge._directory.members(session):
        await asyncio.sleep(0)
    assert await bridge.specs(session) == []


async def test_workers_with_the_same_tool_share_the_calls(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    met = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Ends when both have come."""
        await met.wait()
        return "met"

    bridge = bridge_of()
    one = Worker([meet], nats=nats, session=session, max_running=1)
    other = Worker([meet], nats=nats, session=session, max_running=1)
    async with one, other:
        spec = await spec_named(bridge, session, "meet")
        while len(bridge._directory.members(session)) < 2:
            await asyncio.sleep(0)
        answers = await asyncio.gather(
            *(bridge.call(session, spec, {}, context(f"call_{n}")) for n in range(2))
        )
    assert [answer.output for answer in answers] == ["met", "met"]


async def test_strict_fail_fast_fails_when_the_worker_is_busy(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        """Holds."""
        begun.set()
        await let_go.wait()
        return "held"

    bridge = bridge_of(affinity="strict_fail_fast")
    async with Worker([hold], nats=nats, session=session, max_running=1):
        spec = await spec_named(bridge, session, "hold")
        first = asyncio.create_task(bridge.call(session, spec, {}, context("call_1")))
        await begun.wait()
        with pytest.raises(ToolError, match="busy"):
            await bridge.call(session, spec, {}, context("call_2"))
        let_go.set()
        assert (await first).output == "held"


async def test_strict_queue_waits_for_the_same_worker(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    ran: list[str] = []
    begun, let_go = asyncio.Event(), asyncio.Event()

    def worker(name: str) -> Worker:
        @tool
        async def hold() -> str:
            """Holds."""
            ran.append(name)
            begun.set()
            await let_go.wait()
            return name

        return Worker([hold], nats=nats, session=session, max_running=1)

    bridge = bridge_of(affinity="strict_queue")
    async with worker("one"), worker("other"):
        spec = await spec_named(bridge, session, "hold")
        first = asyncio.create_task(bridge.call(session, spec, {}, context("call_1")))
        await begun.wait()
        second = asyncio.create_task(bridge.call(session, spec, {}, context("call_2")))
        let_go.set()
        answers = await asyncio.gather(first, second)
    assert answers[0].output == answers[1].output
    assert len(set(ran)) == 1


async def test_a_lost_worker_is_reported_before_another_takes_over(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of(affinity="strict_queue")
    async with Worker([get_weather], nats=nats, session=session):
        spec = await spec_named(bridge, session, "get_weather")
        await bridge.call(session, spec, {"city": "Paris"}, context())
    async with Worker([get_weather], nats=nats, session=session):
        await bridge.specs(session)
        with pytest.raises(ToolError, match="is gone, and its state is lost"):
            await bridge.call(session, spec, {"city": "Paris"}, context("call_2"))
        again = await bridge.call(session, spec, {"city": "Paris"}, context("call_3"))
    assert again.output == {"city": "Paris", "unit": "celsius"}


async def test_a_cancelled_call_is_cancelled_where_it_runs(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    bridge = bridge_of()
    async with Worker([hang], nats=nats, session=session):
        spec = await spec_named(bridge, session, "hang")
        running = asyncio.create_task(bridge.call(session, spec, {}, context()))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await cancelled.wait()


async def test_a_deadline_is_passed_on_to_the_worker(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    seen: list[float | None] = []

    @tool
    async def when(context: ToolContext) -> str:
        """Returns its deadline."""
        seen.append(context.deadline)
        return "soon"

    bridge = bridge_of()
    async with Worker([when], nats=nats, session=session):
        spec = await spec_named(bridge, session, "when")
        await bridge.call(session, spec, {}, context("call_1"))
        soon = asyncio.get_running_loop().time() + 60
        await bridge.call(session, spec, {}, context("call_2", deadline=soon))
    assert seen[0] is None
    assert seen[1] is not None


async def test_arguments_of_sixteen_megabytes_arrive(nats: str, session: str) -> None:
    @tool
    def measure(text: str) -> int:
        """Measures."""
        return len(text)

    async with Worker([measure], nats=nats, session=session):
        text = "x" * (16 * 2**20)
        assert await execute_in_session(session, "measure", {"text": text}, nats=nats) == len(text)
        with pytest.raises(ToolError, match=r"max_payload"):
            await execute_in_session(session, "measure", {"text": text * 2}, nats=nats)


async def test_a_result_that_is_too_large_is_an_error_that_reports_it(
    nats: str, session: str
) -> None:
    @tool
    def much() -> str:
        """Returns a long text."""
        return "x" * (33 * 2**20)

    async with Worker([much], nats=nats, session=session):
        with pytest.raises(ToolError, match="the result has"):
            await execute_in_session(session, "much", {}, nats=nats)


async def test_images_are_returned_unchanged(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    @tool
    def draw() -> windlass.InlineData:
        """Draws."""
        return windlass.InlineData(b"\x89PNG", "image/png")

    bridge = bridge_of()
    async with Worker([draw], nats=nats, session=session):
        spec = await spec_named(bridge, session, "draw")
        answer = await bridge.call(session, spec, {}, context())
    assert answer.parts == (windlass.InlineData(b"\x89PNG", "image/png"),)


async def test_a_call_whose_key_is_known_is_not_run_again(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    ran: list[int] = []

    @tool
    async def add(number: int) -> int:
        """Adds."""
        ran.append(number)
        return sum(ran)

    bridge, twin = bridge_of(), bridge_of()
    async with Worker([add], nats=nats, session=session):
        spec = await spec_named(bridge, session, "add")
        await twin.specs(session)
        first = await bridge.call(session, spec, {"number": 1}, context())
        again = await twin.call(session, spec, {"number": 1}, context())
    assert first.output == again.output == 1
    assert ran == [1]


async def test_a_failure_that_may_be_temporary_is_retried_if_the_tool_is_idempotent(
    nats: str, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller decides it, by the options that the worker has announced."""
    failures = [ToolError("busy", retryable=True), RuntimeError("crash"), ToolError("no")]
    left: dict[str, list[Exception]] = {}

    def failing(name: str, **options: Any) -> Tool:
        left[name] = list(failures)

        @tool(name=name, **options)
        async def work() -> str:
            """Works."""
            raise left[name].pop(0)

        return work

    monkeypatch.setattr("windlass.loop.executor.random.uniform", lambda low, high: 0.0)
    tools = [failing("again", idempotent=True), failing("once")]
    script = [calls(call("again"), call("once")), "Done."]
    remote = windlass.remote(session, nats=nats)
    async with (
        Worker(tools, nats=nats, session=session),
        AsyncClient(ScriptedModel(script), tools=[remote]) as client,
    ):
        reply = await client.generate("?")
    await remote.aclose()
    assert [result.error for result in reply.results] == ["no", "busy"]
    assert {name: len(rest) for name, rest in left.items()} == {"again": 0, "once": 2}


async def test_a_worker_s_tool_may_call_tools_of_the_host(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    async def host(caller: HostCaller, asked: HostCall) -> Result | CallRefused:
        if asked.name != "greeting":
            return CallRefused(reason=f"the host has no {asked.name!r} for workers")
        value = f"Hello from {caller.session}: {asked.arguments}"
        return Result(response=FunctionResponse(asked.name, {"output": value}))

    @tool
    async def ask_async(name: str) -> str:
        """Asks."""
        return await call_host_async(name, to="Ada")

    @tool
    def ask_sync(name: str) -> str:
        """Asks."""
        return call_host(name, to="Ada")

    bridge = bridge_of(on_host_call=host)
    async with Worker([ask_async, ask_sync], nats=nats, session=session):
        for name in ("ask_async", "ask_sync"):
            spec = await spec_named(bridge, session, name)
            good = await bridge.call(session, spec, {"name": "greeting"}, context(f"{name} 1"))
            assert good.output == f'Hello from {session}: {{"to":"Ada"}}'
            with pytest.raises(ToolError, match="the host has no 'secrets' for workers"):
                await bridge.call(session, spec, {"name": "secrets"}, context(f"{name} 2"))


async def test_an_unused_session_ends_and_its_worker_stops(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    ended: list[str] = []
    bridge = bridge_of(session_ttl=0.0)
    worker = Worker(
        [get_weather], nats=nats, session=session, on_session_end=lambda: ended.append(session)
    )
    async with worker:
        await bridge.specs(session)
        await worker.ended.wait()
    assert ended == [session]


async def test_an_unreachable_server_is_reported_without_its_password(
    session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.messaging.connection.CONNECT_SECONDS", 0.1)
    with pytest.raises(
        ConfigError, match=r"no NATS server answers at 127\.0\.0\.1:1 within"
    ) as caught:
        await get_tools_for_model(session, nats="nats://me:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "x" * 65])
def test_a_session_s_name_is_a_part_of_a_subject(name: str) -> None:
    with pytest.raises(ConfigError, match="a session must be 1 to 64 letters"):
        windlass.remote(name)


async def test_after_an_unreadable_answer_the_effect_is_unknown(
    nats: str, session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    async def lie(message: Any) -> None:
        if message.subject.endswith(".call"):
            await message.respond(b'{"type": "result", "v": 1, "response": 7}')

    bridge = bridge_of()
    async with Worker([get_weather], nats=nats, session=session) as worker:
        spec = await spec_named(bridge, session, "get_weather")
        announcement = bridge._directory.members(session)[0].announcement
        assert announcement.worker == worker.id
    while bridge._directory.members(session):
        await asyncio.sleep(0)
    await wire.subscribe(f"windlass.v1.worker.{session}.liar.*", lie)
    forged = encode(replace(announcement, worker="liar"))
    await wire.publish(f"windlass.v1.announce.{session}.liar", forged)
    await wire.flush()
    assert await bridge.specs(session) == [spec]
    with pytest.raises(ToolError, match=r"effect unknown.* sent an unreadable answer") as caught:
        await bridge.call(session, spec, {"city": "Paris"}, context())
    assert caught.value.effect_unknown
