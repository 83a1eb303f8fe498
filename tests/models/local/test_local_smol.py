"""The embedded model itself, with real weights: the small one, and rules for any.

A model's words differ between machines, so these tests do not check the words.
"""

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from windlass import AsyncClient, Client, tool
from windlass.content import Message
from windlass.emulation.mode import Modes
from windlass.errors import ModelError
from windlass.events import ModelEvent, TextDelta, TurnEnded
from windlass.model import ModelRequest, Settings
from windlass.models.local import engine as engines
from windlass.models.local import engine as runtime
from windlass.models.local.engine import Engine, LlamaServer, open_server
from windlass.models.local.model import NOTICE, LocalModel
from windlass.models.local.weights import WeightsProgress

pytestmark = pytest.mark.weights

CONTEXT = 1024
SHORT = Settings(max_tokens=8)


class Watched:
    """The real server, with a record of its requests and the sizes of its answers."""

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        self.asked: list[str] = []
        self.told: list[int] = []
        self.answered: list[bool] = []
        self.reading = threading.Event()

    def handle_chat_completions(self, prompt: bytes, callback: Callable[[bytes], bool]) -> None:
        self.asked.append(prompt.decode())
        self.told.append(0)
        self.answered.append(False)

        def counted(chunk: bytes) -> bool:
            self.told[-1] += 1
            self.answered[-1] |= b"prompt_progress" not in chunk
            self.reading.set()
            return callback(chunk)

        self._server.handle_chat_completions(prompt, counted)


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[list[Watched]]:
    """The servers that these tests open: one, because loading weights costs more than asking."""
    opened: list[Watched] = []

    def watched(path: Path, context: int) -> Watched:
        opened.append(Watched(open_server(path, context)))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "_engines", {})
        patch.setattr(engines, "Engine", lambda path, context: Engine(path, context, watched))
        # Tests run in parallel: threads that wait for each other would be slow.
        patch.setattr(runtime, "available_cores", lambda: 1)
        yield opened
        engines.unload()


@pytest.fixture
async def model() -> AsyncGenerator[LocalModel]:
    model = LocalModel("smol", context=CONTEXT)
    yield model
    await model.aclose()


@pytest.fixture
async def server(model: LocalModel, servers: list[Watched]) -> Watched:
    """The one server, loaded."""
    await model.load()
    return servers[0]


async def events_of(
    model: LocalModel, *messages: Message, settings: Settings = SHORT
) -> list[ModelEvent]:
    async with model.stream(ModelRequest(messages, settings=settings)) as events:
        return [event async for event in events]


def end_of(events: list[ModelEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


@tool
def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}"


@tool
def add(a: int, b: int) -> int:
    """Adds two whole numbers."""
    return a + b


def test_clients_in_several_threads_share_the_weights(servers: list[Watched]) -> None:
    texts: list[str] = []

    def ask() -> None:
        with Client(LocalModel("smol", context=CONTEXT)) as client:
            texts.append(client.generate("Say hello.", max_tokens=2).text)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(texts)
    assert len(texts) == 3
    assert len(servers) == 1


async def test_text_comes_in_pieces_and_usage_at_the_end(model: LocalModel) -> None:
    events = await events_of(model, Message.user("Count from one to twenty."))
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    end = end_of(events)
    assert end.finish == "length"
    assert end.usage.output_tokens == 8
    assert end.usage.total_tokens == end.usage.input_tokens + 8


async def test_loading_in_advance_reports_its_progress(model: LocalModel) -> None:
    seen: list[WeightsProgress] = []
    await model.load(seen.append)
    assert seen[-2:] == [WeightsProgress("loading", 0, 1), WeightsProgress("loading", 1, 1)]


async def test_an_answer_is_held_to_its_schema(model: LocalModel) -> None:
    shape = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]}
    schema = {**shape, "additionalProperties": False}
    settings = Settings(max_tokens=20, response_schema=schema)
    events = await events_of(model, Message.user("Tell me a story."), settings=settings)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert "".join(text.split()) == '{"a":"x"}'
    assert end_of(events).finish == "stop"


async def test_a_request_that_is_left_stops_and_the_next_continues(
    server: Watched, model: LocalModel
) -> None:
    request = ModelRequest(
        [Message.user("Write a long story about the sea.")], settings=Settings(max_tokens=200)
    )
    async with model.stream(request) as events:
        async for event in events:
            assert isinstance(event, TextDelta)
            break
    assert end_of(await events_of(model, Message.user("Hi"))).usage.output_tokens > 0
    assert server.told[-2] < 100


