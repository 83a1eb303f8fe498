"""Chat completions beyond text and calls, through the gateway, streamed and not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import OpenAI
from tests.support.asgi import bearer, post, request
from tests.support.restarting import places_on
from tests.support.serving import Serving
from tests.support.talking import Body, asking, client_of, streamed
from tests.support.wire_helpers import WIRES, Stage, Upstream, user

from windlass import tool
from windlass.content import InlineData, Text
from windlass.errors import ConfigError
from windlass.gateway import GatewayConfig, create_app
from windlass.gateway.config import KeyConfig, ModelConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import ScriptedModel, Turn, call, calls, refuse, say, think

QUIET = ServerConfig(access_log=False)
LATER = ServerConfig(access_log=False, earlier_text="omit")
WEATHER: Body = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"found {word}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(tools=[look_up], mode="native", server=QUIET) as stage:
        yield stage


@pytest.fixture(params=WIRES)
def upstream(request: pytest.FixtureRequest, stage: Stage) -> Upstream:
    return stage.upstreams[request.param]


def blocking(stage: Stage, body: Body) -> Body:
    with client_of(stage.serving) as client:
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


def chunks_of(stage: Stage, body: Body) -> list[Body]:
    with client_of(stage.serving) as client:
        return streamed(client, body)


def deltas(chunks: list[Body]) -> list[Body]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


def content_of(chunks: list[Body]) -> str:
    return "".join(delta.get("content") or "" for delta in deltas(chunks))


def ask(upstream: Upstream, *, tools: bool = False, **fields: Any) -> Body:
    model = upstream.model_with_tools if tools else upstream.model
    return asking("Go.", model=model, **fields)


# Log probabilities.


def tokens(logprobs: Body | None) -> list[str]:
    return [each["token"] for each in (logprobs or {}).get("content") or ()]


def streamed_tokens(chunks: list[Body]) -> list[str]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [token for choice in choices for token in tokens(choice["logprobs"])]


def test_logprobs_are_returned_in_both_forms(stage: Stage, upstream: Upstream) -> None:
    asked = ask(upstream, logprobs=True, top_logprobs=1)
    upstream.plays("It is sunny.", "It is sunny.")
    [choice] = blocking(stage, asked)["choices"]
    assert "".join(tokens(choice["logprobs"])) == "It is sunny."
    first = choice["logprobs"]["content"][0]
    assert first["logprob"] < 0
    assert bytes(first["bytes"]).decode() == first["token"]
    assert first["top_logprobs"][0]["token"] == first["token"]
    chunks = chunks_of(stage, asked)
    assert streamed_tokens(chunks) == ["It ", "is ", "sunny."]
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        if choice["logprobs"]:
            assert "".join(tokens(choice["logprobs"])) == choice["delta"]["content"]


def test_logprobs_that_were_not_requested_are_null(stage: Stage, upstream: Upstream) -> None:
    upstream.plays("Hi.", "Hi.")
    assert blocking(stage, ask(upstream))["choices"][0]["logprobs"] is None
    chunks = chunks_of(stage, ask(upstream))
    assert {str(choice["logprobs"]) for chunk in chunks for choice in chunk["choices"]} == {"None"}


def test_logprobs_of_several_rounds_belong_to_the_text_that_is_shown(
    stage: Stage, upstream: Upstream
) -> None:
    asked = ask(upstream, tools=True, logprobs=True)
    steps = [calls(call("look_up", word="a"), text="Let me see."), "Found it."]
    upstream.plays(*steps, *steps)
    [choice] = blocking(stage, asked)["choices"]
    assert "".join(tokens(choice["logprobs"])) == "Let me see.Found it."
    assert "".join(streamed_tokens(chunks_of(stage, asked))) == "Let me see.Found it."


def test_the_official_client_reads_logprobs(stage: Stage) -> None:
    upstream = stage.upstreams["openai"]
    upstream.plays("Hi there.", "Hi there.")
    client = OpenAI(base_url=stage.base_url, api_key="none")
    asked: Any = {"model": upstream.model, "messages": [user("?")], "logprobs": True}
    answer = client.chat.completions.create(**asked)
    assert answer.choices[0].logprobs is not None
    assert [each.token for each in answer.choices[0].logprobs.content or ()] == ["Hi ", "there."]
    with client.chat.completions.stream(**asked) as stream:
        whole = stream.get_final_completion().choices[0]
    assert whole.logprobs is not None
    assert [each.token for each in whole.logprobs.content or ()] == ["Hi ", "there."]
    client.close()


# Fields of the service about its answer.


def test_fingerprint_and_tier_pass_in_both_forms(stage: Stage) -> None:
    upstream = stage.upstreams["openai"]
    said = {"system_fingerprint": "fp_fake0000", "service_tier": "default"}
    steps = [call("look_up", word="a"), "Found."]
    upstream.plays(*steps, *steps)
    answer = blocking(stage, ask(upstream, tools=True, service_tier="flex"))
    assert {name: answer.get(name) for name in said} == said
    body = ask(upstream, tools=True, service_tier="flex", stream_options={"include_usage": True})
    chunks = chunks_of(stage, body)
    assert [{name: chunk.get(name) for name in said} for chunk in chunks] == [said] * len(chunks)
    assert [each["service_tier"] for each in upstream.bodies] == ["flex"] * 4


def test_an_emulated_answer_ends_with_fingerprint_and_tier() -> None:
    with Stage(tools=[look_up], mode="emulated", server=QUIET) as stage:
        upstream = stage.upstreams["openai"]
        upstream.plays("Found.", "Found.")
        assert blocking(stage, ask(upstream, tools=True))["system_fingerprint"] == "fp_fake0000"
        assert chunks_of(stage, ask(upstream, tools=True))[-1]["service_tier"] == "default"


def test_a_service_without_metadata_adds_no_fields(stage: Stage) -> None:
    upstream = stage.upstreams["gemini"]
    upstream.plays("Hi.")
    assert not {"system_fingerprint", "service_tier"} & blocking(stage, ask(upstream)).keys()


# The older form of calls.


def test_functions_are_answered_with_a_function_call(stage: Stage, upstream: Upstream) -> None:
    made = call("get_weather", city="Rome")
    upstream.plays(made, made)
    asked = ask(upstream, functions=[WEATHER])
    [choice] = blocking(stage, asked)["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"]["name"] == "get_weather"
    assert json.loads(choice["message"]["function_call"]["arguments"]) == {"city": "Rome"}
    assert "tool_calls" not in choice["message"]
    chunks = chunks_of(stage, asked)
    pieces = [delta["function_call"] for delta in deltas(chunks) if "function_call" in delta]
    assert [piece.get("name") for piece in pieces] == ["get_weather", *[None] * (len(pieces) - 1)]
    assert json.loads("".join(piece["arguments"] for piece in pieces)) == {"city": "Rome"}
    assert not any("tool_calls" in delta for delta in deltas(chunks))
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"


def test_of_several_calls_the_older_form_has_the_first(stage: Stage, upstream: Upstream) -> None:
    made = calls(call("get_weather", city="Rome"), call("get_weather", city="Oslo"))
    upstream.plays(made, made)
    asked = ask(upstream, functions=[WEATHER])
    message = blocking(stage, asked)["choices"][0]["message"]
    assert json.loads(message["function_call"]["arguments"]) == {"city": "Rome"}
    pieces = [each["function_call"] for each in deltas(chunks_of(stage, asked)) if len(each) == 1]
    assert json.loads("".join(piece["arguments"] for piece in pieces)) == {"city": "Rome"}


def test_a_function_call_after_a_round_of_the_gateways_tools(
    stage: Stage, upstream: Upstream
) -> None:
    upstream.plays(call("look_up", word="a"), call("get_weather", city="Rome"))
    [choice] = blocking(stage, ask(upstream, tools=True, functions=[WEATHER]))["choices"]
    assert choice["message"]["function_call"]["name"] == "get_weather"


LEGACY_HISTORY: list[Body] = [
    {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "get_weather", "arguments": '{"city":"Rome"}'},
    },
    {"role": "function", "name": "get_weather", "content": "sunny"},
]


def test_a_legacy_history_reaches_the_service_in_the_form_of_today(stage: Stage) -> None:
    upstream = stage.upstreams["openai"]
    upstream.plays("Sunny.", "Sunny.")
    for _ in range(2):
        asked = asking("Go.", *LEGACY_HISTORY, model=upstream.model, functions=[WEATHER])
        assert blocking(stage, asked)["choices"][0]["finish_reason"] == "stop"
    first, second = (body["messages"] for body in upstream.bodies)
    assert first == second, "the ids are not the same in every request"
    _, turn, result = first
    [made] = turn["tool_calls"]
    assert made["function"] == {"name": "get_weather", "arguments": '{"city":"Rome"}'}
    assert result == {"role": "tool", "tool_call_id": made["id"], "content": "sunny"}
    assert "function_call" not in turn


def test_a_legacy_history_reaches_gemini(stage: Stage) -> None:
    upstream = stage.upstreams["gemini"]
    upstream.plays("Sunny.")
    blocking(stage, asking("Go.", *LEGACY_HISTORY, model=upstream.model, functions=[WEATHER]))
    _, turn, result = upstream.bodies[0]["contents"]
    assert turn["parts"][0]["functionCall"]["args"] == {"city": "Rome"}
    assert result["parts"][0]["functionResponse"]["response"] == {"output": "sunny"}


async def test_a_stored_run_returns_its_answer_in_the_older_form(tmp_path: Path) -> None:
    async with places_on(tmp_path / "runs.db") as places:
        first = places.open([call("get_weather", city="Rome")])
        run_id = await first.start(functions=[WEATHER])
        here = await first.ended(run_id)
        second = places.open()
        there = await second.show(run_id)
    assert here["response"]["choices"] == there["response"]["choices"]
    assert there["response"]["choices"][0]["finish_reason"] == "function_call"


# The limit of tokens.


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: '{0}' is not supported with this model. Use '{1}' instead.",
        "Unrecognized request argument supplied: {0}",
        "1 validation error: {0}: Extra inputs are not permitted",
    ],
)
def test_max_tokens_keeps_the_name_of_the_client_unless_the_service_refuses_it(
    name: str, message: str
) -> None:
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[name]
    with Stage(server=QUIET, mode="native") as stage:  # what is refused here is remembered
        upstream = stage.upstreams["openai"]
        upstream.plays("Hi.", refuse(400, message.format(name, other)), "Hi.", "Hi.")
        for _ in range(3):
            limit: Any = {name: 7}
            blocking(stage, ask(upstream, **limit))
        sent = [sorted(body.keys() & {name, other}) for body in upstream.bodies]
        assert sent == [[name], [name], [other], [other]]
        assert all(body.get(name, body.get(other)) == 7 for body in upstream.bodies)


def test_a_max_tokens_above_the_limit_is_lowered_to_the_limit() -> None:
    message = "max_tokens is too large: 99999. This model supports at most 4096 completion tokens."
    with Stage(server=QUIET, mode="native") as stage:
        upstream = stage.upstreams["openai"]
        upstream.plays(refuse(400, message), "Hi.", "Hi.", "Hi.")
        for limit in (99999, 99999, 5):
            blocking(stage, ask(upstream, max_tokens=limit))
        assert [body["max_tokens"] for body in upstream.bodies] == [99999, 4096, 4096, 5]


def test_a_limit_whose_value_is_refused_keeps_its_name() -> None:
    message = "Invalid 'max_tokens': integer below minimum value."
    with Stage(server=QUIET, mode="native") as stage:
        upstream = stage.upstreams["openai"]
        upstream.plays(refuse(400, message), "Hi.")
        with client_of(stage.serving) as client:
            answer = client.post("/v1/chat/completions", json=ask(upstream, max_tokens=99999))
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)
        blocking(stage, ask(upstream, max_tokens=5))
        assert [body["max_tokens"] for body in upstream.bodies] == [99999, 5]


def test_a_service_that_refuses_both_names_is_asked_twice() -> None:
    with Stage(server=QUIET, mode="native") as stage:
        upstream = stage.upstreams["openai"]
        words = "Unknown parameter: '{}'."
        upstream.plays(
            refuse(400, words.format("max_tokens")),
            refuse(400, words.format("max_completion_tokens")),
            "Hi.",
        )
        with client_of(stage.serving) as client:
            answer = client.post("/v1/chat/completions", json=ask(upstream, max_tokens=5))
        assert answer.status_code == 400
        blocking(stage, ask(upstream, max_tokens=5))
        assert "max_tokens" in upstream.bodies[-1]


# The text of earlier rounds.

TEXTS = st.text(st.sampled_from("ab \n."), max_size=6)
ROUNDS = st.lists(st.tuples(TEXTS, TEXTS), max_size=3)


def said(text: str, thoughts: str, *, last: bool) -> Turn:
    turn = say(text) if last else calls(call("look_up", word="w"), text=text)
    return think(thoughts, turn) if thoughts else turn


def forms(server: ServerConfig, steps: list[Turn], **fields: Any) -> tuple[Body, list[Body]]:
    """The answer of one script as one body, and as chunks."""
    config = GatewayConfig(
        models={"m": ModelConfig(name="m", target="scripted/model", tools=("look_up",))},
        server=server,
    )
    with (
        Serving(config, models={"m": ScriptedModel([*steps, *steps])}, tools=[look_up]) as serving,
        client_of(serving) as client,
    ):
        answer = client.post("/v1/chat/completions", json=asking("Go.", **fields))
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"], streamed(client, asking("Go.", **fields))


@pytest.mark.sweep
@pytest.mark.parametrize("server", [QUIET, LATER], ids=["include", "omit"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rounds=ROUNDS, last=st.tuples(TEXTS, TEXTS))
def test_both_forms_have_the_same_text_character_for_character(
    server: ServerConfig, rounds: list[tuple[str, str]], last: tuple[str, str]
) -> None:
    steps = [*(said(*each, last=False) for each in rounds), said(*last, last=True)]
    message, chunks = forms(server, steps)
    assert content_of(chunks) == message["content"]
    thoughts = "".join(delta.get("reasoning_content") or "" for delta in deltas(chunks))
    assert thoughts == message.get("reasoning_content", "")


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (("Let me see.", "It is sunny."), "Let me see.\n\nIt is sunny."),
        (("Let me see. ", "It is sunny."), "Let me see. It is sunny."),
        (("Let me see.", "\nIt is sunny."), "Let me see.\nIt is sunny."),
        (("One.", "", "Two."), "One.\n\nTwo."),
        (("\n\n", "It is sunny."), "It is sunny."),
        (("", " indented"), " indented"),
    ],
)
def test_the_text_of_all_rounds_is_in_the_answer(texts: tuple[str, ...], whole: str) -> None:
    steps = [said(text, "", last=place == len(texts) - 1) for place, text in enumerate(texts)]
    message, chunks = forms(QUIET, steps)
    assert message["content"] == whole
    assert content_of(chunks) == whole


@pytest.mark.parametrize(
    ("server", "fields"),
    [(LATER, {}), (QUIET, {"response_format": {"type": "json_object"}})],
    ids=["omit", "json"],
)
def test_earlier_text_can_be_left_out_of_answers(server: ServerConfig, fields: Body) -> None:
    steps = [said("Let me see.", "", last=False), say('{"sunny": true}')]
    message, chunks = forms(server, steps, **fields)
    assert message["content"] == '{"sunny": true}'
    assert content_of(chunks) == '{"sunny": true}'


def test_text_before_a_client_call_is_in_the_answer_without_earlier_text() -> None:
    open_map = {"type": "function", "function": {"name": "open_map"}}
    steps = [
        said("Let me see.", "", last=False),
        calls(call("look_up", word="w"), call("open_map"), text="Now the map."),
    ]
    message, chunks = forms(LATER, steps, tools=[open_map])
    assert message["content"] == "Now the map."
    assert content_of(chunks) == "Now the map."
    assert message["tool_calls"][0]["function"]["name"] == "open_map"


def test_images_of_all_rounds_are_in_both_forms() -> None:
    picture = InlineData(b"png", "image/png")
    looking = call("look_up", word="w").calls[0]
    steps = [Turn(parts=(picture, looking)), Turn(parts=(Text("Done."), picture))]
    message, chunks = forms(QUIET, steps)
    assert len(message["images"]) == 2
    assert sum(len(delta.get("images", ())) for delta in deltas(chunks)) == 2


async def test_a_turn_with_joined_text_is_restored() -> None:
    open_map = {"type": "function", "function": {"name": "open_map"}}
    script = [
        calls(call("look_up", word="w"), text="Let me see."),
        calls(call("open_map", id="c0"), text="Now the map."),
        "Done.",
    ]
    model = ScriptedModel(script)
    config = GatewayConfig(
        models={"m": ModelConfig(name="m", target="scripted/model", tools=("look_up",))}
    )
    app = create_app(config, models={"m": model}, tools=[look_up])
    first = (await post(app, asking("Go.", tools=[open_map]))).json["choices"][0]["message"]
    assert first["content"] == "Let me see.\n\nNow the map."
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "open"}
    second = await post(app, asking("Go.", first, result, tools=[open_map]))
    assert second.json["choices"][0]["message"]["content"] == "Done."
    texts = [message.text for message in model.requests[-1].messages]
    assert texts == ["Go.", "Let me see.", "", "Now the map.", ""]
    await app.gateway.aclose()


# Parts that a model cannot take.

IMAGE: Body = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
FILE_ID: Body = {"type": "file", "file": {"file_id": "file-1"}}
VIDEO: Body = {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}
AUDIO: Body = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
ODD: Body = {"type": "hologram", "hologram": {}}


def with_part(part: Body, model: str, role: str = "user") -> Body:
    messages: list[Body] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        {"role": role, "content": [{"type": "text", "text": "See:"}, part]},
    ]
    return {"model": model, "messages": messages}


@pytest.mark.parametrize("part", [FILE_ID, VIDEO, ODD], ids=["file_id", "video_url", "hologram"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_part_that_gemini_cannot_take_is_refused_by_name(
    stage: Stage, part: Body, stream: bool
) -> None:
    upstream = stage.upstreams["gemini"]
    upstream.plays()
    with client_of(stage.serving) as client:
        body = {**with_part(part, upstream.model), "stream": stream}
        answer = client.post("/v1/chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "unsupported_content")
    assert error["param"] == "messages[2].content[1]"
    kind = "file_id" if part is FILE_ID else part["type"]
    assert (
        f"messages[2].content[1]: the model 'gemini' does not support parts of type '{kind}'"
        == (error["message"])
    )
    assert upstream.bodies == []


@pytest.mark.parametrize("part", [IMAGE, AUDIO], ids=["image", "audio"])
def test_a_part_that_gemini_can_take_reaches_it(stage: Stage, part: Body) -> None:
    upstream = stage.upstreams["gemini"]
    upstream.plays("I see.")
    blocking(stage, with_part(part, upstream.model))
    assert "inlineData" in upstream.bodies[0]["contents"][-1]["parts"][-1]


@pytest.mark.parametrize("part", [IMAGE, FILE_ID, AUDIO], ids=["image", "file_id", "audio"])
def test_an_openai_service_is_sent_every_part_as_it_is(stage: Stage, part: Body) -> None:
    upstream = stage.upstreams["openai"]
    upstream.plays("I see.")
    blocking(stage, with_part(part, upstream.model))
    assert upstream.bodies[0]["messages"][-1]["content"][-1] == part


def test_unknown_parts_are_sent_to_openai_services(stage: Stage) -> None:
    upstream = stage.upstreams["openai"]
    upstream.plays("I see.")
    with client_of(stage.serving) as client:
        answer = client.post("/v1/chat/completions", json=with_part(VIDEO, upstream.model))
    assert answer.status_code == 400
    assert "video_url" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("provider", "part"),
    [("local", IMAGE), ("local", AUDIO), ("aistudio", AUDIO)],
    ids=["local-image", "local-audio", "aistudio-audio"],
)
async def test_a_model_refuses_the_parts_that_it_cannot_read(provider: str, part: Body) -> None:
    config = GatewayConfig(models={"m": ModelConfig(name="m", target=f"{provider}/some")})
    app = create_app(config, models={"m": ScriptedModel("Hi.")}, tools=())
    answer = await post(app, with_part(part, "m"))
    assert (answer.status, answer.error["code"]) == (400, "unsupported_content")
    assert answer.error["param"] == "messages[2].content[1]"
    await app.gateway.aclose()


def test_a_picture_in_a_tools_result_reaches_the_model(stage: Stage) -> None:
    upstream = stage.upstreams["gemini"]
    upstream.plays("I see.")
    made = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn: Body = {"role": "assistant", "content": None, "tool_calls": [made]}
    result: Body = {"role": "tool", "tool_call_id": "c1", "content": [IMAGE]}
    with client_of(stage.serving) as client:
        body = asking("Go.", turn, result, model=upstream.model)
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    answered, picture = upstream.bodies[0]["contents"][-1]["parts"]
    assert answered["functionResponse"]["response"] == {"output": ""}
    assert picture["inlineData"]["data"] in IMAGE["image_url"]["url"]


def test_a_refusal_in_the_history_is_text_for_gemini(stage: Stage) -> None:
    upstream = stage.upstreams["gemini"]
    upstream.plays("Hi.")
    turn: Body = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I won't."}]}
    blocking(stage, asking("Go.", turn, user("Please."), model=upstream.model))
    assert upstream.bodies[0]["contents"][1]["parts"] == [{"text": "I won't."}]


# Addresses that are not served.


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("/v1/completions", "completions"),
    ],
)
@pytest.mark.parametrize("root_path", ["", "/mounted"])
async def test_a_wire_that_is_not_served_is_named(path: str, wire: str, root_path: str) -> None:
    app = create_app(GatewayConfig(), models={"m": ScriptedModel("Hi.")}, tools=())
    for method in ("POST", "GET"):
        answer = await request(app, method, root_path + path, root_path=root_path)
        assert (answer.status, answer.error["code"]) == (404, "wire_not_served")
        assert answer.error["type"] == "not_found_error"
        assert wire in answer.error["message"]
        assert "does not serve" in answer.error["message"]
        assert "/v1/chat/completions" in answer.error["message"]
    await app.gateway.aclose()


async def test_every_404_and_405_has_a_code() -> None:
    key, hashed = new_key()
    keys = (KeyConfig(name="k", hash=hashed),)
    app = create_app(GatewayConfig(keys=keys), models={"m": ScriptedModel("Hi.")}, tools=())
    for method, path, status, code in (
        ("GET", "/nowhere", 404, "unknown_url"),
        ("POST", "/v1/embeddings", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("GET", "/v1/models/none", 404, "model_not_found"),
        ("GET", "/v1/runs/run_x", 404, "run_not_found"),
        ("GET", "/v1/tools/none", 404, "tool_not_found"),
        ("GET", "/v1/chats/none", 404, "chat_not_found"),
    ):
        answer = await request(app, method, path, headers=[bearer(key)])
        assert (answer.status, answer.error["code"]) == (status, code)
    await app.gateway.aclose()


def test_a_setting_of_earlier_text_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    from windlass.gateway import load_config

    file = tmp_path / "windlass.toml"
    file.write_text(
        '[server]\nearlier_text = "some"\n[models.m]\ntarget = "openai/m"\napi_key_env = "K"\n'
    )
    with pytest.raises(ConfigError, match=r"server\.earlier_text: must be 'include' or 'omit'"):
        load_config(file, {"K": "k"})
