"""The stream and the body of a run contain the same response."""

import asyncio
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.response_streams import (
    body_of,
    check_body,
    checked,
    request,
    run_of,
    streamed,
)

from windlass import Opaque, Text, Thought, ToolError, tool
from windlass.content import FunctionCall, InlineData
from windlass.events import RunEnded
from windlass.testing import ScriptedModel, Turn

SEARCH = {
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
CLIENT_TOOLS = [
    {"type": "function", "name": "look"},
    {"type": "custom", "name": "patch"},
    {"type": "namespace", "name": "disk", "tools": [{"type": "function", "name": "list"}]},
]


@tool(idempotent=True)
def get(x: str = "") -> str:
    """Gets."""
    return f"got {x}"


@tool
def fail(x: str = "") -> str:
    """Fails."""
    raise ToolError(f"failed {x}")


_numbers = count()
_texts = st.sampled_from(["", " ", "\n\n", "Hello there.", "ü 😀", "  two  words "])
_parts: st.SearchStrategy[Any] = st.one_of(
    _texts.map(Text),
    _texts.map(Thought),
    st.builds(
        lambda name, text, number: FunctionCall(name, text, f"{name}{number}"),
        st.sampled_from(["get", "fail", "look", "patch", "disk__list", "nothing"]),
        st.sampled_from(['{"x":"a"}', "", '{"input":"free"}', "{broken"]),
        st.integers(0, 10**6),
    ),
    st.just(InlineData(b"png", "image/png")),
    st.builds(lambda: Opaque("responses", {**SEARCH, "id": f"ws_{next(_numbers)}"})),
)
_turns = st.builds(
    lambda parts, pieces: Turn(parts=tuple(parts), pieces=pieces),
    st.lists(_parts, min_size=1, max_size=5),
    st.sampled_from(["words", "whole", 3]),
)


@pytest.mark.sweep
@pytest.mark.parametrize("shown", ["mcp_call", "function_call", "hidden"])
@given(turns=st.lists(_turns, max_size=3), all_text=st.booleans())
def test_the_stream_and_the_body_agree(shown: Any, turns: list[Turn], all_text: bool) -> None:
    asked = request(tools=CLIENT_TOOLS)
    server = [get, fail]
    model = ScriptedModel([*turns, "The end."])
    events, reply = asyncio.run(run_of(model, asked, server, max_rounds=4))
    assert reply is not None
    options = {"server_tools": shown, "all_text": all_text}
    streamed_response = checked(streamed(events, asked, server, **options))
    assert isinstance(events[-1], RunEnded)
    body = body_of(events, asked, server, **options)
    assert check_body(body) == streamed_response
    assert msgspec.json.decode(body)["status"] == "completed"
