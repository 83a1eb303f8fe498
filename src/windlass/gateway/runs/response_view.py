"""A run as a response of the Responses API: its place in the log, its form, and its encoder."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.events import RunEvent
from windlass.gateway.runs.accepted_text import AcceptedText, holds_back
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem
from windlass.wires.responses.item_ids import ResponsePlace
from windlass.wires.responses.read_request import (
    DEFAULT_ECHO,
    WIRE,
    ResponseOptions,
    ServerTools,
    options_of,
)
from windlass.wires.responses.response import (
    NO_EVENTS,
    OutputForm,
    PauseFinder,
    ResponseHead,
    ServerName,
    ToolListing,
    split_at_pause,
)
from windlass.wires.responses.tools import flat_name, tool_names
from windlass.wires.responses.write_events import ResponseEncoder

NO_OPTIONS = ResponseOptions()
MCP_SERVERS = "mcp_servers"
"""The labels and tools of the request's MCP servers: a field of the run's `answer`."""


def response_options(origin: Origin) -> ResponseOptions:
    """The options in the request of a run; the defaults for a run of another wire."""
    return options_of(origin.answer) if origin.wire == WIRE else NO_OPTIONS


class ResponseView:
    """The response at one place of a run's log. The same log always gives the same bytes.

    A run that was started on another wire is shown with the defaults of this one.
    """

    def __init__(
        self,
        place: ResponsePlace,
        record: RunRecord,
        origin: Origin,
        tools: Mapping[str, Tool],
        ids: CallIds,
        *,
        server_tools: ServerTools = "mcp_call",
        all_text: bool = True,
    ) -> None:
        """`server_tools` and `all_text` are the settings of the model and the gateway."""
        self.place, self._tools = place, tools
        self.options = response_options(origin)
        echo = self.options.echo or DEFAULT_ECHO
        self._head = ResponseHead(place.id, int(record.created), record.model, echo)
        self._ids = ids
        self._holds_back = holds_back(origin)
        listings = msgspec.convert(origin.answer.get(MCP_SERVERS, ()), tuple[ToolListing, ...])
        self._form = OutputForm(
            server_tools=self.options.server_tools or server_tools,
            encrypted_reasoning=self.options.encrypted_reasoning,
            all_text=all_text and origin.settings.response_schema is None,
            names=tool_names(echo["tools"]),
            servers={
                flat_name(listing.server_label, tool["name"]): ServerName(
                    listing.server_label, tool["name"]
                )
                for listing in listings
                for tool in listing.tools
            },
            listings=() if place.after else listings,
        )

    def stream(self, after: int = -1) -> "ResponseStream":
        """Writes its events after that sequence number."""
        encoder = ResponseEncoder(self._head, self._tools, self._ids, self._form, after=after)
        pauses = PauseFinder(self._tools) if self.options.store else None
        accepted = AcceptedText() if self._holds_back else None
        return ResponseStream(encoder, pauses, self.place.after, accepted)

    def body(
        self, events: Sequence[RunEvent], *, done: bool, problem: Problem | None = None
    ) -> bytes:
        """The response object, as JSON, after these events of the run.

        `problem` is why a run that is done has no answer.
        """
        if self._holds_back:
            events = AcceptedText().passed(events)
        before, own, is_paused = split_at_pause(events, self._tools, self.place.after)
        encoder = ResponseEncoder(self._head, self._tools, self._ids, self._form, after=NO_EVENTS)
        encoder.remember(before)
        encoder.encode(own)
        if not done and not is_paused:
            return encoder.response("in_progress" if own else "queued")
        return encoder.response(problem=None if is_paused else problem)


class ResponseStream:
    """Writes one response as events. It is paused where the run waits for approvals.

    A response that is not stored has no `pauses`: no later request could continue it, so its
    calls are approved on another API while it waits.
    """

    def __init__(
        self,
        encoder: ResponseEncoder,
        pauses: PauseFinder | None,
        start: int,
        accepted: AcceptedText | None = None,
    ) -> None:
        """`accepted` holds back the text of an answer until it is valid."""
        self._encoder, self._pauses, self._start = encoder, pauses, start
        self._accepted = accepted
        self.paused = False

    @property
    def heartbeat(self) -> bytes:
        return self._encoder.keep_alive()

    def begin(self) -> bytes:
        return self._encoder.begin()

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        own: list[RunEvent] = []
        for event in events if self._accepted is None else self._accepted.passed(events):
            if self.paused:
                break
            pauses = self._pauses is not None and self._pauses.add(event)
            if event.seq <= self._start:
                self._encoder.remember((event,))
            else:
                own.append(event)
                self.paused = pauses
        return self._encoder.encode(own)

    def end(self, reply: object = None) -> bytes:
        return self._encoder.end()

    def fail(self, problem: Problem) -> bytes:
        return self._encoder.end(problem)
