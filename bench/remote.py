"""A remote tool call beside a bare NATS request: one at a time, many at once, more workers.

    python bench/remote.py            some two minutes
    python bench/remote.py --quick    with fewer calls

The floor is nats-py's own request to a subscriber that answers with the same bytes; both ends are
processes of their own. Samples are interleaved, and only ratios mean anything.
"""

import argparse
import asyncio
import contextlib
import functools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from statistics import median, quantiles

import nats
from nats.aio.msg import Msg

from windlass import ToolContext, tool
from windlass.messaging.embedded import NatsServer
from windlass.toolsets.remote.bridge import Bridge
from windlass.worker import Worker

Call = Callable[[], Awaitable[object]]
ARGUMENTS = {"city": "Paris", "unit": "celsius"}
PAYLOAD = b'{"city":"Paris","unit":"celsius"}'


@tool
async def get_weather(city: str, unit: str = "celsius") -> dict[str, str]:
    """The weather now."""
    return {"city": city, "unit": unit}


async def echo(url: str) -> None:
    """The floor's other end."""
    connection = await nats.connect(url)

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await connection.subscribe("echo", cb=answer)
    await connection.flush()
    await connection.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


async def serve(url: str, session: str) -> None:
    async with Worker([get_weather], nats=url, session=session, max_running=256):
        print("ready", flush=True)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def child(*words: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *words, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def one_by_one(call: Call, count: int) -> list[float]:
    seconds: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - begun)
    return seconds


async def at_once(call: Call, count: int, callers: int = 64) -> float:
    """Calls a second."""

    async def caller() -> None:
        for _ in range(count // callers):
            await call()

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count // callers * callers / (time.perf_counter() - begun)


async def remote_call(bridge: Bridge, session: str) -> Call:
    spec = (await bridge.specs(session))[0]
    count = 0

    async def call() -> object:
        nonlocal count
        count += 1
        context = ToolContext(run_id="run", call_id=str(count))
        return await bridge.call(session, spec, ARGUMENTS, context)

    return call


async def measure(samples: int, calls: int) -> None:
    async with NatsServer() as server, contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(child("echo", server.url))
        sessions = {1: "one", 2: "two", 4: "four"}
        for workers, session in sessions.items():
            for _ in range(workers):
                await stack.enter_async_context(child("serve", server.url, session))
        plain = await nats.connect(server.url)
        bridge = Bridge(server.url)
        floor: Call = functools.partial(plain.request, "echo", PAYLOAD)
        ours = {n: await remote_call(bridge, session) for n, session in sessions.items()}
        await report(floor, ours, samples, calls)
        await bridge.aclose()
        await plain.close()


async def report(floor: Call, ours: dict[int, Call], samples: int, calls: int) -> None:
    spent: dict[str, list[float]] = {"floor": [], "remote": []}
    rates: dict[str, list[float]] = {"floor": []} | {f"{n} workers": [] for n in ours}
    for call in (floor, *ours.values()):
        await one_by_one(call, 50)  # to warm up
    for _ in range(samples):
        spent["floor"] += await one_by_one(floor, calls)
        spent["remote"] += await one_by_one(ours[1], calls)
        rates["floor"].append(await at_once(floor, calls * 4))
        for number, call in ours.items():
            rates[f"{number} workers"].append(await at_once(call, calls * 4))
    print("\nA remote tool call beside a bare NATS request, one at a time")
    for name, seconds in spent.items():
        cut = quantiles(seconds, n=100)
        base = quantiles(spent["floor"], n=100)
        print(
            f"  {name:10} p50 {cut[49] * 1e3:6.2f} ms ({cut[49] / base[49]:.2f}x)"
            f"   p99 {cut[98] * 1e3:6.2f} ms ({cut[98] / base[98]:.2f}x)"
        )
    print("\n64 callers at once, calls a second")
    for name, found in rates.items():
        print(f"  {name:10} {median(found):8.0f} ({median(found) / median(rates['floor']):.2f}x)")


def main() -> None:
    match sys.argv[1:]:
        case ["echo", url]:
            asyncio.run(echo(url))
        case ["serve", url, session]:
            asyncio.run(serve(url, session))
        case _:
            parser = argparse.ArgumentParser(description=__doc__)
            parser.add_argument("--quick", action="store_true")
            quick = parser.parse_args().quick
            asyncio.run(measure(3 if quick else 9, 100 if quick else 300))


if __name__ == "__main__":
    main()
