"""Several gateways on one NATS: any gateway serves any reader, and another one resumes the runs of
a stopped one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.asgi import post, request
from tests.support.remote_tools import waiting_once

from windlass import tool
from windlass.events import ApprovalRequested, RunResumed, ToolRunEnded, ToolRunStarted
from windlass.gateway import GatewayConfig
from windlass.gateway.app import App
from windlass.gateway.config import ModelConfig, RunsConfig
from windlass.gateway.gateway import Gateway
from windlass.messaging.embedded import NatsServer
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.jetstream.streams import subject_of
from windlass.testing import Gate, ScriptedModel, call, slow

pytestmark = pytest.mark.process

ASK = {"model": "m", "messages": [{"role": "user", "content": "Go!"}]}
Open = Callable[..., App]


@pytest.fixture
async def open_gateway() -> AsyncIterator[Open]:
    """Gateways that share a log in their own JetStream."""
    made: list[Gateway] = []
    async with NatsServer() as server:

        def make(script: Any, *tools: Any) -> App:
            models = {
                "m": ModelConfig(
                    name="m", target="scripted/m", tools=tuple(each.name for each in tools)
                )
            }
            config = GatewayConfig(models=models, runs=RunsConfig(nats=(server.url,)))
            made.append(Gateway(config, models={"m": ScriptedModel(script)}, tools=tools))
            return App(made[-1])

        yield make
        for gateway in made:
            await gateway.aclose()


def log_of(app: App) -> JetStreamLog:
    assert app.gateway.service.control is not None
    assert isinstance(app.gateway.service.log, JetStreamLog)
    return app.gateway.service.log


async def start(app: App) -> str:
    answer = await post(app, ASK, "/v1/runs")
    assert answer.status == 202, answer.body
    return answer.json["id"]


async def die(app: App) -> None:
    """Simulates a killed process: it writes nothing more, and its lease expires."""
    for run in app.gateway.runs.running():
        run.log.close()
        await run.stop()
    await log_of(app).aclose()


async def test_a_run_is_read_and_listed_at_every_gateway(open_gateway: Open) -> None:
    one, other = open_gateway(["Done."]), open_gateway([])
    run_id = await start(one)
    told = await request(other, "GET", f"/v1/runs/{run_id}/events")
    assert b"event: run_ended" in told.body
    here = await request(one, "GET", f"/v1/runs/{run_id}/events")
    assert told.body == here.body
    shown = (await request(other, "GET", f"/v1/runs/{run_id}")).json
    assert shown["response"]["choices"][0]["message"]["content"] == "Done."
    [listed] = (await request(other, "GET", "/v1/runs")).json["data"]
    assert listed["id"] == run_id


async def test_a_reader_follows_a_run_that_is_active_at_another_gateway(open_gateway: Open) -> None:
    gate = Gate()
    one, other = open_gateway([slow("One two three.", gate, after=1)]), open_gateway([])
    run_id = await start(one)
    follower = log_of(other).follow(run_id)
    first = await anext(follower)
    gate.open()
    events = [first, *[event async for event in follower]]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events == await log_of(one).read(run_id)


async def test_a_reader_from_another_gateway_receives_nothing_twice(
    open_gateway: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the order is stored before the run's gateway knows that the run is stored."""
    gate, held = Gate(), asyncio.Event()
    one, other = open_gateway([slow("One two three.", gate, after=1)]), open_gateway([])
    run_id = await start(one)
    await gate.reached.wait()
    append = log_of(one)._streams.append

    async def appended(batch: Any) -> int:
        number = await append(batch)
        await held.wait()
        return number

    monkeypatch.setattr(log_of(one)._streams, "append", appended)
    known = len(log_of(one)._live[run_id].recorded())
    gate.open()
    [event, *more] = await log_of(other).follow(run_id, known).some(60)
    last = [event, *more][-1].seq
    assert len(log_of(one)._live[run_id].recorded()) == known
    path = f"/v1/runs/{run_id}/events?after={last}"
    reading = asyncio.create_task(request(one, "GET", path))
    while not one.gateway.followers:
        await asyncio.sleep(0)
    held.set()
    told = [int(line[4:]) for line in (await reading).body.split(b"\n") if line[:4] == b"id: "]
    whole = await log_of(other).read(run_id)
    assert told == list(range(last + 1, len(whole) + 1))


