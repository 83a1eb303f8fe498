"""Google's API over plain HTTP: its paths, keys, errors and streams."""

import json
import logging
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.asgi import Answer, post, request
from tests.support.serving import config_of

from windlass import tool
from windlass.content import FunctionCall, FunctionResponse, Message
from windlass.gateway import create_app
from windlass.gateway.app import App
from windlass.gateway.config import KeyConfig, ModelConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.observe.access_log import ACCESS
from windlass.testing import ScriptedModel, call, calls, cut, interrupt, refuse, say
from windlass.wires.gemini.messages import Token, encode_token

KEY, HASH = new_key()
HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
GENERATE = "/v1beta/models/m:generateContent"
STREAM = "/v1beta/models/m:streamGenerateContent"
COUNT = "/v1beta/models/m:countTokens"
RING = {"name": "ring", "parameters": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}}


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


def app_of(*script: Any, name: str = "m", **fields: Any) -> App:
    served = ModelConfig(name=name, target="scripted/m", tools=("lookup",))
    config = config_of(served, **fields)
    return create_app(config, models={name: ScriptedModel(script)}, tools=[lookup])


def text_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return answer.json["candidates"][0]["content"]["parts"][0]["text"]


def problem_of(answer: Answer) -> dict[str, Any]:
    """The error, which has Google's form."""
    assert answer.headers["content-type"] == "application/json"
    error = answer.json["error"]
    assert error.keys() == {"code", "message", "status", "details"}
    assert error["code"] == answer.status
    return error


def chunks_of(answer: Answer) -> list[dict[str, Any]]:
    *events, rest = answer.body.split(b"\n\n")
    assert rest == b""
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


# Paths.

VERTEX = "projects/p/locations/us-central1/publishers/google/models"


@pytest.mark.parametrize(
    "prefix",
    [
        "/v1beta/models",
        "/v1beta/models/models",
        "/v1/models",
        "/v1beta/tunedModels",
        f"/v1/{VERTEX}",
        f"/v1beta1/{VERTEX}",
        "/v1beta1/publishers/google/models",
        "/v1/publishers/google/models",
    ],
)
async def test_every_path_of_google_is_served(prefix: str) -> None:
    app = app_of("Hi.", "Hi.", "Hi.")
    assert text_of(await post(app, HELLO, f"{prefix}/m:generateContent")) == "Hi."
    streamed = await post(app, HELLO, f"{prefix}/m:streamGenerateContent?alt=sse")
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert (await post(app, HELLO, f"{prefix}/m:countTokens")).json["totalTokens"] > 0
    unknown = await post(app, HELLO, f"{prefix}/ghost:generateContent")
    assert problem_of(unknown)["status"] == "NOT_FOUND"


@pytest.mark.parametrize("name", ["openai/gpt-5", "llama3:8b", "a/b:c/d:e", "ü model"])
async def test_a_models_name_may_have_slashes_and_colons(name: str) -> None:
    app = app_of("Hi.", name=name)
    answer = await post(app, HELLO, f"/v1beta/models/{name}:generateContent")
    assert text_of(answer) == "Hi."
    assert answer.json["modelVersion"] == name
    assert (await request(app, "GET", f"/v1beta/models/{name}")).json["name"] == f"models/{name}"


async def test_a_model_of_another_publisher_has_its_name_before_a_slash() -> None:
    app = app_of("Hi.", name="openai/gpt-5")
    path = "/v1/projects/p/locations/l/publishers/openai/models/gpt-5:generateContent"
    assert text_of(await post(app, HELLO, path)) == "Hi."


async def test_models_are_listed_in_googles_form() -> None:
    app = app_of()
    listed = (await request(app, "GET", "/v1beta/models")).json
    assert [model["name"] for model in listed["models"]] == ["models/m"]
    methods = listed["models"][0]["supportedGenerationMethods"]
    assert methods == ["generateContent", "streamGenerateContent", "countTokens"]
    unknown = await request(app, "GET", "/v1beta/models/ghost")
    assert problem_of(unknown)["status"] == "NOT_FOUND"


async def test_the_list_at_v1_has_the_form_of_its_client() -> None:
    app = app_of()
    google = [(b"x-goog-api-client", b"google-genai-sdk/3.1.0")]
    listed = (await request(app, "GET", "/v1/models", headers=google)).json
    assert [model["name"] for model in listed["models"]] == ["models/m"]
    assert (await request(app, "GET", "/v1/models/m", headers=google)).json["name"] == "models/m"
    assert (await request(app, "GET", "/v1/models")).json["object"] == "list"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1beta/models/m:embedContent", 404),
        ("POST", "/v1beta1/publishers/google/models/m:predict", 404),
        ("GET", "/v1beta/files", 404),
        ("GET", "/v1beta/models/m:generateContent", 404),
        ("DELETE", "/v1beta/models", 405),
    ],
)
@pytest.mark.parametrize("root_path", ["", "/mounted"])
async def test_other_paths_are_an_error_in_googles_form(
    method: str, path: str, status: int, root_path: str
) -> None:
    answer = await request(app_of(), method, root_path + path, root_path=root_path)
    assert problem_of(answer)["code"] == status


