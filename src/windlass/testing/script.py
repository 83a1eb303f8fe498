"""Scripts: the turns and faults with which a scripted model or a fake upstream answers.

`Gate` and `Latch` synchronize a test with the code under test, across threads. A script is one of:

- a list of steps, one for each request;
- a function from the request to a step;
- a single step, which answers every request.

A plain string is a step that answers with that text.
"""

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, FunctionResponse, Text, Thought, Usage
from windlass.events import (
    FinishReason,
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)
from windlass.jsontext import compact_json
from windlass.model import ModelRequest


class Latch:
    """An event that is set once. Threads block on it; tasks of any event loop await it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def set(self) -> None:
        with self._lock:
            self._event.set()
            waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no waiter is left
                loop.call_soon_threadsafe(_resolve, future)

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._event.is_set():
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
        try:
            await future
        finally:
            with self._lock:
                self._waiters = [waiter for waiter in self._waiters if waiter[1] is not future]

    def block(self, timeout: float = 30.0) -> None:
        """Blocks the thread until the latch is set. Raises `TimeoutError`."""
        if not self._event.wait(timeout):
            raise TimeoutError(f"not set after {timeout:g} s")


class Gate:
    """Delays an answer until `open()`. `reached` is set when the answer waits at the gate."""

    def __init__(self) -> None:
        self.reached = Latch()
        self._opened = Latch()

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        """Sets `reached`, then waits until the gate is open."""
        self.reached.set()
        await self._opened.wait()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


Pieces: TypeAlias = Literal["words", "whole"] | int
"""How a turn is streamed: word by word, in one piece, or in pieces of N characters."""

DEFAULT_USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


class Turn(Struct, frozen=True, kw_only=True):
    """One turn of the model: its thoughts, then its text, then its calls.

    To use another order, pass `parts` instead of `thoughts`, `text` and `calls`. A `finish` that is
    not a `FinishReason` is sent unchanged. Calls without an id get one.
    """

    text: str = ""
    thoughts: str = ""
    calls: tuple[FunctionCall, ...] = ()
    parts: tuple[AnyPart, ...] = ()
    finish: FinishReason | str | None = None
    usage: Usage = DEFAULT_USAGE
    pieces: Pieces = "words"
    signature: str | None = None
    """The signature of the text. Gemini sends it on the last part."""

    def __post_init__(self) -> None:
        if self.parts and (self.text or self.thoughts or self.calls):
            raise ValueError("a turn takes either parts, or text, thoughts and calls; not both")
        if isinstance(self.pieces, int) and self.pieces < 1:
            raise ValueError(f"pieces must be at least 1 character long, not {self.pieces}")

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """The parts of the turn, in order."""
        if self.parts:
            return self.parts
        thoughts = (Thought(self.thoughts),) if self.thoughts else ()
        signed = self.text or self.signature is not None
        text = (Text(self.text, self.signature),) if signed else ()
        return (*thoughts, *text, *self.calls)

    @property
    def finish_word(self) -> FinishReason | str:
        """Why the turn ended: `finish`, or else `tool_calls` or `stop`."""
        if self.finish is not None:
            return self.finish
        return "tool_calls" if any(isinstance(p, FunctionCall) for p in self.content) else "stop"


class Fault(Struct, frozen=True):
    """A failure that replaces a turn or interrupts it."""


class Cut(Fault, frozen=True):
    """The connection closes after N pieces, in the middle of the next one, or after `byte`."""

    turn: Turn
    after: int
    byte: int | None = None


class Refuse(Fault, frozen=True):
    """The service answers with an error."""

    status: int
    message: str
    retry_after: float | None = None
    code: str | None = None


class Interrupt(Fault, frozen=True):
    """The service reports an error in the stream, after N pieces."""

    turn: Turn
    after: int
    error: Refuse


class Slow(Fault, frozen=True):
    """The step waits for its gate or for some seconds before piece `after`; 0 is the first byte."""

    step: "Turn | Fault"
    gate: Gate | None
    seconds: float
    after: int


class MalformedJson(Fault, frozen=True):
    """The response stops in the middle of its JSON and then ends normally."""


class MalformedSse(Fault, frozen=True):
    """The stream's framing is broken by a misplaced empty line."""

    turn: Turn
    byte: int | None = None


