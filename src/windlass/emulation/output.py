"""`OutputModel`: asks a model for a JSON value, by the best method that the model supports.

Its turns contain the value as text, whatever the method: the call of a final-answer tool becomes
text, and text around the JSON value is dropped.
"""

import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from windlass.content import FunctionDeclaration, Message, Schema
from windlass.emulation.constrain import is_refusal
from windlass.emulation.history import with_system
from windlass.emulation.mode import mode_of, native_failure
from windlass.errors import ModelError
from windlass.events import (
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import LARGE, compact_json, offloaded
from windlass.model import (
    NONE,
    Model,
    ModelRequest,
    ModelWrapper,
    ToolChoice,
    all_functions,
    callable_functions,
)
from windlass.output.spec import VALUE, OutputSpec, in_object, strict_schema
from windlass.settings import Mode

log = logging.getLogger("windlass.emulation")

Method: TypeAlias = Literal["native", "tool", "prompt"]
Support: TypeAlias = Literal["always", "without_tools", "grammar", "never"]
"""How a model supports structured output, in its attribute `structured_output`.

always: also in requests with tools. The default.
without_tools: not in requests with tools.
grammar: it can only write JSON of the schema, but does not see the schema.
never: not at all.
"""

FINAL_TOOL = "final_answer"
_LAST_RESORT: tuple[Method, ...] = ("prompt",)
_MEMORY_SECONDS = 600.0
_CALLER_ERROR = re.compile(r"(?i)invalid (json )?schema|schema .{0,40}(invalid|too)")
_DESCRIPTION = "Gives the final answer. Call it once, when no other call is needed."
_TOOL_NOTE = "Give your final answer by calling {name}."
_ANY_OBJECT = "Answer with one JSON object and nothing else."
_PROMPT = "Answer with one JSON value of this JSON Schema, and nothing else:\n{schema}"


class OutputMethods:
    """The methods that a model supports. Remembers what its server has refused for some time."""

    def __init__(self, model: Model, clock: Callable[[], float] = time.monotonic) -> None:
        self._model, self._clock = model, clock
        self._refused: dict[Method, float] = {}

    @property
    def support(self) -> Support:
        return getattr(self._model, "structured_output", "always")

    @property
    def enforces_strict(self) -> bool:
        """Whether the model's service enforces the strict form of a schema."""
        return getattr(self._model, "strict_schemas", False)

    def of(self, spec: OutputSpec, mode: Mode, *, has_tools: bool) -> tuple[Method, ...]:
        """Returns the methods to try, the best first. At least one."""
        if spec.method != "auto":
            return (spec.method,)
        support = self.support
        found: list[Method] = []
        if support in ("always", "grammar") or (support == "without_tools" and not has_tools):
            found.append("native")
        # An emulated call costs a small model more than JSON does.
        if mode != "emulated" and support != "grammar" and spec.schema:
            found.append("tool")
        found.append("prompt")
        now = self._clock()
        left: tuple[Method, ...] = tuple(
            method for method in found if self._refused.get(method, 0.0) <= now
        )
        return left or _LAST_RESORT

    def remember_refusal(self, method: Method) -> None:
        self._refused[method] = self._clock() + _MEMORY_SECONDS


class OutputModel(ModelWrapper):
    """Asks for a JSON value that matches the schema of `spec`.

    If the model's service refuses a method, the next one is tried. The method never changes after
    the caller has received an event of the turn.
    """

    def __init__(self, model: Model, spec: OutputSpec, methods: OutputMethods) -> None:
        super().__init__(model)
        self._spec, self._methods = spec, methods

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._events(request))

    def __repr__(self) -> str:
        return f"OutputModel({self._model!r})"

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        has_tools = bool(all_functions(request))
        methods = self._methods.of(self._spec, mode_of(self._model), has_tools=has_tools)
        for place, method in enumerate(methods):
            asked, reader = self._asked(request, method)
            yielded = False
            try:
                async with self._model.stream(asked) as events:
                    async for event in events:
                        if type(event) is TextDelta and len(event.text) > LARGE:
                            found = await offloaded(reader.feed, event)
                        else:
                            found = reader.feed(event)
                        for read in found:
                            yielded = True
                            yield read
                return
            except ModelError as problem:
                is_last = place == len(methods) - 1
                if yielded or is_last or not _refuses(problem, method):
                    raise
                self._learn(method, problem)

    def _asked(self, request: ModelRequest, method: Method) -> "tuple[ModelRequest, _Reader]":
        """Returns the request for a method, and the reader of its events."""
        spec = self._spec
        reader = JsonAnswerReader(openers="{" if spec.is_object and not spec.wrapped else "{[")
        match method:
            case "native":
                return self._native(request), reader if spec.is_object else _PASSING
            case "prompt":
                settings = replace(request.settings, response_schema=None)
                asked = replace(request, settings=settings, messages=self._prompted(request))
                return asked, reader if spec.is_object else _PASSING
            case "tool":
                tool = final_tool(request, spec)
                return _with_final_tool(request, tool), FinalCallReader(tool.name, spec, reader)

    def _native(self, request: ModelRequest) -> ModelRequest:
        spec, settings = self._spec, request.settings
        strict = (
            strict_schema(spec.schema) if spec.derived and self._methods.enforces_strict else None
        )
        settings = replace(
            settings,
            response_schema=strict or spec.schema,
            response_name=settings.response_name or spec.name,
            response_strict=True if strict else settings.response_strict,
        )
        asked = replace(request, settings=settings)
        if self._methods.support != "grammar" or getattr(self._model, "plans_calls", False):
            return asked
        if _has_results(request):
            # A small model that may call or answer in JSON does not stop calling.
            asked = request = replace(asked, tools=(), tool_choice=NONE)
        # With tools, emulation describes the schema beside them.
        if not callable_functions(request):
            asked = replace(asked, messages=self._prompted(request))
        return asked

    def _prompted(self, request: ModelRequest) -> tuple[Message, ...]:
        return with_system(request.messages, schema_prompt(self._spec.schema))

    def _learn(self, method: Method, problem: ModelError) -> None:
        log.warning(
            "The model does not support the output method %s; trying the next one",
            method,
            extra={"model": self.name},
        )
        if not _CALLER_ERROR.search(problem.message):
            self._methods.remember_refusal(method)


