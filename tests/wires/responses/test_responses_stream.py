"""The stream and the body of a response: the sequences of the protocol, checked by its SDKs."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from openresponses_types import WebSocketErrorEvent
from tests.support.response_streams import (
    CREATED,
    RUN,
    body_of,
    check_body,
    checked,
    head_of,
    kinds_of,
    offered,
    parsed,
    request,
    run_of,
    streamed,
)

from windlass import Opaque, ToolError, Usage, tool
from windlass.content import InlineData
from windlass.events import RoundRestarted, RunEnded, RunEvent, RunResumed, TextDelta
from windlass.testing import ScriptedModel, Turn, call, calls, cut, refuse, say, think
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem, error_body, error_fields
from windlass.wires.responses.item_ids import approval_id, place_of, response_of_item
from windlass.wires.responses.response import (
    OutputForm,
    ServerName,
    ToolListing,
    error_frame,
    item_page,
    payloads,
    split_at_pause,
)
from windlass.wires.responses.write_events import ResponseEncoder

BEGUN = ["response.created", "response.in_progress"]
MESSAGE = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]
FUNCTION: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "description": None,
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    "strict": None,
}


@tool
def get_weather(city: str) -> str:
    """Current weather."""
    if city == "Atlantis":
        raise ToolError("no such city")
    return f"22 in {city}"


@tool(approve=True)
def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


def kind_and_text(response: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (item["type"], item["content"][0].get("text") if "content" in item else item.get("output"))
        for item in response["output"]
    ]


async def test_text_is_one_message() -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel(["Hello my friend."]), asked)
    stream = streamed(events, asked)
    assert kinds_of(stream) == [*BEGUN, *MESSAGE, "response.completed"]
    response = checked(stream)
    assert response["status"] == "completed"
    assert response["usage"]["total_tokens"] == 15
    assert kind_and_text(response) == [("message", "Hello my friend.")]
    deltas = [e["delta"] for e in parsed(stream) if e["type"].endswith("text.delta")]
    assert "".join(deltas) == "Hello my friend."
    assert response_of_item(response["output"][0]["id"]) == response["id"]
    assert place_of(response["id"]) == place_of(response["output"][0]["id"]) == (RUN, 0)


async def test_a_function_of_the_client_is_handed_back() -> None:
    asked = request(tools=[FUNCTION])
    model = ScriptedModel([call("look", at="the moon", id="call_abcdefghijklmnopqrst")])
    events, _ = await run_of(model, asked)
    stream = streamed(events, asked)
    assert kinds_of(stream) == [
        *BEGUN,
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    (item,) = checked(stream)["output"]
    assert (item["name"], item["arguments"]) == ("look", '{"at":"the moon"}')
    assert item["call_id"].startswith("call_0123456789abcdef01234567_")
    assert item["status"] == "completed"
    done = next(e for e in parsed(stream) if e["type"].endswith("arguments.done"))
    assert done["name"] == "look"


async def test_a_custom_tool_and_one_in_a_namespace_come_back_as_the_client_knows_them() -> None:
    member = {**FUNCTION, "name": "list.files"}
    tools = [
        {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
        {"type": "namespace", "name": "mcp__disk", "description": "", "tools": [member]},
    ]
    asked = request(tools=tools)
    patch, listed = offered(asked)
    turn = calls(call(patch, input="*** Begin"), call(listed, at="/"))
    events, _ = await run_of(ScriptedModel([turn]), asked)
    stream = streamed(events, asked)
    custom, function = checked(stream)["output"]
    assert custom["type"] == "custom_tool_call"
    assert (custom["name"], custom["input"]) == ("apply_patch", "*** Begin")
    assert (function["namespace"], function["name"]) == ("mcp__disk", "list.files")
    assert "response.custom_tool_call_input.done" in kinds_of(stream)


async def test_a_server_tool_is_an_mcp_call_in_the_same_response() -> None:
    asked = request()
    script = [think("Hmm.", calls(call("get_weather", city="Rome"), text="Wait.")), "It is 22."]
    events, _ = await run_of(ScriptedModel(script), asked, [get_weather])
    stream = streamed(events, asked, [get_weather])
    assert kinds_of(stream) == [
        *BEGUN,
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        *MESSAGE,
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
        *MESSAGE,
        "response.completed",
    ]
    response = checked(stream)
    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "message",
        "mcp_call",
        "message",
    ]
    ran = response["output"][2]
    assert (ran["server_label"], ran["name"]) == ("windlass", "get_weather")
    assert (ran["output"], ran["error"], ran["status"]) == ("22 in Rome", None, "completed")
    assert response["usage"]["input_tokens"] == 20


async def test_a_failed_server_tool_is_a_failed_mcp_call() -> None:
    asked = request()
    model = ScriptedModel([call("get_weather", city="Atlantis"), "No."])
    events, _ = await run_of(model, asked, [get_weather])
    stream = streamed(events, asked, [get_weather])
    ran = checked(stream)["output"][0]
    assert (ran["status"], ran["output"]) == ("failed", None)
    assert ran["error"]["type"] == "mcp_tool_execution_error"
    assert ran["error"]["content"] == [{"type": "text", "text": "no such city"}]
    assert "response.mcp_call.failed" in kinds_of(stream)


async def test_server_tools_as_pairs_show_results_in_call_order() -> None:
    asked = request()
    turn = calls(call("get_weather", city="Rome"), call("get_weather", city="Oslo"))
    events, _ = await run_of(ScriptedModel([turn, "Done."]), asked, [get_weather])
    response = checked(streamed(events, asked, [get_weather], server_tools="function_call"))
    assert kind_and_text(response) == [
        ("function_call", None),
        ("function_call", None),
        ("function_call_output", "22 in Rome"),
        ("function_call_output", "22 in Oslo"),
        ("message", "Done."),
    ]
    first, second, *outputs, _ = response["output"]
    assert [first["call_id"], second["call_id"]] == [each["call_id"] for each in outputs]


async def test_hidden_server_tools_leave_only_text() -> None:
    asked = request()
    model = ScriptedModel([call("get_weather", city="Rome"), "It is 22."])
    events, _ = await run_of(model, asked, [get_weather])
    stream = streamed(events, asked, [get_weather], server_tools="hidden")
    assert kind_and_text(checked(stream)) == [("message", "It is 22.")]


async def test_client_and_server_tools_in_one_turn() -> None:
    asked = request(tools=[FUNCTION])
    turn = calls(call("get_weather", city="Rome"), call("look", at="x"))
    events, _ = await run_of(ScriptedModel([turn]), asked, [get_weather])
    response = checked(streamed(events, asked, [get_weather]))
    assert [item["type"] for item in response["output"]] == ["mcp_call", "function_call"]
    assert response["output"][0]["output"] == "22 in Rome"


async def test_listed_tools_and_labels_of_an_mcp_server() -> None:
    asked = request()
    events, _ = await run_of(
        ScriptedModel([call("get_weather", city="Rome"), "Yes."]), asked, [get_weather]
    )
    shown = {"name": "weather", "description": None, "input_schema": {"type": "object"}}
    stream = streamed(
        events,
        asked,
        [get_weather],
        listings=(ToolListing("sky", (shown,)),),
        servers={"get_weather": ServerName("sky", "weather")},
    )
    assert kinds_of(stream)[2:6] == [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ]
    listing, ran, _ = checked(stream)["output"]
    assert listing["tools"] == [shown]
    assert (ran["server_label"], ran["name"]) == ("sky", "weather")


async def test_a_call_that_waits_for_approval_ends_the_response() -> None:
    asked = request()
    events, _ = await run_of(
        ScriptedModel([call("send_mail", to="Eve"), "Sent."]),
        asked,
        [send_mail],
        approve=lambda _: True,
    )
    until = next(n for n, e in enumerate(events) if type(e).__name__ == "ApprovalRequested")
    asking: Any = events[until]
    before, paused, is_paused = split_at_pause(events, offered(asked, [send_mail]), after=0)
    assert (before, paused, is_paused) == ([], events[: until + 1], True)
    later = split_at_pause(events, offered(asked, [send_mail]), after=until + 1)
    assert later == (paused, events[until + 1 :], False)
    stream = streamed(paused, asked, [send_mail])
    response = checked(stream)
    (item,) = response["output"]
    assert response["status"] == "completed"
    assert (item["type"], item["name"]) == ("mcp_approval_request", "send_mail")
    assert item["id"] == approval_id(response["id"], asking.call.id)
    assert item["arguments"] == '{"to":"Eve"}'
    whole = checked(streamed(events, asked, [send_mail]))
    assert [each["type"] for each in whole["output"]] == [
        "mcp_approval_request",
        "mcp_call",
        "message",
    ]
    assert whole["output"][1]["approval_request_id"] == item["id"]


async def test_a_refusal_is_a_completed_message() -> None:
    asked = request()
    extra = {"responses": {"refusal": "I cannot."}}
    events, _ = await run_of(ScriptedModel([""]), asked)
    refused = [
        msgspec.structs.replace(e, finish="content_filter", message_extra=extra)
        if type(e).__name__ == "TurnEnded"
        else msgspec.structs.replace(e, reason="content_filter")
        if isinstance(e, RunEnded)
        else e
        for e in events
    ]
    stream = streamed(refused, asked)
    assert kinds_of(stream) == [
        *BEGUN,
        "response.output_item.added",
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert checked(stream)["output"][0]["content"] == [{"type": "refusal", "refusal": "I cannot."}]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
async def test_a_cut_answer_is_incomplete(finish: Any, reason: str) -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel([say("Once upon", finish=finish)]), asked)
    stream = streamed(events, asked)
    response = checked(stream)
    assert kinds_of(stream)[-1] == "response.incomplete"
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": reason}
    assert response["output"][0]["status"] == "incomplete"


async def test_a_stopped_run_is_a_cancelled_response() -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel(["Hi"]), asked)
    stopped = [
        msgspec.structs.replace(e, reason="stopped") if isinstance(e, RunEnded) else e
        for e in events
    ]
    response = checked(streamed(stopped, asked))
    assert response["status"] == "cancelled"
    assert response["completed_at"] is None


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (Problem(429, "Too fast.", retry_after=7), "rate_limit_exceeded", "try again in 7s"),
        (Problem(429, "Empty.", "insufficient_quota"), "insufficient_quota", "Empty."),
        (Problem(400, "Long.", "context_length_exceeded"), "context_length_exceeded", "Long."),
        (Problem(400, "Bad."), "invalid_prompt", "Bad."),
        (Problem(503, "Busy."), "server_is_overloaded", "Busy."),
        (Problem(502, "Broken."), "server_error", "Broken."),
    ],
)
async def test_a_failure_is_an_error_event_and_a_failed_response(
    problem: Problem, code: str, said: str
) -> None:
    asked = request()
    model = ScriptedModel([cut("Half an answer", after=1), refuse(400)])
    events, _ = await run_of(model, asked)
    stream = streamed(events, asked, problem=problem)
    assert kinds_of(stream)[-2:] == ["error", "response.failed"]
    error = parsed(stream)[-2]
    assert (error["code"], error["error"]["code"]) == (code, code)
    assert error["error"]["message"] == error["message"]
    response = checked(stream)
    assert response["status"] == "failed"
    assert response["error"]["code"] == code
    assert said in response["error"]["message"]
    assert response["output"][0]["status"] == "incomplete"


async def test_a_run_that_failed_without_a_known_reason_has_its_error() -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel([refuse(400, "Not so.")]), asked)
    response = checked(streamed(events, asked))
    assert response["error"]["code"] == "server_error"
    assert "Not so." in response["error"]["message"]


async def test_reading_may_resume_after_any_event_with_the_same_bytes() -> None:
    asked = request(tools=[FUNCTION])
    script = [
        think("Hmm.", calls(call("get_weather", city="Rome"), text="Wait.")),
        calls(call("look", at="x"), text="Now you."),
    ]
    events, _ = await run_of(ScriptedModel(script), asked, [get_weather])
    whole = streamed(events, asked, [get_weather])
    assert streamed(events, asked, [get_weather]) == whole
    blocks = whole.split(b"\n\n")
    for number in range(len(blocks) - 2):
        rest = streamed(events, asked, [get_weather], after=number)
        assert rest == b"\n\n".join(blocks[number + 1 :])


async def test_a_restarted_round_is_one_answer() -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel(["The whole answer."]), asked)
    middle = next(n for n, e in enumerate(events) if isinstance(e, TextDelta)) + 1
    before: list[RunEvent] = events[:middle]
    again = events[middle - 1 :]
    resumed = [*before, RunResumed(1), RoundRestarted(1, "awaiting_model_call"), *again]
    stream = streamed(resumed, asked)
    response = checked(stream)
    assert kind_and_text(response) == [("message", "The whole answer.")]
    done = [e["item"] for e in parsed(stream) if e["type"] == "response.output_item.done"]
    assert [item["status"] for item in done] == ["incomplete", "completed"]


async def test_keep_alive_events_take_no_new_number() -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel(["Hi there"]), asked)
    encoder = ResponseEncoder(head_of(asked), {}, CallIds(RUN))
    sent = encoder.begin() + encoder.encode(events[:3])
    alive = encoder.keep_alive()
    (repeated,) = [msgspec.json.decode(each) for each in payloads(alive)]
    assert repeated["type"] == "response.in_progress"
    assert repeated["sequence_number"] == encoder.last_number
    checked(sent + encoder.encode(events[3:]) + encoder.end())


async def test_frames_of_a_socket_are_the_events_of_the_stream() -> None:
    asked = request()
    events, _ = await run_of(ScriptedModel(["Hi\n\nthere"]), asked)
    stream = streamed(events, asked)
    assert [msgspec.json.decode(each) for each in payloads(stream)] == parsed(stream)


async def test_earlier_text_can_be_left_out() -> None:
    asked = request()
    script = [calls(call("get_weather", city="Rome"), text="Let me see."), "It is 22."]
    events, _ = await run_of(ScriptedModel(script), asked, [get_weather])
    stream = streamed(events, asked, [get_weather], all_text=False, server_tools="hidden")
    assert kind_and_text(checked(stream)) == [("message", "It is 22.")]


async def test_reasoning_of_the_same_wire_goes_to_the_client_encrypted() -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    asked = request(include=["reasoning.encrypted_content"])
    events, _ = await run_of(ScriptedModel(["Hi"]), asked)
    place = next(n for n, e in enumerate(events) if isinstance(e, TextDelta))
    from windlass.events import ThoughtDelta

    thought = ThoughtDelta("", extra={"responses": item})
    with_thought = [*events[:place], thought, *events[place:]]
    response = checked(streamed(with_thought, asked))
    assert [each["type"] for each in response["output"]] == ["reasoning", "message"]
    assert response["output"][0]["encrypted_content"] == "gAAA"
    plain = request()
    assert len(checked(streamed(with_thought, plain))["output"]) == 1


async def test_parts_of_the_provider_and_images_are_items() -> None:
    search: dict[str, Any] = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    search["action"] = {"type": "search", "query": "x"}
    image = InlineData(b"png", "image/png")
    asked = request()
    turn = Turn(parts=(Opaque("responses", search), image))
    events, _ = await run_of(ScriptedModel([turn]), asked)
    response = checked(streamed(events, asked))
    assert response["output"][0] == search
    assert response["output"][1]["type"] == "image_generation_call"
    assert response["output"][1]["result"] == "cG5n"


async def test_phase_and_annotations_reach_the_client() -> None:
    cite: dict[str, Any] = {"type": "url_citation", "url": "http://x", "title": "X"}
    cite |= {"start_index": 0, "end_index": 2}
    asked = request()
    events, _ = await run_of(ScriptedModel([say("Hi", pieces="whole")]), asked)
    place = next(n for n, e in enumerate(events) if isinstance(e, TextDelta))
    marked = [
        *events[:place],
        TextDelta("", extra={"responses": {"phase": "final_answer"}}),
        events[place],
        TextDelta("", extra={"responses": {"annotations": [cite]}}),
        *events[place + 1 :],
    ]
    stream = streamed(marked, asked)
    (message,) = checked(stream)["output"]
    assert message["phase"] == "final_answer"
    assert message["content"][0]["annotations"] == [cite]
    assert "response.output_text.annotation.added" in kinds_of(stream)


async def test_the_body_has_every_field_of_the_specification() -> None:
    asked = request(
        instructions="Be brief.",
        metadata={"a": "b"},
        temperature=0.5,
        max_output_tokens=9,
        tools=[{"type": "function", "name": "look"}],
        text={"format": {"type": "json_object"}},
        reasoning={"effort": "low"},
        prompt_cache_key="k",
        store=False,
    )
    events, reply = await run_of(ScriptedModel(["Hi"]), asked)
    assert reply is not None
    events[-1] = replace(events[-1], time=9.0)
    fields = check_body(body_of(events, asked))
    assert fields["created_at"] == CREATED
    assert fields["completed_at"] == 9
    assert fields["instructions"] == "Be brief."
    assert fields["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": None,
            "parameters": None,
            "strict": None,
        }
    ]
    assert (fields["store"], fields["metadata"]) == (False, {"a": "b"})
    assert fields["text"] == {"format": {"type": "json_object"}}
    assert fields["reasoning"] == {"effort": "low", "summary": None}


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_an_active_run_is_a_response_with_what_it_has(status: Any) -> None:
    asked = request()
    script = [calls(call("get_weather", city="Rome"), text="Wait."), "It is 22."]
    events, _ = await run_of(ScriptedModel(script), asked, [get_weather])
    encoder = ResponseEncoder(head_of(asked), offered(asked, [get_weather]), CallIds(RUN))
    turns = [n for n, e in enumerate(events) if type(e).__name__ == "TurnEnded"]
    encoder.encode(events[: turns[0] + 1])
    fields = check_body(encoder.response(status))
    assert fields["status"] == status
    assert [item["type"] for item in fields["output"]] == ["message"]
    assert fields["usage"] is None


def test_usage_has_cached_and_reasoning_tokens() -> None:
    asked = request()
    encoder = ResponseEncoder(head_of(asked), {}, CallIds(RUN), OutputForm())
    encoder.encode([RunEnded("answer", Usage(10, 5, 15, 4, 3), 1)])
    usage = check_body(encoder.response())["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 4
    assert usage["output_tokens_details"]["reasoning_tokens"] == 3


def test_errors_over_http_and_on_a_socket() -> None:
    problem = Problem(400, "No such response.", "previous_response_not_found", "input")
    error = {
        "message": "No such response.",
        "type": "invalid_request_error",
        "param": "input",
        "code": "previous_response_not_found",
    }
    assert msgspec.json.decode(error_body(problem)) == {"error": error}
    frame = {"type": "error", "status": 400, "error": error}
    assert msgspec.json.decode(error_frame(400, error)) == frame


def test_an_error_on_a_socket_always_has_a_code() -> None:
    error = error_fields(Problem(400, "No call has this result.", param="input"))
    frame = msgspec.json.decode(error_frame(400, error))
    assert frame["error"]["code"] == "invalid_request_error"
    WebSocketErrorEvent.model_validate(frame)


def test_items_are_listed_in_pages() -> None:
    items = [{"id": f"msg_{n}"} for n in range(5)]
    first = item_page(items, limit=2)
    assert ([each["id"] for each in first["data"]], first["has_more"]) == (["msg_4", "msg_3"], True)
    last = item_page(items, limit=3, after=first["last_id"])
    assert (last["first_id"], last["last_id"], last["has_more"]) == ("msg_2", "msg_0", False)
    assert item_page(items, limit=1, newest_first=False)["first_id"] == "msg_0"
    assert item_page([])["data"] == []
