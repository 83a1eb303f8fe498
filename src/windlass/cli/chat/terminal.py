"""The terminal of a chat: reading input, Ctrl-C, echo, and captured output and logs."""

import asyncio
import contextlib
import copy
import io
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.validation import ValidationError, Validator

import windlass
from windlass.cli.output import one_line, visible
from windlass.content import FunctionCall
from windlass.errors import InvalidArguments
from windlass.jsontext import compact_json

if sys.platform == "win32":

    @contextlib.contextmanager
    def without_echo() -> Generator[None]:
        yield

    def discard_typed() -> None:
        pass

else:
    import termios

    @contextlib.contextmanager
    def without_echo() -> Generator[None]:
        """Hides typed text during a run; the next prompt receives it."""
        if not sys.stdin.isatty():
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        silent = termios.tcgetattr(sys.stdin)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def discard_typed() -> None:
        """Discards typed keys: an approval must answer the question that is shown."""
        if sys.stdin.isatty():
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextlib.contextmanager
def on_interrupt(act: Callable[[], None]) -> Generator[None]:
    """Ctrl-C only calls `act` in the event loop."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class CapturedOutput(io.TextIOBase):
    """Replaces stdout: stores the output of tools, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    def write(self, text: str, /) -> int:
        with self._lock:
            self._text += text
        return len(text)

    def take(self, *, all: bool = False) -> list[str]:
        """The lines since the last call; with `all`, also an incomplete line."""
        with self._lock:
            whole, newline, rest = self._text.rpartition("\n")
            self._text = "" if all else rest
        lines = (whole + newline + (rest if all else "")).splitlines()
        return [line for line in lines if line.strip()]


@contextlib.contextmanager
def capture_output() -> Generator[CapturedOutput]:
    """Captures stdout and stderr."""
    printed = CapturedOutput()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


class LogRecorder(logging.Handler):
    """Stores warnings and errors of the log for `/last`, so that they do not disturb the screen."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(_ToolTraceback())
        self.entries: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        own = copy.copy(record)
        own.exc_text = None  # cached by another handler's formatter
        self.entries.append(self.format(own))


class _ToolTraceback(logging.Formatter):
    """Formats tracebacks without the frames of Windlass."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of the base class
        kind, error, trace = ei
        frames = traceback.TracebackException(kind, error, trace)
        home = str(Path(windlass.__file__).parent)
        own = [frame for frame in frames.stack if not frame.filename.startswith(home)]
        frames.stack = traceback.StackSummary.from_list(own or frames.stack)
        return "".join(frames.format()).rstrip()


MARK = "> "
CHOICES = "Run it? [y]es, [N]o, [e]dit the arguments, [a]lways in this chat: "


class Interrupted(Exception):
    """Ctrl-C at a prompt; `text` is the input so far."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text


class InputPrompt:
    """Reads questions, decisions and arguments. Every method raises `Interrupted` for Ctrl-C."""

    def __init__(
        self, commands: Iterable[str], input: Input | None = None, output: Output | None = None
    ) -> None:
        self._lines: PromptSession[str] = PromptSession(
            FormattedText([("bold ansicyan", MARK)]),
            multiline=True,
            prompt_continuation=" " * len(MARK),
            history=InMemoryHistory(),
            completer=_CommandCompleter(tuple(commands)),
            key_bindings=_bindings(),
            interrupt_exception=Interrupted,
            reserve_space_for_menu=4,
            input=input,
            output=output,
        )
        self._decisions: PromptSession[str] = PromptSession(
            erase_when_done=True,
            interrupt_exception=Interrupted,
            input=self._lines.input,
            output=self._lines.output,
        )

    def recall(self, texts: Sequence[str]) -> None:
        """Adds earlier questions to the history of the up key."""
        for text in texts:
            self._lines.history.append_string(text)

    async def question(self) -> str | None:
        """The typed text; None for Ctrl-D."""
        try:
            return _valid_text(await self._lines.prompt_async(handle_sigint=False))
        except EOFError:
            return None
        except Interrupted:
            raise Interrupted(self._lines.default_buffer.text) from None

    async def decision(self, call: FunctionCall, about: str) -> str:
        """`y`, `n`, `e` or `a`; asks again after any other input. Enter and Ctrl-D mean no."""
        discard_typed()
        asked = _question(call, about)
        while True:
            try:
                answer = await self._ask([*asked, ("bold", CHOICES)])
            except EOFError:
                return "n"
            choice = _CHOICES.get(answer.strip().lower())
            if choice is not None:
                return choice
            asked = [
                *_question(call, about),
                ("ansired", f"{one_line(answer)[:40]!r} is invalid. "),
            ]

    async def arguments(
        self, call: FunctionCall, check: Callable[[str], object]
    ) -> dict[str, Any] | None:
        """The edited arguments; None for Ctrl-D. `check` refuses invalid ones."""
        try:
            text = await self._ask(
                [("bold", f"{one_line(call.name)} with: ")],
                default=visible(compact_json(call.arguments)),
                validator=_ArgumentsValidator(check),
            )
        except EOFError:
            return None
        return cast("dict[str, Any]", FunctionCall(call.name, text).arguments)

    async def _ask(
        self,
        message: list[tuple[str, str]],
        default: str = "",
        validator: Validator | None = None,
    ) -> str:
        self._decisions.validator = validator
        return _valid_text(
            await self._decisions.prompt_async(
                FormattedText(cast("list[Any]", message)),
                default=default,
                validate_while_typing=False,
                handle_sigint=False,
            )
        )


_CHOICES = {
    **dict.fromkeys(("", "n", "no"), "n"),
    **dict.fromkeys(("y", "yes"), "y"),
    **dict.fromkeys(("e", "edit"), "e"),
    **dict.fromkeys(("a", "always"), "a"),
}


def _question(call: FunctionCall, about: str) -> list[tuple[str, str]]:
    return [
        ("bold ansiyellow", f"? {one_line(call.name)} wants to run\n"),
        ("", f"{about}\n"),
    ]


def _valid_text(text: str) -> str:
    """Replaces surrogates: invalid bytes are read as surrogates, which cannot be encoded."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bindings() -> KeyBindings:
    """Enter sends the text. Enter after a backslash, and Alt-Enter, start a new line."""
    bindings = KeyBindings()

    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    bindings.add("enter")(enter)
    bindings.add("escape", "enter")(new_line)
    return bindings


class _CommandCompleter(Completer):
    """Completes commands at the beginning of a line."""

    def __init__(self, commands: tuple[str, ...]) -> None:
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        typed = document.text_before_cursor
        if typed.startswith("/"):
            for command in self._commands:
                if command.startswith(typed):
                    yield Completion(command, start_position=-len(typed))


class _ArgumentsValidator(Validator):
    """Refuses arguments that the tool would refuse, with the reason."""

    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check

    def validate(self, document: Document) -> None:
        text = document.text
        problem = FunctionCall("", text).error
        if problem is None:
            try:
                self._check(text)
            except InvalidArguments as error:
                problem = str(error)
        if problem is not None:
            raise ValidationError(document.cursor_position, one_line(problem))
