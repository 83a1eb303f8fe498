"""A model in native, emulated or auto mode."""

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
from windlass.model import Model, ModelRequest, callable_functions, is_about_tools, warmed
from windlass.settings import FunctionCallingSettings, Mode

Failure = Literal["unsupported", "choice", "malformed", "unavailable"]
"""Tools are not supported; this `tool_choice` is not; a call came out broken; the page failed."""

UNAVAILABLE = "native_mode_unavailable"
LONGEST = 200

_STATUSES = frozenset({None, 400, 404, 405, 415, 422, 500, 501})
"""llama.cpp says 500 of a request that it will never take."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_SUBJECT = _any_of(r"\btools?\b", r"\bfunctions?\b", r"\b(tool|function)[_ -]?\w+", r"toolconfig")
_REFUSAL = _any_of(
    r"(\bnot|n't) (be )?(support|enabl|permit|allow|available|implement)",
    r"unsupported",
    r"unrecogni[sz]ed (request )?(arg|param|field)",  # Azure, of tools and functions
    r"(unknown|unexpected) (name|keyword|param|arg|field)",
    r"no endpoints found",  # OpenRouter
    r"\brequires? --",  # vLLM and llama.cpp, of the flag that they were started without
)
_CHOICE = _any_of(r"tool_?choice", r"function_?calling_?config", r"mode `?any\b")
_MALFORMED = _any_of(
    r"failed to call a function",  # Groq
    r"error parsing tool call",  # Ollama
    r"fail(ed|ure) to parse .{0,40}(tool|function)",
    r"malformed.{0,20}(tool|function)",
)
_MALFORMED_CODES = frozenset({"tool_use_failed", "MALFORMED_FUNCTION_CALL"})
_NOT_OURS = _any_of(
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
    # It is too much.
    r"context length|too (long|large|many)|maximum (context|number)",
    r"rate limit|quota|credit|billing",
)


def refusal_in(message: str) -> str | None:
    """The sentence of the message that says what is not supported, without the others."""
    sentences = re.split(r"(?<=[.!?;])\s+|\n", message)
    return next((each[:LONGEST] for each in sentences if _REFUSAL.search(each)), None)


def native_failure(problem: ModelError) -> Failure | None:
    """What the failure says of native function calling; None if that is not its cause."""
    message = problem.message
    if problem.code == UNAVAILABLE:
        return "unavailable"
    if problem.status not in _STATUSES:
        return None
    if problem.code in _MALFORMED_CODES or _MALFORMED.search(message):
        return "malformed"
    if _NOT_OURS.search(message) or not (_SUBJECT.search(message) and _REFUSAL.search(message)):
        return None
    return "choice" if _CHOICE.search(message) and "--" not in message else "unsupported"


log = logging.getLogger("windlass.emulation")

_PIECES = (TextDelta, ThoughtDelta, ToolCallDelta)
_TRIED_AGAIN: frozenset[Failure] = frozenset({"malformed"})
_FORGOTTEN: frozenset[Failure] = frozenset({"choice"})
"""These failures say nothing of the next request."""

REASONS: dict[Failure, str] = {
    "unsupported": "the model does not support tools",
    "choice": "the model does not support this tool_choice",
    "malformed": "the model's calls cannot be read",
    "unavailable": "the page cannot be operated",
}


class ModeMemory:
    """Which models have to be emulated, for as long as that is believed."""

    def __init__(self, seconds: float = 600.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until: dict[str, tuple[TurnMode, float]] = {}

    def mode(self, model: str) -> TurnMode | None:
        """The mode that worked last; None if that is not known, or no longer."""
        mode, until = self._until.get(model, (None, 0.0))
        return mode if self._clock() < until else None

    def remember(self, model: str, mode: TurnMode) -> None:
        self._until[model] = (mode, self._clock() + self._seconds)


class AutoModel:
    """Asks `native` first and goes on emulated when native function calling fails.

    `emulated` gives the same model with emulated calling; it is asked for when it is needed.
    It never changes over after an event has reached the caller. The outcome is remembered per
    model for a time, and each turn says which mode it came by (`extra["windlass"]["mode"]`).
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
        """The mode of the last request. Runs of their own each have an `AutoModel` of their own."""

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
        return aclosing(self._events(request))

    async def aclose(self) -> None:
        await self._native.aclose()

    def __repr__(self) -> str:
        return f"AutoModel({self._native!r})"

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        spent, tries = Usage(), 0
        while True:
            reader, said, problem = self._reader(request), False, None
            tries += 1
            try:
                async with self._native.stream(request) as events:
                    async for event in events:
                        if reader.plain and type(event) in _PIECES:
                            said = True
                            yield event
                            continue
                        for read in await reader.read(event):
                            said = True
                            yield read
                failure = None if said else self._failure_in(reader)
            except ModelError as error:
                failure = None if said else native_failure(error)
                if failure is None:
                    raise
                problem = error
            if failure is None:
                break
            spent += reader.usage
            if not self._tries_again(failure, problem, tries):
                try:
                    self._fall_back(failure, problem)
                finally:
                    problem = None  # its traceback holds this frame
                async with self._emulated().stream(request) as events:
                    async for event in events:
                        yield _with_usage(event, spent)
                return
        for event in reader.ending(spent):
            yield event
        self._notice(reader)

    def _reader(self, request: ModelRequest) -> NativeReader:
        tools = callable_functions(request)
        if not tools:
            return NativeReader(None)
        required = request.tool_choice.mode == "required" and self._settings.fallback_on_failure
        wanted: Wanted = "call" if required else "anything"
        return NativeReader(lambda: self._parser(tools), wanted=wanted)

    def _failure_in(self, reader: NativeReader) -> Failure | None:
        """What a turn of which nothing has been seen yet says."""
        if reader.finish == "malformed_call":
            return "malformed"
        return "choice" if reader.unmet else None

    def _tries_again(self, failure: Failure, problem: ModelError | None, tries: int) -> bool:
        passing = failure in _TRIED_AGAIN or (
            failure == "unavailable" and problem is not None and problem.retryable
        )
        return passing and tries < self._settings.native_retry_count

    def _fall_back(self, failure: Failure, problem: ModelError | None) -> None:
        """Says so and remembers. Raises `NativeModeUnavailable` if falling back is not allowed."""
        reason = _reason(problem) if problem else REASONS[failure]
        if not self._settings.fallback_on_failure:
            raise NativeModeUnavailable(reason, problem) from problem
        log.warning(
            "Native mode failed: %s; falling back to emulated",
            PrivateText(reason, _public_reason(failure, reason)) if problem else reason,
            extra={"model": self.name, "failure": failure},
        )
        self.mode = "emulated"
        if failure not in _FORGOTTEN:
            self._memory.remember(self.name, "emulated")

    def _notice(self, reader: NativeReader) -> None:
        """A server that leaves calls in the text does not read its results natively either."""
        if reader.text_calls and self._settings.fallback_on_failure:
            log.warning(
                "The model wrote its calls as text; going on emulated",
                extra={"model": self.name, "calls": reader.text_calls},
            )
            self._memory.remember(self.name, "emulated")
        elif self._settings.debug_logs:
            log.info("%s answered in native mode", self.name)


