"""The methods to call a small tool in another process, with the processes that take part."""

import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import NamedTuple

import mcp_calls
import nats
from processes import python
from remote_servers import get_weather

from windlass import AsyncClient, Part, Tool, ToolContext
from windlass.messaging.embedded import NatsServer
from windlass.testing import ScriptedModel
from windlass.toolsets.remote.bridge import Bridge

Call = Callable[[], Awaitable[object]]
ARGUMENTS = {"city": "Paris", "unit": "celsius"}
PAYLOAD = b'{"city":"Paris","unit":"celsius"}'
FLOOR = "bare NATS request (floor)"
ALONE = "remote call, alone"
IN_RUN = "remote call, as in a run"
LOCAL = "the tool in this process"
WORKERS = {1: "one", 2: "two", 4: "four"}
"""The session by the number of its workers."""
MCP_ERA = "2026-07-28"


class Method(NamedTuple):
    call: Call
    processes: tuple[int, ...] = ()
    """The ids of the processes that take part, except this one."""


class Methods(NamedTuple):
    one_by_one: dict[str, Method]
    at_once: dict[str, Method]


@contextlib.asynccontextmanager
async def methods(profile: str = "") -> AsyncGenerator[Methods]:
    """Starts the servers, and yields the methods. `profile` is a file for a worker's profile."""
    async with NatsServer() as server, AsyncExitStack() as stack:
        processes = {"echo": [start_server(stack, "echo", server.url)]}
        for number, session in WORKERS.items():
            profile_path = [profile] if number == 1 and profile else []
            processes[session] = [
                start_server(stack, "serve", server.url, session, *profile_path)
                for _ in range(number)
            ]
        processes = {name: [server.process_id, *ids] for name, ids in processes.items()}
        plain = await nats.connect(server.url)
        stack.push_async_callback(plain.close)
        bridge = Bridge(server.url)
        stack.push_async_callback(bridge.aclose)
        floor = Method(functools.partial(plain.request, "echo", PAYLOAD), tuple(processes["echo"]))
        alone = {
            number: Method(await bridge_call(bridge, session), tuple(processes[session]))
            for number, session in WORKERS.items()
        }
        [tool] = await bridge.tools(WORKERS[1])
        in_a_run = Method(await executor_call(stack, tool), alone[1].processes)
        local = Method(await executor_call(stack, get_weather))
        mcp = {f"MCP, {kind}": await mcp_method(stack, kind) for kind in ("stdio", "http")}
        yield Methods(
            {FLOOR: floor, ALONE: alone[1], IN_RUN: in_a_run, LOCAL: local, **mcp},
            {FLOOR: floor, **{f"{title(n)}": alone[n] for n in alone}, **mcp},
        )


def title(workers: int) -> str:
    return f"remote call, {workers} worker{'s' * (workers > 1)}"


def start_server(stack: AsyncExitStack | ExitStack, *words: str) -> int:
    """Starts a server, waits until it accepts calls, and returns its process id."""
    child = stack.enter_context(python("remote_servers.py", *words))
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


async def executor_call(stack: AsyncExitStack, tool: Tool) -> Call:
    """Returns a call through the executor, as in a run: validated, timed and recorded."""
    client = await stack.enter_async_context(AsyncClient(ScriptedModel([])))

    async def call() -> None:
        [response] = await client.execute(
            [Part.from_function_call(tool.name, ARGUMENTS)], tools=[tool]
        )
        assert response.output == ARGUMENTS, response

    return call


async def mcp_method(stack: AsyncExitStack, transport: str) -> Method:
    """Returns a call from Windlass's MCP client to its MCP server, through the executor."""
    earlier = children()
    server = stack.enter_context(mcp_calls.target("ours", transport))
    call = await stack.enter_async_context(mcp_calls.windlass_call(server, MCP_ERA))
    return Method(call, tuple(children() - earlier))


def children() -> set[int]:
    """Returns the ids of the running child processes."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(number) for each in lists for number in each.read_text().split()}
