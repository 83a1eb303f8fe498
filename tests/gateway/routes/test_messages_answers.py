"""Answers of the Messages API: one body or a stream, as Anthropic's own SDK reads them."""

from typing import Any

import pytest
from tests.support.message_answers import sse_events
from tests.support.messages_gateway import (
    CONNECTOR,
    RING,
    MessagesGateway,
    assistant,
    calls_and_results,
    kinds,
    read,
    results,
    texts,
    user,
    without_ids,
)
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.content import Text, Thought, Usage
from windlass.gateway.config import ModelConfig, ServerConfig
from windlass.testing import (
    Gate,
    ScriptedModel,
    call,
    calls,
    raw_call,
    say,
    slow,
    think,
)

ROME = call("lookup", city="Rome")
MIXED = calls(
    call("lookup", city="Oslo"),
    call("ring", times=1),
    call("lookup", city="Kyiv"),
    call("ring", times=2),
    text="Let me see. ",
)
MIXED_TOLD = [
    ("lookup", "Oslo"),
    ("ring", 1),
    ("lookup", "Kyiv"),
    ("ring", 2),
    ("->", "lookup", "sunny in Oslo"),
    ("->", "ring", "rang"),
    ("->", "lookup", "sunny in Kyiv"),
    ("->", "ring", "rang"),
]
SCRIPTS: dict[str, list[Any]] = {
    "text": ["Hello, world."],
    "empty": [say("")],
    "thoughts": [think("Hm, let me see.", "Sunny.")],
    "only thoughts": [think("Hm.")],
    "rounds": [calls(ROME, text="Looking."), calls(call("lookup", city="Oslo")), "Done."],
    "failed tool": [call("lookup", city="Atlantis"), "No such city."],
    "unknown tool": [call("nothing"), "Done."],
    "client call": [call("ring", times=2)],
    "call without arguments": [raw_call("ring", "")],
    "two client calls": [calls(call("ring", times=1), call("ring", times=2), text="Ring, ring.")],
    "mixed": [MIXED],
    "server, then client": [ROME, calls(call("ring", times=1), text="Now ring.")],
    "thoughts and calls": [think("Look.", ROME), think("Ring.", call("ring", times=1))],
    "length": [say("Half of", finish="length")],
    "refusal": [say("I cannot.", finish="content_filter")],
    "cached": [say("Sunny.", usage=Usage(100, 7, 107, cached_tokens=60))],
}
TOOLS_OF: dict[str, Any] = {"tools": [RING]}
beta = pytest.mark.parametrize("headers", [(), (CONNECTOR,)], ids=["hidden", "connector"])
streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def asked(gateway: MessagesGateway, stream: bool, *headers: Any, **fields: Any) -> Any:
    """The message, from one body or from a stream."""
    if stream:
        return read(await gateway.stream(*headers, **fields))
    return await gateway.message(*headers, **fields)


@beta
@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_stream_and_a_body_are_the_same_message(script: str, headers: Any) -> None:
    body = await MessagesGateway(*SCRIPTS[script]).message(*headers, **TOOLS_OF)
    stream = await MessagesGateway(*SCRIPTS[script]).stream(*headers, **TOOLS_OF)
    whole, streamed = without_ids(body), without_ids(read(stream))
    usage, streamed_usage = whole.pop("usage"), streamed.pop("usage")
    assert streamed == whole
    assert usage.items() <= streamed_usage.items()


@pytest.mark.sdk
@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_sdk_accepts_every_body(script: str) -> None:
    from anthropic.types.beta import BetaMessage

    body = await MessagesGateway(*SCRIPTS[script]).message(CONNECTOR, **TOOLS_OF)
    message = BetaMessage.model_validate(body)
    assert message.to_dict(mode="json", exclude_unset=True) == body


async def test_a_message_has_the_fields_of_anthropics() -> None:
    gateway = MessagesGateway(say("Sunny.", usage=Usage(100, 7, 107, cached_tokens=60)))
    body = await gateway.message()
    assert body.pop("id").startswith("msg_")
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Sunny."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 60,
            "output_tokens": 7,
        },
    }


async def test_a_stream_has_the_content_type_of_a_stream() -> None:
    answer = await MessagesGateway("Hi.").post(
        {"model": "m", "max_tokens": 9, "messages": [user("Go.")], "stream": True}
    )
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-windlass-run-id"].startswith("run_")


