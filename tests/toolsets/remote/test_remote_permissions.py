"""Only the workers of a session may act for it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.remote_tools import get_weather, spec_named, weather_of_exited_worker

from windlass import ToolContext, ToolError, tool
from windlass.content import FunctionResponse
from windlass.messaging.connection import Connection, connect
from windlass.messaging.embedded import NatsServer
from windlass.toolsets.remote import presence
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import (
    REPLY,
    Announcement,
    BadFrame,
    CallRefused,
    HostCall,
    Result,
    ToolSpec,
    checked,
    decode,
    encode,
    spec_of,
)
from windlass.toolsets.remote.host import HostCaller
from windlass.worker import Worker, call_host_async

MakeBridge = Callable[..., Bridge]


def address(server: NatsServer, user: str) -> str:
    return server.url.replace("nats://", f"nats://{user}:{user[0]}@")


async def test_a_worker_with_restricted_permissions_serves_its_session(
    guarded_server: NatsServer, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of(address(guarded_server, "gateway"))
    async with Worker([get_weather], nats=address(guarded_server, "a"), session="A"):
        spec = await spec_named(bridge, "A", "get_weather")
        answer = await bridge.call("A", spec, {"city": "Paris"}, ToolContext(run_id="r"))
    assert answer.output == {"city": "Paris", "unit": "celsius"}


async def test_it_cannot_register_for_another_session(
    guarded_server: NatsServer, bridge_of: MakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SILENT_SECONDS", 1.0)
    bridge = bridge_of(address(guarded_server, "gateway"))
    await bridge.start()
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error))

    intruder = Worker([get_weather], nats=address(guarded_server, "a"), session="B", error_cb=note)
    async with intruder:
        assert await bridge.specs("B") == []
    assert any("permissions violation" in said.lower() for said in refused)


async def test_it_cannot_read_or_send_calls_of_another_session(
    guarded_server: NatsServer, bridge_of: MakeBridge
) -> None:
    heard: list[str] = []
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error))

    async def listen(message: Any) -> None:
        heard.append(message.subject)

    bridge = bridge_of(address(guarded_server, "gateway"))
    ran: list[str] = []

    @tool
    async def secret(text: str) -> str:
        """Keeps a secret."""
        ran.append(text)
        return "kept"

    spy = await connect(address(guarded_server, "a"), "spy", {"error_cb": note})
    async with Worker([secret], nats=address(guarded_server, "b"), session="B") as worker:
        await spy.subscribe("windlass.v1.worker.B.>", listen)
        await spy.subscribe("windlass.v1.reply.>", listen)
        await spy.subscribe("windlass.v1.announce.>", listen)
        await spy.publish(
            f"windlass.v1.worker.B.{worker.id}.call", b"{}", "windlass.v1.reply.x.A.1"
        )
        await spy.flush()
        spec = await spec_named(bridge, "B", "secret")
        await bridge.call("B", spec, {"text": "x"}, ToolContext(run_id="r"))
    await spy.close()
    assert heard == []
    assert ran == ["x"]
    assert len(refused) >= 4


async def test_it_cannot_read_what_the_host_answers_to_another_session(
    guarded_server: NatsServer, bridge_of: MakeBridge
) -> None:
    """Nor the answers to other clients, such as those to the gateway's own requests."""
    heard: list[bytes] = []
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error))

    async def listen(message: Any) -> None:
        heard.append(message.data)

    async def host(caller: HostCaller, asked: HostCall) -> Result | CallRefused:
        return Result(
            response=FunctionResponse(asked.name, {"output": f"a secret of {caller.session}"})
        )

    @tool
    async def ask() -> str:
        """Asks the host."""
        return await call_host_async("secret")

    bridge = bridge_of(address(guarded_server, "gateway"), on_host_call=host)
    spy = await connect(address(guarded_server, "a"), "spy", {"error_cb": note})
    for subject in ("windlass.v1.inbox.>", "windlass.v1.inbox.B.>", "_INBOX.>", ">"):
        await spy.subscribe(subject, listen)
    await spy.flush()
    async with Worker([ask], nats=address(guarded_server, "b"), session="B"):
        spec = await spec_named(bridge, "B", "ask")
        answer = await bridge.call("B", spec, {}, ToolContext(run_id="r"))
    await spy.flush()
    await spy.close()
    assert answer.output == "a secret of B"
    assert heard == []
    assert len(refused) == 4