class Hang(Fault, frozen=True):
    """No response; the connection stays open."""


class Disconnect(Fault, frozen=True):
    """The connection closes before any response."""


Step: TypeAlias = Turn | Fault | Exception | str
"""The answer to one request. An exception is raised; over HTTP it becomes an error response."""

_Request = TypeVar("_Request")
Script: TypeAlias = Iterable[Step] | Callable[[_Request], Step] | Step


def say(
    text: str,
    *,
    usage: Usage = DEFAULT_USAGE,
    finish: FinishReason | str | None = None,
    pieces: Pieces = "words",
) -> Turn:
    """A turn that answers with text."""
    return Turn(text=text, usage=usage, finish=finish, pieces=pieces)


def think(thoughts: str, then: Turn | str = "") -> Turn:
    """The turn `then`, with thoughts before it."""
    turn = turn_of(then)
    if turn.parts:
        return msgspec.structs.replace(turn, parts=(Thought(thoughts), *turn.parts))
    return msgspec.structs.replace(turn, thoughts=thoughts + turn.thoughts)


def call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    id: str | None = None,
    signature: str | None = None,
    **more: Any,
) -> Turn:
    """A turn that calls one tool: `call("get_weather", city="Paris")`.

    Pass arguments named `id` or `signature` in the mapping.
    """
    return raw_call(name, compact_json({**(arguments or {}), **more}), id=id, signature=signature)


def raw_call(
    name: str,
    json: str,
    /,
    *,
    id: str | None = None,
    signature: str | None = None,
) -> Turn:
    """A turn that calls one tool with this argument text, which need not be valid JSON."""
    return Turn(calls=(FunctionCall(name, json, id or "", signature),))


def calls(
    *turns: Turn,
    text: str = "",
    thoughts: str = "",
    usage: Usage = DEFAULT_USAGE,
    finish: FinishReason | str | None = None,
    pieces: Pieces = "words",
) -> Turn:
    """One turn that calls several tools: `calls(call("a"), call("b"))`."""
    return Turn(
        text=text,
        thoughts=thoughts,
        calls=tuple(made for turn in turns for made in turn.calls),
        usage=usage,
        finish=finish,
        pieces=pieces,
    )


def cut(turn: Turn | str, after: int = 0, *, byte: int | None = None) -> Cut:
    """The turn, interrupted after `after` pieces, or over HTTP after `byte` bytes.

    A piece is a delta: some text or thought, the start of a call, or some of its arguments. Gemini
    sends each call in one piece.
    """
    return Cut(turn_of(turn), after, byte)


def refuse(
    status: int,
    message: str = "refused by the script",
    *,
    retry_after: float | None = None,
    code: str | None = None,
) -> Refuse:
    """An error response, in the format of the service."""
    return Refuse(status, message, retry_after, code)


def interrupt(turn: Turn | str, after: int = 0, *, error: Refuse | None = None) -> Interrupt:
    """The turn's stream, with an error event after `after` pieces; without a stream, the error."""
    return Interrupt(turn_of(turn), after, error or refuse(500, "interrupted by the script"))


def slow(
    step: "Turn | Fault | str", gate: Gate | None = None, *, seconds: float = 0.0, after: int = 0
) -> Slow:
    """The step, delayed before its first byte or after `after` pieces, until `.gate` opens.

    With `seconds` it continues after that time.
    """
    held = turn_of(step) if isinstance(step, str) else step
    return Slow(held, gate if gate or seconds else Gate(), seconds, after)


def malformed_json() -> MalformedJson:
    """A response (in a stream: an event) that is not valid JSON."""
    return MalformedJson()


