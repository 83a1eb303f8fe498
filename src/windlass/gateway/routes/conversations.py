"""`/v1/conversations`: OpenAI's conversations. A conversation is a chat of the run log.

Items that are added or deleted without a run are stored as a record of the whole conversation.
"""

import secrets
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.content import Message
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import exchange_of, json_response
from windlass.gateway.http.errors import Refused
from windlass.gateway.openapi.operations import (
    GUARDED,
    STARTING,
    Operation,
    Paths,
    path_parameter,
)
from windlass.gateway.routes.chats import forget_runs
from windlass.gateway.routes.response_requests import ASKED
from windlass.gateway.routes.response_store import (
    NO_CONVERSATIONS,
    ResponseStore,
    runs_of_conversation,
)
from windlass.gateway.routes.responses import ITEM_PARAMETERS, asked_page
from windlass.gateway.routes.wire import Wire, counted_body
from windlass.gateway.runs.chats import Chats, current_runs
from windlass.gateway.runs.hidden_turns import continued, seen_by_client
from windlass.gateway.runs.lookup import FoundRun
from windlass.loop.history import History
from windlass.request import RunRequest, inherited
from windlass.runs.origin import ADDED
from windlass.runs.records import RunRecord
from windlass.wires.body import Fields, fields_of
from windlass.wires.errors import InvalidRequest, Problem, error_body
from windlass.wires.fields import JsonObject, as_list, as_object
from windlass.wires.responses.item_ids import ResponsePlace, response_id
from windlass.wires.responses.messages import decode_input, input_items
from windlass.wires.responses.read_request import WIRE as WIRE_NAME
from windlass.wires.responses.read_request import check_metadata
from windlass.wires.responses.response import item_page, split_at_pause
from windlass.wires.responses.tools import tool_names
from windlass.wires.responses.types import (
    ConversationDeleted,
    ConversationJson,
    ConversationUpdate,
    ItemList,
    NewConversation,
    NewItems,
    ResponseItem,
)

PATH = "/v1/conversations"
MAX_ADDED = 20
"""The maximum number of items in one request."""

_ID = path_parameter("conversation_id", "The conversation's id.")
_ITEM_ID = path_parameter("item_id", "The item's id.")
PATHS: Paths = {
    PATH: {
        "post": Operation(
            id="createConversation",
            summary="Creates a stored conversation.",
            body=NewConversation,
            answer=ConversationJson,
            problems=STARTING,
        )
    },
    f"{PATH}/{{conversation_id}}": {
        "get": Operation(
            id="getConversation",
            summary="Returns a stored conversation. `conversation` in a request continues it.",
            parameters=(_ID,),
            answer=ConversationJson,
            problems=(404, *GUARDED),
        ),
        "post": Operation(
            id="updateConversation",
            summary="Replaces the metadata of a conversation.",
            parameters=(_ID,),
            body=ConversationUpdate,
            answer=ConversationJson,
            problems=(409, *STARTING),
        ),
        "delete": Operation(
            id="deleteConversation",
            summary="Deletes a conversation and its responses.",
            parameters=(_ID,),
            answer=ConversationDeleted,
            problems=(404, 409, *GUARDED),
        ),
    },
    f"{PATH}/{{conversation_id}}/items": {
        "get": Operation(
            id="listConversationItems",
            summary="Lists the items of a conversation.",
            parameters=(_ID, *ITEM_PARAMETERS),
            answer=ItemList,
            problems=(400, 404, *GUARDED),
        ),
        "post": Operation(
            id="addConversationItems",
            summary="Adds items to a conversation without asking the model.",
            parameters=(_ID,),
            body=NewItems,
            answer=ItemList,
            problems=(409, *STARTING),
        ),
    },
    f"{PATH}/{{conversation_id}}/items/{{item_id}}": {
        "get": Operation(
            id="getConversationItem",
            summary="Returns an item of a conversation.",
            parameters=(_ID, _ITEM_ID),
            answer=ResponseItem,
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteConversationItem",
            summary="Deletes an item, and with a call also its result.",
            parameters=(_ID, _ITEM_ID),
            answer=ConversationJson,
            problems=(404, 409, *GUARDED),
        ),
    },
}


NO_METADATA: dict[str, str] = {}


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The change that a record makes to its conversation. It is stored in the origin's `answer`."""

    metadata: dict[str, str] | None = None
    removed: tuple[str, ...] = ()
    """The ids of deleted items."""
    asked: int | None = None
    """The number of messages that it adds at the end; None if that is unknown."""


def change_of(record: RunRecord) -> Change:
    """The change that a record describes. A run only adds messages."""
    answer = record.origin.get("answer", {})
    if record.origin.get("kind") == ADDED:
        return msgspec.convert(answer, Change)
    return Change(asked=answer.get(ASKED)) if record.origin.get("wire") == WIRE_NAME else Change()


