"""The output of a response: its form, its numbered events, and its finished items. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from windlass.jsontext import encode_any_json, encode_json
from windlass.wires.fields import JsonObject
from windlass.wires.responses.item_ids import item_id
from windlass.wires.responses.messages import OWN_SERVER
from windlass.wires.responses.read_request import ServerTools
from windlass.wires.responses.tool_names import NO_NAMES, ToolNames

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
