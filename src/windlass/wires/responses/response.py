"""The response object: its fields, output, status and errors, and where it pauses. Pure.

A response ends where all that is left to do waits for approvals. The client sends its decisions
in the next request.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from windlass.content import Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    StopReason,
    ToolCallEnded,
    ToolRunEnded,
    TurnEnded,
)
from windlass.jsontext import encode_any_json, encode_json
from windlass.tool import Tool
from windlass.wires.errors import Problem, error_fields
from windlass.wires.fields import JsonObject
from windlass.wires.responses.item_ids import item_id
from windlass.wires.responses.messages import OWN_SERVER
from windlass.wires.responses.read_request import ServerTools
from windlass.wires.responses.tools import NO_NAMES, ToolNames

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class ResponseHead(Struct, frozen=True):
    """The fields of a response that never change."""

    id: str
    created_at: int
    """The time of the run's first event, so that every reader sees the same."""
    model: str
    echo: JsonObject
    """`ResponseOptions.echo`."""


class ResponseEnd(Struct, frozen=True):
    """How a response ends."""

    status: Status
    incomplete: str | None = None
    """The reason of an incomplete response."""
    failure: Problem | None = None


RESPONSE_ENDS: dict[StopReason, ResponseEnd] = {
    "answer": ResponseEnd("completed"),
    "calls": ResponseEnd("completed"),
    "max_rounds": ResponseEnd("completed"),
    "budget": ResponseEnd("completed"),  # Codex repeats an incomplete response, which spends more
    "repetition": ResponseEnd("completed"),
    "length": ResponseEnd("incomplete", "max_output_tokens"),
    "content_filter": ResponseEnd("incomplete", "content_filter"),
    "malformed_call": ResponseEnd("failed"),
    "deadline": ResponseEnd("failed"),
    "stopped": ResponseEnd("cancelled"),
    "error": ResponseEnd("failed"),
}
"""How a response ends, by the stop reason of its run."""

END_EVENTS: dict[Status, str] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    # The protocol has no event of this name for a cancelled response.
    "cancelled": "response.incomplete",
}
"""The last event of a stream."""

_UNKNOWN_FAILURE = "The run failed."
QUOTA = "insufficient_quota"
_CODEX_CODES = frozenset(
    {
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_prompt",
        "rate_limit_exceeded",
        "server_is_overloaded",
        "slow_down",
        "usage_not_included",
    }
)
"""The codes that clients act on. Codex retries after any other code."""


def failure_of(problem: Problem) -> JsonObject:
    """The `error` of a failed response, with a code and words that Codex reads."""
    code, message = problem.code or "", problem.message or _UNKNOWN_FAILURE
    if problem.status == 402 or problem.type == QUOTA:
        code = QUOTA  # of a used up budget: Codex does not repeat the request
    elif code not in _CODEX_CODES:
        match problem.status:
            case 429:
                code = "rate_limit_exceeded"
            case 503 | 529:
                code = "server_is_overloaded"
            case 400 | 413 | 422:
                code = code or "invalid_prompt"
            case _:
                code = code or "server_error"
    if code == "rate_limit_exceeded" and problem.retry_after and "try again in" not in message:
        message = f"{message.rstrip('.')}. Please try again in {problem.retry_after:g}s."
    return {"code": code, "message": message}


def error_event_fields(problem: Problem) -> JsonObject:
    """The fields of an `error` event: flat for OpenAI's SDK, nested for Open Responses."""
    flat: JsonObject = {**failure_of(problem), "param": problem.param}
    return {**flat, "error": {"type": error_fields(problem)["type"], **flat}}


def error_frame(status: int, error: JsonObject) -> bytes:
    """A refused request on a WebSocket, which stays usable. Open Responses requires a code."""
    code = error["code"] or error["type"]
    return encode_json({"type": "error", "status": status, "error": {**error, "code": code}})


def item_page(
    items: Sequence[JsonObject],
    *,
    after: str | None = None,
    limit: int = 20,
    newest_first: bool = True,
) -> JsonObject:
    """One page of items as a list object; `after` is the id of the last item of the page before."""
    ordered = list(reversed(items)) if newest_first else list(items)
    ids = [item["id"] for item in ordered]
    start = ids.index(after) + 1 if after in ids else 0
    page = ordered[start : start + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + limit < len(ordered),
    }


def usage_fields(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thought_tokens},
        "total_tokens": usage.total_tokens,
    }


class ResponseObject:
    """Writes the response object. The fields that never change are encoded once."""

    __slots__ = ("_after", "_before")

    def __init__(self, head: ResponseHead) -> None:
        self._before = b'{"id":%s,"object":"response","created_at":%d,"model":%s,' % (
            encode_json(head.id),
            head.created_at,
            encode_json(head.model),
        )
        self._after = encode_json(head.echo)[1:]

    def write(
        self,
        status: Status,
        output: bytes,
        *,
        usage: Usage | None = None,
        completed_at: int | None = None,
        ending: ResponseEnd | None = None,
    ) -> bytes:
        """The response as JSON; `output` are the items with commas between them."""
        reason = ending.incomplete if ending else None
        failure = ending.failure if ending else None
        fields: JsonObject = {
            "status": status,
            "completed_at": completed_at,
            "error": failure_of(failure) if failure else None,
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": usage_fields(usage) if usage else None,
        }
        changing = encode_json(fields)[1:-1]
        return b"".join((self._before, changing, b',"output":[', output, b"],", self._after))


NO_EVENTS = 2**62
"""As `after`: no event is written, only the items are built."""


class ServerName(Struct, frozen=True):
    """The name of a server tool for the client."""

    server_label: str
    name: str