def schema_prompt(schema: Schema) -> str:
    """Returns the text that asks for a JSON value of the schema."""
    return _PROMPT.format(schema=compact_json(schema)) if schema else _ANY_OBJECT


def _refuses(problem: ModelError, method: Method) -> bool:
    """Whether the error says that the server does not support the method."""
    if method == "native":
        return is_refusal(problem)
    return method == "tool" and native_failure(problem) is not None


def final_tool(request: ModelRequest, spec: OutputSpec) -> FunctionDeclaration:
    """Returns the tool whose arguments are the answer. Its name is unique in the request."""
    schema = spec.schema if spec.is_object else in_object(spec.schema)
    name, taken = FINAL_TOOL, {each.name for each in all_functions(request)}
    while name in taken:
        name += "_"
    return FunctionDeclaration(name, _DESCRIPTION, schema or {"type": "object"})


def _with_final_tool(request: ModelRequest, tool: FunctionDeclaration) -> ModelRequest:
    """Offers the final-answer tool, unless another call is required first."""
    settings = replace(request.settings, response_schema=None)
    choice, functions = request.tool_choice, all_functions(request)
    if choice.mode == "required":
        return replace(request, settings=settings)
    if choice.mode == "none" or not functions:
        others = tuple(each for each in request.tools if each not in functions)
        choice = ToolChoice("required", (tool.name,), soft=True)
        return replace(request, settings=settings, tools=(*others, tool), tool_choice=choice)
    names = (*choice.names, tool.name) if choice.names else ()
    # Thinking and a required call exclude each other on some wires.
    mode = "auto" if _thinks(request) else "required"
    return replace(
        request,
        messages=with_system(request.messages, _TOOL_NOTE.format(name=tool.name)),
        settings=settings,
        tools=(*request.tools, tool),
        tool_choice=ToolChoice(mode, names, soft=True),
    )


def _has_results(request: ModelRequest) -> bool:
    """Whether the last call has its results, and no other call is required."""
    return request.tool_choice.mode != "required" and bool(request.messages[-1].responses)


def _thinks(request: ModelRequest) -> bool:
    effort = request.settings.reasoning_effort
    return "thinking" in request.extra or effort not in (None, "none")


class _Passing:
    """Passes all events unchanged."""

    def feed(self, event: ModelEvent) -> Sequence[ModelEvent]:
        return (event,)


