"""`/v1/chats`: stored conversations of many runs."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal, NotRequired

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import RunNotFound
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    any_json_response,
    exchange_of,
    json_response,
    read_body,
)
from windlass.gateway.http.errors import Refused
from windlass.gateway.openapi.operations import (
    GUARDED,
    LIMIT,
    WITH_BODY,
    Operation,
    Paths,
    RequestParameter,
    path_parameter,
)
from windlass.gateway.routes.runs import MAX_LISTED, read_limit
from windlass.gateway.runs.chats import Chats, chosen_title, current_runs, is_title
from windlass.gateway.runs.summaries import excerpt, text_of_messages
from windlass.runs.records import TITLE_CHARS, RunRecord, start_order
from windlass.wires.body import read_as
from windlass.wires.chat.messages import encode_message
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.fields import Count, Json


class ChatJson(Json):
    id: str
    object: Literal["chat"]
    created: Count
    updated: Count
    title: str
    model: str
    status: Literal["running", "ended"]
    running: str | None
    """The id of the chat's active run."""
    runs: Count
    messages: NotRequired[list[dict[str, Any]]]
    """The messages in OpenAI's format."""
    run_ids: NotRequired[list[str]]
    match: NotRequired[str]
    """The text around the first match of a search, unless the title matches."""


class NewTitle(Struct, forbid_unknown_fields=True):
    """The body of a rename."""

    title: str
    """The new title; an empty one restores the first words of the chat."""


class ChatListJson(Json):
    object: Literal["list"]
    data: list[ChatJson]


class ChatDeletedJson(Json):
    id: str
    object: Literal["chat.deleted"]
    deleted: Literal[True]


_CHAT_ID = path_parameter("chat_id", "The chat's id.")
PATHS: Paths = {
    "/v1/chats": {
        "get": Operation(
            id="listChats",
            summary="Lists the stored chats of this key; the chat with the newest run comes first.",
            parameters=(
                LIMIT,
                RequestParameter("before", "query", "The id of a chat; the list starts after it."),
                RequestParameter(
                    "q",
                    "query",
                    "Only chats whose title or messages contain this text, of the newest 1,000;"
                    " the case does not matter.",
                ),
            ),
            answer=ChatListJson,
            problems=(400, *GUARDED),
        )
    },
    "/v1/chats/{chat_id}": {
        "get": Operation(
            id="getChat",
            summary="Returns a stored chat with its messages. `chat_id` in a request continues it.",
            parameters=(_CHAT_ID,),
            answer=ChatJson,
            problems=(404, *GUARDED),
        ),
        "post": Operation(
            id="renameChat",
            summary="Renames a chat. Returns 409 while a run of it is active.",
            parameters=(_CHAT_ID,),
            body=NewTitle,
            answer=ChatJson,
            problems=(404, 409, *WITH_BODY, *GUARDED),
        ),
        "delete": Operation(
            id="deleteChat",
            summary="Deletes a chat and its runs.",
            parameters=(_CHAT_ID,),
            answer=ChatDeletedJson,
            problems=(404, 409, *GUARDED),
        ),
    },
}

CHATS_PAGE = 100
"""The number of runs in the first read for a list of chats. Later reads are larger."""


