"""`/v1/chats`: stored conversations of many runs."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal, NotRequired

from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import RunNotFound
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import any_json_response, exchange_of, json_response
from windlass.gateway.http.errors import Refused
from windlass.gateway.openapi.operations import (
    GUARDED,
    LIMIT,
    Operation,
    Parameter,
    Paths,
    path_parameter,
)
from windlass.gateway.routes.runs import MAX_LISTED, read_limit
from windlass.gateway.runs.chats import Chats, current_runs
from windlass.runs.records import RunRecord, start_order
from windlass.wires.chat.messages import encode_message
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.json_types import Count, Json


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
                Parameter("before", "query", "The id of a chat; the list starts after it."),
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
"""How many runs the first read of a list of chats returns; later reads return more."""


class ChatRoutes:
    """Lists, shows and deletes chats. A request starts or continues a chat with `chat_id`."""

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
        async with aclosing(chats):
            async for runs in chats:
                data.append(chat_fields(runs))
                if len(data) == limit:
                    break
        return json_response({"object": "list", "data": data})

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
                # Otherwise it comes before the start, or was deleted meanwhile.
                if runs and (before is None or start_order(runs[0]) < start_order(before)):
                    yield runs
            if len(page) < size:
                return
            last, size = page[-1], min(2 * size, MAX_LISTED)

    async def show_or_delete(self, request: Request) -> Response:
        chats, runs = await self._chat(request)
        if request.method == "DELETE":
            await forget_runs(self._gateway, runs)
            return json_response({"id": runs[0].chat, "object": "chat.deleted", "deleted": True})
        fields = chat_fields(runs)
        # While a run of the chat is active, its messages are those that the run started with.
        current = current_runs(runs)
        messages = await chats.seen(current)
        fields["messages"] = [fields for message in messages for fields in encode_message(message)]
        fields["run_ids"] = [record.id for record in reversed(current)]
        return await any_json_response(fields)

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
    current = current_runs(runs)
    first, last = current[-1], current[0]
    active = last.ended is None
    return {
        "id": last.chat,
        "object": "chat",
        "created": int(runs[-1].created),
        "updated": int(last.ended or last.created),
        "title": first.title,
        "model": last.model,
        "status": "running" if active else "ended",
        "running": last.id if active else None,
        "runs": len(current),
    }
