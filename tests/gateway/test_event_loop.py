"""Nothing that a client, a model or a tool sends holds the event loop for long."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import Answer
from tests.support.watchdog import Watchdog, unit

from windlass import tool
from windlass.content import FunctionCall, Usage
from windlass.emulation.mode import load_emulation
from windlass.events import (
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.gateway import App, GatewayConfig, create_app
from windlass.gateway.config import ModelConfig, RunsConfig
from windlass.model import ModelRequest

pytestmark = pytest.mark.measures

MB = 2**20
ALLOWED = 3.0
"""Units: three times the goal, because the machine may be busy."""
BUSY_UNITS = 12
"""Well above the limit."""


class Says:
    """A model that emits its turns without a pause."""

    name = "test/says"

    def __init__(self, *turns: Sequence[ModelEvent]) -> None:
        self._turns = list(turns)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]

        async def events() -> AsyncIterator[ModelEvent]:
            for event in turn:
                yield event

        yield events()

    async def aclose(self) -> None:
        pass


def text(content: str, size: int = 0) -> list[ModelEvent]:
    step = size or len(content)
    pieces = [content[at : at + step] for at in range(0, len(content), step)]
    return [*map(TextDelta, pieces), TurnEnded("stop", Usage())]


def calls(count: int, name: str, arguments: str = "{}") -> list[ModelEvent]:
    events: list[ModelEvent] = []
    for index in range(count):
        call = FunctionCall(name, arguments, f"call_{index:024d}")
        events += [
            ToolCallStarted(index, call.id, name),
            ToolCallDelta(index, arguments),
            ToolCallEnded(index, call),
        ]
    return [*events, TurnEnded("tool_calls", Usage())]


@tool
def echo(value: object = None) -> str:
    """Says so."""
    return "ok"


@tool
def rows() -> object:
    """Many rows."""
    return [{"id": number, "name": "row"} for number in range(100_000)]


@tool
def brackets() -> str:
    """Many brackets."""
    return "[" * (8 * MB)


MINE = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}


async def answer(
    body: bytes, turns: Callable[[], list[list[ModelEvent]]], mode: Any
) -> tuple[Answer, Watchdog]:
    """The gateway's answer, and how long its event loop was blocked.

    Repeats the request after a long block: on a busy machine, two short blocks may look like one.
    """
    answered, held = await one_answer(body, Says(*turns()), mode)
    for _ in range(3):
        if held.units < ALLOWED:
            break
        answered, held = await one_answer(body, Says(*turns()), mode)
    return answered, held


async def one_answer(body: bytes, model: Any, mode: Any) -> tuple[Answer, Watchdog]:
    async with gateway_app(model, mode) as app, Watchdog() as held:
        answered = await asked(app, "POST", "/v1/chat/completions", body)
    return answered, held


@asynccontextmanager
async def gateway_app(model: Any, mode: Any, runs: RunsConfig | None = None) -> AsyncIterator[App]:
    load_emulation()
    config = ModelConfig(name="m", target="openai/x", mode=mode, tools=("echo", "rows", "brackets"))
    settings = GatewayConfig(models={"m": config}, runs=runs or RunsConfig())
    app = create_app(settings, models={"m": model}, tools=[echo, rows, brackets])
    await app.gateway.open()
    await app.gateway.registry.warm()
    try:
        yield app
    finally:
        await app.gateway.aclose()


async def asked(app: App, method: str, path: str, body: bytes = b"") -> Answer:
    pieces, status = [body], 0
    came: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        came.append(message.get("body", b""))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": headers, "root_path": "", "http_version": "1.1"}
    await app(scope, receive, send)
    return Answer(status, {}, b"".join(came))


def raw(content: bytes) -> bytes:
    return b'{"model":"m","messages":[{"role":"user","content":' + content + b"}]}"


def with_tool(function: dict[str, Any]) -> bytes:
    asked = [{"role": "user", "content": "Hi"}]
    tools = [{"type": "function", "function": {"name": "f", **function}}]
    return json.dumps({"model": "m", "messages": asked, "tools": tools}).encode()


def with_answer_schema(properties: dict[str, Any]) -> bytes:
    schema = {"name": "answer", "schema": {"type": "object", "properties": properties}}
    wanted = {"type": "json_schema", "json_schema": schema}
    asked = [{"role": "user", "content": "Hi"}]
    return json.dumps({"model": "m", "messages": asked, "response_format": wanted}).encode()


def with_result(result: str) -> bytes:
    call = {"id": "call_1", "type": "function", "function": {"name": "mine", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]
    return json.dumps({"model": "m", "messages": messages, "tools": [MINE]}).encode()


def properties(count: int) -> dict[str, Any]:
    return {f"p{number}": {"type": "string", "description": "x"} for number in range(count)}


DOUBLED = {
    f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)
}
BOMB = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": DOUBLED}
CHAIN = {
    f"d{number}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{number + 1}"}}}
    for number in range(900)
}
OLD_CALLS = [
    message
    for number in range(4_000)
    for message in (
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": f"f{number}", "arguments": "{}"},
        },
        {"role": "function", "name": f"f{number // 2}", "content": "x"},
    )
]

BODIES: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "escapes": (lambda: raw(b'"' + b"\\n" * (15 * MB) + b'"'), None),
    "halves of characters": (lambda: raw(b'"' + b"\\ud83d" * MB + b'"'), None),
    "lists": (lambda: raw(b"[" + b"[]," * (10 * MB) + b"0]"), "too_many_values"),
    "numbers": (lambda: raw(b"[" + b"0," * (15 * MB) + b"0]"), "too_many_values"),
    "strings": (lambda: b'{"model":"m","messages":[' + b'"' * (30 * MB), "too_many_values"),
    "messages": (
        lambda: b'{"model":"m","messages":[' + b'{"role":"user","content":"x"},' * MB + b"0]}",
        "too_many_values",
    ),
    "parts": (lambda: raw(json.dumps([{"type": "text", "text": "x"}] * 50_000).encode()), None),
    "levels": (lambda: raw(b"[" * (30 * MB)), "too_deep"),
    "words": (lambda: raw(b"x" * (30 * MB)), "invalid_json"),
    "spaces": (lambda: raw(b" " * (30 * MB) + b'"x"'), None),
    "a late NaN": (
        lambda: raw(b'"x","padding":"' + b"a" * (30 * MB) + b'","n":NaN'),
        "invalid_json",
    ),
    "an image": (
        lambda: raw(
            b'[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
            + b"QUJD" * (4 * MB)
            + b'"}}]'
        ),
        None,
    ),
    "old calls": (
        lambda: json.dumps(
            {"model": "m", "messages": [{"role": "user", "content": "Hi"}, *OLD_CALLS]}
        ).encode(),
        None,
    ),
    "a wide schema": (
        lambda: with_tool({"parameters": {"type": "object", "properties": properties(45_000)}}),
        None,
    ),
    "a wide schema of the answer": (lambda: with_answer_schema(properties(40_000)), None),
    "references": (lambda: with_tool({"parameters": BOMB}), "invalid_tool"),
    "a chain of references": (
        lambda: with_tool({"parameters": {"type": "object", "properties": {}, "$defs": CHAIN}}),
        None,
    ),
    "a result of brackets": (lambda: with_result("[" * (2 * MB)), None),
    "a result of tags": (lambda: with_result("<" * (2 * MB)), None),
    "a result of backticks": (lambda: with_result("`" * (2 * MB)), None),
}


IN_BOTH_MODES = (
    "old calls",
    "a wide schema",
    "a wide schema of the answer",
    "a chain of references",
    "a result of brackets",
    "a result of tags",
    "a result of backticks",
)


SAMPLED = {
    ("escapes", "native"),
    ("a wide schema", "emulated"),
    ("a result of brackets", "emulated"),
    ("braces at once", "blocking"),
    ("calls", "streamed"),
    ("a result of rows", "in memory"),
}


def _sampled(cases: Iterable[tuple[str, str]]) -> list[Any]:
    """The cases; those that are not sampled run with WHOLE=1."""
    elsewhere = pytest.mark.whole("the sampled cases of the same test")
    return [pytest.param(*case, marks=() if case in SAMPLED else elsewhere) for case in cases]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *_sampled(itertools.product(BODIES, ["native"])),
        *_sampled(itertools.product(IN_BOTH_MODES, ["emulated"])),
    ],
)
async def test_no_body_blocks_the_event_loop(kind: str, mode: str) -> None:
    make, code = BODIES[kind]
    answered, held = await answer(make(), lambda: [text("{}")], mode)
    if code is None:
        assert answered.status == 200, answered.body[:300]
    else:
        assert (answered.status, answered.json["error"]["code"]) == (400, code)
    assert held.units < ALLOWED


TURNS: dict[str, tuple[str, Callable[[], list[list[ModelEvent]]]]] = {
    "braces at once": ("emulated", lambda: [text("{" * MB)]),
    "brackets at once": ("emulated", lambda: [text("[" * MB)]),
    "tags at once": ("auto", lambda: [text("<" * MB)]),
    "braces bit by bit": ("emulated", lambda: [text("{" * (MB // 8), 8)]),
    "an argument that never ends": (
        "emulated",
        lambda: [text("Action: echo\nAction Input: " + "{" * (MB // 4), 4_000), text("Done.")],
    ),
    "a call that may not come": (
        "emulated",
        lambda: [
            *[text('{"name":"nothing","arguments":' * 4_000, 8)] * 2,
            text("Done."),
        ],
    ),
    "text at once": ("native", lambda: [text("a\n" * (5 * MB))]),
    "calls": ("native", lambda: [calls(3_000, "echo"), text("Done.")]),
    "calls of the client": ("native", lambda: [calls(3_000, "mine")]),
    "calls in text": (
        "emulated",
        lambda: [
            text('<tool_call>{"name":"echo","arguments":{"value":1}}</tool_call>\n' * 3_000),
            text("Done."),
        ],
    ),
    "an argument": (
        "native",
        lambda: [calls(1, "echo", json.dumps({"value": "x" * (8 * MB)})), text("Done.")],
    ),
    "an argument of many values": (
        "native",
        lambda: [calls(1, "echo", json.dumps({"value": [{"k": "v"}] * 50_000})), text("Done.")],
    ),
    "arguments of several calls": (
        "native",
        lambda: [calls(20, "echo", json.dumps({"value": '"' * MB})), text("Done.")],
    ),
    "a result of rows": ("emulated", lambda: [text(one_call("rows")), text("Done.")]),
    "a result of text": ("emulated", lambda: [text(one_call("brackets")), text("Done.")]),
}


def one_call(name: str) -> str:
    return f'<tool_call>{{"name":"{name}","arguments":{{}}}}</tool_call>'


async def test_a_required_call_with_a_wide_schema_does_not_block_the_event_loop() -> None:
    """Its constraint is built in every round, though the prompt is cached after the first."""
    wide = {"name": "wide", "parameters": {"type": "object", "properties": properties(20_000)}}
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": wide}],
        "tool_choice": "required",
    }
    turns = [text(one_call("echo")), text(one_call("wide"))]
    answered, held = await answer(json.dumps(asked).encode(), lambda: turns, "emulated")
    [choice] = answered.json["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "wide"
    assert held.units < ALLOWED


@pytest.mark.parametrize(
    ("kind", "form"), _sampled(itertools.product(TURNS, ("blocking", "streamed")))
)
async def test_no_turn_blocks_the_event_loop(kind: str, form: str) -> None:
    mode, make = TURNS[kind]
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [MINE]}
    body = json.dumps({**asked, "stream": form == "streamed"}).encode()
    answered, held = await answer(body, make, mode)
    assert answered.status == 200, answered.body[:300]
    assert held.units < ALLOWED


RUNS: dict[str, Callable[[], list[list[ModelEvent]]]] = {
    "a result of rows": lambda: [calls(1, "rows"), text("Done.")],
    "a result of text": lambda: [calls(1, "brackets"), text("Done.")],
    "an argument of many values": lambda: [
        calls(1, "echo", json.dumps({"value": [{"k": "v"}] * 100_000})),
        text("Done."),
    ],
    "a long answer": lambda: [text("a\n" * (4 * MB))],
}


@pytest.mark.parametrize(
    ("kind", "kept"), _sampled(itertools.product(RUNS, ("in memory", "in a log")))
)
async def test_showing_a_run_does_not_block_the_event_loop(
    kind: str, kept: str, tmp_path: Path
) -> None:
    runs = RunsConfig(path=str(tmp_path / "runs.db")) if kept == "in a log" else None
    body = raw(b'"Hi"')
    async with gateway_app(Says(*RUNS[kind]()), "native", runs) as app:
        started = await asked(app, "POST", "/v1/runs", body)
        run = f"/v1/runs/{started.json['id']}"
        await asked(app, "GET", f"{run}/events")
        for path in (run, f"{run}/export", f"{run}/events"):
            answered, held = await shown(app, path)
            assert answered.status == 200, answered.body[:300]
            assert held.units < ALLOWED, path


async def shown(app: App, path: str) -> tuple[Answer, Watchdog]:
    """The answer, and how long the loop was blocked: the shortest of a few tries, as in
    `answer`."""
    tries = 4
    while True:
        async with Watchdog() as held:
            answered = await asked(app, "GET", path)
        tries -= 1
        if held.units < ALLOWED or not tries:
            return answered, held


async def test_the_watchdog_detects_a_long_callback_and_a_thread_that_holds_the_interpreter() -> (
    None
):
    for work in (lambda: asyncio.sleep(0, busy()), lambda: asyncio.to_thread(busy_in_one_call)):
        async with Watchdog() as held:
            await work()
            await asyncio.sleep(0.01)
        assert held.units > ALLOWED
    async with Watchdog() as held:
        await asyncio.sleep(0.05)
    assert held.units < ALLOWED


def busy() -> None:
    for _ in range(BUSY_UNITS):
        unit()


def busy_in_one_call() -> int:
    start = time.thread_time()
    sum(range(1_000_000))
    million = time.thread_time() - start
    return sum(range(int(1_000_000 * BUSY_UNITS * unit() / million)))
