"""`/v1/responses`: answers, stored responses, continued conversations and errors."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post, request
from tests.support.responding import (
    PATH,
    deleted,
    events,
    is_stored,
    item_of,
    kinds,
    last_response,
    posted,
    replayed,
    respond,
    retrieved,
    run_count,
    stream,
    text_of,
    types,
)
from tests.support.restarting import SERVED, Place, Places
from tests.support.serving import config_of
from tests.support.talking import Body

from windlass.gateway.config import ModelConfig
from windlass.testing import Gate, call, calls, interrupt, refuse, say, slow, think

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
PATCH = {"type": "custom", "name": "apply_patch"}
SPACE = {"type": "namespace", "name": "files", "description": "", "tools": [WEATHER]}


def user(text: str) -> Body:
    return {"type": "message", "role": "user", "content": text}


def said(place: Place, number: int = -1) -> list[tuple[str, str]]:
    """The roles and texts that the model received."""
    messages = place.model.requests[number].messages
    return [
        (message.role, message.text or "".join(each.text for each in message.responses))
        for message in messages
    ]


# JSON and stream.

SHAPES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "text": ([say("Hello there.")], {}),
    "reasoning": ([think("Let me see.", "Hello.")], {}),
    "client function": ([call("get_weather", city="Paris")], {"tools": [WEATHER]}),
    "namespace": ([call("files__get_weather", city="Paris")], {"tools": [SPACE]}),
    "custom tool": ([call("apply_patch", input="*** Begin")], {"tools": [PATCH]}),
    "server tool": ([call("lookup", city="Rome"), "Sunny."], {}),
    "server tool as a pair": (
        [call("lookup", city="Rome"), "Sunny."],
        {"server_tools": "function_call"},
    ),
    "hidden server tool": ([call("lookup", city="Rome"), "Sunny."], {"server_tools": "hidden"}),
    "server and client tool": (
        [calls(call("lookup", city="Rome"), call("get_weather", city="Oslo"))],
        {"tools": [WEATHER]},
    ),
    "cut by length": ([say("Too lo", finish="length")], {}),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_stream_ends_with_the_response_that_json_would_have_returned(
    places: Places, shape: str
) -> None:
    script, fields = SHAPES[shape]
    place = places.open([*script, *script])
    whole = await respond(place, "Go.", **fields)
    sent = await stream(place, "Go.", **fields)
    streamed = last_response(sent)
    assert without_ids(streamed) == without_ids(whole)
    assert await retrieved(place, streamed["id"]) == streamed
    assert await retrieved(place, whole["id"]) == whole
    assert await replayed(place, streamed["id"]) == sent


def without_ids(value: Any) -> Any:
    """The value without what differs between two runs."""
    if isinstance(value, dict):
        changing = {"id", "call_id", "created_at", "completed_at", "approval_request_id"}
        return {k: without_ids(v) for k, v in value.items() if k not in changing}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("shape", ["text", "server tool", "client function"])
async def test_the_events_after_any_number_are_the_rest_of_the_stream(
    places: Places, shape: str
) -> None:
    script, fields = SHAPES[shape]
    place = places.open(script)
    sent = await stream(place, "Go.", **fields)
    response, listed = last_response(sent)["id"], sent.split(b"\n\n")
    for number in range(len(events(sent))):
        assert await replayed(place, response, number) == b"\n\n".join(listed[number + 1 :])
    assert await replayed(place, response, 10**6) == b"data: [DONE]\n\n"


async def test_items_of_the_output_were_each_added_and_done_once(places: Places) -> None:
    place = places.open([call("lookup", city="Rome"), "Sunny."])
    sent = await stream(place, "Go.")
    for kind in ("response.output_item.added", "response.output_item.done"):
        found = [event for event in events(sent) if event["type"] == kind]
        assert [event["output_index"] for event in found] == list(range(len(found)))
    done = [e["item"] for e in events(sent) if e["type"] == "response.output_item.done"]
    assert done == last_response(sent)["output"]
    assert types(sent).count("response.created") == 1


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("mcp_call", ["mcp_call", "message"]),
        ("function_call", ["function_call", "function_call_output", "message"]),
        ("hidden", ["message"]),
    ],
)
async def test_server_tools_are_shown_as_the_request_or_the_model_says(
    places: Places, form: Any, shown: list[str]
) -> None:
    script = [call("lookup", city="Rome"), "Sunny."]
    place = places.open(script)
    found = kinds(await respond(place, "Go.", server_tools=form))
    model = ModelConfig(name="m", target="scripted/model", tools=("lookup",), server_tools=form)
    configured = places.open(script, config=config_of(model))
    by_model = await respond(configured, "Go.")
    assert [kind for kind in found if kind != "mcp_list_tools"] == shown
    assert kinds(by_model) == found
    overridden = await respond(
        places.open(script, config=config_of(model)), "Go.", server_tools="hidden"
    )
    assert kinds(overridden) == ["message"]


async def test_an_mcp_call_has_its_arguments_and_its_output(places: Places) -> None:
    response = await respond(places.open([call("lookup", city="Rome"), "Sunny."]), "Go.")
    made = item_of(response, "mcp_call")
    assert made["name"] == "lookup"
    assert made["arguments"] == '{"city":"Rome"}'
    assert made["output"] == "sunny in Rome"
    assert (made["error"], made["status"]) == (None, "completed")
    assert response["usage"]["total_tokens"] == 30  # of both rounds


# Conversations by `previous_response_id`.


async def test_a_response_continues_another_without_its_instructions(places: Places) -> None:
    place = places.open(["One.", "Two.", "Three."])
    first = await respond(place, "First?", instructions="Be brief.")
    second = await respond(
        place, "Second?", previous_response_id=first["id"], instructions="Be long."
    )
    third = await respond(place, [user("Third?")], previous_response_id=second["id"])
    assert said(place, 1) == [
        ("system", "Be long."),
        ("user", "First?"),
        ("assistant", "One."),
        ("user", "Second?"),
    ]
    assert said(place)[0] == ("user", "First?")
    assert [text for _, text in said(place)] == ["First?", "One.", "Second?", "Two.", "Third?"]
    assert second["previous_response_id"] == first["id"]
    assert third["instructions"] is None


@pytest.mark.parametrize("tools", [[WEATHER], [PATCH], [SPACE]])
async def test_the_result_of_a_client_tool_continues_its_call(
    places: Places, tools: list[Body]
) -> None:
    name = {"function": "get_weather", "custom": "apply_patch", "namespace": "files__get_weather"}
    turn = call(name[tools[0]["type"]], input="x")
    place = places.open([turn, "Done."])
    first = await respond(place, "Go.", tools=tools)
    [made] = first["output"]
    result = {"type": f"{made['type']}_output", "call_id": made["call_id"], "output": "Fine."}
    second = await respond(place, [result], previous_response_id=first["id"], tools=tools)
    assert text_of(second) == "Done."
    assert said(place)[-1] == ("tool", "Fine.")
    [asked] = place.model.requests[-1].messages[-1].responses
    [call_made] = place.model.requests[-1].messages[-2].calls
    assert (asked.id, asked.name) == (call_made.id, call_made.name)
    whole = [user("Go."), made, result]
    assert text_of(await respond(places.open(["Again."]), whole, tools=tools)) == "Again."


async def test_a_turn_of_both_kinds_of_tools_continues_complete(places: Places) -> None:
    both = calls(call("lookup", city="Rome"), call("get_weather", city="Oslo"))
    place = places.open([both, "Done."])
    first = await respond(place, "Go.", tools=[WEATHER])
    made = item_of(first, "function_call")
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "Rain."}
    await respond(place, [result], previous_response_id=first["id"], tools=[WEATHER])
    answers = [part.text for part in place.model.requests[-1].messages[-1].responses]
    assert answers == ["sunny in Rome", "Rain."]


async def test_a_stored_item_can_be_referred_to(places: Places) -> None:
    place = places.open(["One.", "Two."])
    first = await respond(place, "First?")
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    await respond(place, [user("First?"), reference, user("Second?")])
    assert said(place) == [("user", "First?"), ("assistant", "One."), ("user", "Second?")]


async def test_input_items_are_listed_in_both_orders_and_in_pages(places: Places) -> None:
    place = places.open(["One.", "Two."])
    response = await respond(place, [user("A"), user("B"), user("C")], instructions="Hidden.")
    path = f"{PATH}/{response['id']}/input_items"
    listed = (await place.get(f"{path}?order=asc")).json
    texts = [item["content"][0]["text"] for item in listed["data"]]
    assert texts == ["A", "B", "C"]
    assert (await place.get(path)).json["data"] == listed["data"][::-1]
    page = (await place.get(f"{path}?order=asc&limit=1&after={listed['first_id']}")).json
    assert (page["data"], page["has_more"]) == (listed["data"][1:2], True)


# What is stored.


async def test_a_response_that_is_not_stored_cannot_be_read_or_listed(
    places: Places, file: Path
) -> None:
    place = places.open([call("lookup", city="Atlantis"), "Secret answer."])
    response = await respond(place, "Secret question.", store=False)
    assert text_of(response) == "Secret answer."
    assert (response["store"], run_count(file)) == (False, 0)
    assert not any(is_stored(file, words) for words in ("Secret", "Atlantis"))
    for path in ("", "?stream=true", "/input_items"):
        answer = await place.get(f"{PATH}/{response['id']}{path}")
        assert answer.status == 404, answer
    continued = await posted(place, "More?", previous_response_id=response["id"])
    assert (continued.status, continued.error["code"]) == (400, "previous_response_not_found")


async def test_a_deleted_response_is_deleted_with_its_run(places: Places, file: Path) -> None:
    place = places.open(["One."])
    response = await respond(place, "Go.")
    assert run_count(file) == 1
    assert (await deleted(place, response["id"])).json == {
        "id": response["id"],
        "object": "response",
        "deleted": True,
    }
    assert run_count(file) == 0
    assert (await place.get(f"{PATH}/{response['id']}")).status == 404
    assert (await deleted(place, response["id"])).status == 404


async def test_a_response_in_the_background_is_cancelled(places: Places) -> None:
    gate = Gate()
    place = places.open([slow(say("One two three."), gate, after=1)])
    response = await respond(place, "Go.", background=True)
    assert response["status"] in ("queued", "in_progress")
    assert (await deleted(place, response["id"])).error["code"] == "run_in_progress"
    cancelled = await request(place.app, "POST", f"{PATH}/{response['id']}/cancel")
    gate.open()
    assert cancelled.json["status"] == "cancelled", cancelled
    assert (await retrieved(place, response["id"]))["status"] == "cancelled"
    again = await request(place.app, "POST", f"{PATH}/{response['id']}/cancel")
    assert again.json == cancelled.json
    foreground = await request(
        place.app, "POST", f"{PATH}/{(await respond(places.open(['x']), 'Go.'))['id']}/cancel"
    )
    assert (foreground.status, foreground.error["code"]) == (400, "not_in_background")


# Bad input.

CALL_OUTPUT = {"type": "function_call_output", "call_id": "call_9", "output": "x"}
BAD: dict[str, tuple[Body, int, str, str | None]] = {
    "unknown item type": (
        {"input": [{"type": "telepathy"}]},
        400,
        "input[0].type",
        "invalid_value",
    ),
    "a result without its call": ({"input": [CALL_OUTPUT]}, 400, "input[0].call_id", None),
    "both kinds of continuation": (
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        400,
        "previous_response_id",
        "mutually_exclusive_parameters",
    ),
    "a foreign response": (
        {"previous_response_id": "resp_0123"},
        400,
        "previous_response_id",
        "previous_response_not_found",
    ),
    "an unknown response": (
        {"previous_response_id": "resp_" + "0" * 24},
        400,
        "previous_response_id",
        "previous_response_not_found",
    ),
    "an unknown conversation": (
        {"conversation": "conv_1"},
        404,
        "conversation",
        "conversation_not_found",
    ),
    "a foreign item": (
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        400,
        "input[0].id",
        None,
    ),
    "a foreign approval": (
        {"input": [{"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}]},
        400,
        "input[0]",
        "approval_not_found",
    ),
    "no input": ({"input": []}, 400, "input", "missing_field"),
    "no model": ({"model": ""}, 400, "model", "missing_field"),
    "unknown model": ({"model": "nope"}, 404, "model", "model_not_found"),
    "a tool without a name": (
        {"tools": [{"type": "function"}]},
        400,
        "tools[0].name",
        "invalid_tool",
    ),
    "a broken address": (
        {
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_file", "file_url": "http://[", "filename": ""}],
                }
            ]
        },
        400,
        "input[0].content[0].file_url",
        None,
    ),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("case", BAD)
async def test_bad_input_gets_its_error_and_nothing_is_stored(
    places: Places, file: Path, case: str, streams: bool
) -> None:
    fields, status, param, code = BAD[case]
    place = places.open(["Never said."])
    body = {"model": "m", "input": "Go.", "stream": streams, **fields}
    answer = await post(place.app, body, PATH)
    assert answer.status == status, answer
    assert (answer.error["param"], answer.error["code"]) == (param, code)
    assert (run_count(file), place.model.requests) == (0, [])


async def test_a_result_for_no_call_of_the_previous_response_is_refused(
    places: Places, file: Path
) -> None:
    place = places.open(["One.", "Two."])
    first = await respond(place, "Go.")
    answer = await posted(place, [CALL_OUTPUT], previous_response_id=first["id"])
    assert (answer.status, run_count(file)) == (400, 1), answer
    assert "call_9" in answer.error["message"]


@pytest.mark.parametrize("kind", ["web_search", "tool_search", "image_generation", "telepathy"])
async def test_hosted_tools_are_skipped(places: Places, kind: str) -> None:
    place = places.open(["Fine."])
    response = await respond(place, "Go.", tools=[{"type": kind}, WEATHER])
    assert text_of(response) == "Fine."
    names = {getattr(tool, "name", "") for tool in place.model.requests[0].tools}
    assert names == {"lookup", "erase", "get_weather"}
    assert [tool["type"] for tool in response["tools"]] == [kind, "function"]


# Errors of the model.


async def test_a_failure_before_the_first_event_is_an_error_status(places: Places) -> None:
    place = places.open([refuse(400, "Too hot."), refuse(400, "Too hot.")])
    for streams in (False, True):
        answer = await posted(place, "Go.", stream=streams)
        assert (answer.status, answer.error["message"]) == (400, "Too hot.")


async def test_a_failure_in_the_middle_of_a_stream_is_an_error_event_and_a_failed_response(
    places: Places,
) -> None:
    place = places.open([interrupt(say("One two three."), 2, error=refuse(500, "Broke."))])
    sent = await stream(place, "Go.")
    *_, error, failed = events(sent)
    assert error["type"] == "error"
    assert error["message"] == error["error"]["message"]
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"]["message"] == error["message"]
    stored = await retrieved(place, failed["response"]["id"])
    assert stored["status"] == "failed"
    assert stored["output"] == failed["response"]["output"]
    assert types(await replayed(place, stored["id"])) == types(sent)


# The other endpoints that count and compact.


async def test_a_compacted_conversation_is_the_input_of_a_new_one(
    places: Places, file: Path
) -> None:
    place = places.open(["One.", "They counted.", "Two."])
    first = await respond(place, "Count.")
    answer = await posted(place, "More?", f"{PATH}/compact", previous_response_id=first["id"])
    assert answer.status == 200, answer
    compacted = answer.json
    assert compacted["object"] == "response.compaction"
    assert [item["type"] for item in compacted["output"]] == ["compaction"]
    assert run_count(file) == 1
    await respond(place, [*compacted["output"], user("Next?")])
    summary, question = said(place)
    assert "They counted." in summary[1]
    assert question == ("user", "Next?")
    missing = await post(place.app, {"input": "x"}, f"{PATH}/compact")
    assert missing.status == 400


async def test_input_tokens_are_counted_without_a_run(places: Places, file: Path) -> None:
    place = places.open([])
    short = (await posted(place, "Hi", f"{PATH}/input_tokens")).json
    long = (await posted(place, "Hi " * 100, f"{PATH}/input_tokens", tools=[WEATHER])).json
    assert short["object"] == "response.input_tokens"
    assert 0 < short["input_tokens"] < long["input_tokens"]
    assert run_count(file) == 0


# Without a log of runs.


async def test_without_a_log_a_response_is_kept_in_memory_for_a_while() -> None:
    place = Place(None, ["One.", "Two."], config=SERVED)
    first = await respond(place, "First?")
    assert await retrieved(place, first["id"]) == first
    second = await respond(place, "Second?", previous_response_id=first["id"])
    assert [text for _, text in said(place)] == ["First?", "One.", "Second?"]
    assert text_of(second) == "Two."
    await place.gateway.aclose()


@pytest.mark.parametrize("background", [False, True])
async def test_a_client_that_leaves_stops_a_response_unless_it_is_in_the_background(
    places: Places, background: bool
) -> None:
    gate, leaves = Gate(), asyncio.Event()
    place = places.open([slow(say("One two."), gate, after=1)])
    asked = {"model": "m", "input": "Go.", "stream": True, "background": background}
    asking = asyncio.create_task(post(place.app, asked, PATH, leaves=leaves))
    await gate.reached.wait()
    [run] = place.gateway.runs.running()
    leaves.set()
    await asking
    if background:
        assert not run.task.done()
        gate.open()
    await asyncio.wait([run.task])
    found = await retrieved(place, f"resp_{run.id.removeprefix('run_')}")
    assert found["status"] == ("completed" if background else "cancelled")