async def test_paths_of_other_apis_keep_their_form() -> None:
    app = app_of()
    assert (await request(app, "GET", "/v1/models/ghost")).error["code"] == "model_not_found"
    assert (await request(app, "POST", "/v1/models/m")).error["code"] == "method_not_allowed"


# Keys.

KEYED: dict[str, Any] = {"keys": (KeyConfig(name="web", hash=HASH),)}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (GENERATE, [(b"x-goog-api-key", KEY.encode())]),
        (GENERATE, [(b"authorization", f"Bearer {KEY}".encode())]),
        (GENERATE, [(b"x-api-key", KEY.encode())]),
        (f"{GENERATE}?key={quote(KEY)}", []),
        (f"/v1/models/m:generateContent?alt=json&key={quote(KEY)}", []),
    ],
    ids=["x-goog-api-key", "bearer", "x-api-key", "query", "query of v1"],
)
async def test_a_key_is_accepted_in_every_way_of_google(path: str, headers: Any) -> None:
    assert text_of(await post(app_of("Hi.", **KEYED), HELLO, path, headers)) == "Hi."


@pytest.mark.parametrize("path", [GENERATE, f"{GENERATE}?key=wrong", "/v1/models/m:countTokens"])
async def test_a_missing_or_wrong_key_is_unauthenticated(path: str) -> None:
    answer = await post(app_of(**KEYED), HELLO, path)
    assert problem_of(answer)["status"] == "UNAUTHENTICATED"


async def test_a_key_in_the_query_is_only_for_googles_paths() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    answer = await post(app_of(**KEYED), body, f"/v1/chat/completions?key={quote(KEY)}")
    assert answer.status == 401


async def test_a_key_in_the_query_is_never_logged_or_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = app_of("Hi.", refuse(400), **KEYED, server=ServerConfig(access_log=True))
    with caplog.at_level(logging.DEBUG):
        answers = [
            await post(app, HELLO, f"{GENERATE}?key={KEY}"),
            await post(app, {}, f"{GENERATE}?key={KEY}"),
            await post(app, HELLO, f"{GENERATE}?key={KEY}"),
            await post(app, HELLO, f"/v1beta/models/ghost:generateContent?key={KEY}"),
            await post(app, HELLO, f"{GENERATE}?key={KEY[:-1]}"),
        ]
        await app.gateway.aclose()  # it writes the lines that wait
    assert [answer.status for answer in answers] == [200, 400, 400, 404, 401]
    lines = [record for record in caplog.records if record.name == ACCESS]
    assert len(lines) == 5
    written = [str(vars(record)) for record in caplog.records]
    written += [str(answer) for answer in answers]
    assert not [text for text in written if KEY[:-1] in text]


# Errors.


async def test_a_wrong_field_is_named() -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}, {"text": 1}]}]}
    error = problem_of(await post(app_of(), body, GENERATE))
    assert error["status"] == "INVALID_ARGUMENT"
    assert error["message"] == "contents[0].parts[1].text: must be a string"
    [violation] = error["details"][-1]["fieldViolations"]
    assert violation["field"] == "contents[0].parts[1].text"


async def test_an_unknown_function_that_is_demanded_is_named() -> None:
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["ghost"]}}
    for path in (GENERATE, COUNT):
        error = problem_of(await post(app_of(), {**HELLO, "toolConfig": config}, path))
        assert error["message"] == "toolConfig.functionCallingConfig: unknown tool 'ghost'"


async def test_a_rate_limit_has_a_delay() -> None:
    app = app_of(refuse(429, "Slow down.", retry_after=7))
    answer = await post(app, HELLO, GENERATE)
    error = problem_of(answer)
    assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert error["details"][-1]["retryDelay"] == "7s"
    assert answer.headers["retry-after"] == "7"


async def test_a_stream_that_fails_before_its_start_has_a_status() -> None:
    for path in (STREAM, f"{STREAM}?alt=sse"):
        error = problem_of(await post(app_of(refuse(400, "Not today.")), HELLO, path))
        assert (error["status"], error["message"]) == ("INVALID_ARGUMENT", "Not today.")


async def test_a_stream_that_is_cut_ends_with_the_error() -> None:
    answer = await post(app_of(interrupt("One two three.", 2)), HELLO, f"{STREAM}?alt=sse")
    assert answer.status == 200
    *events, bare = answer.body.split(b"\n\n")
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events]
    assert chunks[0]["candidates"][0]["content"]["parts"] == [{"text": "One "}]
    assert chunks[-1] == json.loads(bare)
    assert chunks[-1]["error"]["code"] == 502


# Streams.


async def test_without_alt_a_stream_is_one_json_list() -> None:
    sse = await post(app_of(say("One two.")), HELLO, f"{STREAM}?alt=sse")
    listed = await post(app_of(say("One two.")), HELLO, STREAM)
    assert listed.headers["content-type"] == "application/json"

    def without_ids(chunks: list[Any]) -> list[Any]:
        return [{**chunk, "responseId": ""} for chunk in chunks]

    assert without_ids(listed.json) == without_ids(chunks_of(sse))
    assert len(listed.json) == 3