# Server tools.


@streaming
async def test_several_rounds_are_one_message(stream: bool) -> None:
    gateway = MessagesGateway(
        calls(ROME, text="Looking."), calls(call("lookup", city="Oslo"), text="Again."), "Done."
    )
    message = await asked(gateway, stream)
    assert message["content"] == [{"type": "text", "text": "Looking.\n\nAgain.\n\nDone."}]
    assert message["usage"]["input_tokens"] == 30
    assert message["usage"]["output_tokens"] == 15


@streaming
async def test_server_tools_are_hidden_without_the_connectors_beta(stream: bool) -> None:
    gateway = MessagesGateway(ROME, "Sunny.")
    message = await asked(gateway, stream)
    assert kinds(message) == ["text"]
    assert "lookup" not in str(message)
    assert message["stop_reason"] == "end_turn"


@streaming
async def test_server_tools_are_shown_with_the_connectors_beta(stream: bool) -> None:
    gateway = MessagesGateway(calls(ROME, call("lookup", city="Atlantis")), "Sunny.")
    message = await asked(gateway, stream, CONNECTOR)
    first, second, result, failure, text = message["content"]
    assert kinds(message)[:4] == ["mcp_tool_use"] * 2 + ["mcp_tool_result"] * 2
    assert first["name"] == "lookup"
    assert first["server_name"] == "windlass"
    assert first["input"] == {"city": "Rome"}
    assert first["id"].startswith("mcptoolu_")
    assert result["tool_use_id"] == first["id"]
    assert result["is_error"] is False
    assert result["content"][0]["text"] == "sunny in Rome"
    assert failure["tool_use_id"] == second["id"]
    assert failure["is_error"] is True
    assert text["text"] == "Sunny."


async def test_no_delta_follows_the_start_of_a_server_tools_call() -> None:
    stream = await MessagesGateway(ROME, "Sunny.").stream(CONNECTOR)
    events = list(sse_events(stream))
    shown = {
        event["index"]
        for event in events
        if event["type"] == "content_block_start"
        and event["content_block"]["type"].startswith("mcp_")
    }
    changed = {event["index"] for event in events if event["type"] == "content_block_delta"}
    assert shown
    assert not shown & changed


@streaming
async def test_shown_server_calls_come_back_as_the_rounds_that_they_were(stream: bool) -> None:
    gateway = MessagesGateway(calls(ROME, text="Looking."), "Sunny.", "Bye.")
    message = await asked(gateway, stream, CONNECTOR)
    said = [user("Go."), assistant(message["content"]), user("Thanks.")]
    assert texts(await asked(gateway, stream, CONNECTOR, messages=said)) == "Bye."
    assert calls_and_results(gateway.seen) == [
        ("lookup", "Rome"),
        ("->", "lookup", "sunny in Rome"),
    ]
    assert [each.role for each in gateway.seen] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


# Client tools beside server tools.


@beta
@streaming
async def test_a_turn_with_calls_for_both_reaches_the_model_whole(
    stream: bool, headers: Any
) -> None:
    gateway = MessagesGateway(MIXED, "All done.")
    message = await asked(gateway, stream, *headers, **TOOLS_OF)
    assert message["stop_reason"] == "tool_use"
    rings = [block for block in message["content"] if block["type"] == "tool_use"]
    assert [block["input"] for block in rings] == [{"times": 1}, {"times": 2}]
    said = [user("Go."), assistant(message["content"]), results(message, ring="rang")]
    assert texts(await asked(gateway, stream, *headers, messages=said, **TOOLS_OF)) == "All done."
    assert sorted(map(str, calls_and_results(gateway.seen))) == sorted(map(str, MIXED_TOLD))
    if not headers:
        assert calls_and_results(gateway.seen) == MIXED_TOLD


@beta
@streaming
async def test_a_round_before_the_clients_call_reaches_the_model_once(
    stream: bool, headers: Any
) -> None:
    gateway = MessagesGateway(
        calls(ROME, text="Looking."), calls(call("ring", times=1), text="Ringing."), "Done."
    )
    message = await asked(gateway, stream, *headers, **TOOLS_OF)
    said = [user("Go."), assistant(message["content"]), results(message, ring="rang")]
    assert texts(await asked(gateway, stream, *headers, messages=said, **TOOLS_OF)) == "Done."
    assert calls_and_results(gateway.seen) == [
        ("lookup", "Rome"),
        ("->", "lookup", "sunny in Rome"),
        ("ring", 1),
        ("->", "ring", "rang"),
    ]
    said_texts = [part.text for each in gateway.seen for part in each.parts if type(part) is Text]
    assert said_texts == ["Go.", "Looking.", "Ringing."]


