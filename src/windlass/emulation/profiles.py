"""Emulation profiles: the best method for models of a certain size.

A model names its profile in `emulation_profile`; the default is `default`. `bench/local.py`
measures which method works best. `CheckedModel` is for small models, `StepsModel` for models that
are too small to follow any format.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
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
from windlass.emulation.checks import CheckedModel
from windlass.emulation.constrain import is_refusal
from windlass.emulation.model import EmulatedModel, check_names
from windlass.emulation.parser import DEFAULT_FORMAT
from windlass.emulation.prompt import (
    quoted,
    result_sentence,
    sample_arguments,
    sample_request,
)
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

log = logging.getLogger("windlass.emulation")


class Profile(Struct, frozen=True):
    """How the prompt asks for calls, and how they are parsed."""

    format: str = DEFAULT_FORMAT
    """The format that the prompt asks for."""
    steps: bool = False
    """Whether the model chooses a tool and then writes its arguments, each with a schema."""
    checked: bool = False
    """Whether the model writes its calls as a program, and its calls and numbers are checked."""


PROFILES: dict[str, Profile] = {
    "default": Profile(),
    # Markers such as <tool_call> are single tokens, which these models are not trained to write.
    "small": Profile(format="json-fence", checked=True),
    "tiny": Profile(steps=True),
}
"""`small`: about 1 to 8 billion parameters. `tiny`: fewer; follows no format without a schema."""


def profile_of(model: Model) -> Profile:
    """Returns the model's profile. Raises `ConfigError` if it names an unknown one."""
    name: object = getattr(model, "emulation_profile", "default")
    if not isinstance(name, str) or name not in PROFILES:
        known = ", ".join(PROFILES)
        raise ConfigError(f"unknown emulation profile {name!r} of {model.name} (known: {known})")
    return PROFILES[name]


def emulated_by_profile(model: Model, *, debug: bool = False) -> Model:
    """Returns the model with emulated function calling, according to its profile."""
    profile = profile_of(model)
    emulated = EmulatedModel(model, format=profile.format, debug=debug)
    if profile.steps:
        return StepsModel(model, emulated)
    return CheckedModel(model, emulated) if profile.checked else emulated


_NO_TOOL = "answer"
"""The choice of no tool. A tool of this name is offered as `answer_`."""

_CHOOSE = "Choose the tool that the request needs. Tools:\n{tools}\n- {words}: no tool is needed"
_FILL = "Write the arguments of the function {name} that the request needs, as JSON.\n{function}"
_MARK = {"windlass": {"mode": "emulated"}}
_ANSWER_REQUEST = "Answer my question with this, in one plain sentence."
_QUESTIONS_WITHOUT_TOOL = (
    "Hello!",
    "Thank you very much.",
    "Write a line about the sea.",
    "What is the capital of Italy?",
)


