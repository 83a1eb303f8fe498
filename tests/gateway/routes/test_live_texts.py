"""Texts of a stream that are sent in the step that publishes them, to clients of any speed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.asgi import Answer, post
from tests.support.thoroughness import examples

from windlass.content import Usage
from windlass.errors import StorageError
from windlass.events import ModelEvent, TextDelta, ThoughtDelta, TurnEnded
from windlass.gateway import App, create_app
from windlass.gateway.config import GatewayConfig, ServerConfig
from windlass.gateway.http.context import DIRECT
from windlass.model import EventBatches, ModelRequest

PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "stream": True},
    "/v1/responses": {"input": "Hi", "stream": True},
    "/v1/messages": {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 99,
        "stream": True,
    },
    "/v1beta/models/m:streamGenerateContent?alt=sse": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    },
}
CHAT = "/v1/chat/completions"
Send = Callable[[Any], Awaitable[None]]


class FedModel:
    """A model whose test decides what it writes, and when."""

    name = "test/fed"

    def __init__(self) -> None:
        self._batches: asyncio.Queue[Sequence[ModelEvent]] = asyncio.Queue()

    def writes(self, *texts: str) -> None:
        """Writes these texts together."""
        self._batches.put_nowait([TextDelta(text) for text in texts])

    def thinks(self, text: str) -> None:
        self._batches.put_nowait([ThoughtDelta(text)])

    def ends(self) -> None:
        self._batches.put_nowait([TurnEnded("stop", Usage(1, 1))])

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(EventBatches(self._turn()))

    async def _turn(self) -> AsyncGenerator[Sequence[ModelEvent], None]:
        while True:
            batch = await self._batches.get()
            yield batch
            if isinstance(batch[-1], TurnEnded):
                return

    async def aclose(self) -> None:
        pass


class Client:
    """A client whose test decides how fast it reads."""

    def __init__(
        self, app: App, slow: Callable[[int], bool] = lambda _: False, *, direct: bool = True
    ) -> None:
        """`slow` decides by the number of a part whether the client makes the gateway wait.

        `direct`: whether the server allows any code to send, as the gateway's own server does.
        """
        self.parts: list[bytes] = []
        self.reads = asyncio.Event()
        self._app, self._slow, self._direct = app, slow, direct
        self.senders: set[asyncio.Task[Any] | None] = set()
        """The tasks that have sent."""
        self._numbers = count(1)

    async def post(self, path: str) -> Answer:
        body = PATHS[path] if ":" in path else {"model": "m", **PATHS[path]}
        return await post(cast("App", self._exchange), body, path)

    async def _exchange(self, scope: Any, receive: Any, send: Send) -> None:
        async def slow_send(message: Any) -> None:
            self.senders.add(asyncio.current_task())
            if message["type"] == "http.response.body":
                if self._slow(next(self._numbers)):
                    await self.reads.wait()
                self.parts.append(message["body"])
            await send(message)

        await self._app({**scope, DIRECT: self._direct}, receive, slow_send)


def app_of(model: FedModel, heartbeat: float = 600.0) -> App:
    config = GatewayConfig(server=ServerConfig(heartbeat=heartbeat, access_log=False))
    return create_app(config, models={"m": model}, tools=())


def text_of(answer: Answer) -> str:
    """The text of a streamed chat completion."""
    payloads = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data:")]
    choices = [choice for each in payloads[:-1] for choice in json.loads(each)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("path", PATHS)
async def test_each_text_arrives_before_the_model_writes_the_next(path: str, direct: bool) -> None:
    model = FedModel()
    app = app_of(model)
    client = Client(app, direct=direct)
    asking = asyncio.create_task(client.post(path))
    for number in range(20):
        model.writes(f"word{number} ")
        await until(lambda n=number: any(b"word%d " % n in part for part in client.parts))
    model.ends()
    answer = await asking
    assert answer.status == 200
    assert len(client.senders) == (2 if direct else 1), "another server's `send` stays in its task"
    assert [n for n in range(20) if answer.body.count(b'"word%d "' % n) != 1] == []
    await app.gateway.aclose()


async def test_a_client_that_does_not_read_gets_all_texts_later_and_delays_no_run() -> None:
    model = FedModel()
    app = app_of(model)
    client = Client(app, slow=lambda number: number >= 3)
    asking = asyncio.create_task(client.post(CHAT))
    model.writes("a0 ")
    await until(lambda: len(client.parts) >= 1)
    for number in range(1, 50):
        model.writes(f"a{number} ")
        await asyncio.sleep(0)
    model.ends()
    await until(lambda: not app.gateway.runs.running())
    assert len(client.parts) < 3
    assert not asking.done()
    client.reads.set()
    answer = await asking
    assert text_of(answer) == "".join(f"a{number} " for number in range(50))
    assert len(client.parts) < 10, "what waited is sent together"
    await app.gateway.aclose()


@pytest.mark.parametrize("later", [(), ("three ",)], ids=["alone", "with another"])
async def test_a_blocked_text_is_sent_as_soon_as_the_client_reads(later: Sequence[str]) -> None:
    model = FedModel()
    app = app_of(model)
    client = Client(app, slow=lambda number: number == 2)
    asking = asyncio.create_task(client.post(CHAT))
    model.writes("one ")
    await until(lambda: len(client.parts) == 1)
    model.writes("two ")
    for text in later:
        model.writes(text)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(client.parts) == 1
    client.reads.set()
    await until(lambda: len(client.parts) == 2 + len(later))
    assert b"two " in client.parts[1]
    model.ends()
    assert text_of(await asking) == "".join(["one ", "two ", *later])
    await app.gateway.aclose()


async def test_a_write_that_fails_ends_the_request_and_not_the_run() -> None:
    model = FedModel()
    app = app_of(model)

    def fails(number: int) -> bool:
        if number == 2:
            raise OSError("the connection is lost")
        return False

    client = Client(app, slow=fails)
    asking = asyncio.create_task(client.post(CHAT))
    model.writes("one ")
    await until(lambda: len(client.parts) == 1)
    [run] = app.gateway.runs.running()
    model.writes("two ")
    await asyncio.wait([asking])
    model.writes("three")
    model.ends()
    await run.task
    assert run.reply.text == "one two three"
    await app.gateway.aclose()


@pytest.mark.parametrize("fails_first", [True, False])
async def test_a_stream_whose_log_fails_while_a_text_is_blocked_is_completed(
    fails_first: bool,
) -> None:
    model = FedModel()
    app = app_of(model)
    client = Client(app, slow=lambda number: number == 2)
    asking = asyncio.create_task(client.post(CHAT))
    model.writes("one ")
    await until(lambda: len(client.parts) == 1)
    [run] = app.gateway.runs.running()
    published = run.log.published
    model.writes("two ")
    await until(lambda: run.log.published > published)
    if not fails_first:  # the stream's task waits for the client then
        await asyncio.sleep(0.01)
    run.log.close(StorageError("the disk is full"))
    client.reads.set()
    answer = await asking
    assert text_of(answer) == "one two "
    assert answer.body.endswith(b"data: [DONE]\n\n")
    await app.gateway.aclose()


async def test_heartbeats_are_sent_only_when_no_text_is() -> None:
    model = FedModel()
    app = app_of(model, heartbeat=0.3)
    client = Client(app)
    asking = asyncio.create_task(client.post(CHAT))
    model.writes("one ")
    await until(lambda: len(client.parts) == 1)
    loop = asyncio.get_running_loop()
    longest, sent = 0.0, loop.time()
    end = sent + 0.6
    while loop.time() < end:
        model.writes("more ")
        await asyncio.sleep(0.01)
        longest, sent = max(longest, loop.time() - sent), loop.time()
    if longest < 0.25:  # the machine was not too busy to keep the pace
        assert not any(part.startswith(b":") for part in client.parts)
    await until(lambda: client.parts[-1].startswith(b":"))
    model.ends()
    await asking
    await app.gateway.aclose()


@pytest.mark.sweep
@settings(max_examples=examples(40), deadline=None)
@given(
    batches=st.lists(st.integers(-1, 12), max_size=12),
    slow=st.sets(st.integers(1, 12)),
    pauses=st.lists(st.integers(0, 5), max_size=12),
)
def test_every_text_is_sent_once_and_in_order_at_any_speed(
    batches: list[int], slow: set[int], pauses: list[int]
) -> None:
    asyncio.run(_stream_at_any_speed(batches, slow, pauses))


async def _stream_at_any_speed(batches: list[int], slow: set[int], pauses: list[int]) -> None:
    """A batch is a number of texts, or -1 for a thought."""
    model, expected, words = FedModel(), "", count()
    app = app_of(model)
    client = Client(app, slow=slow.__contains__)
    asking = asyncio.create_task(client.post(CHAT))
    for place, size in enumerate(batches):
        texts = [f"w{next(words)} " for _ in range(size)]
        expected += "".join(texts)
        if size < 0:
            model.thinks("hmm")
        elif texts:
            model.writes(*texts)
        for _ in range(pauses[place] if place < len(pauses) else 0):
            await asyncio.sleep(0)
        if place % 3 == 2:
            client.reads.set()
            await asyncio.sleep(0)
            client.reads.clear()
    model.ends()
    client.reads.set()
    assert text_of(await asking) == expected
    await app.gateway.aclose()