async def test_it_cannot_answer_for_another_session(
    guarded_server: NatsServer, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of(address(guarded_server, "gateway"))
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool
    async def ask() -> str:
        """Asks."""
        begun.set()
        await let_go.wait()
        return "the truth"

    liar = await connect(address(guarded_server, "a"), "liar", {"error_cb": ignore})
    async with Worker([ask], nats=address(guarded_server, "b"), session="B"):
        spec = await spec_named(bridge, "B", "ask")
        running = asyncio.create_task(bridge.call("B", spec, {}, ToolContext(run_id="r")))
        await begun.wait()
        gateway = bridge._id
        for number in range(1, 20):
            for session in ("A", "B"):
                await liar.publish(
                    f"windlass.v1.reply.{gateway}.{session}.{number}",
                    encode(CallRefused(reason="a lie")),
                )
        await liar.flush()
        let_go.set()
        assert (await running).output == "the truth"
    await liar.close()


async def ignore(error: Exception) -> None:
    """The server reports the violation to the worker."""


GOOD = spec_of(get_weather)


def announcement(**more: Any) -> Announcement:
    return Announcement(**{"worker": "w", "session": "s", "tools": (GOOD,), **more})


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        (announcement(session="other"), "an announcement for other/w on the subject of s/w"),
        (announcement(worker="other"), "an announcement for s/other on the subject of s/w"),
        (announcement(tools=(GOOD, GOOD)), "duplicate tool name 'get_weather'"),
        (announcement(tools=(replace(GOOD, name="no name"),)), "tool 'no name'"),
        (announcement(tools=(replace(GOOD, parameters={"type": 7}),)), "tool 'get_weather'"),
        (announcement(tools=(replace(GOOD, timeout=-1.0),)), "timeout must be a number of seconds"),
        (
            announcement(tools=tuple(ToolSpec(f"t{n}") for n in range(1_001))),
            "more than 1000 tools",
        ),
    ],
)
def test_a_forged_or_broken_registration_is_refused_with_a_reason(
    forged: Announcement, reason: str
) -> None:
    with pytest.raises(BadFrame, match=reason):
        checked(forged, "s", "w")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"type": "other"}',
        b'{"type": "announcement"}',
        b"\xff\xfe",
        b'{"type": "announcement", "v": 2, "worker": "w", "session": "s", "tools": []}',
        b"[" * 100_000,
    ],
)
async def test_a_malformed_registration_is_answered_with_the_reason(
    nats: str, session: str, wire: Connection, bridge_of: MakeBridge, data: bytes
) -> None:
    bridge = bridge_of()
    await bridge.start()
    answer = decode(await wire.request(f"windlass.v1.announce.{session}.w", data, 5.0), REPLY)
    assert isinstance(answer, CallRefused)
    assert "invalid message" in answer.reason
    assert await bridge.specs(session) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"type": "call"}', b'{"type": "call", "v": 9, "key": "k", "name": "n"}'],
)
async def test_a_malformed_call_is_refused_and_the_worker_continues(
    nats: str, session: str, wire: Connection, bridge_of: MakeBridge, data: bytes
) -> None:
    bridge = bridge_of()
    async with Worker([get_weather], nats=nats, session=session) as worker:
        subject = f"windlass.v1.worker.{session}.{worker.id}.call"
        answer = decode(await wire.request(subject, data, 5.0), REPLY)
        assert isinstance(answer, CallRefused)
        spec = await spec_named(bridge, session, "get_weather")
        good = await bridge.call(session, spec, {"city": "Paris"}, ToolContext(run_id="r"))
    assert good.output == {"city": "Paris", "unit": "celsius"}


async def test_two_workers_that_differ_on_a_tool_do_not_both_get_its_calls(
    nats: str, session: str, bridge_of: MakeBridge, caplog: pytest.LogCaptureFixture
) -> None:
    def worker(answer: str, description: str) -> Worker:
        @tool(description=description)
        async def say() -> str:
            return answer

        return Worker([say], nats=nats, session=session)

    bridge = bridge_of()
    async with worker("first", "Says."):
        spec = await spec_named(bridge, session, "say")
        async with worker("second", "Says otherwise."):
            while len(bridge._directory.members(session)) < 2:
                await asyncio.sleep(0)
            assert await bridge.specs(session) == [spec]
            said = {
                (
                    await bridge.call(session, spec, {}, ToolContext(run_id="r", call_id=str(n)))
                ).output
                for n in range(5)
            }
    assert said == {"first"}
    assert "describes 'say' differently" in caplog.text


async def test_a_tool_that_no_worker_has_any_more_is_a_tool_error(
    nats: str, session: str, bridge_of: MakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "NO_WORKER_SECONDS", 0.25)
    bridge = bridge_of()
    spec = await weather_of_exited_worker(bridge, nats, session)
    with pytest.raises(ToolError, match="no worker of the session"):
        await bridge.call(session, spec, {"city": "Paris"}, ToolContext(run_id="r"))