class StepsModel:
    """Gets a call from a very small model with two small questions.

    Which tool, or none? With which arguments? A JSON Schema constrains each answer. `emulated`,
    which is the same model, gives text answers, without a mention of the tools. A turn has one
    call, and none after a result, because such a model does not know when to stop.
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
        """Makes the model read the common start of choices between these tools, if it can."""
        tools = callable_functions(request)
        prompt = _choosing(request, _Choices(tools, optional=True)) if tools else request
        await warmed(self._model, prompt)

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
                arguments = await self._answer(_filling(request, chosen.tool))
                for event in _call_events(chosen.tool, arguments, chosen.spent):
                    yield event
                return
            rest, spent = self._emulated.stream(replace(request, tool_choice=NONE)), chosen.spent
        except ModelError as problem:
            if not is_refusal(problem):
                raise
            log.info("%s cannot constrain decoding to these schemas: %s", self.name, problem)
            rest, spent = self._emulated.stream(request), Usage()
        async with aclosing(_emulated(rest, spent)) as events:
            async for event in events:
                yield event

    async def _chosen(
        self, request: ModelRequest, tools: tuple[FunctionDeclaration, ...]
    ) -> "_Chosen":
        choices = _Choices(tools, optional=request.tool_choice.mode == "auto")
        if len(tools) == 1 and not choices.optional:
            return _Chosen(tools[0])
        answer = await self._answer(_choosing(request, choices))
        return _Chosen(choices.tool(answer.text), answer.usage)

    async def _answer(self, request: ModelRequest) -> "_StepAnswer":
        pieces: list[str] = []
        end = TurnEnded("other")
        async with self._model.stream(request) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    pieces.append(event.text)
                elif isinstance(event, TurnEnded):
                    end = event
        return _StepAnswer("".join(pieces), end.finish, end.usage)


class _StepAnswer(Struct, frozen=True):
    text: str
    finish: FinishReason
    usage: Usage


class _Chosen(Struct, frozen=True):
    """The chosen tool, or None for a text answer, and the usage of the choice."""

    tool: FunctionDeclaration | None
    spent: Usage = Usage()


class _Choices:
    """The tools by name, and "no tool" if a call is `optional`."""

    def __init__(self, tools: tuple[FunctionDeclaration, ...], *, optional: bool) -> None:
        self.optional = optional
        self.tools = {
            f"{each.name}_" if each.name == _NO_TOOL else each.name: each for each in tools
        }

    @property
    def schema(self) -> Schema:
        names = [*self.tools, *((_NO_TOOL,) if self.optional else ())]
        return _object({"tool": {"type": "string", "enum": names}})

    def tool(self, answer: str) -> FunctionDeclaration | None:
        """Returns the chosen tool; None for no tool, and for an incomplete answer."""
        try:
            chosen: Any = msgspec.json.decode(answer, type=dict[str, str])
        except msgspec.DecodeError:
            return None
        return self.tools.get(chosen.get("tool", ""))


def _choosing(request: ModelRequest, choices: _Choices) -> ModelRequest:
    """Asks which tool the last question needs, after a conversation of examples."""
    lines = [f"- {name}: {_first_line(tool)}" for name, tool in choices.tools.items()]
    system = Message.system(_CHOOSE.format(tools="\n".join(lines), words=_NO_TOOL))
    # Models choose the last example too often, so tools come last.
    questions = _QUESTIONS_WITHOUT_TOOL if choices.optional else ()
    examples = [(question, _NO_TOOL) for question in questions]
    examples += [(sample_request(tool), name) for name, tool in choices.tools.items()]
    messages = [system]
    for question, name in examples:
        messages += [Message.user(question), Message.assistant(compact_json({"tool": name}))]
    return _asking(request, messages, choices.schema)


def _filling(request: ModelRequest, tool: FunctionDeclaration) -> ModelRequest:
    """Asks for the arguments that the last question gives."""
    function = quoted({"description": tool.description, "parameters": tool.parameters})
    messages = [
        Message.system(_FILL.format(name=tool.name, function=function)),
        Message.user(sample_request(tool)),
        Message.assistant(compact_json(sample_arguments(tool))),
    ]
    return _asking(request, messages, plain(tool.parameters))


def _answering(request: ModelRequest) -> ModelRequest:
    """Asks for a text answer from the results, without markers, which the model would repeat."""
    system = [message for message in request.messages if message.role == "system"]
    results = map(result_sentence, request.messages[-1].responses)
    text = "\n".join((_last_question(request), "", *results, _ANSWER_REQUEST))
    return replace(
        request,
        messages=(*system, Message.user(text)),
        tools=(),
        tool_choice=AUTO,
        parallel_tool_calls=None,
    )


def _asking(request: ModelRequest, messages: list[Message], schema: Schema) -> ModelRequest:
    question = _last_question(request)
    settings = replace(request.settings, response_schema=schema, stop=None)
    return ModelRequest((*messages, Message.user(question)), settings=settings, extra=request.extra)


def _call_events(
    tool: FunctionDeclaration, arguments: _StepAnswer, spent: Usage
) -> list[ModelEvent]:
    usage = spent + arguments.usage
    if arguments.finish == "length":
        return [TurnEnded("length", usage, message_extra=_MARK)]
    call = FunctionCall(tool.name, arguments.text, new_call_id())
    return [
        ToolCallStarted(0, call.id, call.name),
        ToolCallDelta(0, call.json),
        ToolCallEnded(0, call),
        TurnEnded("tool_calls", usage, message_extra=_MARK),
    ]


async def _emulated(
    turn: AbstractAsyncContextManager[AsyncIterator[ModelEvent]], spent: Usage
) -> AsyncGenerator[ModelEvent, None]:
    """Yields the turn, marked as emulated, and adds the usage before it."""
    async with turn as events:
        async for event in events:
            if isinstance(event, TurnEnded):
                extra = {**_MARK, **(event.message_extra or {})}
                event = replace(event, usage=spent + event.usage, message_extra=extra)
            yield event


def _last_question(request: ModelRequest) -> str:
    return next((each.text for each in reversed(request.messages) if each.role == "user"), "")


def _has_more(request: ModelRequest) -> bool:
    """Whether the steps would lose something: media, or text beside results."""
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
    """Returns the description's first line, quoted, because it may come from another server."""
    return quoted(tool.description.strip().partition("\n")[0])[1:-1]


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
