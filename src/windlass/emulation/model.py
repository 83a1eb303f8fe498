"""EmulatedModel"""

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
from windlass.emulation.history import History, with_reminder, with_system
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
    callable_functions,
    functions,
    has_calls,
    named_functions,
    warmed,
)

log = logging.getLogger("windlass.emulation")

_SECRET = secrets.token_bytes(16)
_STOP = f"<{RESULT_TAG}"
_WRITING = 8
"""How much longer a prompt takes than to encode its schemas."""
_MOST_STOPS = 4  # OpenAI takes no more
_STOP_REFUSED = re.compile(r"(?i)\bstop(_?sequences?)?\b")


class EmulatedModel:
    """Tells the model of its tools in words, and reads its calls from what it writes.

    `format` is how the model is asked to write calls; whatever known format it writes is read.
    `constrain` says when the server is asked to hold the model to a schema: `"auto"` where a call
    must come, `"always"` also where it may, or `"never"`. A server that refuses is not asked again.
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
        self._history = History(format, secret)
        self._systems: dict[object, tuple[object, str]] = {}
        self._can_stop = True

    @property
    def name(self) -> str:
        return self._model.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Raises `ConfigError` if `tool_choice` names a tool that is not offered."""
        if not functions(request) and not has_calls(request.messages):
            return self._model.stream(request)
        if request.tool_choice.mode == "none" and not has_calls(request.messages):
            return self._model.stream(_without_functions(request))
        check_names(request)
        return aclosing(self._events(request))

    async def warm(self, request: ModelRequest) -> None:
        """Has the model read what every request with these tools begins with, if it can."""
        await warmed(self._model, self._attempt(request, None).request)

    async def aclose(self) -> None:
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"EmulatedModel({self._model!r})"

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        spent = Usage()
        reminded: str | None = None
        while True:
            work = self._history.work(request.messages) + self._prompt_work(request)
            attempt = await by_size(work, self._attempt, request, reminded)
            reader, said = attempt.reader, False
            try:
                async with self._model.stream(attempt.request) as events:
                    async for event in events:
                        if self._debug and isinstance(event, TextDelta):
                            log.info("%s wrote %r", self.name, PrivateText(event.text))
                        for read in await reader.read(event):
                            said = True
                            yield read
                        if reader.over and request.live:
                            break
            except ModelError as problem:
                if said or not self._learned(problem, attempt):
                    raise
                continue
            if not reader.unmet or reminded is not None:
                break
            log.warning("The model did not keep to tool_choice; asking once more")
            spent, reminded = spent + reader.usage, reader.said
        for event in reader.ending(spent):
            yield event

    def _attempt(self, request: ModelRequest, reminded: str | None) -> "_Attempt":
        """What is asked and how its answer is read; `reminded` is what was wrongly said before."""
        allowed = callable_functions(request)
        held_to = constraint(allowed, request.tool_choice, request.settings, self._constrain)
        text = PromptText(
            functions(request),
            request.tool_choice,
            self._format,
            request.parallel_tool_calls is not False,
            held_to.answer,
            held_to.in_words,
        )
        history = self._history.render(request.messages)
        messages = with_system(history, self._system(text, request.tools))
        if reminded is not None:
            messages = with_reminder(messages, reminded, reminder(text))
        if self._debug:
            said = PrivateText([message.to_dict() for message in messages])
            log.info("Asking %s with emulated tools: %s", self.name, said)
        settings = replace(request.settings, response_schema=held_to.schema)
        if allowed and held_to.answer == "text":
            settings = replace(settings, stop=self._stop(settings.stop))
        asked = replace(_without_functions(request), messages=messages, settings=settings)
        return _Attempt(request, asked, self._reader(request, held_to))

    def _reader(self, request: ModelRequest, held_to: Constraint) -> TurnReader:
        wanted: Wanted = "anything"
        tools = callable_functions(request)
        if not tools:
            # The names of earlier calls, so that one written all the same is known for what it is.
            wanted, tools = "words", named_functions(request)
        elif request.tool_choice.mode == "required":
            wanted = "call"
        parser = self._parser(tools)
        if held_to.answer == "call_or_answer_json":
            parser = AnswerReader(parser)
        return TurnReader(parser, wanted=wanted, one_call=request.parallel_tool_calls is False)

    def _system(self, text: PromptText, tools: object) -> str:
        """The words for these tools. A run offers the same tuple every round."""
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
        """Characters, about, of the declarations, if no prompt has been written for them yet."""
        tools = request.tools
        if any(known[0] is tools for known in self._systems.values()):
            return 0
        schemas = [each.parameters for each in functions(request)]
        return LARGE + 1 if is_larger(schemas, LARGE // _WRITING) else 0

    def _stop(self, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """A model that begins to write a result itself is stopped by the server."""
        if not self._can_stop or len(given or ()) >= _MOST_STOPS:
            return given
        return (*(given or ()), _STOP)

    def _learned(self, problem: ModelError, attempt: "_Attempt") -> bool:
        """Whether the refusal taught what this server cannot do: then it is not asked for again."""
        own, asked = attempt.outer.settings, attempt.request.settings
        if asked.response_schema not in (None, own.response_schema) and is_refusal(problem):
            log.info("%s cannot constrain decoding: %s", self.name, problem)
            self._constrain = "never"
            return True
        stop_refused = problem.status in (400, 422) and _STOP_REFUSED.search(problem.message)
        if asked.stop != own.stop and stop_refused:
            log.info("%s takes no stop sequences: %s", self.name, problem)
            self._can_stop = False
            return True
        return False


class _Attempt(Struct, frozen=True):
    outer: ModelRequest
    request: ModelRequest
    reader: TurnReader


def _without_functions(request: ModelRequest) -> ModelRequest:
    """The request as it goes to the model inside. A provider's own search is left to it."""
    others = tuple(each for each in request.tools if not isinstance(each, FunctionDeclaration))
    return replace(request, tools=others, tool_choice=AUTO, parallel_tool_calls=None)


def check_names(request: ModelRequest) -> None:
    """Raises `ConfigError` if `tool_choice` names a tool that is not offered."""
    if request.tool_choice.mode == "none" or not request.tool_choice.names:
        return
    offered = {each.name for each in functions(request)}
    if missing := [name for name in request.tool_choice.names if name not in offered]:
        raise ConfigError(f"tool_choice names {missing[0]!r}, which is not among the tools")
