"""The chat in the terminal: reads a line, executes it as a command or a question, and repeats."""

import asyncio
import contextlib
import difflib
import logging
import math
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from prompt_toolkit.output import create_output
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from windlass.cli.chat.conversation import TerminalChat
from windlass.cli.chat.screen import Screen, draw_full_card, token_summary
from windlass.cli.chat.terminal import (
    CapturedOutput,
    InputPrompt,
    Interrupted,
    LogRecorder,
    capture_output,
    on_interrupt,
    without_echo,
)
from windlass.cli.chat.view import Card, RunView
from windlass.cli.output import one_line, visible
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, FunctionDeclaration, Message
from windlass.errors import ConfigError
from windlass.loop.approval import Approval

FRAME_SECONDS = 0.08
"""The time between two drawings of a run."""
INTERRUPTS_TO_EXIT = 3


async def chat_at_terminal(conversation: TerminalChat) -> None:
    """Runs the chat until the user exits. `/last` shows log messages."""
    recorder = LogRecorder()
    # The real stdout: while a run is shown, sys.stdout captures the output of tools.
    console = Console(file=sys.stdout, highlight=False)
    prompt = InputPrompt(SlashCommands.TABLE, output=create_output(sys.stdout))
    root = logging.getLogger()
    root.addHandler(recorder)
    try:
        # A late Ctrl-C, between an answer and the prompt, must not end the chat.
        with on_interrupt(lambda: None):
            await Shell(conversation, console, prompt, recorder).converse()
    finally:
        root.removeHandler(recorder)


class Shell:
    """One chat. `converse` returns when the user exits."""

    def __init__(
        self,
        conversation: TerminalChat,
        console: Console,
        prompt: InputPrompt,
        recorder: LogRecorder,
    ) -> None:
        self._conversation = conversation
        self._screen = Screen(console)
        self._prompt = prompt
        self._recorder = recorder
        self._commands = SlashCommands(conversation, self._screen, recorder)
        self._always: set[str] = set()

    async def converse(self) -> None:
        self._greet()
        self._prompt.recall([m.text for m in self._conversation.messages if m.role == "user"])
        interrupted = False
        while True:
            try:
                line = await self._prompt.question()
            except Interrupted as interruption:
                if interrupted and not interruption.text:
                    return
                interrupted = True
                self._screen.console.print(Text("Ctrl-C again, or Ctrl-D, exits.", style="dim"))
                continue
            interrupted = False
            if line is None or not await self._execute(line):
                return

    async def _execute(self, line: str) -> bool:
        """Executes a line; False if it ends the chat."""
        if not line.strip():
            return True
        if not is_command(line):
            await self._answer(Message.user(line))
            return True
        following = await self._commands.execute(line)
        if isinstance(following, Message):
            await self._answer(following)
        return following != "exit"

    async def _answer(self, question: Message) -> None:
        self._recorder.entries.clear()
        run = RunOnScreen(self._conversation, self._screen, self._prompt, self._always)
        self._commands.last = run.view
        await run.show(question)

    def _greet(self) -> None:
        conversation = self._conversation
        count = len(conversation.tools)
        tools = f"{count} tool{'' if count == 1 else 's'}" if count else "no tools"
        greeting = f"{conversation.model} ({conversation.chosen.because}) · {tools} · /help"
        self._screen.say(Text(visible(greeting), style="dim"))
        if messages := len(conversation.messages):
            self._screen.say(Text(f"Continuing after {messages} messages.", style="dim"))