_PASSING = _Passing()
_STRING_REST = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
"""The rest of a string, up to its closing quote or the end of the text."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
"""A whole string, a bracket, or the quote of a string that goes on."""


class JsonAnswerReader:
    """Drops the text before and after the JSON value of a turn, such as the fence of a code block.

    Text without a JSON value passes at the end of the turn, and text before a call passes, too.
    """

    def __init__(self, openers: str = "{[") -> None:
        self._openers = openers
        self._before: list[TextDelta] = []
        self._unread: list[str] = []
        self._depth = 0
        self._in_string = False
        self._state: Literal["before", "inside", "after"] = "before"

    def feed(self, event: ModelEvent) -> Sequence[ModelEvent]:
        if type(event) is TextDelta:
            return self._text(event)
        if self._before and isinstance(event, ToolCallStarted | TurnEnded):
            held, self._before = self._before, []
            return (*held, event)
        return (event,)

    def _text(self, event: TextDelta) -> Sequence[ModelEvent]:
        text = event.text
        if self._state == "before":
            places = [place for each in self._openers if (place := text.find(each)) >= 0]
            if not places:
                self._before.append(event)
                return ()
            self._state, self._before = "inside", []
            text = text[min(places) :]
        if self._state == "after":
            return ()
        end = self._end(text)
        if end is not None:
            self._state, text = "after", text[:end]
        return (event if text == event.text else replace(event, text=text),)

    def _end(self, text: str) -> int | None:
        """Returns where the value ends in the text; None if it goes on."""
        self._unread.append(text)
        if "}" not in text and "]" not in text:
            return None
        unread = "".join(self._unread)
        place = self._after_string(unread, 0) if self._in_string else 0
        if place is None:
            return None
        self._unread = []
        for token in _TOKEN.finditer(unread, place):
            mark = token[0]
            if mark == '"':
                self._after_string(unread, token.end())
                return None
            if mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return token.end() - len(unread) + len(text)
        return None

    def _after_string(self, text: str, start: int) -> int | None:
        """Returns the place after the string that goes on at `start`; None if it is still open."""
        rest = _STRING_REST.match(text, start)
        end = start if rest is None else rest.end()
        self._in_string = end >= len(text) or text[end] != '"'
        if not self._in_string:
            return end + 1
        self._unread = [text[end:]]  # a backslash whose character is missing
        return None


class FinalCallReader:
    """Turns the call of the final-answer tool into text. Text beside that call is dropped.

    Without that call, the text of the turn is the answer.
    """

    def __init__(self, name: str, spec: OutputSpec, reader: JsonAnswerReader) -> None:
        """`name` is the name of the tool."""
        self._name = name
        self._unwraps = not spec.is_object
        self._reader = _PASSING if self._unwraps else reader
        self._held: list[ModelEvent] = []
        self._final: int | None = None
        self._dropped: set[int] = set()
        self._wrote = False
        self._numbers: dict[int, int] = {}

    def feed(self, event: ModelEvent) -> Sequence[ModelEvent]:
        match event:
            case TextDelta():
                if self._final is None:
                    self._held.append(event)
                return ()
            case ToolCallStarted() if event.name == self._name:
                self._held.clear()
                if self._final is None:
                    self._final = event.index
                else:
                    self._dropped.add(event.index)
                return ()
            case ToolCallStarted():
                self._numbers[event.index] = len(self._numbers)
                return (*self._released(), self._numbered(event))
            case ToolCallDelta() | ToolCallEnded():
                if event.index in self._dropped:
                    return ()
                if event.index == self._final:
                    return tuple(self._answer(event))
                return (self._numbered(event),)
            case TurnEnded():
                held = [read for each in self._released() for read in self._reader.feed(each)]
                return (*held, *self._reader.feed(self._end(event)))
            case _:
                return (event,)

    def _answer(self, event: ToolCallDelta | ToolCallEnded) -> Iterator[TextDelta]:
        if self._unwraps:
            if isinstance(event, ToolCallEnded):
                yield TextDelta(_unwrapped(event.call.json))
        elif isinstance(event, ToolCallDelta):
            self._wrote = self._wrote or bool(event.json)
            yield TextDelta(event.json)
        elif not self._wrote:
            yield TextDelta(event.call.json)

    def _released(self) -> list[ModelEvent]:
        held, self._held = self._held, []
        return held

    def _end(self, event: TurnEnded) -> TurnEnded:
        is_answer = self._final is not None and not self._numbers
        finish = "stop" if is_answer and event.finish == "tool_calls" else event.finish
        return event if finish == event.finish else replace(event, finish=finish)

    def _numbered(
        self, event: ToolCallStarted | ToolCallDelta | ToolCallEnded
    ) -> ToolCallStarted | ToolCallDelta | ToolCallEnded:
        number = self._numbers[event.index]
        return event if number == event.index else replace(event, index=number)


_Reader: TypeAlias = JsonAnswerReader | FinalCallReader | _Passing


def _unwrapped(json_text: str) -> str:
    try:
        value = msgspec.json.decode(json_text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return json_text
    return compact_json(value[VALUE]) if VALUE in value else json_text
