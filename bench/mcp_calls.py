"""Compares the MCP client and server of Windlass with those of the SDK, over stdio and HTTP.

The pairs of client and server take turns, and make one call after another. Compare only ratios: the
milliseconds depend on the machine.
"""

import asyncio
import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from statistics import quantiles
from subprocess import DEVNULL, Popen
from typing import Any

from mcp import Client, StdioServerParameters

import windlass
from windlass import AsyncClient, Part
from windlass.testing import ScriptedModel

HERE = Path(__file__).parent
TOOLS = str(HERE / "mcp_tools.py")
BATCH = 50
MODES = {"2025-11-25": "legacy", "2026-07-28": "auto"}

Call = Callable[[], Awaitable[object]]


def server_command(kind: str, port: int | None) -> list[str]:
    if kind == "the SDK's":
        return [sys.executable, TOOLS, str(port or "stdio")]
    listening = ["--http", "--port", str(port)] if port else []
    return [sys.executable, "-m", "windlass", "mcp", "--tools", TOOLS, *listening]


@contextlib.contextmanager
def target(kind: str, transport: str) -> Generator[list[str] | str]:
    """Yields the command of a server for stdio, or the address of a running server."""
    if transport == "stdio":
        yield server_command(kind, None)
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = Popen(server_command(kind, port), stdout=DEVNULL, stderr=DEVNULL)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server does not accept connections on port {port}")


@contextlib.asynccontextmanager
async def sdk_call(server: list[str] | str, version: str) -> AsyncGenerator[Call]:
    where: Any = server
    if isinstance(server, list):
        where = StdioServerParameters(command=server[0], args=server[1:])
    async with Client(where, mode=MODES[version], cache=None) as client:
        await client.list_tools()
        yield lambda: client.call_tool("echo", {"text": "x"})


@contextlib.asynccontextmanager
async def windlass_call(server: list[str] | str, version: Any) -> AsyncGenerator[Call]:
    """Yields a call through the executor, as in a run: validated, timed and recorded."""
    with tempfile.TemporaryDirectory() as state:
        toolset = windlass.mcp(server, name="", protocol=version, state_dir=state)
        client = AsyncClient(ScriptedModel([]))
        async with toolset, client:
            tools = await toolset.list_tools()

            async def call() -> None:
                (response,) = await client.execute(
                    [Part.from_function_call("echo", {"text": "x"})], tools=tools
                )
                # A server may wrap a text: `windlass mcp` does, because the tool has a return type.
                assert response.output in ("x", {"result": "x"}), response

            yield call


class Timings:
    """The wall seconds of each call, and the CPU seconds of this process for all calls."""

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.cpu = 0.0

    async def sample(self, call: Call, times: int) -> None:
        busy = time.process_time()
        for _ in range(times):
            started_at = time.perf_counter()
            await call()
            self.calls.append(time.perf_counter() - started_at)
        self.cpu += time.process_time() - busy


async def measure(transport: str, version: str, batches: int) -> dict[str, Timings]:
    """The cost of calls, for each pair of client and server."""
    pairs = {
        "SDK client, SDK server": (sdk_call, "the SDK's"),
        "Windlass client, SDK server": (windlass_call, "the SDK's"),
        "SDK client, Windlass server": (sdk_call, "ours"),
        "Windlass client, Windlass server": (windlass_call, "ours"),
    }
    async with contextlib.AsyncExitStack() as stack:
        calls: dict[str, Call] = {}
        for name, (connect, kind) in pairs.items():
            server = stack.enter_context(target(kind, transport))
            calls[name] = await stack.enter_async_context(connect(server, version))
            await Timings().sample(calls[name], BATCH)  # a warm-up, which does not count
        timings = {name: Timings() for name in calls}
        for _ in range(batches):
            for name, call in calls.items():
                await timings[name].sample(call, BATCH)
    return timings


def show_timings(transport: str, version: str, timings: dict[str, Timings]) -> None:
    title = f"MCP, {transport}, {version}"
    print(f"\n{title:34} {'p50':>8} {'p99':>8} {'calls/s':>8} {'client CPU':>11}")
    floor = None
    for name, timing in timings.items():
        cuts, count = quantiles(timing.calls, n=100), len(timing.calls)
        floor = floor or cuts[49]
        print(
            f"  {name:32} {cuts[49] * 1e3:6.2f}ms {cuts[98] * 1e3:6.2f}ms"
            f" {count / sum(timing.calls):8.0f} {timing.cpu / count * 1e3:9.2f}ms"
            f"   {cuts[49] / floor:.2f}x"
        )


def show(quick: bool) -> None:
    for transport in ("stdio", "http"):
        for version in MODES:
            show_timings(
                transport, version, asyncio.run(measure(transport, version, 4 if quick else 20))
            )