class Before(Struct, frozen=True):
    """The contents of a conversation before a run."""

    messages: tuple[Message, ...] = ()
    calls: Mapping[str, str] = {}
    """The ids of the calls that wait for results, in the log and for the client."""

    @classmethod
    def of(cls, run: FoundRun, history: History) -> "Before":
        reply = history.reply()
        calls = {call.id: run.call_ids.outward(call.id) for call in reply.pending}
        return cls(seen_by_client(reply, history.input_count, run.call_ids), calls)

    def as_sent(self, message: Message) -> Message:
        """A message of the next request as its client sent it, without results of server tools."""
        if message.role != "tool" or not self.calls:
            return message
        known = {**self.calls, **{outer: outer for outer in self.calls.values()}}
        results = [each for each in message.responses if each.id in known]
        return Message.tool([replace(each, id=known[each.id]) for each in results])


class StoredConversation:
    """A stored conversation of one owner."""

    def __init__(self, gateway: Gateway, chat: str, owner: str, runs: Sequence[RunRecord]) -> None:
        """`runs` are its records, newest first."""
        self._gateway, self.id, self._owner = gateway, chat, owner
        self.runs, self._store = runs, ResponseStore(gateway)

    @classmethod
    async def find(cls, gateway: Gateway, chat: str, owner: str) -> "StoredConversation":
        """Raises `Refused` if it does not exist."""
        return cls(gateway, chat, owner, await runs_of_conversation(gateway, chat, owner))

    def fields(self) -> JsonObject:
        changes = (change_of(record).metadata for record in self.runs)
        metadata = next((found for found in changes if found is not None), NO_METADATA)
        created = int(self.runs[-1].created)
        head: JsonObject = {"id": self.id, "object": "conversation"}
        return {**head, "created_at": created, "metadata": metadata}

    async def items(self) -> list[JsonObject]:
        """All items, oldest first: the input and the output of each run."""
        removed = {item for record in self.runs for item in change_of(record).removed}
        items: list[JsonObject] = []
        before = Before()
        for record in reversed(current_runs(self.runs)):
            if record.reason == "error":
                continue  # a failed run does not change the conversation
            run = await self._gateway.find(record.id, self._owner)
            history = History(await run.recorded())
            if history.started is None:
                continue
            items += self._input_items(run, history.started.messages, change_of(record), before)
            if history.ended is not None:
                items += await self._output_items(run)
                before = Before.of(run, history)
        return [item for item in items if item["id"] not in removed]

    def _input_items(
        self,
        run: FoundRun,
        messages: tuple[Message, ...],
        change: Change,
        before: "Before",
    ) -> list[JsonObject]:
        """The items that this run's request added."""
        whole = inherited(messages)
        added = change.asked
        if added is None:
            added = max(0, len(_spoken(whole)) - len(_spoken(before.messages)))
        known, new = whole[: len(whole) - added], whole[len(whole) - added :]
        place = ResponsePlace(run.id)
        names = tool_names(self._store.view(run, place).options.echo.get("tools", ()))
        all_items = input_items((*known, *map(before.as_sent, new)), place.id, names)
        return all_items[len(input_items(known, place.id, names)) :]

    async def _output_items(self, run: FoundRun) -> list[JsonObject]:
        """The output of all responses of a run."""
        events, tools = await run.recorded(), run.origin.outline()
        place, items = ResponsePlace(run.id), list[JsonObject]()
        while True:
            body = msgspec.json.decode(await self._store.body(run, place))
            items += body["output"]
            _, own, is_paused = split_at_pause(events, tools, place.after)
            if not is_paused:
                return items
            place = ResponsePlace(run.id, own[-1].seq)

    async def item(self, item_id: str) -> JsonObject:
        """Raises `Refused` if it has no such item."""
        found = next((item for item in await self.items() if item["id"] == item_id), None)
        if found is None:
            message = f"Item with id {item_id[:100]!r} not found."
            raise Refused(Problem(404, message, "item_not_found", "item_id"))
        return found

    async def add(self, messages: tuple[Message, ...], metadata: Any = None) -> list[JsonObject]:
        """Adds messages, and replaces the metadata if given. Returns the new items."""
        change = Change(asked=len(messages), metadata=metadata)
        chats = _chats(self._gateway)
        with chats.only_run_of(self._owner, self.id):
            so_far = await chats.so_far(self._owner, _continuing(self.id))
            whole = continued(so_far.messages, messages)
            record = await self._store_messages(whole, change)
        items = input_items(inherited(whole), response_id(record))
        return items[len(items) - len(input_items(whole[len(whole) - len(messages) :], "")) :]

    async def remove(self, item_id: str) -> None:
        """Deletes an item, and the result of a deleted call or the call of a deleted result."""
        chats = _chats(self._gateway)
        with chats.only_run_of(self._owner, self.id):
            await chats.so_far(self._owner, _continuing(self.id))
            found = await self.item(item_id)
            call_id = found.get("call_id")
            items = await self.items()
            kept = [
                item
                for item in items
                if item is not found
                and item["id"] != item_id
                and (call_id is None or item.get("call_id") != call_id)
            ]
            removed = {item["id"] for item in items} - {item["id"] for item in kept}
            messages = decode_input(kept, whole=False).messages
            await self._store_messages(messages, Change(asked=0, removed=tuple(sorted(removed))))

    async def _store_messages(self, messages: tuple[Message, ...], change: Change) -> str:
        return await self._gateway.service.store_messages(
            messages, "", self.id, owner=self._owner, answer=msgspec.to_builtins(change)
        )


