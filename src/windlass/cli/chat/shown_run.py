"""One question and its run on the screen, with the ways to step in."""

import asyncio
import contextlib
import math
import os
import time

from rich.cells import cell_len
from rich.text import Text

from windlass.cli.chat.cards import Card
from windlass.cli.chat.conversation import Conversation
from windlass.cli.chat.prompt import Interrupted, Prompt
from windlass.cli.chat.screen import Screen
from windlass.cli.chat.terminal import Printed, captured, interrupts, without_echo
from windlass.cli.chat.view import View
from windlass.cli.visible import visible
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, Message
from windlass.loop.approval import Approval

__all__ = ["ShownRun"]

_FRAME = 0.08
"""Seconds between two looks at a run."""
_INTERRUPTS_TO_LEAVE = 3


class ShownRun:
    """A run, drawn while it goes. Ctrl-C stops it; tools that need a yes are asked about."""

    def __init__(
        self,
        conversation: Conversation,
        screen: Screen,
        prompt: Prompt,
        always: set[str],
    ) -> None:
        """`always`: the tools that need no question; a person's answer may add to it."""
        self.view = View(conversation.max_rounds)
        self._conversation = conversation
        self._screen = screen
        self._prompt = prompt
        self._always = always
        self._stream: AsyncStream | None = None
        self._interrupts = 0
        self._screen_free = asyncio.Lock()
        self._terminal = contextlib.ExitStack()
        """The terminal's settings that are given back at the end."""
        self._stopping: asyncio.Task[None] | None = None

    async def go(self, question: Message) -> None:
        """Asks and shows the answer. Whatever it fails with is said, and the chat goes on."""
        self._screen.begin()
        with self._terminal as terminal:
            terminal.enter_context(without_echo())
            terminal.enter_context(interrupts(self._interrupt))
            printed = terminal.enter_context(captured())
            painting = asyncio.create_task(self._paint(printed))
            try:
                await self._follow(question, printed)
            except Exception as error:  # noqa: BLE001 - a chat outlives whatever a run fails with
                if self.view.seconds is None:
                    self.view.say(str(error) or type(error).__name__, "error")
            finally:
                painting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await painting
                self._take_in(printed, all=True)
        self._screen.end(self.view)

    async def _follow(self, question: Message, printed: Printed) -> None:
        async with self._conversation.stream(question, self._approve) as stream:
            self._stream = stream
            if self._interrupts:
                self._stop()
            async for event in stream:
                self._take_in(printed)
                self.view.add(event)
            self._conversation.remember(stream.reply)

    async def _paint(self, printed: Printed) -> None:
        while True:
            async with self._screen_free:
                self._take_in(printed)
                self._screen.show(self.view, time.time(), self._hint)
            await asyncio.sleep(_FRAME)

    @property
    def _hint(self) -> str:
        left = _INTERRUPTS_TO_LEAVE - self._interrupts
        return (
            f"stopping; {left} more Ctrl-C to leave at once" if self._interrupts else "Ctrl-C stops"
        )

    def _take_in(self, printed: Printed, *, all: bool = False) -> None:
        if lines := printed.take(all=all):
            self.view.say("\n".join(f"printed: {line}" for line in lines))

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts >= _INTERRUPTS_TO_LEAVE:
            self._leave_at_once()
        self._stop()

    def _stop(self) -> None:
        if self._stream is not None and self._stopping is None:
            self._stopping = asyncio.create_task(self._stream.run.stop())

    def _leave_at_once(self) -> None:
        """A tool that does not let itself be cancelled must not hold the terminal for ever."""
        self._screen.console.show_cursor(True)
        self._terminal.close()
        os._exit(130)

    async def _approve(self, call: FunctionCall) -> Approval:
        if call.name in self._always:
            return Approval(True)
        async with self._screen_free:
            # The answer to another call may have been: always.
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
        """All of the arguments: nobody can agree to what they have not seen."""
        text = visible(Card(call.name, call.id, call.json).arguments_text)
        console = self._screen.console
        rows = sum(math.ceil(cell_len(line) / console.width) or 1 for line in text.splitlines())
        if rows <= console.height - 6:
            return text
        self._screen.say(Text(text))
        return "with the arguments above"


def _reason(denied: bool) -> str | None:
    return "the user said no" if denied else None
