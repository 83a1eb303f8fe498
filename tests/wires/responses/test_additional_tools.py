"""Tools that a request adds in its input, as Codex does for the models that it knows as GPT-6."""

from typing import Any

import msgspec
import pytest

from windlass.content import FunctionCall
from windlass.request import RequestLimits, RunRequest
from windlass.wires.errors import InvalidRequest
from windlass.wires.responses.read_request import options_of, read_request

LIMITS = RequestLimits()
EXEC = {"type": "custom", "name": "exec", "description": "Runs JavaScript."}
FUNCTIONS = {"type": "namespace", "name": "functions", "tools": [EXEC]}
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}


def added(*tools: Any) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


def read(*items: Any, **fields: Any) -> RunRequest:
    body = {"model": "m", "input": [*items, {"role": "user", "content": "Go."}], **fields}
    return read_request(msgspec.json.encode(body), LIMITS)


def names_of(request: RunRequest) -> list[str]:
    return [tool.name for tool in request.tools.read(request.tools.source, LIMITS)]


def test_tools_of_the_input_are_offered_beside_the_others() -> None:
    request = read(added(FUNCTIONS), tools=[LOOK])
    assert names_of(request) == ["look", "functions__exec"]
    assert [tool["name"] for tool in options_of(request.answer).echo["tools"]] == [
        "look",
        "functions",
    ]


def test_a_call_of_such_a_tool_is_read_with_its_flat_name() -> None:
    made = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "namespace": "functions"}
    request = read(added(FUNCTIONS), {**made, "input": "text(1)"})
    (call,) = [
        part for message in request.messages for part in message.parts if type(part) is FunctionCall
    ]
    assert (call.name, call.json) == ("functions__exec", '{"input":"text(1)"}')


def test_the_latest_list_of_a_namespace_counts() -> None:
    wait = {"type": "function", "name": "wait", "parameters": {"type": "object"}}
    later = {**FUNCTIONS, "tools": [EXEC, wait]}
    assert names_of(read(added(FUNCTIONS), added(later))) == ["functions__exec", "functions__wait"]


def test_a_message_that_only_mentions_the_type_adds_nothing() -> None:
    request = read({"role": "user", "content": 'Say "additional_tools".'}, tools=[LOOK])
    assert names_of(request) == ["look"]


@pytest.mark.parametrize("tools", [None, "exec", {"name": "exec"}])
def test_a_list_is_expected(tools: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read({"type": "additional_tools", "tools": tools})
    assert refused.value.param == "input[0].tools"
