"""A gateway whose tools are in workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asgi import bearer, post
from tests.support.remote_tools import get_weather

from windlass import tool
from windlass.gateway import GatewayConfig
from windlass.gateway.app import App
from windlass.gateway.config import KeyConfig, ModelConfig, WorkersConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.gateway import Gateway
from windlass.loop.history import History
from windlass.runs.memory import MemoryRunLog
from windlass.testing import ScriptedModel, call
from windlass.worker import Worker, call_host_async

ASK = {"model": "m", "messages": [{"role": "user", "content": "Weather in Paris?"}]}


def in_session(session: str) -> tuple[bytes, bytes]:
    return (b"x-windlass-session", session.encode())


@asynccontextmanager
async def serving(nats: str, script: Any, **more: Any) -> AsyncIterator[App]:
    tools = more.pop("tools", ())
    workers = WorkersConfig(nats=(nats,) if nats else (), port=0, **more.pop("workers", {}))
    sessions = more.pop("sessions", ())
    models = {"m": ModelConfig(name="m", target="scripted/model", sessions=sessions)}
    config = GatewayConfig(models=models, workers=workers, **more)
    gateway = Gateway(config, models={"m": ScriptedModel(script)}, tools=tools)
    await gateway.open()
    try:
        yield App(gateway)
    finally:
        await gateway.aclose()


async def test_a_model_gets_the_tools_of_its_sessions(nats: str, session: str) -> None:
    async with (
        Worker([get_weather], nats=nats, session=session),
        serving(nats, [call("get_weather", city="Paris"), "Fine."], sessions=(session,)) as app,
    ):
        answer = await post(app, ASK)
    assert answer.json["choices"][0]["message"]["content"] == "Fine."


async def test_a_request_names_the_session_whose_tools_it_gets(nats: str, session: str) -> None:
    seen: list[list[str]] = []

    def script(request: Any) -> Any:
        seen.append([declaration.name for declaration in request.tools])
        return "Fine."

    async with (
        Worker([get_weather], nats=nats, session=session),
        serving(nats, script) as app,
    ):
        for headers in ([], [in_session(session)], [in_session("nobody")]):
            assert (await post(app, ASK, headers=headers)).status == 200
    assert seen == [[], ["get_weather"], []]


async def test_a_key_uses_the_sessions_that_it_may(nats: str, session: str) -> None:
    key, hashed = new_key()
    keys = (KeyConfig(name="web", hash=hashed, sessions=(session,)),)
    async with serving(nats, ["Fine."] * 2, keys=keys) as app:
        for asked, status in ((session, 200), ("other", 403)):
            headers = [bearer(key), in_session(asked)]
            assert (await post(app, ASK, headers=headers)).status == status


@pytest.mark.parametrize("name", ["a.b", "*", "x" * 65])
async def test_an_invalid_session_name_is_refused(nats: str, name: str) -> None:
    async with serving(nats, ["Fine."]) as app:
        answer = await post(app, ASK, headers=[in_session(name)])
    assert answer.status == 400
    assert answer.json["error"]["param"] == "X-Windlass-Session"


async def test_a_gateway_without_workers_reports_it() -> None:
    gateway = Gateway(GatewayConfig(), models={"m": ScriptedModel(["Fine."])})
    answer = await post(App(gateway), ASK, headers=[in_session("s")])
    assert (answer.status, answer.json["error"]["param"]) == (404, "X-Windlass-Session")


@pytest.mark.process
async def test_without_a_configured_server_the_gateway_starts_one(session: str) -> None:
    async with serving("", [call("get_weather", city="Paris"), "Fine."]) as app:
        assert app.gateway.sessions.workers is not None
        async with Worker(
            [get_weather], nats=app.gateway.sessions.workers.address, session=session
        ):
            headers = [in_session(session)]
            answer = await post(app, ASK, headers=headers)
    assert answer.json["choices"][0]["message"]["content"] == "Fine."


async def test_workers_can_call_only_the_configured_host_tools(nats: str, session: str) -> None:
    @tool
    def greeting(name: str) -> str:
        """Greets."""
        return f"Hello, {name}"

    @tool
    def secret() -> str:
        """Not for workers."""
        return "x"

    heard: list[str] = []

    @tool
    async def visit(what: str) -> str:
        """Asks the host."""
        said = await call_host_async(what, **({"name": "Ada"} if what == "greeting" else {}))
        heard.append(said)
        return said

    script = [call("visit", what="greeting"), call("visit", what="secret"), "Done."]
    async with (
        Worker([visit], nats=nats, session=session),
        serving(
            nats,
            script,
            sessions=(session,),
            tools=[greeting, secret],
            workers={"host_tools": ("greeting",)},
        ) as app,
    ):
        answer = await post(app, ASK)
        run = await app.gateway.find(answer.headers["x-windlass-run-id"], "")
        reply = History(await run.recorded()).reply()
    assert answer.json["choices"][0]["message"]["content"] == "Done."
    assert heard == ["Hello, Ada"]
    assert "no tool 'secret' for workers" in str(reply.results[1].error)


async def test_a_resumed_run_waits_until_its_worker_is_back(nats: str, session: str) -> None:
    """The gateways use the same log one after another, like a file."""
    kept = MemoryRunLog()
    begun = asyncio.Event()

    @tool(on_interrupt="retry")
    async def work() -> str:
        """Works."""
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "done"

    config = GatewayConfig(
        models={"m": ModelConfig(name="m", target="scripted/model")},
        workers=WorkersConfig(nats=(nats,)),
    )
    first = Gateway(config, models={"m": ScriptedModel([call("work", id="call_1")])}, log=kept)
    await first.open()
    async with Worker([work], nats=nats, session=session):
        started = await post(App(first), ASK, "/v1/runs", [in_session(session)])
        run_id = started.json["id"]
        await begun.wait()
        [run] = first.runs.running()
        await run.leave()
        record = await kept.status(run_id)
    second = Gateway(config, models={"m": ScriptedModel(["Worked."])}, log=Handed(kept, record))
    await second.open()
    resuming = asyncio.create_task(second.resume())
    async with Worker([work], nats=nats, session=session):
        [resumed] = await resuming
        reply = await resumed.result()
    assert reply.text == "Worked."
    assert reply.results[0].output == "done"
    await first.aclose()
    await second.aclose()


class Handed(MemoryRunLog):
    """A log with one interrupted run."""

    def __init__(self, other: MemoryRunLog, record: Any) -> None:
        super().__init__()
        self._other, self._record = other, record

    async def claim(self, wanted: Any = bool) -> list[Any]:
        return [self._record]

    async def reopen(self, run_id: str) -> Any:
        log = self.begin(self._record)
        for event in await self._other.read(run_id):
            log._publish([event])
        return log
