"""`EmulatedModel`: function calling for a model that has none.

The prompt describes the tools and the format of a call; the parser finds the calls in what the
model writes.
"""

import logging
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from msgspec import Struct
from msgspec.structs import replace

from windlass.content import FunctionDeclaration, PrivateText, Usage
from windlass.emulation.constrain import (
    AnswerReader,
    Constrain,
    Constraint,
    constraint,
    is_refusal,
)
from windlass.emulation.history import HistoryRenderer, with_reminder, with_system
from windlass.emulation.parser import DEFAULT_FORMAT, Parser
from windlass.emulation.prompt import RESULT_TAG, PromptText, reminder
from windlass.emulation.turn_reader import ParserMaker, TurnReader, Wanted
from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent, TextDelta
from windlass.jsontext import LARGE, by_size, is_larger
from windlass.model import (
    AUTO,
    Model,
    ModelRequest,
    all_functions,
    callable_functions,
    has_calls,
    named_functions,
    warmed,
)

log = logging.getLogger("windlass.emulation")

_SECRET = secrets.token_bytes(16)
_STOP = f"<{RESULT_TAG}"
_PROMPT_COST = 8
"""How many times longer it takes to write a prompt than to encode its schemas."""
_MAX_STOPS = 4  # OpenAI's limit
_STOP_REFUSED = re.compile(r"(?i)\bstop(_?sequences?)?\b")