class RunOnScreen:
    """A run on the screen. Ctrl-C stops it; tools that need approval ask the user."""

    def __init__(
        self,
        conversation: TerminalChat,
        screen: Screen,
        prompt: InputPrompt,
        always: set[str],
    ) -> None:
        """`always`: the tools that are approved for the whole chat; an answer can add to it."""
        self.view = RunView(conversation.max_rounds)
        self._conversation = conversation
        self._screen = screen
        self._prompt = prompt
        self._always = always
        self._stream: AsyncStream | None = None
        self._interrupts = 0
        self._screen_free = asyncio.Lock()
        self._terminal = contextlib.ExitStack()
        """The terminal settings, which are restored at the end."""
        self._stopping: asyncio.Task[None] | None = None

    async def show(self, question: Message) -> None:
        """Asks the question and shows the answer. Shows an error instead of raising it."""
        self._screen.begin()
        with self._terminal as terminal:
            terminal.enter_context(without_echo())
            terminal.enter_context(on_interrupt(self._interrupt))
            printed = terminal.enter_context(capture_output())
            painting = asyncio.create_task(self._paint(printed))
            try:
                await self._follow(question, printed)
            except Exception as error:  # noqa: BLE001 - a failed run must not end the chat
                if self.view.seconds is None:
                    self.view.say(str(error) or type(error).__name__, "error")
            finally:
                painting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await painting
                self._add_printed(printed, all=True)
        self._screen.end(self.view)

    async def _follow(self, question: Message, printed: CapturedOutput) -> None:
        async with self._conversation.stream(question, self._approve) as stream:
            self._stream = stream
            if self._interrupts:
                self._stop()
            async for event in stream:
                self._add_printed(printed)
                self.view.add(event)
            self._conversation.remember(stream.reply)

    async def _paint(self, printed: CapturedOutput) -> None:
        while True:
            async with self._screen_free:
                self._add_printed(printed)
                self._screen.show(self.view, time.time(), self._hint)
            await asyncio.sleep(FRAME_SECONDS)

    @property
    def _hint(self) -> str:
        left = INTERRUPTS_TO_EXIT - self._interrupts
        if self._interrupts:
            return f"stopping; {left} more Ctrl-C to exit immediately"
        return "Ctrl-C stops"

    def _add_printed(self, printed: CapturedOutput, *, all: bool = False) -> None:
        if lines := printed.take(all=all):
            self.view.say("\n".join(f"printed: {line}" for line in lines))

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts >= INTERRUPTS_TO_EXIT:
            self._exit_immediately()
        self._stop()

    def _stop(self) -> None:
        if self._stream is not None and self._stopping is None:
            self._stopping = asyncio.create_task(self._stream.run.stop())

    def _exit_immediately(self) -> None:
        """Exits although a tool cannot be cancelled."""
        self._screen.console.show_cursor(True)
        self._terminal.close()
        os._exit(130)

    async def _approve(self, call: FunctionCall) -> Approval:
        if call.name in self._always:
            return Approval(True)
        async with self._screen_free:
            # The user may have answered another call with "always".
            if call.name in self._always:
                return Approval(True)
            self._screen.clear()
            self._screen.console.show_cursor(True)
            try:
                return await self._decided(call)
            except Interrupted:
                self._interrupt()
                return await asyncio.Future()  # until the stop arrives here
            finally:
                self._screen.console.show_cursor(False)

    async def _decided(self, call: FunctionCall) -> Approval:
        match await self._prompt.decision(call, self._about(call)):
            case "y":
                return Approval(True)
            case "a":
                self._always.add(call.name)
                return Approval(True)
            case "e":
                tools = {tool.name: tool for tool in self._conversation.tools}
                arguments = await self._prompt.arguments(call, tools[call.name].validate)
                return Approval(arguments is not None, arguments, _reason(arguments is None))
            case _:
                return Approval(False, reason=_reason(True))

    def _about(self, call: FunctionCall) -> str:
        """All arguments: an approval needs to see them completely."""
        text = visible(Card(call.name, call.id, call.json).arguments_text)
        console = self._screen.console
        rows = sum(math.ceil(cell_len(line) / console.width) or 1 for line in text.splitlines())
        if rows <= console.height - 6:
            return text
        self._screen.say(Text(text))
        return "with the arguments above"


def _reason(denied: bool) -> str | None:
    return "the user said no" if denied else None


Next: TypeAlias = Message | Literal["exit"] | None
"""The step after a command: a question to ask, the end of the chat, or the next prompt."""

_COMMAND = re.compile(r"/[a-z]*(?:\s|$)")


def is_command(line: str) -> bool:
    """Whether the line is a command; a path such as /etc/hosts is not."""
    return _COMMAND.match(line) is not None


class SlashCommand(Struct, frozen=True):
    takes: str
    help: str
    do: Callable[["SlashCommands", str], Awaitable[Next]]