class ChatRoutes:
    """Lists, shows, renames and deletes chats. A request starts or continues one with `chat_id`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, request: Request) -> Response:
        """Lists the chats of the key; the chat with the newest run comes first."""
        query, owner = request.query_params, exchange_of(request.scope).owner
        limit, before = read_limit(query), query.get("before", "")
        start = await self._runs_of(owner, before) if before else ()
        if before and not start:
            raise InvalidRequest(f"before: chat {before[:100]!r} does not exist", "before")
        chats = self._newest_chats(owner, start[0] if start else None)
        data: list[ChatJson] = []
        wanted = query.get("q", "").casefold()
        searched = 0
        async with aclosing(chats):
            async for runs in chats:
                searched += 1
                if (fields := await self._matching(runs, wanted)) is not None:
                    data.append(fields)
                # A search reads the messages of each chat, so it has a limit.
                if len(data) == limit or (wanted and searched == MAX_LISTED):
                    break
        return json_response({"object": "list", "data": data})

    async def _matching(self, runs: Sequence[RunRecord], wanted: str) -> ChatJson | None:
        """The chat as JSON; None if neither its title nor its messages contain the text."""
        fields = chat_fields(runs)
        if not wanted or wanted in fields["title"].casefold():
            return fields
        messages = await self._gateway.chats.seen(current_runs(runs)) if self._gateway.chats else ()
        found = excerpt(text_of_messages(messages), wanted)
        if found is None:
            return None
        fields["match"] = found
        return fields

    async def _newest_chats(
        self, owner: str, before: RunRecord | None
    ) -> AsyncGenerator[Sequence[RunRecord]]:
        """Yields the runs of each chat. The chat with the newest run comes first.

        With `before`, which is the newest run of a chat, starts after this chat.
        """
        log = self._gateway.service.log
        seen: set[str] = set()
        last, size = before, CHATS_PAGE
        while log is not None:
            page = await log.list(owner=owner, in_chats=True, before=last, limit=size)
            for chat in dict.fromkeys(record.chat for record in page):
                if chat in seen:
                    continue
                seen.add(chat)
                runs = await self._runs_of(owner, chat)
                # Otherwise it precedes the start of this page, or was deleted meanwhile.
                if runs and (before is None or start_order(runs[0]) < start_order(before)):
                    yield runs
            if len(page) < size:
                return
            last, size = page[-1], min(2 * size, MAX_LISTED)

    async def one(self, request: Request) -> Response:
        """Shows, renames or deletes a chat."""
        chats, runs = await self._chat(request)
        if request.method == "POST":
            return await self._rename(request, chats, runs)
        if request.method == "DELETE":
            await forget_runs(self._gateway, runs)
            return json_response({"id": runs[0].chat, "object": "chat.deleted", "deleted": True})
        fields = chat_fields(runs)
        # While a run of the chat is active, its messages are those that the run started with.
        current = current_runs(runs)
        messages = await chats.seen(current)
        fields["messages"] = [fields for message in messages for fields in encode_message(message)]
        fields["run_ids"] = [record.id for record in reversed(current) if not is_title(record)]
        return await any_json_response(fields)

    async def _rename(self, request: Request, chats: Chats, runs: Sequence[RunRecord]) -> Response:
        """Stores the title in a record of the chat, which has no run of a model."""
        limits = self._gateway.config.limits
        body = await read_body(request.scope, request.receive, limits.max_body_bytes)
        title = " ".join(read_as(NewTitle, body, "a title", limits.max_json_depth).title.split())
        if len(title) > TITLE_CHARS:
            raise InvalidRequest(f"title: more than {TITLE_CHARS} characters", "title")
        chat, owner = runs[0].chat, runs[0].owner
        await chats.rename(self._gateway.service, owner, chat, title)
        return json_response(chat_fields(await self._runs_of(owner, chat)))

    async def _chat(self, request: Request) -> tuple[Chats, Sequence[RunRecord]]:
        chat, owner = request.path_params["chat_id"], exchange_of(request.scope).owner
        chats, runs = self._gateway.chats, await self._runs_of(owner, chat)
        if chats is None or not runs:
            raise Refused(Problem(404, f"Chat {chat[:100]!r} does not exist.", "chat_not_found"))
        return chats, runs

    async def _runs_of(self, owner: str, chat: str) -> Sequence[RunRecord]:
        log = self._gateway.service.log
        return await log.list(owner=owner, chat=chat) if log else ()


async def forget_runs(gateway: Gateway, runs: Sequence[RunRecord]) -> None:
    """Deletes all runs of a chat. Raises `Refused` while one is active."""
    if active := next((record.id for record in runs if record.ended is None), None):
        message = f"The chat's run {active} is still active. Stop it first."
        raise Refused(Problem(409, message, "run_in_progress"))
    for record in runs:
        with contextlib.suppress(RunNotFound):  # deleted by another request
            await gateway.forget(record.id)


def chat_fields(runs: Sequence[RunRecord]) -> ChatJson:
    """A chat as JSON; `runs` are all of its runs, newest first."""
    current = [run for run in current_runs(runs) if not is_title(run)] or current_runs(runs)
    first, last = current[-1], current[0]
    active = last.ended is None
    return {
        "id": last.chat,
        "object": "chat",
        "created": int(runs[-1].created),
        "updated": int(last.ended or last.created),
        "title": chosen_title(runs) or first.title,
        "model": last.model,
        "status": "running" if active else "ended",
        "running": last.id if active else None,
        "runs": len(current),
    }
