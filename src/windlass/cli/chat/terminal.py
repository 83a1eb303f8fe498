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

    def forget_typed() -> None:
        pass

else:
    import termios

    @contextlib.contextmanager
    def without_echo() -> Generator[None]:
        """What is typed during a run does not show in the middle of it; the next prompt gets it."""
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

    def forget_typed() -> None:
        """A yes must be an answer to the question: keys from before it was asked do not count."""
        if sys.stdin.isatty():
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextlib.contextmanager
def interrupts(act: Callable[[], None]) -> Generator[None]:
    """Ctrl-C calls `act` in the event loop, and nothing else happens."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Printed(io.TextIOBase):
    """Stands in for stdout: keeps what tools print, line by line, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    def write(self, text: str, /) -> int:
        with self._lock:
            self._text += text
        return len(text)

    def take(self, *, all: bool = False) -> list[str]:
        """The lines since the last time; `all` takes one that has no end, too."""
        with self._lock:
            whole, newline, rest = self._text.rpartition("\n")
            self._text = "" if all else rest
        lines = (whole + newline + (rest if all else "")).splitlines()
        return [line for line in lines if line.strip()]


@contextlib.contextmanager
def captured() -> Generator[Printed]:
    """What is printed meanwhile does not reach the terminal."""
    printed = Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


class Journal(logging.Handler):
    """Keeps what the log says of trouble, so that it can be asked for and does not interrupt."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(_ToolsOwn())
        self.entries: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        own = copy.copy(record)
        own.exc_text = None  # another handler's way of writing it
        self.entries.append(self.format(own))


class _ToolsOwn(logging.Formatter):
    """Shows the lines of a tool that failed, without those of ours that lead to it."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the base's name
        kind, error, trace = ei
        frames = traceback.TracebackException(kind, error, trace)
        home = str(Path(windlass.__file__).parent)
        own = [frame for frame in frames.stack if not frame.filename.startswith(home)]
        frames.stack = traceback.StackSummary.from_list(own or frames.stack)
        return "".join(frames.format()).rstrip()


MARK = "> "
CHOICES = "Run it? [y]es, [N]o, [e]dit the arguments, [a]lways in this chat: "


class Interrupted(Exception):
    """Ctrl-C at a prompt; `text` is what stood there."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text


class Prompt:
    """Reads lines from the terminal. Every reader raises `Interrupted` for Ctrl-C."""

    def __init__(
        self, commands: Iterable[str], input: Input | None = None, output: Output | None = None
    ) -> None:
        self._lines: PromptSession[str] = PromptSession(
            FormattedText([("bold ansicyan", MARK)]),
            multiline=True,
            prompt_continuation=" " * len(MARK),
            history=InMemoryHistory(),
            completer=_Commands(tuple(commands)),
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
        """Puts earlier questions where the up key finds them."""
        for text in texts:
            self._lines.history.append_string(text)

    async def question(self) -> str | None:
        """What was typed; None at Ctrl-D."""
        try:
            return _whole(await self._lines.prompt_async(handle_sigint=False))
        except EOFError:
            return None
        except Interrupted:
            raise Interrupted(self._lines.default_buffer.text) from None

    async def decision(self, call: FunctionCall, about: str) -> str:
        """`y`, `n`, `e` or `a`. Whatever is none of them asks again; nothing, or Ctrl-D, is no."""
        forget_typed()
        asked = _asked(call, about)
        while True:
            try:
                answer = await self._ask([*asked, ("bold", CHOICES)])
            except EOFError:
                return "n"
            choice = _CHOICES.get(answer.strip().lower())
            if choice is not None:
                return choice
            asked = [*_asked(call, about), ("ansired", f"{one_line(answer)[:40]!r} is no answer. ")]

    async def arguments(
        self, call: FunctionCall, check: Callable[[str], object]
    ) -> dict[str, Any] | None:
        """The arguments as somebody changes them; None at Ctrl-D. `check` refuses wrong ones."""
        try:
            text = await self._ask(
                [("bold", f"{one_line(call.name)} with: ")],
                default=visible(compact_json(call.arguments)),
                validator=_Arguments(check),
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
        return _whole(
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


def _asked(call: FunctionCall, about: str) -> list[tuple[str, str]]:
    return [
        ("bold ansiyellow", f"? {one_line(call.name)} wants to run\n"),
        ("", f"{about}\n"),
    ]


def _whole(text: str) -> str:
    """Bytes that are no text come as halves of characters, which nothing can be sent with."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bindings() -> KeyBindings:
    """Enter sends, or goes on to a new line behind a backslash. So does Alt-Enter."""
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


class _Commands(Completer):
    """Completes the commands, at the beginning of a line that is one."""

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


class _Arguments(Validator):
    """Refuses what the tool would refuse, and says why."""

    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check

    def validate(self, document: Document) -> None:
        text = document.text
        refused = FunctionCall("", text).error
        if refused is None:
            try:
                self._check(text)
            except InvalidArguments as error:
                refused = str(error)
        if refused is not None:
            raise ValidationError(document.cursor_position, one_line(refused))