class SlashCommands:
    """The slash commands of one chat."""

    def __init__(self, conversation: TerminalChat, screen: Screen, recorder: LogRecorder) -> None:
        self._conversation = conversation
        self._screen = screen
        self._recorder = recorder
        self.last: RunView | None = None
        """The last run."""

    async def execute(self, line: str) -> Next:
        """Executes the command. An error is shown and changes nothing."""
        name, _, argument = line.strip().partition(" ")
        command = self.TABLE.get(name)
        try:
            if command is None:
                near = difflib.get_close_matches(name, self.TABLE, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                raise ConfigError(f"unknown command {name}{hint}; /help lists all commands")
            return await command.do(self, argument.strip())
        except ConfigError as error:
            self._say(Text(visible(str(error)), style="red"))
            return None

    async def _help(self, argument: str) -> Next:
        table = _table()
        for name, command in self.TABLE.items():
            table.add_row(Text(f"{name} {command.takes}".strip()), Text(command.help))
        table.add_row("", "")
        for key, does in self.KEYS:
            table.add_row(Text(key), Text(does))
        self._say(table)

    async def _tools(self, argument: str) -> Next:
        table = _table()
        if not self._conversation.tools:
            table.add_row("No tools: start with --tools FILE.")
        for tool in self._conversation.tools:
            declaration = tool.declaration
            known = isinstance(declaration, FunctionDeclaration)
            summary = one_line(declaration.description).partition(". ")[0] if known else ""
            asks = " (needs approval)" if tool.options.approve else ""
            table.add_row(Text(tool.name), Text(summary + asks))
        self._say(table)

    async def _model(self, argument: str) -> Next:
        if argument:
            await self._conversation.use(argument)
        self._say(f"The model is {self._conversation.model}.")

    async def _system(self, argument: str) -> Next:
        if argument:
            self._conversation.system = None if argument == "-" else argument
        system = self._conversation.system
        self._say(f"The instructions are: {system}" if system else "There are no instructions.")

    async def _save(self, argument: str) -> Next:
        if not argument:
            raise ConfigError("/save needs a file: /save chat.json")
        self._conversation.save(Path(argument))
        self._say(f"Saved. Continue with: windlass chat --resume {argument}")

    async def _clear(self, argument: str) -> Next:
        self._conversation.clear()
        self._say("The conversation is cleared.")

    async def _retry(self, argument: str) -> Next:
        question = self._conversation.take_back()
        if question is None:
            raise ConfigError("no question to ask again")
        self._say(f"> {question.text}")
        return question

    async def _usage(self, argument: str) -> Next:
        conversation, table = self._conversation, _table()
        if self.last is not None:
            table.add_row("the last answer", token_summary(self.last.usage))
        replies = f"{conversation.replies} answer{'' if conversation.replies == 1 else 's'}"
        table.add_row(replies, token_summary(conversation.usage))
        self._say(table)

    async def _last(self, argument: str) -> Next:
        view = self.last
        cards, thoughts = (view.cards, view.thoughts) if view else ([], "")
        if thoughts:
            self._say(Text(visible(thoughts), style="dim italic"))
        for card in cards:
            self._say(draw_full_card(card))
        for entry in self._recorder.entries:
            self._say(Text(visible(entry), style="dim"))
        if not (cards or thoughts or self._recorder.entries):
            self._say("The last answer had no tools and no thoughts.")

    async def _quit(self, argument: str) -> Next:
        return "exit"

    def _say(self, shown: RenderableType) -> None:
        self._screen.say(Text(visible(shown)) if isinstance(shown, str) else shown)

    TABLE: ClassVar[dict[str, SlashCommand]] = {
        "/help": SlashCommand("", "this list", _help),
        "/tools": SlashCommand("", "the tools that the model may call", _tools),
        "/model": SlashCommand("NAME", "switch to another model, or show the current one", _model),
        "/system": SlashCommand("TEXT", "new instructions for the model; - removes them", _system),
        "/save": SlashCommand("FILE", "write the chat to a file that --resume reads", _save),
        "/clear": SlashCommand("", "clear the conversation", _clear),
        "/retry": SlashCommand("", "ask the last question again", _retry),
        "/usage": SlashCommand("", "the tokens of this chat", _usage),
        "/last": SlashCommand("", "the tools and thoughts of the last answer in full", _last),
        "/quit": SlashCommand("", "exit", _quit),
    }

    KEYS = (
        ("Alt-Enter, or \\ at the end", "a new line in the same question"),
        ("Up, Down", "earlier questions"),
        ("Ctrl-C", "stops an answer; at the prompt clears the line, twice exits"),
        ("Ctrl-D", "exits"),
    )


def _table() -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    return table
