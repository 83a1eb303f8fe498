"""Measures the periodic work of gateways, which grows with the number of stored runs."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway_load import cpu_seconds
from gateway_servers import resident_mb
from gateway_tools import get_weather, search_notes, send_mail

from windlass.events import RunEnded, RunStarted
from windlass.messaging.connection import connect
from windlass.messaging.embedded import NatsServer
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.records import Retention, RunRecord
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import Announcement, encode, spec_of

AT_ONCE = 50
KEEP_SECONDS = 30 * 86_400.0
ORIGIN = {"kind": "gateway", "request": {"model": "bench", "stream": True}, "tools": ["weather"]}


class Cost(NamedTuple):
    """CPU seconds."""

    gateway: float
    nats: float

    def difference(self, other: "Cost", parts: int) -> "Cost":
        return Cost((self.gateway - other.gateway) / parts, (self.nats - other.nats) / parts)


async def periodic_work(ended: int, active: int) -> tuple[dict[str, Cost], float]:
    """Returns the costs by kind of work, and the memory of NATS for one stored run in kB.

    Each cost is for one stored run or one active run, each time that the gateway checks it.
    """
    async with NatsServer() as server:
        writer, reader = JetStreamLog(server.url), JetStreamLog(server.url)
        retention = Retention(max_age=KEEP_SECONDS)
        try:
            await add_runs(writer, 0, AT_ONCE, end=True)
            without_runs = await cost(lambda: reader.expire(retention), server.process_id)
            before = resident_mb(server.process_id)
            await add_runs(writer, AT_ONCE, ended, end=True)
            run_kb = (resident_mb(server.process_id) - before) * 1024 / ended
            await reader.expire(retention)  # known records are not read again
            with_runs = await cost(lambda: reader.expire(retention), server.process_id)
            without_active = await cost(reader.claim, server.process_id)
            await add_runs(writer, AT_ONCE + ended, active, end=False)
            claim = await cost(reader.claim, server.process_id)
            await reader.list(owner="", chat="x")
            listed = await cost(lambda: reader.list(owner="", chat="x"), server.process_id)
        finally:
            await writer.aclose()
            await reader.aclose()
    costs = {
        "expiry, per stored run": with_runs.difference(without_runs, ended),
        "takeover, per active run": claim.difference(without_active, active),
        "search for a chat's runs, per stored run": listed.difference(without_runs, ended + active),
    }
    return costs, run_kb


async def add_runs(log: JetStreamLog, begin: int, count: int, *, end: bool) -> None:
    async def one(number: int) -> None:
        run_id = f"run_{number:024d}"
        record = RunRecord(id=run_id, model="bench", created=time.time(), origin=ORIGIN)
        run = log.begin(record)
        run.append(RunStarted(run_id, "bench", ()))
        if end:
            run.append(RunEnded("answer"))
        assert run.settled is not None
        await run.settled()

    for number in range(begin, begin + count, AT_ONCE):
        await asyncio.gather(*(one(number + each) for each in range(AT_ONCE)))


async def announcement(times: int) -> Cost:
    """Returns the cost of an announcement of a worker with three tools, including the sender's."""
    tools = tuple(spec_of(tool) for tool in (get_weather, search_notes, send_mail))
    frames = {
        session: encode(Announcement(worker="w", session=session, tools=tools))
        for session in ("bench", "last")
    }
    async with NatsServer() as server:
        bridge, sender = Bridge(server.url), await connect(server.url, "bench", {})

        async def receive_all() -> None:
            for _ in range(times):
                await sender.publish(subjects.announce("bench", "w"), frames["bench"])
            await sender.publish(subjects.announce("last", "w"), frames["last"])
            await bridge.specs("last")  # this announcement arrives after all others

        try:
            await bridge.start()
            return (await cost(receive_all, server.process_id)).difference(Cost(0, 0), times)
        finally:
            await sender.close()
            await bridge.aclose()


async def cost(work: Callable[[], Awaitable[object]], nats: int) -> Cost:
    processes = (os.getpid(), nats)
    before = [cpu_seconds(pid) for pid in processes]
    await work()
    return Cost(
        *(cpu_seconds(pid) - before_one for pid, before_one in zip(processes, before, strict=True))
    )
