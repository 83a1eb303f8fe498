"""Checks of what a small model writes: needless calls, repeated calls, and made-up numbers.

`CheckedModel` wraps the emulation of a small model. Before a first call it asks the model a small
question, "can this function do what the request asks for?", which the model answers much better
than it chooses. After a result, a number in the answer that no result and no request contains is
one that the model made up, such as a conversion: the model must then call a function.
"""

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionDeclaration, Message, Schema, Usage
from windlass.emulation.model import EmulatedModel
from windlass.emulation.numbers import Numbers
from windlass.emulation.prompt import quoted, result_sentence
from windlass.emulation.request_parts import asking_parts, is_in_sequence, parts_of
from windlass.events import (
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.model import (
    AUTO,
    NONE,
    Model,
    ModelRequest,
    Settings,
    ToolChoice,
    callable_functions,
    warmed,
)

log = logging.getLogger("windlass.emulation")

_CALL_EVENTS = (ToolCallStarted, ToolCallDelta, ToolCallEnded)
_UNDECLARED = re.compile(r"\s*(```(json)?\s*)?\{\s*\"name\"")
"""The start of a call of a function that is not offered: the parser takes it as text."""
_SENTENCE_END = re.compile(r"[.!?]\s|\n")

_RELEVANCE = (
    "You decide whether a function can do exactly what a request asks for. Answer Yes or No."
)
_PAIR = "Request: {request}\nFunction: {function}\nCan this function do what the request asks for?"
_PAIRS = (
    ("Is it warm in Cairo today?", "get_weather(city, unit): Current weather of a city.", True),
    (
        "What is the volume of a cone with radius 3 and height 7?",
        "calculate_discount(price, percent): The price after a discount.",
        False,
    ),
    ("Who discovered penicillin?", "find_book(title): Finds a book by its title.", False),
    (
        "How far is it from Rome to Milan by car?",
        "route_distance(start, end, unit): Distance between two cities by road.",
        True,
    ),
    (
        "Find the longest side of a triangle with sides 3, 4 and x.",
        "triangle_area(base, height): The area of a triangle from its base and height.",
        False,
    ),
    (
        "Book a table for two in Lyon tonight.",
        "reserve_restaurant(city, people, time): Reserves a table in a restaurant.",
        True,
    ),
    (
        "What will the share price of Tesla be next year?",
        "get_stock_price(symbol): The current price of a share.",
        False,
    ),
    (
        "I want to hear something by Miles Davis.",
        "play_music(artist, volume): Plays songs of an artist.",
        True,
    ),
)
_MAX_REQUEST_CHARS = 1000
_MAX_FUNCTION_CHARS = 400
_SHORT_REQUEST_WORDS = 6
_ANSWER_REQUEST = "Answer my request with this, in one or two plain sentences."


class CheckedModel:
    """Drops needless and repeated calls of a small model, and has made-up numbers calculated."""

    mode = "emulated"

    def __init__(self, model: Model, emulated: EmulatedModel) -> None:
        self._model, self._emulated = model, emulated

    @property
    def name(self) -> str:
        return self._model.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Raises `ConfigError` if `tool_choice` names a tool that is not offered."""
        tools = callable_functions(request)
        free = request.tool_choice.mode == "auto" and request.settings.response_schema is None
        if not tools or not free:
            return self._emulated.stream(request)
        if request.messages[-1].responses:
            return aclosing(self._after_results(request, tools))
        return aclosing(self._first_turn(request, tools))

    async def warm(self, request: ModelRequest) -> None:
        """Makes the model read the start of its questions and of requests with these tools."""
        if callable_functions(request):
            await warmed(self._model, _asked_about("Hello", "hello()"))
        await self._emulated.warm(request)

    async def aclose(self) -> None:
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"CheckedModel({self._model!r})"

    async def _first_turn(
        self, request: ModelRequest, tools: Sequence[FunctionDeclaration]
    ) -> AsyncGenerator[ModelEvent, None]:
        draft = _Draft()
        async with self._emulated.stream(request) as events:
            async for event in events:
                if draft.add(event):
                    yield event
        question, known = _question(request), _numbers(request)
        first = self._first_step(draft, question, tools, known)
        spent = Usage()
        if first is not None:
            forced = await self._forced(request, *first)
            verdict = await self._relevant(question, tools, forced.calls[:1])
            if verdict.calls:
                for event in forced.rest(verdict.calls, draft.usage + verdict.usage):
                    yield event
                return
            spent = forced.usage + verdict.usage
        now = _independent(draft.calls, tools, known)
        if now and is_in_sequence(question):
            now = [call for call in now if call.name == now[0].name]
        verdict = await self._relevant(question, tools, now)
        spent += verdict.usage
        if verdict.calls or not draft.calls:
            for event in draft.rest(verdict.calls or None, spent):
                yield event
            return
        log.info("%s does not need the function that it called", self.name)
        async with aclosing(self._answer(request, draft.usage + spent)) as answer:
            async for event in answer:
                yield event

    def _first_step(
        self,
        draft: "_Draft",
        question: str,
        tools: Sequence[FunctionDeclaration],
        known: Numbers,
    ) -> tuple[str, ...] | None:
        """The functions of which one must be called in place of the draft; None to keep it."""
        if not draft.calls:
            mentioned = _mentioned(draft.text, tools)
            return None if mentioned is None else (mentioned,)
        inner = _nested(draft.calls, tools)
        if inner is not None:
            return (inner,)
        several = is_in_sequence(question) or bool(parts_of(question)) or known.are_none
        if several and not any(known.explain(_given(call, tools)) for call in draft.calls):
            # The model made up the result of a step that it left out.
            called = {call.name for call in draft.calls}
            return tuple(tool.name for tool in tools if tool.name not in called) or None
        return None

    async def _relevant(
        self,
        question: str,
        tools: Sequence[FunctionDeclaration],
        calls: Sequence[FunctionCall],
    ) -> "_Verdict":
        """The calls of functions that can do what the request, or a part of it, asks for."""
        called = {call.name for call in calls}
        fitting: set[str] = called - {tool.name for tool in tools}
        spent = Usage()
        for tool in tools:
            if tool.name not in called:
                continue
            # A function that does one part of a request does not seem to do the whole.
            for part in (question, *parts_of(question)):
                text, usage = await self._text(_asked_about(part, _described(tool)))
                spent += usage
                if not text.strip().lower().startswith("no"):
                    fitting.add(tool.name)
                    break
        return _Verdict([call for call in calls if call.name in fitting], spent)

    async def _after_results(
        self, request: ModelRequest, tools: Sequence[FunctionDeclaration]
    ) -> AsyncGenerator[ModelEvent, None]:
        known, made = _numbers(request), _calls_made(request)
        asked = asking_parts(_last_question(request))
        if len(asked) > len(made):
            # Asked for an answer, the model would often leave out the rest of the request.
            step = await self._next_step(request, tools)
            if step is not None:
                for event in step.rest(step.calls[:1]):
                    yield event
                return
        if 1 < len(asked) <= len({name for name, _ in made}):
            async with aclosing(self._answer(request, Usage())) as answer:
                async for event in answer:
                    yield event
            return
        draft, sentences = _Draft(), _Sentences(known)
        async with self._emulated.stream(request) as events:
            async for event in events:
                if not draft.add(event):
                    continue
                if not isinstance(event, TextDelta):
                    yield event
                elif text := sentences.feed(event.text):
                    yield TextDelta(text)
        new = [call for call in draft.calls if _key(call) not in made]
        if new:
            now = _independent(new, tools, known)
            verdict = await self._relevant(_question(request), tools, now)
            if verdict.calls:
                for event in draft.rest(verdict.calls, verdict.usage):
                    yield event
                return
        mentioned = _mentioned(draft.text, tools)
        if mentioned is not None or sentences.end():
            step = await self._next_step(request, tools, mentioned, sure=True)
            if step is not None:
                for event in step.rest(step.calls[:1], draft.usage):
                    yield event
                return
        if draft.calls or _UNDECLARED.match(draft.text):
            async with aclosing(self._answer(request, draft.usage)) as answer:
                async for event in answer:
                    yield event
            return
        if sentences.held:
            yield TextDelta(sentences.held)
        for event in draft.rest():
            yield event

    async def _next_step(
        self,
        request: ModelRequest,
        tools: Sequence[FunctionDeclaration],
        mentioned: str | None = None,
        *,
        sure: bool = False,
    ) -> "_Draft | None":
        """The call that the request still needs; None if there is none.

        Unless it is `sure` that one is needed, the function must fit a part of the request.
        """
        made = _calls_made(request)
        called = {name for name, _ in made}
        names = (mentioned,) if mentioned else tuple(t.name for t in tools if t.name not in called)
        forced = await self._forced(request, *names)
        if not forced.calls:
            return None
        call = forced.calls[0]
        if _key(call) in made or not _numbers(request).explain(call.arguments):
            return None
        if not sure:
            verdict = await self._relevant(_question(request), tools, [call])
            if not verdict.calls:
                return None
        log.info("%s has not finished; it calls %s", self.name, call.name)
        return forced

    async def _forced(self, request: ModelRequest, *names: str) -> "_Draft":
        """A turn that must call a function, or this one."""
        draft = _Draft()
        asked = replace(request, tool_choice=ToolChoice("required", names))
        async with self._emulated.stream(asked) as events:
            async for event in events:
                draft.add(event)
        return draft

    async def _answer(
        self, request: ModelRequest, spent: Usage
    ) -> AsyncGenerator[ModelEvent, None]:
        """Answers in words, without functions."""
        turn = (
            self._model.stream(_answering(request))
            if request.messages[-1].responses
            else self._emulated.stream(replace(request, tool_choice=NONE))
        )
        async with turn as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    extra = {**_MARK, **(event.message_extra or {})}
                    event = replace(event, usage=spent + event.usage, message_extra=extra)
                yield event

    async def _text(self, request: ModelRequest) -> tuple[str, Usage]:
        pieces: list[str] = []
        usage = Usage()
        async with self._model.stream(request) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    pieces.append(event.text)
                elif isinstance(event, TurnEnded):
                    usage = event.usage
        return "".join(pieces), usage


_MARK = {"windlass": {"mode": "emulated"}}


class _Verdict(Struct, frozen=True):
    """The calls that may be made, and the usage of the questions about them."""

    calls: list[FunctionCall]
    usage: Usage


class _Draft:
    """A turn whose calls are held back until they are checked."""

    def __init__(self) -> None:
        self._held: list[ModelEvent] = []
        self._end = TurnEnded("other")
        self.calls: list[FunctionCall] = []
        self.text = ""

    @property
    def usage(self) -> Usage:
        return self._end.usage

    def add(self, event: ModelEvent) -> bool:
        """Takes an event; False if it is held back."""
        if isinstance(event, TurnEnded):
            self._end = event
            return False
        if isinstance(event, ToolCallEnded):
            self.calls.append(event.call)
        if isinstance(event, TextDelta):
            self.text += event.text
        if isinstance(event, _CALL_EVENTS) or self._held:
            self._held.append(event)
            return False
        return True

    def rest(
        self, kept: Sequence[FunctionCall] | None = None, spent: Usage | None = None
    ) -> list[ModelEvent]:
        """What was held back, with the kept calls only, and the end of the turn."""
        dropped = {
            event.index
            for event in self._held
            if kept is not None and isinstance(event, ToolCallEnded) and event.call not in kept
        }
        events = [each for each in self._held if getattr(each, "index", None) not in dropped]
        return [*events, replace(self._end, usage=self._end.usage + (spent or Usage()))]


class _Sentences:
    """Passes text sentence by sentence, up to the first one with a made-up number."""

    def __init__(self, known: Numbers) -> None:
        self._known, self._doubtful = known, False
        self.held = ""
        """What may not pass yet: the start of a sentence, or all from the made-up number on."""

    def feed(self, text: str) -> str:
        """Takes text, and returns the sentences that may pass."""
        self.held += text
        passed = ""
        if self.held.lstrip().startswith(("`", "{")):
            return passed
        while not self._doubtful and (end := _SENTENCE_END.search(self.held)):
            sentence = self.held[: end.end()]
            self._doubtful = bool(self._known.unknown(sentence))
            if not self._doubtful:
                passed += sentence
                self.held = self.held[len(sentence) :]
        return passed

    def end(self) -> bool:
        """Whether the text has a made-up number."""
        return self._doubtful or bool(self._known.unknown(self.held))


def _asked_about(request: str, function: str) -> ModelRequest:
    """The question whether a function can do what a request asks for."""
    messages = [Message.system(_RELEVANCE)]
    for asked, offered, fits in _PAIRS:
        text = _PAIR.format(request=asked, function=offered)
        messages += [Message.user(text), Message.assistant("Yes" if fits else "No")]
    messages.append(Message.user(_PAIR.format(request=request, function=function)))
    return ModelRequest(tuple(messages), settings=Settings(max_tokens=1, temperature=0.0))


def _described(tool: FunctionDeclaration) -> str:
    names = ", ".join(tool.parameters.get("properties") or {})
    text = " ".join(tool.description.split())
    return quoted(f"{tool.name}({names}): {text}"[:_MAX_FUNCTION_CHARS])[1:-1]


def _answering(request: ModelRequest) -> ModelRequest:
    """Asks for an answer from all results, without the calls, which the model would imitate."""
    system = [message for message in request.messages if message.role == "system"]
    results: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user" and not message.responses:
            break
        results = [*map(result_sentence, message.responses), *results]
    text = "\n".join((_last_question(request), "", *results, _ANSWER_REQUEST))
    return replace(
        request,
        messages=(*system, Message.user(text)),
        tools=tuple(each for each in request.tools if not isinstance(each, FunctionDeclaration)),
        tool_choice=AUTO,
        parallel_tool_calls=None,
    )


def _last_question(request: ModelRequest) -> str:
    return next((each.text for each in reversed(request.messages) if each.role == "user"), "")


def _question(request: ModelRequest) -> str:
    """The last question; a short one, such as "And in Rome?", with the one before it."""
    questions = [each.text for each in request.messages if each.role == "user" and each.text]
    if not questions:
        return ""
    last = questions[-1]
    if len(last.split()) <= _SHORT_REQUEST_WORDS and len(questions) > 1:
        last = f"{questions[-2]} {last}"
    return quoted(last[-_MAX_REQUEST_CHARS:])[1:-1]


def _numbers(request: ModelRequest) -> Numbers:
    known = Numbers()
    for message in request.messages:
        if message.role != "system" and message.text:
            known.add(message.text)
        for response in message.responses:
            known.add(response.output if response.error is None else response.error)
    return known


def _independent(
    calls: Sequence[FunctionCall], tools: Sequence[FunctionDeclaration], known: Numbers
) -> list[FunctionCall]:
    """The calls that need no other's result: all, if each seems to need one."""
    now = [call for call in calls if not _called_inside(call, tools)]
    explained = {call.name for call in now if known.explain(_given(call, tools))}
    # Several calls of one function are independent, whatever numbers they have.
    return [call for call in now if call.name in explained] or now or list(calls)


def _given(call: FunctionCall, tools: Sequence[FunctionDeclaration]) -> object:
    """The arguments without those that are the parameters' defaults."""
    arguments = call.arguments
    if isinstance(arguments, str):
        return arguments
    [tool] = [tool for tool in tools if tool.name == call.name] or [FunctionDeclaration(call.name)]
    schemas: dict[str, Any] = tool.parameters.get("properties") or {}
    return {
        name: value
        for name, value in arguments.items()
        if value is None or cast("Schema", schemas.get(name) or {}).get("default") != value
    }


def _nested(calls: Sequence[FunctionCall], tools: Sequence[FunctionDeclaration]) -> str | None:
    """The function that is called inside an argument, if every call has such an argument."""
    inner = [_called_inside(call, tools) for call in calls]
    return inner[0] if all(inner) else None


def _called_inside(call: FunctionCall, tools: Sequence[FunctionDeclaration]) -> str | None:
    """The function in an argument such as `3 * get_weather("Cairo")`."""
    for tool in tools:
        # A name without an underscore may be an ordinary word.
        end = r"\b" if "_" in tool.name else r"\s*\("
        if tool.name != call.name and re.search(rf"\b{re.escape(tool.name)}{end}", call.json):
            return tool.name
    return None


def _mentioned(text: str, tools: Sequence[FunctionDeclaration]) -> str | None:
    """The function that a text tells the user to call."""
    for tool in tools:
        name = re.escape(tool.name)
        # A name without an underscore may be an ordinary word.
        told = rf"\b{name}\b" if "_" in tool.name else rf"[\"'`]{name}\b|\b{name} function\b"
        if re.search(told, text):
            return tool.name
    return None


def _calls_made(request: ModelRequest) -> set[tuple[str, bytes]]:
    """The calls since the last question."""
    made: set[tuple[str, bytes]] = set()
    for message in reversed(request.messages):
        if message.role == "user" and not message.responses:
            break
        made |= {_key(part) for part in message.parts if isinstance(part, FunctionCall)}
    return made


def _key(call: FunctionCall) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.arguments, order="deterministic")