class ToolListing(Struct, frozen=True):
    """The tools of an MCP server of the request, for an `mcp_list_tools` item."""

    server_label: str
    tools: tuple[JsonObject, ...]
    """Each with `name`, `description`, `input_schema` and `annotations`."""


class OutputForm(Struct, frozen=True, kw_only=True):
    """The form of an answer, which depends on its request and the gateway's settings."""

    server_tools: ServerTools = "mcp_call"
    encrypted_reasoning: bool = False
    """Whether reasoning items contain the provider's encrypted reasoning."""
    all_text: bool = True
    """Whether the answer has the text of all rounds, or only of the last."""
    names: ToolNames = NO_NAMES
    """The client's names of its own tools."""
    servers: Mapping[str, ServerName] = {}
    """The names of server tools; others belong to the server `windlass`."""
    listings: tuple[ToolListing, ...] = ()

    def server_name(self, tool: str) -> ServerName:
        return self.servers.get(tool) or ServerName(OWN_SERVER, tool)


DEFAULT_FORM = OutputForm()


def payloads(stream: bytes) -> list[bytes]:
    """The events in written bytes, each as one JSON text, for the frames of a WebSocket."""
    blocks = stream.split(b"\n\n")
    return [block.partition(b"\ndata: ")[2] for block in blocks if block.startswith(b"event: ")]


class ResponseEvents:
    """Numbers the events and the items of one response.

    Events up to the sequence number `after` are counted, but not written.
    """

    __slots__ = ("_items", "_next_index", "after", "number", "response", "written")

    def __init__(self, response: str, after: int) -> None:
        """`response` is the id of the response."""
        self.response, self.after = response, after
        self.number = 0
        """The sequence number of the next event."""
        self.written: list[bytes] = []
        """The events that `taken` has not returned yet."""
        self._next_index = 0
        self._items: dict[int, bytes] = {}
        """The finished items by their index."""

    @property
    def next_index(self) -> int:
        """The index of the next item."""
        return self._next_index

    def event(self, kind: str, fields: bytes) -> None:
        """Writes one event; `fields` are its JSON fields without braces."""
        number = self.number
        self.number = number + 1
        if number > self.after:
            name = kind.encode()
            self.written.append(
                b'event: %s\ndata: {"type":"%s",%s,"sequence_number":%d}\n\n'
                % (name, name, fields, number)
            )

    def taken(self) -> bytes:
        """Returns the written events, and forgets them."""
        taken = b"".join(self.written)
        self.written.clear()
        return taken

    def place(self, item: str, index: int) -> bytes:
        """The fields of an event that name its item."""
        return b'"item_id":%s,"output_index":%d' % (encode_json(item), index)

    def new_item(self, kind: str) -> tuple[str, int]:
        """The id and the index of a new item."""
        index = self._next_index
        self._next_index = index + 1
        return item_id(kind, self.response, index), index

    def add(self, index: int, item: JsonObject) -> None:
        """Begins an item."""
        fields = b'"output_index":%d,"item":%s' % (index, encode_json(item))
        self.event("response.output_item.added", fields)

    def finish(self, index: int, item: JsonObject, *, dropped: bool = False) -> None:
        """Ends an item. A dropped item is not part of the response."""
        encoded = encode_any_json(item)
        self.event("response.output_item.done", b'"output_index":%d,"item":%s' % (index, encoded))
        if not dropped:
            self._items[index] = encoded

    def drop_from(self, index: int) -> None:
        """Removes the finished items from this index on from the response."""
        for dropped in [each for each in self._items if each >= index]:
            del self._items[dropped]

    def json(self) -> bytes:
        """The finished items in order, as JSON with commas between them."""
        return b",".join([self._items[index] for index in sorted(self._items)])


class PauseFinder:
    """Reads the events of one run in order and notices its pauses."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._turn_over = False
        self._open: set[str] = set()
        """The calls of server tools without a result."""
        self.waiting: dict[str, ApprovalRequested] = {}
        """The requests for approval without a decision, by call id."""

    def add(self, event: RunEvent) -> bool:
        """Whether the run pauses after this event."""
        match event:
            case RoundStarted() | RoundRestarted():
                self._turn_over = False
                self._open.clear()
                self.waiting.clear()
                return False
            case ToolCallEnded(call=call):
                tool = self._tools.get(call.name)
                if tool is None or tool.runnable:
                    self._open.add(call.id)
                return False
            case ApprovalRequested(call=call):
                self.waiting[call.id] = event
            case ApprovalResolved(call_id=call_id):
                self.waiting.pop(call_id, None)
                return False
            case ToolRunEnded(response=response):
                self._open.discard(response.id)
            case TurnEnded():
                self._turn_over = True
            case _:
                return False
        return self._turn_over and bool(self.waiting) and self._open <= self.waiting.keys()


def split_at_pause(
    events: Sequence[RunEvent], tools: Mapping[str, Tool], after: int
) -> tuple[Sequence[RunEvent], Sequence[RunEvent], bool]:
    """The events up to number `after`, those of the response that begins there, and whether it
    ends in a pause."""
    if any(isinstance(event, ApprovalRequested) for event in events):
        finder = PauseFinder(tools)
        for place, event in enumerate(events):
            if finder.add(event) and event.seq > after:
                return events[:after], events[after : place + 1], True
    return (events[:after], events[after:], False) if after else ((), events, False)


def waiting_calls(events: Iterable[RunEvent], tools: Mapping[str, Tool]) -> list[str]:
    """The ids of the calls that wait for a decision after these events."""
    finder = PauseFinder(tools)
    for event in events:
        finder.add(event)
    return list(finder.waiting)
