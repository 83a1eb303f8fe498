"""`/v1/chats`: conversations of many runs that the log keeps."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from windlass.gateway.chat_line import line
from windlass.gateway.durable import DurableRuns
from windlass.gateway.exchange import exchange_of, json_response
from windlass.gateway.gateway import Gateway
from windlass.gateway.problems import Problem, Refused
from windlass.models.fields import JsonObject
from windlass.models.openai import wire
from windlass.runs.records import RunRecord

__all__ = ["ChatRoutes"]


class ChatRoutes:
    """A chat is begun and gone on with by `chat_id` in a request; here it is listed and read."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, request: Request) -> Response:
        """The newest first."""
        if self._gateway.durable is None:
            return json_response({"object": "list", "data": []})
        chats: dict[str, list[RunRecord]] = {}
        for record in await self._gateway.durable.log.list(owner=exchange_of(request.scope).owner):
            if record.chat:
                chats.setdefault(record.chat, []).append(record)
        return json_response(
            {"object": "list", "data": [chat_fields(runs) for runs in chats.values()]}
        )

    async def show_or_delete(self, request: Request) -> Response:
        durable, runs = await self._chat(request)
        if request.method == "DELETE":
            return await self._delete(runs)
        fields = chat_fields(runs)
        # While a run of it goes, the conversation is what that run began with.
        told = line(runs)
        messages = await durable.chats.seen(told)
        fields["messages"] = [
            fields for message in messages for fields in wire.encode_message(message)
        ]
        fields["run_ids"] = [record.id for record in reversed(told)]
        return json_response(fields)

    async def _delete(self, runs: Sequence[RunRecord]) -> Response:
        if going := next((record.id for record in runs if record.ended is None), None):
            raise Refused(Problem(409, f"Its run {going} has not ended: stop it.", "run_goes"))
        for record in runs:
            await self._gateway.forget(record.id)
        return json_response({"id": runs[0].chat, "object": "chat.deleted", "deleted": True})

    async def _chat(self, request: Request) -> tuple[DurableRuns, Sequence[RunRecord]]:
        chat, owner = request.path_params["chat_id"], exchange_of(request.scope).owner
        durable = self._gateway.durable
        runs = await durable.log.list(owner=owner, chat=chat) if durable else ()
        if durable is None or not runs:
            raise Refused(Problem(404, f"No chat {chat[:100]!r} is known here.", "chat_not_found"))
        return durable, runs


def chat_fields(runs: Sequence[RunRecord]) -> JsonObject:
    """What is told of a chat: these are all of its runs, the newest first."""
    told = line(runs)
    first, last = told[-1], told[0]
    going = last.ended is None
    return {
        "id": last.chat,
        "object": "chat",
        "created": int(runs[-1].created),
        "updated": int(last.ended or last.created),
        "title": first.title,
        "model": last.model,
        "status": "running" if going else "ended",
        "running": last.id if going else None,
        "runs": len(told),
    }