async def test_a_list_that_is_cut_is_still_json() -> None:
    answer = await post(app_of(cut("One two three.", 2)), HELLO, STREAM)
    assert answer.json[-1]["error"]["code"] == 502


async def test_an_answer_names_its_run() -> None:
    app = app_of("Hi.")
    answer = await post(app, HELLO, GENERATE)
    run_id = answer.headers["x-windlass-run-id"]
    assert answer.json["responseId"] == run_id
    run = (await request(app, "GET", f"/v1/runs/{run_id}")).json
    assert run["response"]["choices"][0]["message"]["content"] == "Hi."


# Hidden rounds.


def ringing(*contents: Any) -> dict[str, Any]:
    return {
        "contents": [*HELLO["contents"], *contents],
        "tools": [{"functionDeclarations": [RING]}],
    }


def everything(part: dict[str, Any]) -> dict[str, Any]:
    return part


def without_id(part: dict[str, Any]) -> dict[str, Any]:
    """A client such as the AI SDK, which returns the signature but not the id."""
    call = {name: value for name, value in part["functionCall"].items() if name != "id"}
    return {**part, "functionCall": call}


def without_signature(part: dict[str, Any]) -> dict[str, Any]:
    return {"functionCall": part["functionCall"]}


@pytest.mark.parametrize("remember", [everything, without_id, without_signature])
async def test_the_model_sees_hidden_rounds_again(remember: Any) -> None:
    script = [
        call("lookup", city="Oslo"),
        calls(call("lookup", city="Rome"), call("ring", n=2)),
        "Done.",
    ]
    model = ScriptedModel(script)
    served = ModelConfig(name="m", target="scripted/m", tools=("lookup",))
    app = create_app(config_of(served), models={"m": model}, tools=[lookup])
    first = await post(app, ringing(), GENERATE)
    [part] = first.json["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["name"] == "ring"
    result = {"functionResponse": {"name": "ring", "response": {"output": "rang"}}}
    second = await post(
        app,
        ringing({"role": "model", "parts": [remember(part)]}, {"role": "user", "parts": [result]}),
        GENERATE,
    )
    assert text_of(second) == "Done."
    messages = model.requests[-1].messages
    assert [message.role for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    results = [(each.name, each.output) for each in messages[-1].responses]
    assert results == [("lookup", "sunny in Rome"), ("ring", "rang")]


async def test_a_call_whose_turn_is_forgotten_is_still_answered() -> None:
    model = ScriptedModel(["Done."])
    app = create_app(config_of(), models={"m": model}, tools=())
    token = encode_token(Token("call_unknown", "c2ln"))
    made = {"functionCall": {"name": "ring", "args": {"n": 1}}, "thoughtSignature": token}
    result = {"functionResponse": {"name": "ring", "response": {"output": "rang"}}}
    body = ringing({"role": "model", "parts": [made]}, {"role": "user", "parts": [result]})
    assert text_of(await post(app, body, GENERATE)) == "Done."
    assert model.requests[-1].messages[1:] == (
        Message.assistant(FunctionCall("ring", '{"n":1}', "call_unknown", "c2ln")),
        Message.tool([FunctionResponse("ring", {"output": "rang"}, "call_unknown")]),
    )


# Odd but legal bodies.


async def test_one_content_or_part_is_accepted_without_a_list() -> None:
    model = ScriptedModel(["Hi."])
    app = create_app(config_of(ModelConfig(name="m", target="scripted/m")), models={"m": model})
    body = {"contents": {"role": "user", "parts": {"text": "Go."}}}
    assert text_of(await post(app, body, "/v1beta/models/m:generateContent")) == "Hi."
    assert [message.text for message in model.requests[0].messages] == ["Go."]


@pytest.mark.parametrize("given", ["21 degrees", 21, ["a", 1], False])
async def test_a_result_that_is_no_object_reaches_the_model(given: Any) -> None:
    model = ScriptedModel(["Hi."])
    app = create_app(config_of(ModelConfig(name="m", target="scripted/m")), models={"m": model})
    made = {"role": "model", "parts": [{"functionCall": {"name": "ring", "args": {}}}]}
    result = {"functionResponse": {"name": "ring", "response": given}}
    contents = [*HELLO["contents"], made, {"role": "user", "parts": [result]}]
    answer = await post(app, {"contents": contents}, "/v1beta/models/m:generateContent")
    assert text_of(answer) == "Hi."
    assert model.requests[0].messages[-1].responses[0].output == given


# Counting.


async def test_tokens_are_counted_without_asking_the_model() -> None:
    app = app_of()
    small = (await post(app, HELLO, COUNT)).json["totalTokens"]
    inner = {"generateContentRequest": {"model": "models/m", **HELLO}}
    assert (await post(app, inner, COUNT)).json["totalTokens"] == small
    large = {"contents": [{"role": "user", "parts": [{"text": "word " * 1000}]}]}
    assert (await post(app, large, COUNT)).json["totalTokens"] > small + 1000
    assert problem_of(await post(app, {}, COUNT))["status"] == "INVALID_ARGUMENT"
