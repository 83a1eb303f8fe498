"""The commands of a chat: lines that begin with a slash."""

import difflib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from windlass.cli.chat import render
from windlass.cli.chat.conversation import Conversation
from windlass.cli.chat.screen import Screen
from windlass.cli.chat.terminal import Journal
from windlass.cli.chat.view import View
from windlass.cli.visible import one_line, visible
from windlass.content import FunctionDeclaration, Message
from windlass.errors import ConfigError

__all__ = ["Commands", "Next", "is_command"]

Next: TypeAlias = Message | Literal["leave"] | None
"""What follows a command: a question to be asked, the end of the chat, or the next prompt."""

_COMMAND = re.compile(r"/[a-z]*(?:\s|$)")


def is_command(line: str) -> bool:
    """Whether the line is a command: a path, such as /etc/hosts, is not."""
    return _COMMAND.match(line) is not None


class Command(Struct, frozen=True):
    takes: str
    help: str
    do: Callable[["Commands", str], Awaitable[Next]]


class Commands:
    """What the commands do, to one conversation."""

    def __init__(self, conversation: Conversation, screen: Screen, journal: Journal) -> None:
        self._conversation = conversation
        self._screen = screen
        self._journal = journal
        self.last: View | None = None
        """The run that was shown last."""

    async def obey(self, line: str) -> Next:
        """Does what the line says; what cannot be done is said, and nothing else happens."""
        name, _, argument = line.strip().partition(" ")
        command = self.TABLE.get(name)
        try:
            if command is None:
                near = difflib.get_close_matches(name, self.TABLE, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"there is no command {name}{hint} /help lists them")
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
            said = one_line(declaration.description).partition(". ")[0] if known else ""
            asks = " (asks first)" if tool.options.approve else ""
            table.add_row(Text(tool.name), Text(said + asks))
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
        self._say(f"Saved. Go on with: windlass chat --resume {argument}")

    async def _clear(self, argument: str) -> Next:
        self._conversation.clear()
        self._say("What was said is forgotten.")

    async def _retry(self, argument: str) -> Next:
        question = self._conversation.taken_back()
        if question is None:
            raise ConfigError("there is nothing to ask again")
        self._say(f"> {question.text}")
        return question

    async def _usage(self, argument: str) -> Next:
        conversation, table = self._conversation, _table()
        if self.last is not None:
            table.add_row("the last answer", render.tokens(self.last.usage))
        replies = f"{conversation.replies} answer{'' if conversation.replies == 1 else 's'}"
        table.add_row(replies, render.tokens(conversation.usage))
        self._say(table)

    async def _last(self, argument: str) -> Next:
        view = self.last
        cards, thoughts = (view.cards, view.thoughts) if view else ([], "")
        if thoughts:
            self._say(Text(visible(thoughts), style="dim italic"))
        for card in cards:
            self._say(render.card_in_full(card))
        for entry in self._journal.entries:
            self._say(Text(visible(entry), style="dim"))
        if not (cards or thoughts or self._journal.entries):
            self._say("The last answer had no tools and no thoughts.")

    async def _quit(self, argument: str) -> Next:
        return "leave"

    def _say(self, shown: RenderableType) -> None:
        self._screen.say(Text(visible(shown)) if isinstance(shown, str) else shown)

    TABLE: ClassVar[dict[str, Command]] = {
        "/help": Command("", "this list", _help),
        "/tools": Command("", "the tools that the model may call", _tools),
        "/model": Command("NAME", "go on with another model, or say which it is", _model),
        "/system": Command("TEXT", "new instructions for the model; - is none", _system),
        "/save": Command("FILE", "write the chat to a file that --resume reads", _save),
        "/clear": Command("", "forget what was said", _clear),
        "/retry": Command("", "ask the last question again", _retry),
        "/usage": Command("", "the tokens of this chat", _usage),
        "/last": Command("", "the last answer's tools and thoughts in full", _last),
        "/quit": Command("", "leave", _quit),
    }

    KEYS = (
        ("Alt-Enter, or \\ at the end", "a new line in the same question"),
        ("Up, Down", "earlier questions"),
        ("Ctrl-C", "stops an answer; at the prompt clears the line, twice leaves"),
        ("Ctrl-D", "leaves"),
    )


def _table() -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    return table