@beta
async def test_an_agents_whole_session_reaches_the_model_once(headers: Any) -> None:
    turns = [MIXED, ROME, call("ring", times=3), "First.", ROME, call("ring", times=4), "Second."]
    gateway = MessagesGateway(*turns)
    said = [user("Go.")]
    for answer in ("First.", "Second."):
        while True:
            message = await gateway.message(*headers, messages=said, **TOOLS_OF)
            said.append(assistant(message["content"]))
            if message["stop_reason"] != "tool_use":
                break
            said.append(results(message, ring="rang"))
        assert texts(message).endswith(answer)
        said.append(user("Again."))
    facts = calls_and_results(gateway.seen)
    assert len(facts) == len(MIXED_TOLD) + 2 * 4
    assert facts[-4:] == [
        ("lookup", "Rome"),
        ("->", "lookup", "sunny in Rome"),
        ("ring", 4),
        ("->", "ring", "rang"),
    ]


@pytest.mark.parametrize(("change", "kept"), [({"louder": False}, True), ({"times": 9}, False)])
async def test_a_call_with_added_defaults_is_the_same_call(change: Any, kept: bool) -> None:
    # Claude Code adds the defaults of missing arguments to the calls that it sends back.
    gateway = MessagesGateway(calls(ROME, call("ring", times=1)), "Done.")
    message = await gateway.message(**TOOLS_OF)
    [made] = message["content"]
    made["input"] |= change
    said = [user("Go."), assistant(message["content"]), results(message, ring="rang")]
    await gateway.message(messages=said, **TOOLS_OF)
    assert (("lookup", "Rome") in calls_and_results(gateway.seen)) == kept


async def test_a_result_that_is_an_error_stays_one() -> None:
    gateway = MessagesGateway(call("ring", times=1), "Oh.")
    message = await gateway.message(**TOOLS_OF)
    failed = results(message, ring="no bell")
    failed["content"][0]["is_error"] = True
    said = [user("Go."), assistant(message["content"]), failed]
    await gateway.message(messages=said, **TOOLS_OF)
    [response] = gateway.seen[-1].responses
    assert response.error == "no bell"


async def test_text_after_the_results_is_a_message_of_the_user() -> None:
    gateway = MessagesGateway(call("ring", times=1), "Fine.")
    message = await gateway.message(**TOOLS_OF)
    answered = results(message, ring="rang")
    answered["content"].append({"type": "text", "text": "Hurry up."})
    await gateway.message(
        messages=[user("Go."), assistant(message["content"]), answered], **TOOLS_OF
    )
    assert [each.role for each in gateway.seen] == ["user", "assistant", "tool", "user"]
    assert gateway.seen[-1].text == "Hurry up."


# Thinking.


@streaming
async def test_thoughts_are_thinking_blocks_with_our_own_signature(stream: bool) -> None:
    message = await asked(MessagesGateway(think("Hm.", "Sunny.")), stream)
    thinking, text = message["content"]
    assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": "windlass:"}
    assert text["text"] == "Sunny."


@streaming
@pytest.mark.parametrize(
    ("thinking", "shown"),
    [
        ({"type": "disabled"}, ["text"]),
        ({"type": "adaptive", "display": "omitted"}, ["text"]),
        ({"type": "enabled", "budget_tokens": 2000}, ["thinking", "text"]),
        ({"type": "between_tools"}, ["thinking", "text"]),
    ],
)
async def test_the_client_chooses_what_it_sees_of_thoughts(
    stream: bool, thinking: Any, shown: list[str]
) -> None:
    gateway = MessagesGateway(think("Hm.", "Sunny."))
    assert kinds(await asked(gateway, stream, thinking=thinking)) == shown


