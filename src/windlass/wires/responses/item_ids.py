"""The ids of responses and their items: derived from the run, so that every reader sees the same.

A response has the id of its run. An item has the id of its response and its place in the output.
"""

import hashlib
import re
from typing import NamedTuple

PREFIXES: dict[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "compaction": "cmp",
}
"""The prefix of an item's id by its type."""

_OWN = re.compile(
    rf"(?:{'|'.join(PREFIXES.values())}|item)_([0-9a-f]{{24}}[0-9a-z]*)_(i?[0-9a-f]+)"
)


class ResponsePlace(NamedTuple):
    """Where a response is in the log of a run.

    A run that waits for approvals ends its response. The next response begins after that event.
    """

    run_id: str
    after: int = 0
    """The number of the last event before it."""

    @property
    def id(self) -> str:
        """The id of the response."""
        return f"{response_id(self.run_id)}{f'x{self.after}' if self.after else ''}"


_RESPONSE = re.compile(r"resp_([0-9a-f]{24})(?:x([1-9][0-9]{0,8}))?")


def place_of(response: str) -> ResponsePlace | None:
    """The place of a response, or of the response of an item; None for an id of another service."""
    found = _RESPONSE.fullmatch(response_of_item(response) or response)
    return found and ResponsePlace(f"run_{found[1]}", int(found[2] or 0))


def response_id(run_id: str) -> str:
    """The id of the run's first response."""
    return f"resp_{run_id.removeprefix('run_')}"


def item_id(kind: str, response: str, index: int | str) -> str:
    """The id of the item at `index` of the output."""
    return f"{PREFIXES.get(kind, 'item')}_{response.removeprefix('resp_')}_{index}"


def approval_id(response: str, call_id: str) -> str:
    """The id of the item that asks for approval of a call. All responses of a run agree on it."""
    response = response.partition("x")[0]
    mark = hashlib.sha256(call_id.encode(errors="replace")).hexdigest()[:8]
    return item_id("mcp_approval_request", response, mark)


def response_of_item(item: str) -> str | None:
    """The id of the response that an item of this gateway belongs to; None for other ids."""
    found = _OWN.fullmatch(item)
    return f"resp_{found[1]}" if found else None
