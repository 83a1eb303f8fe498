"""The methods to call one small tool of another process, and the processes whose CPU each uses."""

import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import NamedTuple

import mcp_calls
import nats
from processes import python
from remote_ends import get_weather

from windlass import AsyncClient, Part, Tool, ToolContext
from windlass.messaging.embedded import NatsServer
from windlass.testing import ScriptedModel
from windlass.toolsets.remote.bridge import Bridge

Call = Callable[[], Awaitable[object]]
ARGUMENTS = {"city": "Paris", "unit": "celsius"}
PAYLOAD = b'{"city":"Paris","unit":"celsius"}'
FLOOR = "bare NATS request (floor)"
ALONE = "remote call, alone"
IN_A_RUN = "remote call, as in a run"
HERE = "the tool in this process"
WORKERS = {1: "one", 2: "two", 4: "four"}
"""How many, and the session that they serve."""
MCP_ERA = "2026-07-28"


class Way(NamedTuple):
    call: Call
    processes: tuple[int, ...] = ()
    """The processes that take part, except this one."""


class Ways(NamedTuple):
    one_by_one: dict[str, Way]
    at_once: dict[str, Way]


@contextlib.asynccontextmanager
async def ways(profile: str = "") -> AsyncGenerator[Ways]:
    """Starts all of them. With `profile`, a worker writes its profile there at its end."""
    async with NatsServer() as server, AsyncExitStack() as stack:
        ends = {"echo": [started(stack, "echo", server.url)]}
        for number, session in WORKERS.items():
            written = [profile] if number == 1 and profile else []
            ends[session] = [
                started(stack, "serve", server.url, session, *written) for _ in range(number)
            ]
        ends = {name: [server.process_id, *found] for name, found in ends.items()}
        plain = await nats.connect(server.url)
        stack.push_async_callback(plain.close)
        bridge = Bridge(server.url)
        stack.push_async_callback(bridge.aclose)
        floor = Way(functools.partial(plain.request, "echo", PAYLOAD), tuple(ends["echo"]))
        alone = {
            number: Way(await bridge_call(bridge, session), tuple(ends[session]))
            for number, session in WORKERS.items()
        }
        [tool] = await bridge.tools(WORKERS[1])
        in_a_run = Way(await executed(stack, tool), alone[1].processes)
        here = Way(await executed(stack, get_weather))
        mcp = {f"MCP, {kind}": await mcp_way(stack, kind) for kind in ("stdio", "http")}
        yield Ways(
            {FLOOR: floor, ALONE: alone[1], IN_A_RUN: in_a_run, HERE: here, **mcp},
            {FLOOR: floor, **{f"{title(n)}": alone[n] for n in alone}, **mcp},
        )


def title(workers: int) -> str:
    return f"remote call, {workers} worker{'s' * (workers > 1)}"


def started(stack: AsyncExitStack | ExitStack, *words: str) -> int:
    """Starts a server, and returns its process when it listens."""
    child = stack.enter_context(python("remote_ends.py", *words))
    assert child.stdout is not None
    child.stdout.readline()
    return child.pid


async def bridge_call(bridge: Bridge, session: str) -> Call:
    [spec] = await bridge.specs(session)
    count = 0

    async def call() -> object:
        nonlocal count
        count += 1
        context = ToolContext(run_id="run", call_id=str(count))
        return await bridge.call(session, spec, ARGUMENTS, context)

    return call


async def executed(stack: AsyncExitStack, tool: Tool) -> Call:
    """Through the whole executor, as a run does it: validated, timed, recorded."""
    client = await stack.enter_async_context(AsyncClient(ScriptedModel([])))

    async def call() -> None:
        [response] = await client.execute(
            [Part.from_function_call(tool.name, ARGUMENTS)], tools=[tool]
        )
        assert response.output == ARGUMENTS, response

    return call


async def mcp_way(stack: AsyncExitStack, transport: str) -> Way:
    """Our client and our server, through the executor as well."""
    before = children()
    place = stack.enter_context(mcp_calls.target("ours", transport))
    call = await stack.enter_async_context(mcp_calls.windlass_call(place, MCP_ERA))
    return Way(call, tuple(children() - before))


def children() -> set[int]:
    """The running processes that this one has started."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(number) for each in lists for number in each.read_text().split()}
