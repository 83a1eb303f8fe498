"""A client that demands a call (`tool_choice`) gets it, though the gateway has server tools."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.support.restarting import content, places_on
from tests.support.serving import config_of
from tests.support.talking import function as client_tool
from tests.support.wire_helpers import (
    WIRES,
    Body,
    Stage,
    Upstream,
    asked,
    declared_names,
    function,
    reassembled,
    tool_message,
    user,
)

from windlass import tool
from windlass.events import TextDelta
from windlass.gateway.config import ModelConfig, ServerConfig
from windlass.testing import Gate, Step, call, calls, say, slow, tool_results

RING = function("ring", times={"type": "integer"})
DIAL = function("dial", times={"type": "integer"})
MAX_ROUNDS = ModelConfig(name="m", target="openai/m").max_rounds


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(tools=[lookup], server=ServerConfig(access_log=False)) as stage:
        yield stage


@pytest.fixture(params=WIRES)
def upstream(stage: Stage, request: pytest.FixtureRequest) -> Upstream:
    return stage.upstreams[request.param]


either_way = pytest.mark.parametrize("streams", [False, True], ids=["blocking", "streamed"])
either_kind = pytest.mark.parametrize("mode", ["auto", "native"])


class Asked:
    """One request to the gateway: its answer, and the requests to the service behind it."""

    def __init__(self, stage: Stage, upstream: Upstream, *, streams: bool, mode: str) -> None:
        self._stage, self._upstream, self._streams = stage, upstream, streams
        self._headers = {"X-Function-Calling-Mode": mode}

    async def gets(self, *steps: Step, **fields: Any) -> Body:
        """The message, streamed or not, in one form."""
        self._upstream.plays(*steps)
        model = self._upstream.model_with_tools
        fields = {"stream": self._streams, **fields}
        async with asked(self._stage, model, headers=self._headers, **fields) as answer:
            if answer.status != 200:
                return {"status": answer.status, **(await answer.response.json())["error"]}
            if self._streams:
                return reassembled(await answer.chunks())
            [choice] = (await answer.response.json())["choices"]
        made = choice["message"].get("tool_calls") or []
        return {
            **choice["message"],
            "tool_calls": [{"id": one["id"], **one["function"]} for one in made],
            "finish_reason": choice["finish_reason"],
        }

    @property
    def choices(self) -> list[Any]:
        """The `tool_choice` of each request to the service: a word, or the names."""
        return [_choice(body) for body in self._upstream.bodies]

    @property
    def declared(self) -> list[list[str]]:
        return [declared_names(body) for body in self._upstream.bodies]


def _choice(body: Body) -> Any:
    if "contents" in body:
        config = body.get("toolConfig", {}).get("functionCallingConfig", {"mode": "AUTO"})
        names = config.get("allowedFunctionNames")
        mode = {"ANY": "required", "VALIDATED": "auto"}.get(config["mode"], config["mode"].lower())
        return (mode, *names) if names else mode
    match body.get("tool_choice"):
        case {"allowed_tools": {"mode": mode, "tools": tools}}:
            return (mode, *(each["function"]["name"] for each in tools))
        case {"function": {"name": name}}:
            return ("required", name)
        case None:
            return "auto"
        case word:
            return word


@pytest.fixture
def ask(stage: Stage, upstream: Upstream, streams: bool, mode: str) -> Asked:
    return Asked(stage, upstream, streams=streams, mode=mode)


def made(message: Body) -> list[tuple[str, Any]]:
    assert message["finish_reason"] == "tool_calls"
    return [(one["name"], json.loads(one["arguments"])) for one in message["tool_calls"]]


def named(name: str) -> Body:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> Body:
    tools = [named(name) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@either_way
@either_kind
async def test_a_required_call_stays_required_after_rounds_of_server_tools(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        call("lookup", city="Rome"),
        calls(call("ring", times=2), text="I ring."),
        tools=[RING],
        tool_choice="required",
    )
    assert made(message) == [("ring", {"times": 2})]
    assert message["content"] == "I ring."
    assert ask.choices == ["required"] * 3
    assert ask.declared == [["lookup", "ring"]] * 3


@either_way
@either_kind
async def test_calls_of_both_kinds_in_one_turn_satisfy_the_choice(ask: Asked):
    both = calls(call("lookup", city="Oslo"), call("ring", times=2))
    message = await ask.gets(both, tools=[RING], tool_choice="required")
    assert made(message) == [("ring", {"times": 2})]
    assert ask.choices == ["required"]


@either_way
@either_kind
async def test_without_parallel_calls_the_run_ends_in_a_client_call(ask: Asked):
    both = calls(call("lookup", city="Oslo"), call("ring", times=1))
    message = await ask.gets(
        both,
        call("ring", times=2),
        tools=[RING],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert made(message) == [("ring", {"times": 2})]
    assert ask.choices == ["required", "required"]


@either_way
@either_kind
async def test_required_without_client_tools_is_satisfied_by_a_server_tool(ask: Asked):
    message = await ask.gets(call("lookup", city="Oslo"), "Sunny.", tool_choice="required")
    assert (message["content"], message["finish_reason"]) == ("Sunny.", "stop")
    assert ask.choices == ["required", "auto"]


@either_way
@either_kind
async def test_a_named_server_tool_is_forced_until_it_ran(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"), "Sunny.", tools=[RING], tool_choice=named("lookup")
    )
    assert (message["content"], message["finish_reason"]) == ("Sunny.", "stop")
    assert ask.choices == [("required", "lookup"), "auto"]


@either_way
@either_kind
async def test_after_a_named_server_tool_the_model_may_call_client_tools(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        call("ring", times=1),
        tools=[RING],
        tool_choice=named("lookup"),
    )
    assert made(message) == [("ring", {"times": 1})]


@either_way
@either_kind
async def test_a_named_client_tool_is_called_at_once(ask: Asked):
    message = await ask.gets(
        calls(call("lookup", city="Oslo"), call("ring", times=1)),
        tools=[RING, DIAL],
        tool_choice=named("ring"),
    )
    assert made(message) == [("ring", {"times": 1})]
    assert ask.choices == [("required", "ring")]


@either_way
@either_kind
async def test_the_older_function_call_field_works_the_same(ask: Asked):
    message = await ask.gets(
        call("ring", times=1), functions=[RING["function"]], function_call={"name": "ring"}
    )
    made_call = message["function_call"]
    assert (made_call["name"], json.loads(made_call["arguments"])) == ("ring", {"times": 1})
    assert message["finish_reason"] == "function_call"
    assert ask.choices == [("required", "ring")]


# `allowed_tools`.


@either_way
@either_kind
async def test_required_allowed_tools_of_both_kinds_end_in_a_client_call(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        call("ring", times=1),
        tools=[RING, DIAL],
        tool_choice=allowed("required", "lookup", "ring"),
    )
    assert made(message) == [("ring", {"times": 1})]
    assert ask.choices == [("required", "lookup", "ring")] * 2


@either_way
@either_kind
async def test_required_allowed_server_tools_limit_the_calls_that_follow(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        calls(call("ring", times=1), text="Sunny."),
        tools=[RING],
        tool_choice=allowed("required", "lookup"),
    )
    assert (message["content"], message["tool_calls"]) == ("Sunny.", [])
    assert ask.choices == [("required", "lookup"), ("auto", "lookup")]


@either_way
@either_kind
async def test_auto_among_allowed_tools_requires_no_call(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        "Sunny.",
        tools=[RING, DIAL],
        tool_choice=allowed("auto", "lookup", "ring"),
    )
    assert (message["content"], message["finish_reason"]) == ("Sunny.", "stop")
    assert ask.choices == [("auto", "lookup", "ring")] * 2


@either_way
@either_kind
async def test_allowed_tools_that_are_all_tools_are_not_sent(ask: Asked, upstream: Upstream):
    message = await ask.gets(
        call("ring", times=1), tools=[RING], tool_choice=allowed("required", "lookup", "ring")
    )
    assert made(message) == [("ring", {"times": 1})]
    assert ask.choices in (["required"], [("required", "lookup", "ring")])  # OpenAI's, Gemini's
    assert "allowed_tools" not in json.dumps(upstream.bodies)


# Limits.


@either_way
@either_kind
async def test_after_the_last_round_only_client_tools_are_left(ask: Asked):
    message = await ask.gets(
        *(call("lookup", city=str(number)) for number in range(MAX_ROUNDS)),
        call("dial", times=1),
        tools=[RING, DIAL],
        tool_choice="required",
    )
    assert made(message) == [("dial", {"times": 1})]
    assert ask.declared == [["lookup", "ring", "dial"]] * MAX_ROUNDS + [["ring", "dial"]]
    assert ask.choices[-1] in ("required", ("required", "ring", "dial"))


@either_way
@either_kind
async def test_after_the_last_round_no_server_tool_is_called(ask: Asked):
    message = await ask.gets(
        *(call("lookup", city=str(number)) for number in range(MAX_ROUNDS)),
        calls(call("lookup", city="once more"), call("ring", times=1)),
        tools=[RING],
        tool_choice="required",
    )
    assert made(message) == [("ring", {"times": 1})]


# The conversation.


@either_way
@either_kind
async def test_a_client_that_requires_a_call_again_after_its_results_gets_another(
    ask: Asked, upstream: Upstream
):
    first = await ask.gets(
        call("lookup", city="Oslo"), call("ring", times=1), tools=[RING], tool_choice="required"
    )
    [rang] = first["tool_calls"]
    history = [
        user("Go."),
        {
            "role": "assistant",
            "content": first["content"],
            "tool_calls": [
                {
                    "id": rang["id"],
                    "type": "function",
                    "function": {"name": rang["name"], "arguments": rang["arguments"]},
                }
            ],
        },
        tool_message(rang["id"], "rang"),
    ]
    second = await ask.gets(
        call("lookup", city="Rome"),
        call("ring", times=2),
        messages=history,
        tools=[RING],
        tool_choice="required",
    )
    assert made(second) == [("ring", {"times": 2})]
    assert ask.choices == ["required", "required"]
    told = [result.name for result in tool_results(upstream.bodies[-1])]
    assert told == ["lookup", "ring", "lookup"]


# Models that ignore it.

IN_WORDS = '<tool_call>\n{"name": "ring", "arguments": {"times": 3}}\n</tool_call>'


@either_way
@pytest.mark.parametrize("mode", ["auto"])
async def test_a_model_that_answers_in_text_after_a_server_tool_is_asked_again(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        "It is sunny.",
        IN_WORDS,
        tools=[RING],
        tool_choice="required",
    )
    assert made(message) == [("ring", {"times": 3})]
    assert "sunny" not in (message["content"] or "")


@either_way
@pytest.mark.parametrize("mode", ["auto"])
async def test_a_model_that_never_calls_is_an_error_and_no_text(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"),
        *["I would rather talk."] * 3,
        tools=[RING],
        tool_choice="required",
    )
    assert message["status"] == 502
    assert (message["type"], message["code"]) == ("upstream_error", "tool_choice_ignored")
    assert "tool_choice" in message["message"]


@pytest.mark.parametrize("streams", [False], ids=["blocking"])
@pytest.mark.parametrize("mode", ["native"])
async def test_text_after_a_server_tool_is_an_error_in_native_mode(ask: Asked):
    message = await ask.gets(
        call("lookup", city="Oslo"), "It is sunny.", tools=[RING], tool_choice="required"
    )
    assert (message["status"], message["code"]) == (500, "native_mode_unavailable")


@either_way
@pytest.mark.parametrize("mode", ["emulated"])
async def test_emulated_calls_are_required_the_same_way(ask: Asked, upstream: Upstream):
    looks = '{"name": "lookup", "arguments": {"city": "Oslo"}}'
    rings = '{"name": "ring", "arguments": {"times": 3}}'
    message = await ask.gets(looks, rings, tools=[RING], tool_choice="required")
    assert made(message) == [("ring", {"times": 3})]
    for body in upstream.bodies:
        said = json.dumps(body)
        assert "This time you must call at least one function" in said
        assert "response_format" in said or "responseJsonSchema" in said


@either_way
@pytest.mark.parametrize("mode", ["emulated"])
async def test_an_emulated_model_that_never_calls_is_an_error_and_no_text(ask: Asked):
    looks = '{"name": "lookup", "arguments": {"city": "Oslo"}}'
    message = await ask.gets(looks, "No.", "Still no.", tools=[RING], tool_choice="required")
    assert (message["status"], message["code"]) == (502, "tool_choice_ignored")


@either_way
@pytest.mark.parametrize("mode", ["emulated"])
async def test_an_emulated_model_has_only_client_tools_after_the_last_round(
    ask: Asked, upstream: Upstream
):
    looks = '{"name": "lookup", "arguments": {"city": "Oslo"}}'
    rings = '{"name": "ring", "arguments": {"times": 3}}'
    message = await ask.gets(*[looks] * MAX_ROUNDS, rings, tools=[RING], tool_choice="required")
    assert made(message) == [("ring", {"times": 3})]
    assert '"lookup"' not in json.dumps(upstream.bodies[-1].get("response_format", ""))


@either_way
@pytest.mark.parametrize("mode", ["auto"])
@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_truncated_or_filtered_answer_keeps_its_finish_reason(ask: Asked, finish: str):
    message = await ask.gets(
        call("lookup", city="Oslo"), say("Su", finish=finish), tools=[RING], tool_choice="required"
    )
    assert (message["finish_reason"], message["tool_calls"]) == (finish, [])


# Restarts.


# In native mode text is shown before the call: the test sees that the last request has begun.
NATIVE = config_of(
    ModelConfig(name="m", target="scripted/model", tools=("lookup", "erase"), mode="native")
)


@pytest.mark.parametrize("rounds", [1, 2])
async def test_the_required_call_survives_a_restart(tmp_path: Path, rounds: int):
    looks = [call("lookup", city=str(number)) for number in range(rounds)]
    async with asyncio.timeout(30), places_on(tmp_path / "runs.db") as places:
        before = places.open([*looks, slow("One two.", Gate(), after=1)], config=NATIVE)
        run_id = await before.start(tools=[client_tool("ring")], tool_choice="required")
        await before.until(run_id, TextDelta)
        await before.crash()
        after = places.open([call("ring", times=1)], config=NATIVE)
        await after.resume()
        shown = await after.ended(run_id)
    assert shown["stop_reason"] == "calls"
    [asked_again] = after.model.requests
    assert asked_again.tool_choice.mode == "required"
    assert content(shown) is None


# Real clients, over a model that does what `tool_choice` says.


def obedient(body: Body) -> Step:
    """Looks a city up first; then makes a call if one is demanded, else answers with text."""
    choice = _choice(body)
    results = {result.name for result in tool_results(body)}
    if "lookup" not in results and choice in ("auto", "required"):
        return call("lookup", city="Oslo")
    if choice == "auto":
        return "It is sunny in Oslo."
    if "ring" in declared_names(body):
        return call("ring", times=2)
    return call("write_down", note="sunny")


@pytest.mark.parametrize("choice", ["required", named("ring"), allowed("required", "ring")])
@either_way
def test_the_openai_sdk_gets_the_call_that_it_requires(
    stage: Stage, upstream: Upstream, choice: Any, streams: bool
):
    upstream.answers(obedient)
    fields: Any = {
        "model": upstream.model_with_tools,
        "messages": [user("Ring twice.")],
        "tools": [RING],
        "tool_choice": choice,
    }
    with OpenAI(base_url=stage.base_url, api_key="any", max_retries=0) as client:
        if streams:
            with client.chat.completions.stream(**fields) as stream:
                completion = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(**fields)
    [answer] = completion.choices
    [rang] = answer.message.tool_calls or []
    assert (rang.function.name, json.loads(rang.function.arguments)) == ("ring", {"times": 2})
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize("ends_with_tool", [True, False], ids=["ends", "continues"])
@either_way
async def test_an_agent_that_must_use_its_tools_does(
    stage: Stage, upstream: Upstream, ends_with_tool: bool, streams: bool
):
    from tests.support.geographer import opened

    upstream.answers(obedient)
    async with opened(
        stage.base_url,
        upstream.model_with_tools,
        tool_choice="required",
        ends_with_tool=ends_with_tool,
    ) as geographer:
        does = geographer.does_streamed if streams else geographer.does
        done = await does("Look Oslo up, and write it down.")
    assert (done.called, done.results) == (["write_down"], ["kept: sunny"])
    assert done.output == ("kept: sunny" if ends_with_tool else "It is sunny in Oslo.")