class EmulatedModel:
    """Describes the tools in the prompt, and parses the calls from what the model writes.

    `format` is the format that the prompt asks for; calls in any known format are parsed.
    `constrain` says when the server must constrain the model to a schema: `"auto"` if a call is
    required, `"always"` also if a call is allowed, or `"never"`. A server that refuses a schema
    does not get one again.
    """

    mode = "emulated"

    def __init__(
        self,
        model: Model,
        *,
        format: str = DEFAULT_FORMAT,
        constrain: Constrain = "auto",
        parser: ParserMaker = Parser,
        debug: bool = False,
        secret: bytes = _SECRET,
    ) -> None:
        self._model, self._format, self._parser, self._debug = model, format, parser, debug
        self._constrain: Constrain = constrain
        self._history = HistoryRenderer(format, secret)
        self._systems: dict[object, tuple[object, str]] = {}
        self._can_stop = True

    @property
    def name(self) -> str:
        return self._model.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Raises `ConfigError` if `tool_choice` names a tool that is not offered."""
        if not all_functions(request) and not has_calls(request.messages):
            return self._model.stream(request)
        if request.tool_choice.mode == "none" and not has_calls(request.messages):
            return self._model.stream(_without_functions(request))
        check_names(request)
        return aclosing(self._events(request))

    async def warm(self, request: ModelRequest) -> None:
        """Makes the model read the common start of requests with these tools, if it can."""
        await warmed(self._model, self._attempt(request, None).request)

    async def aclose(self) -> None:
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"EmulatedModel({self._model!r})"

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        spent = Usage()
        rejected: str | None = None
        while True:
            work = self._history.work(request.messages) + self._prompt_work(request)
            attempt = await by_size(work, self._attempt, request, rejected)
            reader, yielded = attempt.reader, False
            try:
                async with self._model.stream(attempt.request) as events:
                    async for event in events:
                        if self._debug and isinstance(event, TextDelta):
                            log.info("%s wrote %r", self.name, PrivateText(event.text))
                        for read in await reader.read(event):
                            yielded = True
                            yield read
                        if reader.over and request.live:
                            break
            except ModelError as problem:
                spent += problem.usage or Usage()
                if yielded or not self._learned(problem, attempt):
                    problem.usage = spent if spent != Usage() else None
                    raise
                continue
            if not reader.breaks_choice or rejected is not None:
                break
            log.warning("The model did not follow tool_choice; retrying once")
            spent, rejected = spent + reader.usage, reader.held_text
        for event in reader.last_events(spent):
            yield event

    def _attempt(self, request: ModelRequest, rejected: str | None) -> "_Attempt":
        """Returns the request and its reader. `rejected` is the text of a failed first attempt."""
        allowed = callable_functions(request)
        limits = constraint(allowed, request.tool_choice, request.settings, self._constrain)
        text = PromptText(
            all_functions(request),
            request.tool_choice,
            self._format,
            request.parallel_tool_calls is not False,
            limits.answer,
            limits.prompted_schema,
        )
        history = self._history.render(request.messages)
        messages = with_system(history, self._system(text, request.tools))
        if rejected is not None:
            messages = with_reminder(messages, rejected, reminder(text))
        if self._debug:
            logged = PrivateText([message.to_dict() for message in messages])
            log.info("Asking %s with emulated tools: %s", self.name, logged)
        settings = replace(request.settings, response_schema=limits.schema)
        if allowed and limits.answer == "text":
            settings = replace(settings, stop=self._stop(settings.stop))
        inner = replace(_without_functions(request), messages=messages, settings=settings)
        return _Attempt(request, inner, self._reader(request, limits))

    def _reader(self, request: ModelRequest, limits: Constraint) -> TurnReader:
        wanted: Wanted = "anything"
        tools = callable_functions(request)
        if not tools:
            # With the names of earlier calls, the parser recognises a call that is not allowed.
            wanted, tools = "text", named_functions(request)
        elif request.tool_choice.mode == "required" and not request.tool_choice.soft:
            wanted = "call"
        parser = self._parser(tools)
        if limits.answer == "call_or_answer_json":
            parser = AnswerReader(parser)
        return TurnReader(parser, wanted=wanted, one_call=request.parallel_tool_calls is False)

    def _system(self, text: PromptText, tools: object) -> str:
        """Returns the system text, cached: a run offers the same tuple of tools each round."""
        if text.response_schema is not None:
            return text.system()
        key = (id(tools), text.choice, text.parallel, text.answer)
        known = self._systems.get(key)
        if known is None or known[0] is not tools:
            if len(self._systems) >= 64:
                self._systems.clear()
            known = self._systems[key] = (tools, text.system())
        return known[1]

    def _prompt_work(self, request: ModelRequest) -> int:
        """Returns more than `LARGE` if the schemas are large: their prompt, or a constraint."""
        schemas = [request.settings.response_schema]
        schemas += [each.parameters for each in all_functions(request)]
        return LARGE + 1 if is_larger(schemas, LARGE // _PROMPT_COST) else 0

    def _stop(self, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Adds a stop sequence that ends the turn when the model starts to invent a result."""
        if not self._can_stop or len(given or ()) >= _MAX_STOPS:
            return given
        return (*(given or ()), _STOP)

    def _learned(self, problem: ModelError, attempt: "_Attempt") -> bool:
        """Whether the error shows a missing feature of the server, which is then not used again."""
        own, asked = attempt.outer.settings, attempt.request.settings
        if asked.response_schema not in (None, own.response_schema) and is_refusal(problem):
            log.info("%s cannot constrain decoding: %s", self.name, problem)
            self._constrain = "never"
            return True
        stop_refused = problem.status in (400, 422) and _STOP_REFUSED.search(problem.message)
        if asked.stop != own.stop and stop_refused:
            log.info("%s does not accept stop sequences: %s", self.name, problem)
            self._can_stop = False
            return True
        return False


class _Attempt(Struct, frozen=True):
    outer: ModelRequest
    request: ModelRequest
    reader: TurnReader


def _without_functions(request: ModelRequest) -> ModelRequest:
    """Returns the request for the wrapped model. It keeps the provider's own search tool."""
    others = tuple(each for each in request.tools if not isinstance(each, FunctionDeclaration))
    return replace(request, tools=others, tool_choice=AUTO, parallel_tool_calls=None)


def check_names(request: ModelRequest) -> None:
    """Raises `ConfigError` if `tool_choice` names a tool that is not offered."""
    if request.tool_choice.mode == "none" or not request.tool_choice.names:
        return
    offered = {each.name for each in all_functions(request)}
    if missing := [name for name in request.tool_choice.names if name not in offered]:
        raise ConfigError(f"unknown tool {missing[0]!r} in tool_choice")
