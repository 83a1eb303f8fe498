"""The sync client: plain code, threads, notebooks, async tools; the same methods and results."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from windlass import (
    ApprovalRequested,
    AsyncClient,
    Client,
    ConfigError,
    ModelError,
    RunEnded,
    TextDelta,
    tool,
)
from windlass.testing import Gate, ScriptedModel, call, calls, refuse, say, slow


def client(script: Any, **options: Any) -> Client:
    return Client(ScriptedModel(script), **options)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
async def get_time(city: str) -> str:
    """The time in a city."""
    await asyncio.sleep(0)
    return f"noon in {city}"


def test_sync_and_async_tools_work_from_plain_code() -> None:
    turn = calls(call("get_weather", city="x"), call("get_time", city="y"))
    with client([turn, "done"]) as c:
        reply = c.generate("?", tools=[get_weather, get_time])
    assert [r.output for r in reply.results] == ["sunny in x", "noon in y"]


def test_a_stream_is_a_plain_iterator() -> None:
    with client([call("get_weather", city="x"), "It is sunny."]) as c:
        with c.stream("?", tools=[get_weather]) as stream:
            events = list(stream)
        assert isinstance(events[-1], RunEnded)
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert stream.reply.text == "It is sunny."
        assert stream.phase == "ended"


def test_text_deltas_are_the_text_alone() -> None:
    with client(["a b c"]) as c, c.stream("?") as stream:
        assert "".join(stream.text_deltas()) == "a b c"
        assert stream.run_id.startswith("run_")


def test_a_stream_can_be_read_in_two_parts() -> None:
    with client(["a b c"]) as c, c.stream("?") as stream:
        first = next(event for event in stream if isinstance(event, TextDelta))
        rest = "".join(e.text for e in stream if isinstance(e, TextDelta))
    assert first.text + rest == "a b c"


def test_a_failing_stream_raises_after_its_last_event() -> None:
    seen: list[Any] = []
    with (
        client([refuse(500, "down")]) as c,
        pytest.raises(ModelError, match="down"),
        c.stream("?") as stream,
    ):
        seen.extend(stream)
    assert not seen or isinstance(seen[-1], RunEnded)


def test_leaving_a_stream_early_stops_its_run() -> None:
    with client([slow(say("a b c"), gate=Gate(), after=1)]) as c:
        with c.stream("?") as stream:
            next(e for e in stream if isinstance(e, TextDelta))
        assert stream.reply.stop_reason == "stopped"


def test_runs_start_are_followed_and_stopped() -> None:
    gate = Gate()
    script = {"a": slow(say("x y"), gate=gate, after=1), "b": slow(say("never"), gate=Gate())}
    with client(lambda request: script[request.messages[0].text]) as c:
        run, other = c.start("a"), c.start("b")
        c.stop(other.id)
        assert other.result().stop_reason == other.stop_reason == "stopped"
        readers = [c.subscribe(run.id), c.subscribe(run.id)]
        firsts = [next(reader) for reader in readers]
        gate.open()
        rests = [list(reader) for reader in readers]
        assert firsts[0] == firsts[1]
        assert rests[0] == rests[1] == list(c.subscribe(run.id, after=1))
        assert run.result().text == "x y"
        assert [r.id for r in c.runs()] == [run.id, other.id]
        assert run.phase == "ended"


def test_approvals_can_be_given_manually() -> None:
    @tool(approve=True)
    def pay() -> str:
        return "paid"

    script = lambda r: "done" if r.messages[-1].role == "tool" else call("pay")  # noqa: E731
    with client(script) as c:
        run = c.start("?", tools=[pay])
        asked = next(e for e in c.subscribe(run.id) if isinstance(e, ApprovalRequested))
        assert c.approve(run.id, asked.call.id)
        assert run.result().results[0].output == "paid"
        with c.stream("?", tools=[pay]) as stream:
            for event in stream:
                if isinstance(event, ApprovalRequested):
                    stream.approve(event.call.id, False, reason="no")
        assert stream.reply.results[0].error == "The call was denied: no."


def test_a_chat_remembers() -> None:
    with client(["Hello.", "Again."]) as c:
        chat = c.chat()
        assert chat.send("Hi").text == "Hello."
        with chat.stream("Hi again") as stream:
            assert "".join(stream.text_deltas()) == "Again."
        assert [m.text for m in chat.messages] == ["Hi", "Hello.", "Hi again", "Again."]


def test_manual_control() -> None:
    with client([call("get_weather", city="x"), "done"]) as c:
        turn = c.generate("?", tools=[get_weather], execute_tools=False)
        results = c.execute(turn.calls)
        assert c.generate(turn.follow_up(results), tools=[get_weather]).text == "done"


async def test_it_works_inside_a_running_event_loop() -> None:
    with client([call("get_time", city="x"), "done"]) as c:
        assert c.generate("?", tools=[get_time]).text == "done"


def test_many_threads_share_one_client() -> None:
    barrier, texts = threading.Barrier(10), []

    def meet() -> str:
        barrier.wait(timeout=20)
        return "met"

    with client(lambda r: "done" if r.messages[-1].role == "tool" else call("meet")) as c:
        threads = [
            threading.Thread(target=lambda: texts.append(c.generate("?", tools=[meet]).text))
            for _ in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == ["done"] * 10


async def _async_blocking(model: Any, tools: Any) -> Any:
    async with AsyncClient(model) as c:
        return await c.generate("?", tools=tools)


async def _async_streaming(model: Any, tools: Any) -> Any:
    async with AsyncClient(model) as c, c.stream("?", tools=tools) as stream:
        async for _ in stream:
            pass
        return stream.reply


def _sync_streaming(model: Any, tools: Any) -> Any:
    with Client(model) as c, c.stream("?", tools=tools) as stream:
        list(stream)
        return stream.reply


FACES: dict[str, Callable[[Any, Any], Any]] = {
    "sync blocking": lambda model, tools: Client(model).generate("?", tools=tools),
    "sync streaming": _sync_streaming,
    "async blocking": lambda model, tools: asyncio.run(_async_blocking(model, tools)),
    "async streaming": lambda model, tools: asyncio.run(_async_streaming(model, tools)),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_eight_tools_run_at_once_in_every_kind_of_call(face: str, kind: str) -> None:
    threads = threading.Barrier(8)
    tasks = asyncio.Barrier(8)

    def meet() -> str:
        threads.wait(timeout=20)
        return "met"

    async def meet_async() -> str:
        await tasks.wait()
        return "met"

    met = tool(meet if kind == "sync" else meet_async, name="meet", timeout=20)
    model = ScriptedModel([calls(*[call("meet")] * 8), "done"])
    reply = FACES[face](model, [met])
    assert [r.output for r in reply.results] == ["met"] * 8


def test_context_variables_reach_the_tools() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    def who() -> str:
        return user.get()

    async def who_async() -> str:
        return user.get()

    user.set("ada")
    with client([calls(call("who"), call("who_async")), "done"]) as c:
        reply = c.generate("?", tools=[who, who_async])
    assert [r.output for r in reply.results] == ["ada", "ada"]


def test_a_sync_tool_may_use_the_client_and_an_async_tool_gets_an_error() -> None:
    with client(["inner"]) as inner:

        def nested() -> str:
            return inner.generate("?").text

        async def nested_async() -> str:
            with pytest.raises(ConfigError, match="use AsyncClient"):
                inner.generate("?")
            return "told"

        with client([calls(call("nested"), call("nested_async")), "done"]) as c:
            reply = c.generate("?", tools=[nested, nested_async])
    assert [r.output for r in reply.results] == ["inner", "told"]


def test_a_forgotten_client_is_closed() -> None:
    class Closing(ScriptedModel):
        closed = threading.Event()

        async def aclose(self) -> None:
            self.closed.set()

    c = Client(Closing(["hi"]))
    c.generate("?")
    del c
    gc.collect()
    assert Closing.closed.wait(timeout=20)


@pytest.mark.process
def test_a_program_that_ends_without_closing_ends_quietly() -> None:
    program = """
from windlass import Client
from windlass.testing import FakeOpenAI
with FakeOpenAI(["hello"]) as fake:
    client = Client("openai/m", base_url=fake.base_url)
    print(client.generate("hi").text)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: client([], max_round=3), "did you mean 'max_rounds'"),
        (lambda: client([]).generate("?", temprature=1), "did you mean 'temperature'"),  # pyright: ignore[reportCallIssue]
        (lambda: client([]).generate(""), "empty"),
        (lambda: client([]).generate([]), "empty"),
        (lambda: client([]).generate([3]), "a prompt cannot contain a int"),  # pyright: ignore[reportArgumentType]
        (lambda: client([]).generate("?", on_limit="explode"), "on_limit"),  # pyright: ignore[reportArgumentType]
        (lambda: client([]).generate("?", tool_choice=3), "tool_choice"),  # pyright: ignore[reportArgumentType]
        (lambda: client([], mode="telepathy"), "mode must be 'auto', 'native' or 'emulated'"),
        (lambda: client([]).generate("?", mode="telepathy"), "mode must be"),  # pyright: ignore[reportArgumentType]
        (lambda: client([], base_url="http://x"), "base_url"),
    ],
)
def test_invalid_settings_are_reported_with_a_message(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()
