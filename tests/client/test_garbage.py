"""A finished call of a client leaves no garbage, however it has ended."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.support.garbage import garbage_of, garbage_of_sync

from windlass import AsyncClient, Client, Depends, ModelError, ToolError, ToolRunStarted, tool
from windlass.model import ModelRequest
from windlass.testing import (
    ScriptedModel,
    Step,
    Turn,
    call,
    calls,
    cut,
    last_prompt,
    raw_call,
    refuse,
)

pytestmark = pytest.mark.sweep


def broken_dependency() -> str:
    raise OSError("no such place")


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def fail(reason: str) -> str:
    """Fails in a thread."""
    raise ValueError(reason)


@tool
async def depend(place: Annotated[str, Depends(broken_dependency)]) -> str:
    """Its dependency fails."""
    return place


@tool(cache=60)
async def complain(reason: str) -> str:
    """Raises a `ToolError`."""
    raise ToolError(reason)


@tool(timeout=0.01)
async def oversleep() -> None:
    """Takes too long."""
    await asyncio.Event().wait()


@tool
async def wait() -> None:
    """Never ends."""
    await asyncio.Event().wait()


TOOLS = (add, fail, depend, complain, oversleep, wait)
STEPS: dict[str, tuple[Step, ...]] = {
    "answer": ("One two three.",),
    "tools": (
        calls(
            call("add", a=1, b=2),
            call("fail", reason="x"),
            call("depend"),
            call("complain", reason="x"),
            call("oversleep"),
            call("unknown"),
            raw_call("add", "{"),
        ),
        "Done.",
    ),
    "refused": (refuse(400, "no"),),
    "cut": (cut(Turn(text="One two three four."), after=2),),
    "waits": (call("wait"),),
}
prompts = pytest.mark.parametrize("prompt", [name for name in STEPS if name != "waits"])
verbs = pytest.mark.parametrize("verb", ["generate", "stream", "start", "chat", "chat_stream"])


class Forgetful(list[ModelRequest]):
    """Replaces the list of requests, so that a scripted model does not keep them."""

    def append(self, request: ModelRequest, /) -> None:
        pass


def scripted() -> ScriptedModel:
    def step(request: ModelRequest) -> Step:
        turns = sum(message.role == "tool" for message in request.messages)
        return STEPS[last_prompt(request)][turns]

    model = ScriptedModel(step)
    model.requests = Forgetful()
    return model


@pytest.fixture(params=["no log", "sqlite"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    log = tmp_path / "runs.db" if request.param == "sqlite" else None
    return {"tools": TOOLS, "log": log}


@pytest.fixture
async def client(options: dict[str, Any]) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(scripted(), **options) as client:
        yield client


@pytest.fixture
def sync_client(options: dict[str, Any]) -> Iterator[Client]:
    with Client(scripted(), **options) as client:
        yield client


@prompts
@verbs
async def test_an_async_call_leaves_no_garbage(client: AsyncClient, prompt: str, verb: str) -> None:
    async def work() -> None:
        with contextlib.suppress(ModelError):
            if verb == "generate":
                await client.generate(prompt)
            elif verb == "chat":
                await client.chat().send(prompt)
            elif verb == "start":
                run = await client.start(prompt)
                async for _ in run.events():
                    pass
                await run.result()
            else:
                asked = client.chat() if verb == "chat_stream" else client
                async with asked.stream(prompt) as stream:
                    async for _ in stream:
                        pass
                    assert stream.reply.stop_reason == "answer"

    assert await garbage_of(work) == {}


@prompts
@verbs
def test_a_sync_call_leaves_no_garbage(sync_client: Client, prompt: str, verb: str) -> None:
    def work() -> None:
        with contextlib.suppress(ModelError):
            if verb == "generate":
                sync_client.generate(prompt)
            elif verb == "chat":
                sync_client.chat().send(prompt)
            elif verb == "start":
                run = sync_client.start(prompt)
                for _ in sync_client.subscribe(run.id):
                    pass
                run.result()
            else:
                asked = sync_client.chat() if verb == "chat_stream" else sync_client
                with asked.stream(prompt) as stream:
                    for _ in stream:
                        pass
                    assert stream.reply.stop_reason == "answer"

    assert garbage_of_sync(work) == {}


async def test_a_call_that_is_stopped_leaves_no_garbage(client: AsyncClient) -> None:
    async def work() -> None:
        async with client.stream("waits") as stream:
            async for event in stream:
                if isinstance(event, ToolRunStarted):
                    break
        run = await client.start("waits")
        await run.stop()  # before its first step
        run = await client.start("waits")
        async for event in run.events():
            if isinstance(event, ToolRunStarted):
                break
        await run.stop()
        assert (await run.result()).stop_reason == "stopped"

    assert await garbage_of(work) == {}


def test_a_sync_stream_that_is_left_early_leaves_no_garbage(sync_client: Client) -> None:
    def work() -> None:
        with sync_client.stream("waits") as stream:
            for event in stream:
                if isinstance(event, ToolRunStarted):
                    break

    assert garbage_of_sync(work) == {}


async def test_an_error_of_a_run_is_raised_with_the_same_content_each_time(
    client: AsyncClient,
) -> None:
    run = await client.start("refused")
    errors: list[ModelError] = []
    for _ in range(2):
        with pytest.raises(ModelError, match="no") as raised:
            await run.result()
        errors.append(raised.value)
    assert [error.status for error in errors] == [400, 400]
    assert len({len(list(frames(error))) for error in errors}) == 1  # and none is added


def frames(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_name
        trace = trace.tb_next
