"""Function calling modes: native, emulated, and auto, which tries native first.

`Modes` returns a model in the mode that the caller chooses. `AutoModel` implements auto mode: it
recognises the errors of servers that cannot call functions, and falls back to emulation.
"""

import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Literal

from msgspec.structs import replace

from windlass.content import FunctionDeclaration, PrivateText, Usage
from windlass.emulation.turn_reader import NativeReader, ParserMaker, TextParser, TurnMode, Wanted
from windlass.errors import ModelError, NativeModeUnavailable
from windlass.events import ModelEvent, TextDelta, ThoughtDelta, ToolCallDelta, TurnEnded
from windlass.model import (
    EventBatches,
    Model,
    ModelRequest,
    batch_reader,
    callable_functions,
    is_about_tools,
    warmed,
)
from windlass.settings import FunctionCallingSettings, Mode

log = logging.getLogger("windlass.emulation")

Failure = Literal["unsupported", "choice", "malformed", "unavailable"]
"""Why native function calling failed.

unsupported: the model does not support tools.
choice: the model does not support this `tool_choice`.
malformed: the model wrote a call that its server cannot parse.
unavailable: the AI Studio page cannot be operated.
"""

UNAVAILABLE = "native_mode_unavailable"
MAX_REFUSAL_CHARS = 200

