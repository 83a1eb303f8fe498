"""The servers of remote calls, each in a separate process.

    python bench/remote_servers.py echo|serve|hold URL [SESSION [PROFILE]]

`echo` answers bare NATS requests, `serve` is a worker, and `hold` is a worker that never answers.
Prints `ready` when it accepts calls, and exits when its stdin closes. With a file for the profile,
it writes its profile there.
"""

import asyncio
import contextlib
import cProfile
import sys
from collections.abc import AsyncGenerator

import nats
from nats.aio.msg import Msg

from windlass import tool
from windlass.worker import Worker


@tool
async def get_weather(city: str, unit: str = "celsius") -> dict[str, str]:
    """The weather now."""
    return {"city": city, "unit": unit}


@tool(name="get_weather")
async def never_returning_weather(city: str, unit: str = "celsius") -> str:
    """Never returns."""
    return await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def echo(url: str) -> AsyncGenerator[None]:
    """The floor: a subscriber of nats-py that answers with the bytes that it received."""
    connection = await nats.connect(url)

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await connection.subscribe("echo", cb=answer)
    for _ in range(2):  # the first ping may overtake queued messages
        await connection.flush()
    yield
    await connection.close()


async def serve(kind: str, url: str, session: str) -> None:
    tools = [never_returning_weather if kind == "hold" else get_weather]
    async with echo(url) if kind == "echo" else Worker(tools, nats=url, session=session):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main(kind: str, url: str, session: str = "echo", profile: str = "") -> None:
    with cProfile.Profile() if profile else contextlib.nullcontext() as profiler:
        asyncio.run(serve(kind, url, session))
    if profiler is not None:
        profiler.dump_stats(profile)


if __name__ == "__main__":
    main(*sys.argv[1:])
