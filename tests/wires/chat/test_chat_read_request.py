"""What a chat completion request asks, and what is refused."""

import json
from typing import Any

import pytest

from windlass.request import RequestLimits, RunRequest
from windlass.wires.chat.read_request import read_request, read_tools
from windlass.wires.errors import InvalidRequest


def tools_with(keyword: str, depth: int) -> bytes:
    """A tool whose definitions refer to each other: each doubles the one before."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, depth):
        reference = {"$ref": f"#/{keyword}/d{number - 1}"}
        definitions[f"d{number}"] = {
            "type": "object",
            "properties": {"left": reference, "right": reference},
        }
    parameters = {
        "type": "object",
        "properties": {"root": {"$ref": f"#/{keyword}/d{depth - 1}"}},
        keyword: definitions,
    }
    function = {"name": "f", "parameters": parameters}
    return json.dumps([{"type": "function", "function": function}]).encode()


@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
def test_references_that_expand_to_very_many_schemas_are_refused(keyword: str) -> None:
    assert len(read_tools(tools_with(keyword, 5), RequestLimits())) == 1
    with pytest.raises(InvalidRequest, match="expand to more than 20000 schemas"):
        read_tools(tools_with(keyword, 30), RequestLimits())


def read(**fields: Any) -> RunRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return read_request(json.dumps(body).encode(), RequestLimits())


@pytest.mark.parametrize(
    ("given", "stop"),
    [("END", ("END",)), (["END", "STOP"], ("END", "STOP")), ([], None), (None, None)],
)
def test_stop_is_a_text_or_a_list_of_texts(given: Any, stop: tuple[str, ...] | None) -> None:
    assert read(stop=given).settings.stop == stop


@pytest.mark.parametrize("given", [1, [1], {"text": "END"}])
def test_any_other_stop_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="stop: must be a string or a list of strings"):
        read(stop=given)
