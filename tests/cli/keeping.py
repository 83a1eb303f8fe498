"""What the tests of `windlass runs` share: stored runs: ended, active and interrupted."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from windlass import AsyncClient, Client, tool
from windlass.events import RunEvent, TextDelta
from windlass.testing import ScriptedModel, slow

LOG = "windlass.db"
MODEL = "openai/gpt-5-mini"


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


TOOLS = [get_weather, pay]


def client_of(script: list[Any], **options: Any) -> AsyncClient:
    settled = {"log": LOG, "tools": TOOLS, "mode": "native", **options}
    return AsyncClient(ScriptedModel(script, MODEL), **settled)


def keep(script: list[Any], prompt: str = "Weather in Paris?", **options: Any) -> str:
    """The id of an ended run."""
    chat = options.pop("chat", None)

    async def run() -> str:
        async with client_of(script, **options) as client:
            if chat is not None:
                return (await client.chat(id=chat).send(prompt)).run_id
            started = await client.start(prompt)
            await asyncio.wait([started.task])
            return started.id

    return asyncio.run(run())


def interrupted(
    script: list[Any], at: Callable[[RunEvent], bool], prompt: str = "Weather?", **options: Any
) -> str:
    """The id of a run that was interrupted after such an event."""

    async def run() -> str:
        async with client_of(script, **options) as client:
            started = await client.start(prompt)
            async for event in started.events():
                if at(event):
                    break
            await started.leave()
            return started.id

    return asyncio.run(run())


@contextmanager
def going(script: list[Any], prompt: str = "Weather?", **options: Any) -> Generator[str]:
    """The id of a run that is active in the background."""
    model = ScriptedModel(script, MODEL)
    with Client(model, log=LOG, tools=TOOLS, mode="native", **options) as client:
        yield client.start(prompt).id


def half_said(prompt: str = "Weather?") -> str:
    """The id of a run without tools that was interrupted in its first answer."""
    script = [slow("One two.", after=1)]
    return interrupted(script, lambda event: isinstance(event, TextDelta), prompt, tools=[])
