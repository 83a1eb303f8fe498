"""`AsyncChat`: a conversation of many runs, and the list of chats in the records of runs."""

import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeGuard, TypeVar, Unpack, cast, overload

from msgspec import Struct

from windlass.client.options import Prompt, RunOptions, messages_from
from windlass.client.request import (
    ClientRequest,
    JsonSchema,
    OutputForm,
    SendOptions,
    client_request,
    type_of,
)
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, FunctionResponse, Message, Part, Role, paired
from windlass.errors import ConfigError, WindlassError
from windlass.loop.history import History
from windlass.reply import Reply
from windlass.runs.origin import ADDED, shown_chars
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord, start_order, title_of
from windlass.runs.run import AsyncRun

T = TypeVar("T")

_numbers = itertools.count(1)
"""The numbers of runs, for clients without a log."""


class ChatClient(Protocol):
    """The part of a client that a chat needs."""

    @property
    def log(self) -> RunLog | None: ...

    async def answer(self, request: ClientRequest, chat: str) -> Reply: ...

    async def launch(
        self, request: ClientRequest, chat: str, *, on_reply: Callable[[Reply], None] | None
    ) -> AsyncRun: ...

    async def store_added(self, messages: tuple[Message, ...], chat: str) -> None: ...


class AsyncChat:
    """A conversation. If the client has a log, another process can continue it by its `id`."""

    def __init__(
        self,
        client: ChatClient,
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
        self._answered: tuple[FunctionResponse, ...] = ()
        """Results of the last turn. They are sent together with the caller's results."""
        self.records: list[RunRecord] = []
        """Its ended runs, if the client has no log."""

    @overload
    async def send(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[SendOptions]
    ) -> Reply[None]: ...

    @overload
    async def send(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[SendOptions]
    ) -> Reply[T]: ...

    @overload
    async def send(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[SendOptions]
    ) -> Reply[Any]: ...

    async def send(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[SendOptions]
    ) -> Reply[Any]:
        """Sends a prompt and returns the reply. Without a prompt, sends what was added.

        A failure does not change the conversation. Raises `ConfigError` if calls have no result.
        """
        await self.load()
        request = client_request(prompt, output, options)
        began = time.time()
        reply = await self._client.answer(self._next(request), self.id)
        self._remember(reply, began)
        return reply

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[SendOptions]
    ) -> AsyncStream[None]: ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[SendOptions]
    ) -> AsyncStream[T]: ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[SendOptions]
    ) -> AsyncStream[Any]: ...

    def stream(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[SendOptions]
    ) -> AsyncStream[Any]:
        """Does the same as `send`, as a stream."""
        request = client_request(prompt, output, options)
        kind = None if output is None else type_of(output)

        async def start() -> AsyncRun:
            await self.load()
            began = time.time()
            return await self._client.launch(
                self._next(request), self.id, on_reply=lambda reply: self._remember(reply, began)
            )

        return AsyncStream(start, kind)

    async def add(self, item: Prompt, role: str | None = None) -> "AsyncChat":
        """Adds messages without a request to the model, and returns the chat.

        By default texts and parts have the role `user`, calls `assistant` and results `tool`;
        `role` changes that (`"model"` means `assistant`). Messages have their own role. With a log,
        the addition is stored at once. Raises `ConfigError` for invalid items.
        """
        await self.load()
        messages = self._with(_messages(item, role))
        await self._client.store_added(messages, self.id)
        self.messages, self._answered = messages, ()
        return self

    async def load(self) -> None:
        """Loads the conversation from the log, once. The first `send`, `stream` or `add` calls it.

        Raises `WindlassError` if a run of the chat has not ended.
        """
        log = self._client.log
        if self._loaded or log is None:
            return
        for record in await log.list(chat=self.id):
            if record.ended is None and record.origin.get("kind") != ADDED:
                raise WindlassError(
                    f"run {record.id} of this chat has not ended: wait for it, or call `resume` "
                    "if its process has exited"
                )
            if record.reason != "error":
                history = History(await log.read(record.id))
                self._continue_from(history.reply(max_result_chars=shown_chars(record)))
                break
        self._loaded = True

    def _next(self, request: ClientRequest) -> ClientRequest:
        """The request with the whole conversation, and with the chat's tools and options."""
        if request.prompt:
            messages = self._with(messages_from(request.prompt, None))
        else:
            messages = self.messages
            if not messages or messages[-1].role in ("assistant", "system"):
                raise ConfigError("there is nothing to answer: send a prompt, or add one first")
        if missing := _unanswered(messages):
            names = ", ".join(f"{call.name} ({call.id})" for call in missing)
            raise ConfigError(f"these calls have no result: {names}; add their results first")
        options = cast("RunOptions", {**self._options, **request.options})
        return request._replace(prompt=messages, tools=self._tools, options=options)

    def _with(self, added: tuple[Message, ...]) -> tuple[Message, ...]:
        """Returns the conversation with more messages. Joins results to those of the last turn."""
        if self._answered and added[0].responses:
            first = Message("tool", (*self._answered, *added[0].parts), added[0].extra)
            messages = paired((*self.messages, first, *added[1:]))
            return _in_call_order(messages, len(self.messages))
        return paired((*self.messages, *added))

    def _remember(self, reply: Reply, began: float) -> None:
        if self._client.log is None:
            record = RunRecord(
                id=reply.run_id,
                model=reply.model,
                created=began,
                number=next(_numbers),
                chat=self.id,
                title=title_of(reply.messages),
                ended=time.time(),
                reason=reply.stop_reason,
            )
            self.records.append(record)
        self._continue_from(reply)

    def _continue_from(self, reply: Reply) -> None:
        self.messages = reply.messages
        self._answered = reply.rounds[-1].shown if reply.pending and reply.rounds else ()


