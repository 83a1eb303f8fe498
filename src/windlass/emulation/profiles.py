"""Profiles"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Schema,
    Usage,
    new_call_id,
)
from windlass.emulation.constrain import is_refusal
from windlass.emulation.model import EmulatedModel, check_names
from windlass.emulation.parser import DEFAULT_FORMAT, Parser
from windlass.emulation.prompt import quoted, sample_arguments, sample_request
from windlass.emulation.turn_reader import TextParser
from windlass.errors import ConfigError, ModelError
from windlass.events import (
    FinishReason,
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import compact_json
from windlass.model import AUTO, NONE, Model, ModelRequest, callable_functions, warmed
from windlass.schema import plain

_EXAMPLE = {"windlass": {"example": True}}
"""Marks what nobody said, for whoever shortens a conversation."""
_GREETING = (
    Message("user", Message.user("Hello!").parts, _EXAMPLE),
    Message("assistant", Message.assistant("Hello! How can I help you?").parts, _EXAMPLE),
)


class GreetedModel(EmulatedModel):
    """Begins every conversation that has tools with a greeting, answered in words.

    Examples that are only told to a small model do not keep it from calling a tool to say goodbye;
    one turn of its own does.
    """

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return super().stream(_greeted(request))

    async def warm(self, request: ModelRequest) -> None:
        await super().warm(_greeted(request))


def _greeted(request: ModelRequest) -> ModelRequest:
    """A call that must come is better off without."""
    if not callable_functions(request) or request.tool_choice.mode == "required":
        return request
    return replace(request, messages=_after_system(request.messages))


def _after_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    head = 1 if messages and messages[0].role == "system" else 0
    return (*messages[:head], *_GREETING, *messages[head:])


def parser_without_repeats(tools: tuple[FunctionDeclaration, ...]) -> TextParser:
    return WithoutRepeats(Parser(tools))


class WithoutRepeats:
    """Passes what a parser finds, except calls that it has found before in the same turn.

    Whether a call is a repetition shows at its end: until then its events are kept back.
    """

    def __init__(self, parser: TextParser) -> None:
        self._parser = parser
        self._seen: set[tuple[str, bytes]] = set()
        self._begun: dict[int, list[ModelEvent]] = {}

    def feed(self, text: str) -> list[ModelEvent]:
        return self._passed(self._parser.feed(text))

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        # A call without an end is passed as it is: the turn is known by it to be broken off.
        passed = self._passed(self._parser.finish(truncated=truncated))
        begun = [event for events in self._begun.values() for event in events]
        self._begun.clear()
        return [*passed, *begun]

    def _passed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        passed: list[ModelEvent] = []
        for event in events:
            match event:
                case ToolCallStarted():
                    self._begun[event.index] = [event]
                case ToolCallDelta():
                    self._begun[event.index].append(event)
                case ToolCallEnded():
                    begun = self._begun.pop(event.index)
                    arguments = event.call.arguments
                    key = (event.call.name, msgspec.json.encode(arguments, order="deterministic"))
                    if key not in self._seen:
                        self._seen.add(key)
                        passed += [*begun, event]
                case _:
                    passed.append(event)
        return passed


log = logging.getLogger("windlass.emulation")

_WORDS = "answer"
"""What is chosen instead of a tool; a tool of this name is chosen as `answer_`."""

_CHOOSE = "Choose the tool that the request needs. Tools:\n{tools}\n- {words}: no tool is needed"
_FILL = "Write the arguments of the function {name} that the request needs, as JSON.\n{function}"
_MARK = {"windlass": {"mode": "emulated"}}
_ANSWER = "Answer my question with this, in one plain sentence."
_NO_TOOL = (
    "Hello!",
    "Thank you very much.",
    "Write a line about the sea.",
    "What is the capital of Italy?",
)


class StepsModel:
    """A `Model` around a `Model`; `emulated` is the same model for all that is not a choice.

    One call a turn, and none after a result: such a model does not see when it has enough.
    """

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
        check_names(request)
        tools = callable_functions(request)
        if not tools or request.settings.response_schema is not None or _has_more(request):
            return self._emulated.stream(request)
        if request.tool_choice.mode == "auto" and request.messages[-1].responses:
            return aclosing(_emulated(self._model.stream(_answering(request)), Usage()))
        return aclosing(self._events(request, tools))

    async def warm(self, request: ModelRequest) -> None:
        """Has the model read what every choice between these tools begins with, if it can."""
        tools = callable_functions(request)
        asked = _choosing(request, _Choices(tools, words=True)) if tools else request
        await warmed(self._model, asked)

    async def aclose(self) -> None:
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"StepsModel({self._model!r})"

    async def _events(
        self, request: ModelRequest, tools: tuple[FunctionDeclaration, ...]
    ) -> AsyncGenerator[ModelEvent, None]:
        try:
            chosen = await self._chosen(request, tools)
            if chosen.tool is not None:
                written = await self._said(_filling(request, chosen.tool))
                for event in _call_events(chosen.tool, written, chosen.spent):
                    yield event
                return
            rest, spent = self._emulated.stream(replace(request, tool_choice=NONE)), chosen.spent
        except ModelError as problem:
            if not is_refusal(problem):
                raise
            log.info("%s cannot be held to these schemas: %s", self.name, problem)
            rest, spent = self._emulated.stream(request), Usage()
        async with aclosing(_emulated(rest, spent)) as events:
            async for event in events:
                yield event

    async def _chosen(
        self, request: ModelRequest, tools: tuple[FunctionDeclaration, ...]
    ) -> "_Chosen":
        choices = _Choices(tools, words=request.tool_choice.mode == "auto")
        if len(tools) == 1 and not choices.words:
            return _Chosen(tools[0])
        said = await self._said(_choosing(request, choices))
        return _Chosen(choices.tool(said.text), said.usage)

    async def _said(self, request: ModelRequest) -> "_Said":
        pieces: list[str] = []
        end = TurnEnded("other")
        async with self._model.stream(request) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    pieces.append(event.text)
                elif isinstance(event, TurnEnded):
                    end = event
        return _Said("".join(pieces), end.finish, end.usage)


class _Said(Struct, frozen=True):
    text: str
    finish: FinishReason
    usage: Usage


class _Chosen(Struct, frozen=True):
    """The tool, or None for words, and what the choice has cost."""

    tool: FunctionDeclaration | None
    spent: Usage = Usage()


class _Choices:
    """The tools by the names that they are chosen by, and words if they are allowed."""

    def __init__(self, tools: tuple[FunctionDeclaration, ...], *, words: bool) -> None:
        self.words = words
        self.tools = {f"{each.name}_" if each.name == _WORDS else each.name: each for each in tools}

    @property
    def schema(self) -> Schema:
        names = [*self.tools, *((_WORDS,) if self.words else ())]
        return _object({"tool": {"type": "string", "enum": names}})

    def tool(self, said: str) -> FunctionDeclaration | None:
        """The tool that was chosen. A choice that broke off is one for words."""
        try:
            chosen: Any = msgspec.json.decode(said, type=dict[str, str])
        except msgspec.DecodeError:
            return None
        return self.tools.get(chosen.get("tool", ""))


def _choosing(request: ModelRequest, choices: _Choices) -> ModelRequest:
    """Which tool does the last question need? The examples come before it, as a conversation."""
    lines = [f"- {name}: {_first_line(tool)}" for name, tool in choices.tools.items()]
    system = Message.system(_CHOOSE.format(tools="\n".join(lines), words=_WORDS))
    # Whatever stands last is chosen too often: better a tool than none.
    examples = [(question, _WORDS) for question in _NO_TOOL] if choices.words else []
    examples += [(sample_request(tool), name) for name, tool in choices.tools.items()]
    messages = [system]
    for question, name in examples:
        messages += [Message.user(question), Message.assistant(compact_json({"tool": name}))]
    return _asking(request, messages, choices.schema)


def _filling(request: ModelRequest, tool: FunctionDeclaration) -> ModelRequest:
    """Which arguments does the last question give?"""
    function = quoted({"description": tool.description, "parameters": tool.parameters})
    messages = [
        Message.system(_FILL.format(name=tool.name, function=function)),
        Message.user(sample_request(tool)),
        Message.assistant(compact_json(sample_arguments(tool))),
    ]
    return _asking(request, messages, plain(tool.parameters))


def _answering(request: ModelRequest) -> ModelRequest:
    """What do the results say? In words: such a model repeats any marks that it sees."""
    system = [message for message in request.messages if message.role == "system"]
    results = map(_in_words, request.messages[-1].responses)
    text = "\n".join((_last_question(request), "", *results, _ANSWER))
    return replace(
        request,
        messages=(*system, Message.user(text)),
        tools=(),
        tool_choice=AUTO,
        parallel_tool_calls=None,
    )


def _in_words(response: FunctionResponse) -> str:
    if response.error is not None:
        return f"The function {response.name} failed: {quoted(response.error)}"
    return f"The function {response.name} returned: {quoted(response.output)}"


def _asking(request: ModelRequest, messages: list[Message], schema: Schema) -> ModelRequest:
    question = _last_question(request)
    settings = replace(request.settings, response_schema=schema, stop=None)
    return ModelRequest((*messages, Message.user(question)), settings=settings, extra=request.extra)


def _call_events(tool: FunctionDeclaration, written: _Said, spent: Usage) -> list[ModelEvent]:
    usage = spent + written.usage
    if written.finish == "length":
        return [TurnEnded("length", usage, message_extra=_MARK)]
    call = FunctionCall(tool.name, written.text, new_call_id())
    return [
        ToolCallStarted(0, call.id, call.name),
        ToolCallDelta(0, call.json),
        ToolCallEnded(0, call),
        TurnEnded("tool_calls", usage, message_extra=_MARK),
    ]


async def _emulated(
    turn: AbstractAsyncContextManager[AsyncIterator[ModelEvent]], spent: Usage
) -> AsyncGenerator[ModelEvent, None]:
    """The turn, marked as emulated, with what was spent before it."""
    async with turn as events:
        async for event in events:
            if isinstance(event, TurnEnded):
                extra = {**_MARK, **(event.message_extra or {})}
                event = replace(event, usage=spent + event.usage, message_extra=extra)
            yield event


def _last_question(request: ModelRequest) -> str:
    return next((each.text for each in reversed(request.messages) if each.role == "user"), "")


def _has_more(request: ModelRequest) -> bool:
    """Whether there is something that the steps would not repeat: media, or words with results."""
    last = request.messages[-1]
    if 0 < len(last.responses) < len(last.parts):
        return True
    return any(
        isinstance(part, InlineData | FileData | Opaque)
        or (isinstance(part, FunctionResponse) and part.parts)
        for message in request.messages
        for part in message.parts
    )


def _first_line(tool: FunctionDeclaration) -> str:
    """A description may come from a server that is not ours: no marker stands in it."""
    return quoted(tool.description.strip().partition("\n")[0])[1:-1]


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Profile(Struct, frozen=True):
    """How calls are asked for and read."""

    format: str = DEFAULT_FORMAT
    """How the model is asked to write its calls."""
    steps: bool = False
    """Whether a tool is chosen first and its arguments written then, each held to a schema."""
    repeats: bool = True
    """Whether the same call, twice in one turn, is two calls."""
    greeted: bool = False
    """Whether a greeting that was answered in words comes before the conversation."""


PROFILES: dict[str, Profile] = {
    "default": Profile(),
    # Marks such as <tool_call> are single tokens, which these weights were never taught to write.
    "small": Profile(format="json-fence", repeats=False, greeted=True),
    "tiny": Profile(steps=True),
}
"""`small`: some 1 to 8 billion parameters. `tiny`: less, and no format is followed unforced."""


def profile_of(model: Model) -> Profile:
    """Raises `ConfigError` if the model names a profile that there is not."""
    name: object = getattr(model, "emulation_profile", "default")
    if not isinstance(name, str) or name not in PROFILES:
        known = ", ".join(PROFILES)
        raise ConfigError(f"{model.name} names the profile {name!r}; there are: {known}")
    return PROFILES[name]


def emulated_by_profile(model: Model, *, debug: bool = False) -> Model:
    """The model with emulated function calling, by its own profile."""
    profile = profile_of(model)
    parser = Parser if profile.repeats else parser_without_repeats
    kind = GreetedModel if profile.greeted else EmulatedModel
    emulated = kind(model, format=profile.format, parser=parser, debug=debug)
    return StepsModel(model, emulated) if profile.steps else emulated
