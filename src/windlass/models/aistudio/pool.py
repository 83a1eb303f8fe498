"""Pages with a queue: one conversation on a page at a time, and each finds its own page again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic

from windlass.content import Message
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.wire import Prompt, SaidTurn, plan_of

__all__ = ["HeldPage", "PagePool"]


class HeldPage:
    """A page and what is known of it."""

    def __init__(self, chat: ChatPage) -> None:
        self.chat = chat
        self.live: tuple[SaidTurn, ...] | None = None
        """What the chat on the page holds; None if nobody will go on with it."""
        self.declared: str | None = None
        """The digest of the declarations that the page's editor holds, if that is known."""
        self.declared_at = 0.0
        self.used_at = 0.0
        self.defaults: dict[str, str] = {}
        """What the settings' fields held before a request changed them."""

    def forget(self) -> None:
        """The page was changed in a way that is not known: nothing on it is relied upon."""
        self.live = self.declared = None


class PagePool:
    """Up to `limit` pages, opened when they are needed. Who finds none free waits in line."""

    def __init__(self, open_page: Callable[[], Awaitable[ChatPage]], limit: int) -> None:
        self._open_page, self._limit = open_page, limit
        self._pages: list[HeldPage] = []
        self._idle: list[HeldPage] = []
        self._opening = 0
        self._turns = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def page(self, messages: Sequence[Message]) -> AsyncGenerator[HeldPage]:
        """The page whose chat the messages go on with, or one that is free for a new chat."""
        async with self._turns:
            held = self._found(messages) or await self._opened()
            try:
                yield held
            finally:
                self._give_back(held)

    def _found(self, messages: Sequence[Message]) -> HeldPage | None:
        self._idle = [held for held in self._idle if not held.chat.page.is_closed()]
        self._pages = [held for held in self._pages if not held.chat.page.is_closed()]
        for held in self._idle:
            if held.live and not _begins_anew(messages, held.live):
                return self._taken(held)
        unused = [held for held in self._idle if held.live is None]
        if not unused and len(self._pages) + self._opening < self._limit:
            return None
        return self._taken(min(unused or self._idle, key=lambda held: held.used_at))

    def _taken(self, held: HeldPage) -> HeldPage:
        self._idle.remove(held)
        return held

    async def _opened(self) -> HeldPage:
        self._opening += 1
        try:
            held = HeldPage(await self._open_page())
        finally:
            self._opening -= 1
        self._pages.append(held)
        return held

    def _give_back(self, held: HeldPage) -> None:
        held.used_at = monotonic()
        self._idle.append(held)


def _begins_anew(messages: Sequence[Message], live: tuple[SaidTurn, ...]) -> bool:
    plan = plan_of(messages, live)
    return isinstance(plan, Prompt) and plan.new_chat