def _messages(item: Prompt, role: str | None) -> tuple[Message, ...]:
    items: Sequence[Any] = item if _is_list(item) else (item,)
    if role is None and items and all(isinstance(each, FunctionCall) for each in items):
        role = "assistant"
    if role is None:
        return messages_from(item, None)
    if not items or not all(isinstance(each, str | Part) for each in items):
        raise ConfigError("role= needs a text or parts: a message has its own role")
    try:
        return (Message(cast("Role", role), tuple(items)),)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _in_call_order(messages: tuple[Message, ...], place: int) -> tuple[Message, ...]:
    """Sorts results in call order, since some providers match them by position."""
    turn, results = messages[place - 1], messages[place]
    order = {call.id: position for position, call in enumerate(turn.calls)}
    parts = sorted(results.parts, key=lambda part: order.get(getattr(part, "id", ""), len(order)))
    ordered = Message("tool", tuple(parts), results.extra)
    return (*messages[:place], ordered, *messages[place + 1 :])


def _is_list(item: Prompt) -> TypeGuard[Sequence[Any]]:
    return isinstance(item, Sequence) and not isinstance(item, str)


def _unanswered(messages: Sequence[Message]) -> list[FunctionCall]:
    """The calls of the last turn that have no result."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "assistant":
            return [call for call in message.calls if call.id not in answered]
        answered |= {response.id for response in message.responses}
    return []


class ChatRecord(Struct, frozen=True, kw_only=True):
    """The metadata of a chat. Times are Unix seconds."""

    id: str
    title: str
    """The first words of its first prompt."""
    model: str
    """The model of its last run."""
    created: float
    updated: float
    """When its last run ended, or began if it is active."""
    runs: int
    running: bool
    """Whether it has an active run."""


def chats_in(records: Iterable[RunRecord]) -> list[ChatRecord]:
    """Returns the chats of the runs, the last used first."""
    chats: dict[str, list[RunRecord]] = {}
    for record in sorted(records, key=start_order):
        if record.chat:
            chats.setdefault(record.chat, []).append(record)
    newest = sorted(chats.items(), key=lambda chat: start_order(chat[1][-1]), reverse=True)
    return [_chat(chat, runs) for chat, runs in newest]


def _chat(chat: str, runs: list[RunRecord]) -> ChatRecord:
    first, last = runs[0], runs[-1]
    return ChatRecord(
        id=chat,
        title=first.title,
        model=last.model,
        created=first.created,
        updated=last.ended or last.created,
        runs=len(runs),
        running=any(run.ended is None for run in runs),
    )
