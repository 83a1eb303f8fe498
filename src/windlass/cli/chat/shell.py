"""The chat at the terminal: reads a line, does what it says, and reads the next."""

import logging
import sys

from prompt_toolkit.output import create_output
from rich.console import Console
from rich.text import Text

from windlass.cli.chat.commands import Commands, is_command
from windlass.cli.chat.conversation import Conversation
from windlass.cli.chat.prompt import Interrupted, Prompt
from windlass.cli.chat.screen import Screen
from windlass.cli.chat.shown_run import ShownRun
from windlass.cli.chat.terminal import Journal, interrupts
from windlass.cli.visible import visible
from windlass.content import Message

__all__ = ["Shell", "chat_at_terminal"]


async def chat_at_terminal(conversation: Conversation) -> None:
    """Talks until the person leaves. What the log has to say waits for `/last`."""
    journal = Journal()
    # Their own file: what tools print goes elsewhere while a run is shown.
    console = Console(file=sys.stdout, highlight=False)
    prompt = Prompt(Commands.TABLE, output=create_output(sys.stdout))
    root = logging.getLogger()
    root.addHandler(journal)
    try:
        # Between an answer and the prompt, a Ctrl-C that comes late must not end the chat.
        with interrupts(lambda: None):
            await Shell(conversation, console, prompt, journal).converse()
    finally:
        root.removeHandler(journal)


class Shell:
    """One chat. `converse` returns when the person leaves."""

    def __init__(
        self, conversation: Conversation, console: Console, prompt: Prompt, journal: Journal
    ) -> None:
        self._conversation = conversation
        self._screen = Screen(console)
        self._prompt = prompt
        self._journal = journal
        self._commands = Commands(conversation, self._screen, journal)
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
                self._screen.console.print(Text("Ctrl-C again, or Ctrl-D, leaves.", style="dim"))
                continue
            interrupted = False
            if line is None or not await self._heed(line):
                return

    async def _heed(self, line: str) -> bool:
        """Does what a line asks for; False if that is to leave."""
        if not line.strip():
            return True
        if not is_command(line):
            await self._answer(Message.user(line))
            return True
        following = await self._commands.obey(line)
        if isinstance(following, Message):
            await self._answer(following)
        return following != "leave"

    async def _answer(self, question: Message) -> None:
        self._journal.entries.clear()
        run = ShownRun(self._conversation, self._screen, self._prompt, self._always)
        self._commands.last = run.view
        await run.go(question)

    def _greet(self) -> None:
        conversation = self._conversation
        count = len(conversation.tools)
        tools = f"{count} tool{'' if count == 1 else 's'}" if count else "no tools"
        said = f"{conversation.model} ({conversation.chosen.because}) · {tools} · /help"
        self._screen.say(Text(visible(said), style="dim"))
        if messages := len(conversation.messages):
            self._screen.say(Text(f"Going on after {messages} messages.", style="dim"))