_STATUSES = frozenset({None, 400, 404, 405, 415, 422, 500, 501})
"""HTTP statuses of a refusal. llama.cpp answers 500 to a request that it does not support."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_SUBJECT = _any_of(r"\btools?\b", r"\bfunctions?\b", r"\b(tool|function)[_ -]?\w+", r"toolconfig")
_REFUSAL = _any_of(
    r"(\bnot|n't) (be )?(support|enabl|permit|allow|available|implement)",
    r"unsupported",
    r"unrecogni[sz]ed (request )?(arg|param|field)",  # Azure, for tools and functions
    r"(unknown|unexpected) (name|keyword|param|arg|field)",
    r"no endpoints found",  # OpenRouter
    r"\brequires? --",  # vLLM and llama.cpp: a command-line flag is missing
)
_CHOICE = _any_of(r"tool_?choice", r"function_?calling_?config", r"mode `?any\b")
_MALFORMED = _any_of(
    r"failed to call a function",  # Groq
    r"error parsing tool call",  # Ollama
    r"fail(ed|ure) to parse .{0,40}(tool|function)",
    r"malformed.{0,20}(tool|function)",
)
_MALFORMED_CODES = frozenset({"tool_use_failed", "MALFORMED_FUNCTION_CALL"})
_CALLER_ERROR = _any_of(
    # The caller's tool is wrong.
    r"invalid (json )?schema",
    r"schema (for|of) (function|tool)",
    r"(tools|function_declarations|functions)[\[.]\d",
    r"input_schema",
    r"(function|tool)('s|\.) ?(name|parameters|description)",
    # The history is wrong.
    r"tool_(call|use)_id",
    r"response parts",
    r"preceding|followed by",
    # A limit is exceeded.
    r"context length|too (long|large|many)|maximum (context|number)",
    r"rate limit|quota|credit|billing",
)


def refusal_in(message: str) -> str | None:
    """Returns the one sentence of the message that states what is not supported."""
    sentences = re.split(r"(?<=[.!?;])\s+|\n", message)
    return next((each[:MAX_REFUSAL_CHARS] for each in sentences if _REFUSAL.search(each)), None)


def native_failure(problem: ModelError) -> Failure | None:
    """Returns why native function calling failed; None if the error has another cause.

    Only failures that emulation can avoid are recognised. A wrong tool schema, a history in the
    wrong order or a prompt that is too long is the caller's error, and is raised.
    """
    message = problem.message
    if problem.code == UNAVAILABLE:
        # Status 400: the page can be operated, but not with this combination of tools.
        return "choice" if problem.status == 400 else "unavailable"
    if problem.status not in _STATUSES:
        return None
    if problem.code in _MALFORMED_CODES or _MALFORMED.search(message):
        return "malformed"
    if _CALLER_ERROR.search(message) or not (_SUBJECT.search(message) and _REFUSAL.search(message)):
        return None
    return "choice" if _CHOICE.search(message) and "--" not in message else "unsupported"


_DELTAS = (TextDelta, ThoughtDelta, ToolCallDelta)
_RETRIED: frozenset[Failure] = frozenset({"malformed"})
_NOT_REMEMBERED: frozenset[Failure] = frozenset({"choice"})
"""Failures that do not predict how the next request ends."""

REASONS: dict[Failure, str] = {
    "unsupported": "the model does not support tools",
    "choice": "the model does not support this tool_choice",
    "malformed": "the model's calls cannot be read",
    "unavailable": "the page cannot be operated",
}


class ModeMemory:
    """Remembers for some time which models need emulation."""

    def __init__(self, seconds: float = 600.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until: dict[str, tuple[TurnMode, float]] = {}

    def mode(self, model: str) -> TurnMode | None:
        """Returns the mode that worked last; None if it is unknown or expired."""
        mode, until = self._until.get(model, (None, 0.0))
        return mode if self._clock() < until else None

    def remember(self, model: str, mode: TurnMode) -> None:
        self._until[model] = (mode, self._clock() + self._seconds)


class AutoModel:
    """Tries `native` first, and falls back to emulation when native function calling fails.

    `emulated` returns the same model with emulated function calling; it is called when needed.
    The mode never changes after the caller has received an event. The outcome is remembered for
    each model for some time, and each turn records its mode (`extra["windlass"]["mode"]`).
    """

    def __init__(
        self,
        native: Model,
        emulated: Callable[[], Model],
        settings: FunctionCallingSettings = FunctionCallingSettings(),  # noqa: B008 - it is frozen
        *,
        memory: ModeMemory | None = None,
        parser: ParserMaker | None = None,
    ) -> None:
        self._native, self._emulated = native, emulated
        self._settings = settings
        self._parser = parser or _make_parser
        self._memory = memory or ModeMemory()
        self.mode: TurnMode = "native"
        """The mode of the last request. Each run has its own `AutoModel`."""

    @property
    def name(self) -> str:
        return self._native.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        self.mode = "native"
        if not is_about_tools(request):
            return self._native.stream(request)
        if self._memory.mode(self.name) == "emulated":
            self.mode = "emulated"
            return self._emulated().stream(request)
        return aclosing(EventBatches(self._batches(request)))

    async def aclose(self) -> None:
        await self._native.aclose()

    def __repr__(self) -> str:
        return f"AutoModel({self._native!r})"

    async def _batches(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        spent, attempts = Usage(), 0
        while True:
            reader, yielded, problem = self._reader(request), False, None
            attempts += 1
            ready: list[ModelEvent] = []
            try:
                async with self._native.stream(request) as events:
                    read = batch_reader(events)
                    while batch := await read():
                        passing = reader.is_passing
                        for event in batch:
                            if passing and type(event) in _DELTAS:
                                ready.append(event)
                                continue
                            quick = reader.is_quick(event)
                            ready += reader.feed(event) if quick else await reader.read(event)
                            passing = reader.is_passing
                        if ready and type(batch[-1]) is not TurnEnded:
                            yielded = True
                            yield ready
                            ready = []
                failure = None if yielded or ready else self._failure_in(reader)
            except ModelError as error:
                if ready:
                    yielded = True
                    yield ready
                failure = None if yielded else native_failure(error)
                spent += error.usage or Usage()
                if failure is None:
                    error.usage = spent if spent != Usage() else None
                    raise
                problem = error
            if failure is None:
                break
            spent += reader.usage
            if not self._may_retry(failure, problem, attempts):
                try:
                    self._fall_back(failure, problem)
                finally:
                    problem = None  # its traceback refers to this frame
                async with self._emulated().stream(request) as events:
                    read = batch_reader(events)
                    while batch := await read():
                        yield [_with_usage(event, spent) for event in batch]
                return
        yield ready + reader.last_events(spent)
        self._remember_text_calls(reader)

    def _reader(self, request: ModelRequest) -> NativeReader:
        tools = callable_functions(request)
        if not tools:
            return NativeReader(None)
        choice = request.tool_choice
        required = choice.mode == "required" and not choice.soft
        required = required and self._settings.fallback_on_failure
        wanted: Wanted = "call" if required else "anything"
        return NativeReader(lambda: self._parser(tools), wanted=wanted)

    def _failure_in(self, reader: NativeReader) -> Failure | None:
        """Returns why a turn failed that the caller has received nothing of."""
        if reader.finish == "malformed_call":
            return "malformed"
        return "choice" if reader.breaks_choice else None

    def _may_retry(self, failure: Failure, problem: ModelError | None, attempts: int) -> bool:
        is_temporary = failure in _RETRIED or (
            failure == "unavailable" and problem is not None and problem.retryable
        )
        return is_temporary and attempts < self._settings.native_retry_count

    def _fall_back(self, failure: Failure, problem: ModelError | None) -> None:
        """Logs and remembers the fallback. Raises `NativeModeUnavailable` if it is disabled."""
        reason = _reason(problem) if problem else REASONS[failure]
        if not self._settings.fallback_on_failure:
            raise NativeModeUnavailable(reason, problem) from problem
        log.warning(
            "Native mode failed: %s; falling back to emulated",
            PrivateText(reason, _public_reason(failure, reason)) if problem else reason,
            extra={"model": self.name, "failure": failure},
        )
        self.mode = "emulated"
        if failure not in _NOT_REMEMBERED:
            self._memory.remember(self.name, "emulated")

    def _remember_text_calls(self, reader: NativeReader) -> None:
        """A server that leaves calls in the text cannot read native results either."""
        if reader.text_calls and self._settings.fallback_on_failure:
            log.warning(
                "The model wrote its calls as text; switching to emulated",
                extra={"model": self.name, "calls": reader.text_calls},
            )
            self._memory.remember(self.name, "emulated")
        elif self._settings.debug_logs:
            log.info("%s answered in native mode", self.name)


def _make_parser(tools: tuple[FunctionDeclaration, ...]) -> TextParser:
    # Imported here, because a model with native function calling does not need the formats.
    from windlass.emulation.parser import Parser

    return Parser(tools)


def _reason(problem: ModelError) -> str:
    """Returns the error's text without the prefix that `NativeModeUnavailable` adds."""
    return problem.reason if isinstance(problem, NativeModeUnavailable) else problem.message