def malformed_sse(
    turn: Turn | str = "This never arrives.", *, byte: int | None = None
) -> MalformedSse:
    """The turn's stream with an empty line in the middle of its first event, or at `byte`."""
    return MalformedSse(turn_of(turn), byte)


def hang() -> Hang:
    """No response; the connection stays open."""
    return Hang()


def disconnect() -> Disconnect:
    """The connection closes before any response."""
    return Disconnect()


def turn_of(turn: Turn | str) -> Turn:
    return say(turn) if isinstance(turn, str) else turn


class ScriptExhausted(AssertionError):
    """There were more requests than the script has steps."""


class Stepper(Generic[_Request]):
    """Returns a script's steps, one for each request. Thread-safe."""

    def __init__(self, script: Script[_Request]) -> None:
        self._answer = script if callable(script) else None
        self._steps: Iterator[Step] = iter(()) if callable(script) else _steps(script)
        self._lock = threading.Lock()
        self._taken = 0

    def next(self, request: _Request) -> Turn | Fault | Exception:
        """The step for this request. Raises `ScriptExhausted`."""
        step = self._next_listed() if self._answer is None else self._answer(request)
        if isinstance(step, str):
            return say(step)
        if not isinstance(cast("Any", step), Turn | Fault | Exception):
            raise TypeError(f"a step must be a turn, string, fault or exception, not {step!r}")
        return step

    def _next_listed(self) -> Step:
        with self._lock:
            try:
                step = next(self._steps)
            except StopIteration:
                raise ScriptExhausted(
                    f"the script has {self._taken} steps, but this is request {self._taken + 1}"
                ) from None
            self._taken += 1
            return step


def _steps(script: Iterable[Step] | Step) -> Iterator[Step]:
    if isinstance(script, str | Turn | Fault | Exception):
        while True:
            yield script
    yield from script


ARGUMENT_PIECE_SIZE = 8
_WORD = re.compile(r"\s*\S+\s?|\s+")


def split(text: str, pieces: Pieces, *, words: bool = True) -> list[str]:
    """The text in pieces. With `words=False`, `"words"` splits by characters."""
    match pieces:
        case "whole":
            return [text] if text else []
        case "words" if words:
            return _WORD.findall(text)
        case "words":
            size = ARGUMENT_PIECE_SIZE
        case size:
            pass
    return [text[start : start + size] for start in range(0, len(text), size)]


def with_ids(turn: Turn, new_id: Callable[[], str]) -> Turn:
    """The turn with an id on every call."""

    def named(made: FunctionCall) -> FunctionCall:
        return made if made.id else msgspec.structs.replace(made, id=new_id())

    return msgspec.structs.replace(
        turn,
        calls=tuple(map(named, turn.calls)),
        parts=tuple(named(p) if isinstance(p, FunctionCall) else p for p in turn.parts),
    )


def events_of(turn: Turn, pieces: Pieces | None = None) -> Iterator[ModelEvent]:
    """The events of the turn, without `TurnEnded`. All calls must have an id."""
    size = turn.pieces if pieces is None else pieces
    index = 0
    for part in turn.content:
        match part:
            case Text(text=text, signature=None) if not part.extra:
                yield from map(TextDelta, split(text, size))
            case Thought(text=text, signature=None) if not part.extra:
                yield from map(ThoughtDelta, split(text, size))
            case Text(text=text, signature=signature):
                yield TextDelta(text, signature, part.extra or None)
            case Thought(text=text, signature=signature):
                yield ThoughtDelta(text, signature, part.extra or None)
            case FunctionCall():
                yield ToolCallStarted(index, part.id, part.name)
                for fragment in split(part.json, size, words=False):
                    yield ToolCallDelta(index, fragment)
                yield ToolCallEnded(index, part)
                index += 1
            case _:
                yield PartReceived(part)


class StepDelays:
    """The delays of one step, in the order of its pieces."""

    def __init__(self, waits: list[Slow]) -> None:
        self._waits = sorted(waits, key=lambda wait: wait.after)

    async def wait_before(self, piece: int) -> None:
        """Waits for the delays before this piece; the first piece is 0."""
        while self._waits and self._waits[0].after <= piece:
            await _wait_for(self._waits.pop(0))

    async def wait_rest(self) -> None:
        """Waits for all remaining delays."""
        while self._waits:
            await _wait_for(self._waits.pop(0))