async def test_a_request_that_is_left_while_its_prompt_is_read_stops_too(
    server: Watched, model: LocalModel
) -> None:
    server.reading.clear()
    asking = asyncio.create_task(events_of(model, Message.user("word " * 500)))
    assert await asyncio.to_thread(server.reading.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await events_of(model, Message.user("Hi"))  # begins when the other has ended
    assert server.answered[-2:] == [False, True]


async def test_dropping_old_messages_of_a_long_conversation_is_logged(
    server: Watched, model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    history = [
        *(Message.system("You are kind."), Message.user("First question. " + "word " * 1100)),
        *(Message.assistant("Yes."), Message.user("Second question."), Message.assistant("No.")),
    ]
    with caplog.at_level(logging.WARNING):
        events = await events_of(model, *history, Message.user("The last question."))
    assert "leaving out the 2 oldest messages" in caplog.text
    assert end_of(events).usage.output_tokens > 0
    sent = server.asked[-1]
    assert all(each in sent for each in (NOTICE, "You are kind.", "Second", "The last question."))
    assert "First question." not in sent


async def test_a_prompt_that_can_never_fit_is_refused_with_numbers(model: LocalModel) -> None:
    with pytest.raises(
        ModelError, match=r"too long: it has 1\d{3} tokens, .* room for 1024"
    ) as raised:
        await events_of(model, Message.user("word " * 1200))
    assert raised.value.code == "context_length_exceeded"


async def test_a_prompt_that_was_read_in_advance_is_not_read_again(model: LocalModel) -> None:
    system = Message.system("These are the rules. " + " ".join(map(str, range(20))))
    await model.warm(ModelRequest([system, Message.user("Hello")]))
    usage = end_of(await events_of(model, system, Message.user("What are the rules?"))).usage
    assert usage.cached_tokens > usage.input_tokens * 0.8


async def test_the_tools_are_warmed_in_the_client_s_own_mode(model: LocalModel) -> None:
    tools = (add.declaration,)
    modes = Modes(model)
    await modes.warm(ModelRequest([Message.user("Hello")], tools))
    request = ModelRequest([Message.user("How are you?")], tools, settings=SHORT)
    async with modes.of("auto").stream(request) as events:
        end = end_of([event async for event in events])
    assert end.usage.cached_tokens > 50


@pytest.mark.parametrize("choice", ["required", "add"])
async def test_a_call_that_must_come_is_valid(model: LocalModel, choice: str) -> None:
    client = AsyncClient(model)
    reply = await client.generate(
        "Add two and three.",
        tools=[get_weather, add],
        tool_choice=choice,
        execute_tools=False,
        max_tokens=100,
    )
    (call,) = reply.calls
    arguments = call.arguments
    assert isinstance(arguments, dict)
    if call.name == "add":
        assert {type(value) for value in arguments.values()} == {int}
        assert arguments.keys() == {"a", "b"}
    else:
        assert choice == "required"
        assert arguments.keys() == {"city"}


def test_a_run_makes_a_call_and_answers() -> None:
    with Client(LocalModel("smol", context=CONTEXT)) as client:
        reply = client.generate(
            "What is the weather in Paris?",
            tools=[get_weather],
            tool_choice="get_weather",
            max_tokens=20,
        )
    assert [result.name for result in reply.results] == ["get_weather"]
    assert reply.text
    assert reply.stop_reason in ("answer", "length")


ALONE = """
import os, pathlib, signal
from windlass import Client

client = Client("local/smol")
with client.stream("Write a long story.") as stream:
    next(text for text in stream.text_deltas())
    fds = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2
           and os.path.exists(f"/proc/self/fd/{fd}")]
    mine = {fd[8:-1] for fd in fds if fd.startswith("socket:")}
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            assert not (fields[3] == "0A" and fields[9] in mine), f"listens on {fields[1]}"
    for line in pathlib.Path("/proc/self/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[6] in mine and len(fields) > 7:
            assert not os.path.exists(fields[7]), f"listens on {fields[7]}"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    print("nobody can come in", flush=True)
    raise SystemExit(7)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of sockets")
def test_requests_without_the_key_are_refused_and_a_disconnect_is_handled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "WINDLASS_LOCAL_CONTEXT": "512"},
    )
    assert (done.stdout, done.returncode) == ("nobody can come in\n", 7), done.stderr
