"""`/v1/chats`: stored conversations of many runs."""

import contextlib
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import RunNotFound
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import exchange_of, json_response
from windlass.gateway.http.errors import Refused
from windlass.gateway.routes.runs import read_limit
from windlass.gateway.runs.chat_line import current_runs
from windlass.gateway.runs.persistence import RunPersistence
from windlass.runs.records import RunRecord
from windlass.wires.chat.messages import encode_message
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.fields import JsonObject


class ChatRoutes:
    """Lists, shows and deletes chats. A request starts or continues a chat with `chat_id`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, request: Request) -> Response:
        """Lists the chats of the key; the chat with the newest run comes first."""
        query = request.query_params
        limit, before = read_limit(query), query.get("before", "")
        chats: dict[str, list[RunRecord]] = {}
        for record in await self._runs_of(exchange_of(request.scope).owner):
            if record.chat:
                chats.setdefault(record.chat, []).append(record)
        if before and before not in chats:
            raise InvalidRequest(f"before: chat {before[:100]!r} does not exist", "before")
        ids = list(chats)
        start = ids.index(before) + 1 if before else 0
        data = [chat_fields(chats[chat]) for chat in ids[start : start + limit]]
        return json_response({"object": "list", "data": data})

    async def show_or_delete(self, request: Request) -> Response:
        durable, runs = await self._chat(request)
        if request.method == "DELETE":
            return await self._delete(runs)
        fields = chat_fields(runs)
        # While a run of the chat is active, its messages are those that the run started with.
        current = current_runs(runs)
        messages = await durable.chats.seen(current)
        fields["messages"] = [fields for message in messages for fields in encode_message(message)]
        fields["run_ids"] = [record.id for record in reversed(current)]
        return json_response(fields)

    async def _delete(self, runs: Sequence[RunRecord]) -> Response:
        if active := next((record.id for record in runs if record.ended is None), None):
            message = f"The chat's run {active} is still active. Stop it first."
            raise Refused(Problem(409, message, "run_in_progress"))
        for record in runs:
            with contextlib.suppress(RunNotFound):  # deleted by another request
                await self._gateway.forget(record.id)
        return json_response({"id": runs[0].chat, "object": "chat.deleted", "deleted": True})

    async def _chat(self, request: Request) -> tuple[RunPersistence, Sequence[RunRecord]]:
        chat, owner = request.path_params["chat_id"], exchange_of(request.scope).owner
        durable, runs = self._gateway.durable, await self._runs_of(owner, chat)
        if durable is None or not runs:
            raise Refused(Problem(404, f"Chat {chat[:100]!r} does not exist.", "chat_not_found"))
        return durable, runs

    async def _runs_of(self, owner: str, chat: str | None = None) -> Sequence[RunRecord]:
        durable = self._gateway.durable
        return await durable.log.list(owner=owner, chat=chat) if durable else ()


def chat_fields(runs: Sequence[RunRecord]) -> JsonObject:
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
