"""`AsyncChat`: a conversation; each reply's messages are where the next one begins."""

import secrets
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from windlass.client.options import Prompt, RunOptions, messages_from
from windlass.client.origin import shown_chars
from windlass.client.run import AsyncRun
from windlass.client.stream import AsyncStream
from windlass.content import Message
from windlass.errors import WindlassError
from windlass.loop.history import History
from windlass.loop.reply import Reply
from windlass.runs.protocol import RunLog

__all__ = ["AsyncChat"]


class Speaker(Protocol):
    """What a chat needs of its client."""

    log: RunLog | None

    async def answer(
        self, prompt: Prompt, tools: Iterable[Any] | None, options: RunOptions, chat: str
    ) -> Reply: ...

    async def launch(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None,
        options: RunOptions,
        *,
        chat: str,
        on_reply: Callable[[Reply], None] | None,
    ) -> AsyncRun: ...


class AsyncChat:
    """Where the client has a log, the conversation is found again there by its `id`."""

    def __init__(
        self,
        client: Speaker,
        tools: Iterable[Any] | None,
        messages: Prompt,
        options: RunOptions,
        id: str | None = None,
    ) -> None:
        self._client = client
        self._tools = None if tools is None else tuple(tools)
        self._options = options
        self._loaded = id is None
        self.id = id or f"chat_{secrets.token_hex(12)}"
        self.messages: tuple[Message, ...] = messages_from(messages, None) if messages else ()

    async def send(self, prompt: Prompt) -> Reply:
        """Says something and returns the answer. A failure leaves the conversation as it was."""
        await self.load()
        reply = await self._client.answer(self._next(prompt), self._tools, self._options, self.id)
        self._remember(reply)
        return reply

    def stream(self, prompt: Prompt) -> AsyncStream:
        """The same, as a stream."""

        async def start() -> AsyncRun:
            await self.load()
            return await self._client.launch(
                self._next(prompt),
                self._tools,
                self._options,
                chat=self.id,
                on_reply=self._remember,
            )

        return AsyncStream(start)

    async def load(self) -> None:
        """Reads the conversation so far, once; the first thing that is said does so by itself.

        Raises `WindlassError` while a run of it has not ended.
        """
        log = self._client.log
        if self._loaded or log is None:
            return
        for record in await log.list(chat=self.id):
            if record.ended is None:
                raise WindlassError(
                    f"the run {record.id} of this chat has not ended: wait for it, or go on with "
                    "it by `resume` if its process is gone"
                )
            if record.reason != "error":
                history = History(await log.read(record.id))
                self.messages = history.reply(max_result_chars=shown_chars(record)).messages
                break
        self._loaded = True

    def _next(self, prompt: Prompt) -> tuple[Message, ...]:
        return (*self.messages, *messages_from(prompt, None))

    def _remember(self, reply: Reply) -> None:
        self.messages = reply.messages