@pytest.mark.usefixtures("short_grace")
async def test_runs_of_an_exited_gateway_are_resumed_by_another(open_gateway: Open) -> None:
    begun = asyncio.Event()
    ran: list[str] = []

    @tool
    async def pay(amount: int) -> str:
        """Pays."""
        ran.append(f"pay {amount}")
        return "paid"

    wait = waiting_once(begun)
    script = [call("pay", amount=1), call("wait")]
    one, other = open_gateway(script, pay, wait), open_gateway(["All done."], pay, wait)
    run_id = await start(one)
    await begun.wait()
    assert await other.gateway.resume() == []
    await die(one)
    [run] = await other.gateway.resume()
    reply = await run.result()
    assert (run.id, reply.text) == (run_id, "All done.")
    assert ran == ["pay 1"]
    events = await log_of(other).read(run_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sum(isinstance(event, RunResumed) for event in events) == 1
    assert sum(isinstance(event, ToolRunEnded) for event in events) == 2


@pytest.mark.usefixtures("short_grace")
async def test_only_one_of_many_takes_a_run_over(open_gateway: Open) -> None:
    begun = asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Waits, the first time."""
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    one = open_gateway([call("wait")], wait)
    others = [open_gateway(["Done."], wait) for _ in range(4)]
    await start(one)
    await begun.wait()
    await die(one)
    taken = await asyncio.gather(*(other.gateway.resume() for other in others))
    assert sorted(len(runs) for runs in taken) == [0, 0, 0, 1]
    for runs in taken:
        for run in runs:
            assert (await run.result()).text == "Done."


async def test_a_gateway_that_wakes_up_after_losing_its_run_cannot_write_to_it(
    open_gateway: Open,
) -> None:
    gate = Gate()
    one, other = open_gateway([slow("Old answer.", gate, after=1)]), open_gateway(["New answer."])
    run_id = await start(one)
    sleeper = log_of(one)
    await gate.reached.wait()
    # It is paused: it renews no lease and does not answer.
    await sleeper._leases.leave()
    [run] = await other.gateway.resume()
    assert (await run.result()).text == "New answer."
    gate.open()
    [old] = one.gateway.runs.running()
    await asyncio.wait([old.task])
    assert "taken over run" in str(old.error)
    for gateway in (one, other):
        shown = (await request(gateway, "GET", f"/v1/runs/{run_id}")).json
        assert shown["response"]["choices"][0]["message"]["content"] == "New answer."
    events = await log_of(other).read(run_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_stop_and_approve_reach_the_gateway_that_has_the_run(open_gateway: Open) -> None:
    @tool(approve=True)
    async def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    one = open_gateway([call("pay", amount=1, id="call_1"), slow("Never.", Gate())], pay)
    other = open_gateway([], pay)
    run_id = await start(one)
    follower = log_of(other).follow(run_id)
    async for event in follower:
        if isinstance(event, ApprovalRequested):
            break
    decision = {"call_id": "call_1", "arguments": {"amount": 2}}
    assert (await post(other, decision, f"/v1/runs/{run_id}/approve")).status == 200
    async for event in follower:
        if isinstance(event, ToolRunStarted):
            assert event.call.arguments == {"amount": 2}
        if isinstance(event, ToolRunEnded):
            break
    stopped = await request(other, "POST", f"/v1/runs/{run_id}/stop")
    assert stopped.json["stop_reason"] == "stopped"


async def test_a_stop_at_a_gateway_that_shuts_down_asks_its_client_to_retry(
    open_gateway: Open,
) -> None:
    one, other = open_gateway([slow("Never.", Gate())]), open_gateway([])
    run_id = await start(one)
    log_of(one)._live[run_id].on_order = None  # it is too busy to answer
    stopping = asyncio.create_task(request(other, "POST", f"/v1/runs/{run_id}/stop"))
    assert other.gateway.service.control is not None
    while not other.gateway.service.control._waiting:
        await asyncio.sleep(0)
    await other.gateway.drain(0)
    assert (await stopping).status == 503
    assert len(await log_of(one)._streams.orders.all()) == 1


@pytest.mark.usefixtures("short_grace")
async def test_a_run_that_cannot_be_resumed_delays_no_other(
    open_gateway: Open, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = open_gateway(slow("Never.", Gate())), open_gateway(["Done."])
    damaged, sound = await start(one), await start(one)
    await die(one)
    log = log_of(other)
    await log._streams.with_retries(lambda js: js.publish(subject_of(damaged), b"["))
    [run] = await other.gateway.resume()
    assert (run.id, (await run.result()).text) == (sound, "Done.")
    assert await other.gateway.resume() == []
    assert sum("Cannot read run" in record.message for record in caplog.records) == 1


async def test_a_failed_search_for_interrupted_runs_is_repeated(
    open_gateway: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = open_gateway([]).gateway
    looks = asyncio.Semaphore(0)

    async def resume_interrupted() -> list[Any]:
        looks.release()
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr(gateway, "_resume_interrupted", resume_interrupted)
    monkeypatch.setattr("windlass.gateway.gateway.RESUME_SECONDS", 0.0)
    maintaining = asyncio.create_task(gateway.maintain_log())
    for _ in range(3):
        await looks.acquire()
    maintaining.cancel()