def _spoken(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages without the system messages at the start, which are no part of a request."""
    return tuple(dropwhile(lambda message: message.role == "system", messages))


def _continuing(chat: str) -> RunRequest:
    return RunRequest(wire=WIRE_NAME, model="", messages=(), chat=chat)


def _chats(gateway: Gateway) -> Chats:
    if gateway.chats is None:
        raise Refused(NO_CONVERSATIONS)
    return gateway.chats


class ConversationRoutes:
    """Creates, shows, changes and deletes conversations and their items."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: Request) -> Response:
        fields = await self._fields(request)
        messages, metadata = _messages(fields), _metadata(fields)
        _chats(self._gateway)
        owner = exchange_of(request.scope).owner
        chat = f"conv_{secrets.token_hex(24)}"
        await StoredConversation(self._gateway, chat, owner, ()).add(messages, metadata or {})
        return await self._shown(chat, owner)

    async def one(self, request: Request) -> Response:
        """Shows, changes or deletes a conversation."""
        conversation = await self._found(request)
        match request.method:
            case "POST":
                metadata = _metadata(await self._fields(request))
                if metadata is None:
                    raise InvalidRequest("metadata: missing", "metadata", "missing_field")
                await conversation.add((), metadata)
                return await self._shown(conversation.id, exchange_of(request.scope).owner)
            case "DELETE":
                await forget_runs(self._gateway, conversation.runs)
                answer = {"id": conversation.id, "object": "conversation.deleted", "deleted": True}
                return json_response(answer)
            case _:
                return json_response(conversation.fields())

    async def items(self, request: Request) -> Response:
        """Lists the items, or adds items."""
        conversation = await self._found(request)
        if request.method != "POST":
            return json_response(asked_page(await conversation.items(), request))
        messages = _messages(await self._fields(request), required=True)
        added = await conversation.add(messages)
        return json_response(item_page(added, limit=MAX_ADDED, newest_first=False))

    async def item(self, request: Request) -> Response:
        """Shows or deletes an item."""
        conversation = await self._found(request)
        item_id = request.path_params["item_id"]
        if request.method != "DELETE":
            return json_response(await conversation.item(item_id))
        await conversation.remove(item_id)
        return json_response(conversation.fields())

    async def _fields(self, request: Request) -> Fields:
        body = await counted_body(self._gateway, request.scope, request.receive)
        return fields_of(body, self._gateway.limits.max_json_depth)

    async def _found(self, request: Request) -> StoredConversation:
        chat, owner = request.path_params["conversation_id"], exchange_of(request.scope).owner
        return await StoredConversation.find(self._gateway, chat, owner)

    async def _shown(self, chat: str, owner: str) -> Response:
        return json_response((await StoredConversation.find(self._gateway, chat, owner)).fields())


def _messages(fields: Fields, *, required: bool = False) -> tuple[Message, ...]:
    value = fields.any("items")
    items = as_list(value)
    if value is None and not required:
        return ()
    if items is None or (required and not items):
        raise InvalidRequest("items: must be a list with at least one item", "items")
    if len(items) > MAX_ADDED:
        raise InvalidRequest(f"items: more than {MAX_ADDED} items in one request", "items")
    try:
        return decode_input(items, whole=False).messages
    except InvalidRequest as error:
        place = (error.param or "").replace("input", "items", 1)
        raise InvalidRequest(
            error.message.replace("input", "items", 1), place, error.code
        ) from None


def _metadata(fields: Fields) -> Mapping[str, str] | None:
    value = fields.any("metadata")
    if value is None:
        return None
    metadata = as_object(value)
    if metadata is None:
        raise InvalidRequest("metadata: must be an object", "metadata")
    check_metadata(metadata)
    return metadata


def routes(gateway: Gateway) -> list[Route]:
    conversations = ConversationRoutes(gateway)
    one = f"{PATH}/{{conversation_id}}"
    return [
        Route(PATH, conversations.create, methods=["POST"]),
        Route(one, conversations.one, methods=["GET", "POST", "DELETE"]),
        Route(f"{one}/items", conversations.items, methods=["GET", "POST"]),
        Route(f"{one}/items/{{item_id}}", conversations.item, methods=["GET", "DELETE"]),
    ]


WIRE = Wire(routes, (PATH,), error_body)
