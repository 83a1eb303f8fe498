"""Finds responses and conversations among the runs of a gateway."""

from collections.abc import Collection, Mapping, Sequence

from windlass.content import Message
from windlass.errors import RunNotFound
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.errors import Refused
from windlass.gateway.runs.lookup import FoundRun
from windlass.gateway.runs.response_view import ResponseView, response_options
from windlass.gateway.runs.run import GatewayRun
from windlass.jsontext import decode_json
from windlass.loop.history import History
from windlass.request import inherited
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject
from windlass.wires.responses.item_ids import ResponsePlace, place_of
from windlass.wires.responses.messages import input_items
from windlass.wires.responses.tools import tool_names

NO_CONVERSATIONS = Problem(
    404,
    "This gateway stores no conversations: set [runs] path.",
    "no_conversations",
    "conversation",
)


async def runs_of_conversation(
    gateway: Gateway, conversation: str, owner: str, limit: int | None = None
) -> Sequence[RunRecord]:
    """The runs of a stored conversation, newest first. Raises `Refused` if it does not exist."""
    log = gateway.service.log
    if log is None:
        raise Refused(NO_CONVERSATIONS)
    runs = await log.list(owner=owner, chat=conversation, limit=limit)
    if not runs:
        message = f"Conversation with id {conversation[:100]!r} not found."
        raise Refused(Problem(404, message, "conversation_not_found", "conversation"))
    return runs


class ResponseStore:
    """Finds responses and their conversations among the runs of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def find(
        self, response: str, owner: str, known: Collection[str] = ()
    ) -> tuple[FoundRun, ResponsePlace]:
        """The run of a response, and its place there. Raises `RunNotFound`.

        A response that is not stored is found only by its id in `known`.
        """
        place = place_of(response)
        if place is None:
            raise RunNotFound(f"response {response[:100]!r} not found")
        try:
            run = await self._gateway.find(place.run_id, owner)
        except RunNotFound:
            raise RunNotFound(f"response {response[:100]!r} not found") from None
        if response not in known and not response_options(run.origin).store:
            raise RunNotFound(f"response {response[:100]!r} not found")
        return run, place

    def view(self, run: FoundRun, place: ResponsePlace) -> ResponseView:
        origin = run.origin
        return self._view(place, run.record, origin, origin.outline(), run.call_ids)

    def view_of_run(self, run: GatewayRun) -> ResponseView:
        """The first response of a run of this process."""
        place = ResponsePlace(run.id)
        return self._view(place, run.record, run.origin, run.plan.tools, run.call_ids)

    def _view(
        self,
        place: ResponsePlace,
        record: RunRecord,
        origin: Origin,
        tools: Mapping[str, Tool],
        ids: CallIds,
    ) -> ResponseView:
        served = self._gateway.registry.find(record.model)
        return ResponseView(
            place,
            record,
            origin,
            tools,
            ids,
            server_tools=served.config.server_tools if served else "mcp_call",
            all_text=self._gateway.config.server.earlier_text == "include",
        )

    async def body(self, run: FoundRun, place: ResponsePlace) -> bytes:
        """The response object as JSON."""
        state = await run.state()
        events = await run.recorded()
        return self.view(run, place).body(events, done=state.done, problem=state.problem)

    async def conversation(
        self, response: str, owner: str, known: Collection[str] = ()
    ) -> tuple[Message, ...]:
        """The conversation up to a response. Raises `Refused` if it does not exist or is active."""
        try:
            run, _ = await self.find(response, owner, known)
        except RunNotFound:
            message = f"Previous response with id {response[:100]!r} not found."
            problem = Problem(400, message, "previous_response_not_found", "previous_response_id")
            raise Refused(problem) from None
        return inherited(await self._gateway.planning.conversation_after(run))

    async def items(self, ids: Sequence[str], owner: str) -> Mapping[str, JsonObject]:
        """The stored items with these ids. Ids without an item are left out."""
        found: dict[str, JsonObject] = {}
        for response in dict.fromkeys(filter(None, map(response_of, ids))):
            try:
                run, place = await self.find(response, owner)
            except RunNotFound:
                continue
            output = decode_json(await self.body(run, place))["output"]
            for item in (*await self.input_items(run, place), *output):
                found[item["id"]] = item
        return {item: found[item] for item in ids if item in found}

    async def input_items(self, run: FoundRun, place: ResponsePlace) -> list[JsonObject]:
        """The input items of the response, oldest first."""
        history = History(await run.recorded())
        messages = history.started.messages if history.started else ()
        names = tool_names(self.view(run, place).options.echo.get("tools", ()))
        return input_items(messages, place.id, names)


def response_of(item: str) -> str | None:
    place = place_of(item)
    return None if place is None else place.id