def unwrap_slow(step: Turn | Fault) -> tuple[Turn | Fault, StepDelays]:
    """The step without its `Slow` wrappers, and their delays."""
    waits: list[Slow] = []
    while isinstance(step, Slow):
        waits.append(step)
        step = step.step
    return step, StepDelays(waits)


async def _wait_for(wait: Slow) -> None:
    if wait.seconds:
        await asyncio.sleep(wait.seconds)
    if wait.gate is not None:
        await wait.gate.passed()


_Body: TypeAlias = dict[str, Any]


def tool_results(request: ModelRequest | _Body) -> list[FunctionResponse]:
    """Every tool result in the request's history, in order. Count them to know the round."""
    if isinstance(request, ModelRequest):
        return [answer for message in request.messages for answer in message.responses]
    if "contents" in request:
        return _gemini_results(request)
    return _responses_results(request) if "input" in request else _openai_results(request)


def last_prompt(request: ModelRequest | _Body) -> str:
    """The text of the last user message. It identifies one of several concurrent conversations."""
    if isinstance(request, ModelRequest):
        prompts = [said.text for said in request.messages if said.role == "user"]
    elif "contents" in request:
        turns = cast("list[_Body]", request["contents"])
        prompts = [_joined(turn["parts"]) for turn in turns if turn.get("role") != "model"]
    elif "input" in request:
        items = _items(request)
        prompts = [_joined(item["content"]) for item in items if item.get("role") == "user"]
    else:
        messages = cast("list[_Body]", request["messages"])
        prompts = [_joined(said["content"]) for said in messages if said["role"] == "user"]
    return next((text for text in reversed(prompts) if text), "")


def _joined(content: str | list[_Body]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def _gemini_results(body: _Body) -> list[FunctionResponse]:
    parts = [part for turn in cast("list[_Body]", body["contents"]) for part in turn["parts"]]
    found = [part.get("functionResponse") or part.get("function_response") for part in parts]
    return [FunctionResponse(r["name"], r["response"], r.get("id") or "") for r in found if r]


def _items(body: _Body) -> list[_Body]:
    """The items of a Responses request; a string is a message of the user."""
    given = cast("str | list[_Body]", body["input"])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _responses_results(body: _Body) -> list[FunctionResponse]:
    names = {item["call_id"]: item["name"] for item in _items(body) if "name" in item}
    results = [item for item in _items(body) if str(item.get("type")).endswith("call_output")]
    return [
        FunctionResponse(
            names.get(each["call_id"], ""), {"output": _joined(each["output"])}, each["call_id"]
        )
        for each in results
    ]


def _openai_results(body: _Body) -> list[FunctionResponse]:
    names: dict[str, str] = {}
    results: list[FunctionResponse] = []
    for message in cast("list[_Body]", body["messages"]):
        for made in cast("list[_Body]", message.get("tool_calls") or []):
            names[made["id"]] = made["function"]["name"]
        content: Any = message.get("content")
        if isinstance(content, list):
            results += _anthropic_results(cast("list[_Body]", content), names)
        if message["role"] == "tool":
            answered, output = message["tool_call_id"], _joined(message["content"])
            results.append(FunctionResponse(names[answered], {"output": output}, answered))
    return results


def _anthropic_results(blocks: list[_Body], names: dict[str, str]) -> list[FunctionResponse]:
    """The results among the blocks of a message. Adds the names of its calls to `names`."""
    results: list[FunctionResponse] = []
    for block in blocks:
        match block:
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                names[call_id] = name
            case {"type": "tool_result", "tool_use_id": str(answered), "content": content}:
                key = "error" if block.get("is_error") else "output"
                results.append(FunctionResponse(names[answered], {key: _joined(content)}, answered))
            case _:
                pass
    return results