def _make_parser(tools: tuple[FunctionDeclaration, ...]) -> TextParser:
    # Imported here: a model with function calling needs no table of anybody's text format.
    from windlass.emulation.parser import Parser

    return Parser(tools)


def _reason(problem: ModelError) -> str:
    """Without the words that say what has failed: whoever asks says them too."""
    return problem.reason if isinstance(problem, NativeModeUnavailable) else problem.message


def _public_reason(failure: Failure, reason: str) -> str | None:
    """The reason without what a service may quote: a broken call is quoted whole."""
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
    """Loads what emulation needs, so that the first request in that mode need not wait for it."""
    from windlass.emulation.parser import Parser
    from windlass.emulation.profiles import emulated_by_profile

    assert emulated_by_profile
    Parser(())  # the tables of all formats


class Modes:
    """One model in each of its modes. What is learned in one run is known in the next."""

    def __init__(self, model: Model, settings: FunctionCallingSettings | None = None) -> None:
        self._settings = settings or FunctionCallingSettings()
        self._made: dict[Mode, Model] = {"native": model}
        self._memory = ModeMemory()

    def of(self, mode: Mode | None = None) -> Model:
        """The model in that mode, or in the one that the settings name.

        `auto` is made anew for each run: it notes the mode that it uses.
        """
        mode = mode or self._settings.mode
        if mode == "auto" and self._is_emulated_at_once:
            return self.of("emulated")
        if mode == "auto":
            return AutoModel(
                self._made["native"],
                lambda: self.of("emulated"),
                self._settings,
                memory=self._memory,
            )
        if mode not in self._made:
            # Imported here: a model with function calling needs no table of any text format.
            from windlass.emulation.profiles import emulated_by_profile

            self._made[mode] = emulated_by_profile(
                self._made["native"], debug=self._settings.debug_logs
            )
        return self._made[mode]

    async def warm(self, request: ModelRequest) -> None:
        """Has the model read ahead what requests with these tools begin with, if it can.

        Raises `ModelError` as a request would.
        """
        await warmed(self.of(), request)

    @property
    def _is_emulated_at_once(self) -> bool:
        """A model may say of itself that it cannot call functions: then nothing is tried."""
        has_calling = getattr(self._made["native"], "function_calling", True)
        return not has_calling and self._settings.fallback_on_failure


def mode_of(model: Model) -> Mode:
    """The mode that the model's last request was made in."""
    return getattr(model, "mode", "native")


def with_mode(
    model: Model, mode: Mode | None = None, settings: FunctionCallingSettings | None = None
) -> Model:
    """The model in that mode; `Modes` keeps what is learned where the mode changes by the call."""
    return Modes(model, settings).of(mode)