def _public_reason(failure: Failure, reason: str) -> str | None:
    """Returns the part of the reason that is safe to log: services quote broken calls in full."""
    match failure:
        case "unavailable":
            return reason
        case "malformed":
            return None
        case "unsupported" | "choice":
            return refusal_in(reason)


def _with_usage(event: ModelEvent, spent: Usage) -> ModelEvent:
    if isinstance(event, TurnEnded) and spent != Usage():
        return replace(event, usage=spent + event.usage)
    return event


def load_emulation() -> None:
    """Imports the parser and builds its tables, so that the first emulated request is fast."""
    from windlass.emulation.parser import Parser
    from windlass.emulation.profiles import emulated_by_profile

    assert emulated_by_profile
    Parser(())  # builds the tables of all formats


class Modes:
    """One model in all modes. Its runs share what was learned about the model."""

    def __init__(self, model: Model, settings: FunctionCallingSettings | None = None) -> None:
        self._settings = settings or FunctionCallingSettings()
        self._made: dict[Mode, Model] = {"native": model}
        self._memory = ModeMemory()

    def of(self, mode: Mode | None = None) -> Model:
        """Returns the model in that mode, by default the mode in the settings.

        Each call returns a new `AutoModel`, because it records the mode of one run.
        """
        mode = mode or self._settings.mode
        if mode == "auto" and self._lacks_calling:
            return self.of("emulated")
        if mode == "auto":
            return AutoModel(
                self._made["native"],
                lambda: self.of("emulated"),
                self._settings,
                memory=self._memory,
            )
        if mode not in self._made:
            # Imported here, because a model with native function calling does not need it.
            from windlass.emulation.profiles import emulated_by_profile

            self._made[mode] = emulated_by_profile(
                self._made["native"], debug=self._settings.debug_logs
            )
        return self._made[mode]

    async def warm(self, request: ModelRequest) -> None:
        """Makes the model read the common start of requests with these tools, if it can.

        Raises `ModelError` as a request does.
        """
        await warmed(self.of(), request)

    @property
    def _lacks_calling(self) -> bool:
        """Whether the model declares that it has no native calling, and a fallback is allowed."""
        has_calling = getattr(self._made["native"], "function_calling", True)
        return not has_calling and self._settings.fallback_on_failure


def mode_of(model: Model) -> Mode:
    """Returns the mode of the model's last request."""
    return getattr(model, "mode", "native")


def with_mode(
    model: Model, mode: Mode | None = None, settings: FunctionCallingSettings | None = None
) -> Model:
    """Returns the model in that mode. Use `Modes` if the mode differs between requests."""
    return Modes(model, settings).of(mode)