@streaming
async def test_thoughts_of_a_turn_with_a_call_come_back_to_the_model(stream: bool) -> None:
    gateway = MessagesGateway(think("Ring it.", call("ring", times=1)), "Done.")
    message = await asked(gateway, stream, **TOOLS_OF)
    assert kinds(message) == ["thinking", "tool_use"]
    said = [user("Go."), assistant(message["content"]), results(message, ring="rang")]
    await asked(gateway, stream, messages=said, **TOOLS_OF)
    [turn] = [each for each in gateway.seen if each.role == "assistant"]
    assert [part.text for part in turn.parts if isinstance(part, Thought)] == ["Ring it."]


# Stop reasons and the rules that break clients.


@streaming
@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (say("Done."), "end_turn"),
        (call("ring", times=1), "tool_use"),
        (calls(ROME, call("ring", times=1)), "tool_use"),
        (say("Half", finish="length"), "max_tokens"),
        (say("No.", finish="content_filter"), "refusal"),
    ],
)
async def test_the_stop_reason_is_the_models(stream: bool, turn: Any, reason: str) -> None:
    message = await asked(MessagesGateway(turn), stream, **TOOLS_OF)
    assert message["stop_reason"] == reason
    assert (reason == "tool_use") == ("tool_use" in kinds(message))


@streaming
async def test_a_truncated_call_is_not_a_reason_to_run_it(stream: bool) -> None:
    turn = calls(raw_call("ring", '{"times": 1'), finish="length")
    message = await asked(MessagesGateway(turn), stream, **TOOLS_OF)
    assert message["stop_reason"] == "max_tokens"


async def test_a_tools_block_starts_with_an_empty_object_and_joins_to_json() -> None:
    turn = calls(raw_call("ring", ""), call("ring", times=2))
    events = list(sse_events(await MessagesGateway(turn).stream(**TOOLS_OF)))
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block["input"] for block in starts] == [{}, {}]
    assert all(block["id"] and block["name"] == "ring" for block in starts)
    joined = ["", ""]
    for event in events:
        if event["type"] == "content_block_delta":
            joined[event["index"]] += event["delta"]["partial_json"]
    assert [piece.replace(" ", "") for piece in joined] == ["{}", '{"times":2}']


async def test_the_usage_at_the_end_replaces_the_estimate_at_the_start() -> None:
    events = list(sse_events(await MessagesGateway(ROME, "Sunny.").stream()))
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    [last] = [event for event in events if event["type"] == "message_delta"]
    assert last["usage"]["input_tokens"] == 20
    assert last["usage"]["output_tokens"] == 10


async def test_a_json_answer_has_no_text_of_earlier_rounds() -> None:
    schema = {"type": "object", "properties": {"sky": {"type": "string"}}}
    gateway = MessagesGateway(calls(ROME, text="Looking."), '{"sky": "clear"}')
    wanted = {"format": {"type": "json_schema", "schema": schema}}
    assert texts(await gateway.message(output_config=wanted)) == '{"sky": "clear"}'
    assert gateway.model.requests[-1].settings.response_schema == schema


class Door:
    """Where the tool `hold` waits."""

    gate = Gate()


@tool
async def hold() -> str:
    """Waits until the test opens the gate."""
    await Door.gate.passed()
    return "held"


@pytest.mark.sdk
@pytest.mark.parametrize("waits", ["tool", "model"])
def test_pings_keep_an_idle_stream_alive(waits: str) -> None:
    from anthropic import Anthropic

    Door.gate = Gate()
    held = slow(say("Done."), Door.gate)
    model = ScriptedModel([call("hold"), "Done."] if waits == "tool" else [held])
    config = config_of(
        ModelConfig(name="m", target="scripted/model", tools=("hold",)),
        server=ServerConfig(heartbeat=0.02, access_log=False),
    )
    with (
        Serving(config, models={"m": model}, tools=[hold]) as serving,
        Anthropic(base_url=serving.root_url, api_key="k", max_retries=0) as client,
        client.messages.with_streaming_response.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Go."}], stream=True
        ) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "event: message_start"
        for line in lines:
            if line == "event: ping":
                break
        assert next(lines) == 'data: {"type":"ping"}'
        Door.gate.open()
        rest = list(lines)
    assert "event: message_stop" in rest


async def test_a_model_without_tools_answers() -> None:
    served = ModelConfig(name="m", target="scripted/model", function_calling=False)
    assert texts(await MessagesGateway("Hi.", served=served).message()) == "Hi."
