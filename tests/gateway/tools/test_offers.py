"""Which tool a request gets if several have the same name."""

import json

from windlass import tool
from windlass.gateway.models.served_model import ToolOffers
from windlass.request import ClientTools, RequestLimits
from windlass.tool import Tool
from windlass.wires.chat.read_request import read_tools

LIMITS = RequestLimits(max_json_depth=10, max_messages=10, max_tools=10)


def named(name: str, said: str) -> Tool:
    def function() -> str:
        return said

    return tool(name=name, description=said)(function)


OWN = {"look": named("look", "ours")}
REMOTE = (named("look", "a server's"), named("read", "a server's"), named("read", "a worker's"))


def client_tools(theirs: object) -> ClientTools:
    return ClientTools(json.dumps(theirs).encode() if theirs else b"", read_tools)


def offered(theirs: object = None) -> dict[str, str]:
    offer = ToolOffers(OWN, LIMITS).of(client_tools(theirs), REMOTE)
    return {each.name: each.description for each in offer.declarations}  # pyright: ignore[reportAttributeAccessIssue]


def test_the_gateways_own_tools_override_remote_tools() -> None:
    assert list(offered().items()) == [("look", "ours"), ("read", "a server's")]


def test_client_tools_override_all_other_tools() -> None:
    theirs = [{"type": "function", "function": {"name": "look", "description": "theirs"}}]
    assert offered(theirs) == {"look": "theirs", "read": "a server's"}


def test_a_changed_tool_is_offered_in_its_current_form() -> None:
    offers = ToolOffers({}, LIMITS)
    before, now = named("look", "old"), named("look", "new")
    assert offers.of(ClientTools(), (before,)) is offers.of(ClientTools(), (before,))
    assert offers.of(ClientTools(), (now,)).tools == {"look": now}
