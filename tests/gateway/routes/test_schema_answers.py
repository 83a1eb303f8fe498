"""Answers with a schema through every wire, over every kind of upstream."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.support.ingress import INGRESSES, SCHEMA, Ingress
from tests.support.messages_gateway import lookup
from tests.support.serving import Serving, config_of
from tests.support.talking import client_of, payloads

from windlass.gateway.config import ModelConfig
from windlass.models import create_model
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    ScriptedModel,
    call,
    refuse,
    say,
)
from windlass.testing.upstream import FakeUpstream

pytestmark = pytest.mark.sweep

Body = dict[str, Any]
GOOD, BAD = '{"sky": "clear"}', '{"sky": 7}'
FINAL = "final_answer"
NATIVE: dict[str, tuple[str, Any]] = {
    "openai": ("openai/gpt-test", FakeOpenAI),
    "responses": ("responses/gpt-test", FakeResponses),
    "anthropic": ("anthropic/claude-opus-4-5", FakeAnthropic),
    "gemini-3": ("gemini/gemini-3-pro", FakeGemini),
}
OTHERS: dict[str, tuple[str, Any]] = {
    "anthropic-3": ("anthropic/claude-3-5-haiku-latest", FakeAnthropic),
    "gemini-2": ("gemini/gemini-2.5-flash", FakeGemini),
    "refusing": ("openai/no-schemas", FakeOpenAI),
    "text-only": ("openai/text-only", FakeOpenAI),
}
FAKES = {**NATIVE, **OTHERS}
METHODS = {
    **dict.fromkeys(NATIVE, "native"),
    "anthropic-3": "tool",
    "gemini-2": "tool",
    "refusing": "tool",
    "text-only": "tool",  # emulated: the tool is in the prompt
}
REFUSED_FORMAT = refuse(400, "response_format of type json_schema is not supported")
REFUSED_TOOLS = refuse(400, "tools are not supported by this model")

ingresses = pytest.mark.parametrize("ingress", INGRESSES.values(), ids=lambda each: each.name)
upstreams = pytest.mark.parametrize("upstream", FAKES)
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def method_of(body: Body) -> str:
    """How the upstream was asked for the schema."""
    written = json.dumps(body)
    if FINAL in written:
        return "tool"
    native = ("response_format", '"text": {"format"', '"output_config"', "responseJsonSchema")
    if any(field in written for field in native):
        return "native"
    return "none"


def tools_of(body: Body) -> str:
    return json.dumps(body.get("tools", []))


class Upstreams:
    """One gateway over one fake of each kind. Every answer is given as the upstream was asked."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.received: list[Body] = []
        self.fakes: dict[str, FakeUpstream] = {
            name: fake(self._step(name)) for name, (_, fake) in FAKES.items()
        }

    def _step(self, name: str) -> Callable[[Body], Any]:
        def step(body: Body) -> Any:
            method = method_of(body)
            if name in ("refusing", "text-only") and method == "native":
                return REFUSED_FORMAT
            if name == "text-only" and body.get("tools"):
                return REFUSED_TOOLS
            self.received.append(body)
            text = self.answers.pop(0)
            return call(FINAL, json.loads(text)) if FINAL in tools_of(body) else say(text)

        return step

    def serving(self) -> Serving:
        models = {
            name: create_model(target, base_url=self.fakes[name].base_url, api_key="k")
            for name, (target, _) in FAKES.items()
        }
        configs = [
            ModelConfig(name=name, target=target, tools=("lookup",))
            for name, (target, _) in FAKES.items()
        ]
        return Serving(config_of(*configs), models=models, tools=[lookup])


@pytest.fixture(scope="module")
def served() -> Iterator[Upstreams]:
    served = Upstreams()
    for fake in served.fakes.values():
        fake.__enter__()
    yield served
    for fake in served.fakes.values():
        fake.__exit__(None, None, None)


@pytest.fixture(scope="module")
def http(served: Upstreams) -> Iterator[httpx2.Client]:
    with served.serving() as serving, client_of(serving) as client:
        yield client


@pytest.fixture(autouse=True)
def _fresh(served: Upstreams) -> None:
    served.answers.clear()
    served.received.clear()


def streamed_text(ingress: Ingress, events: list[Body]) -> str:
    match ingress.name:
        case "chat":
            deltas = [each["choices"][0]["delta"] for each in events if each.get("choices")]
            return "".join(delta.get("content") or "" for delta in deltas)
        case "responses":
            return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        case "messages":
            deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
            return "".join(delta.get("text", "") for delta in deltas)
        case _:
            parts = [
                p for e in events for c in e.get("candidates", ()) for p in c["content"]["parts"]
            ]
            return "".join(part.get("text", "") for part in parts)


def ask(http: httpx2.Client, ingress: Ingress, model: str, **wanted: Any) -> httpx2.Response:
    path, body = ingress.request(model, [ingress.user("Sky?")], schema=True, **wanted)
    return http.post(path, json=body)


def events_of(response: httpx2.Response) -> list[Body]:
    return [json.loads(text) for text in payloads(response) if text != "[DONE]"]


def text_of(ingress: Ingress, response: httpx2.Response, stream: bool) -> str:
    assert response.status_code == 200, response.text
    if stream:
        return streamed_text(ingress, events_of(response))
    seen = ingress.read(response.json())
    assert (seen.calls, seen.finish) == ([], "stop")
    return seen.text


@ingresses
@upstreams
@streams
def test_the_schema_is_honoured_on_every_upstream(
    served: Upstreams, http: httpx2.Client, ingress: Ingress, upstream: str, stream: bool
) -> None:
    served.answers += [GOOD]
    response = ask(http, ingress, upstream, stream=stream)
    assert json.loads(text_of(ingress, response, stream)) == {"sky": "clear"}
    assert [method_of(body) for body in served.received] == [METHODS[upstream]]
    assert FINAL not in response.text


@ingresses
@upstreams
def test_an_invalid_answer_is_asked_for_again(
    served: Upstreams, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    served.answers += [BAD, GOOD]
    response = ask(http, ingress, upstream)
    assert json.loads(text_of(ingress, response, False)) == {"sky": "clear"}
    assert "sky: expected a string, got 7" in json.dumps(served.received[1])


@ingresses
@upstreams
def test_an_answer_that_stays_invalid_is_an_error(
    served: Upstreams, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    served.answers += [BAD, BAD, BAD]
    response = ask(http, ingress, upstream)
    assert response.status_code == 502
    assert "sky: expected a string, got 7" in response.json()["error"]["message"]
    if ingress.name in ("chat", "responses"):
        assert response.json()["error"]["code"] == "output_invalid"


@ingresses
@pytest.mark.parametrize("upstream", OTHERS)
def test_a_stream_that_no_upstream_enforces_has_only_the_valid_answer(
    served: Upstreams, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    served.answers += [GOOD]  # the refusing ones are known from here on
    ask(http, ingress, upstream)
    served.answers += [BAD, GOOD]
    response = ask(http, ingress, upstream, stream=True)
    assert json.loads(text_of(ingress, response, True)) == {"sky": "clear"}


@ingresses
@pytest.mark.parametrize("upstream", OTHERS)
def test_a_held_back_stream_that_stays_invalid_has_an_error_status(
    served: Upstreams, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    served.answers += [GOOD]
    ask(http, ingress, upstream)
    served.answers += [BAD, BAD, BAD]
    response = ask(http, ingress, upstream, stream=True)
    assert response.status_code == 502
    assert "sky: expected a string, got 7" in response.json()["error"]["message"]


@ingresses
@pytest.mark.parametrize("upstream", NATIVE)
def test_a_stream_of_an_enforcing_upstream_ends_with_an_error_event(
    served: Upstreams, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    served.answers += [BAD]
    response = ask(http, ingress, upstream, stream=True)
    events = events_of(response)
    assert streamed_text(ingress, events[:-1]) == BAD
    assert "sky: expected a string, got 7" in json.dumps(events[-1])


@streams
def test_without_strict_a_stream_is_never_held_back(
    served: Upstreams, http: httpx2.Client, stream: bool
) -> None:
    ingress = INGRESSES["chat"]
    path, body = ingress.request("anthropic-3", [ingress.user("Sky?")], schema=True, stream=stream)
    body["response_format"]["json_schema"]["strict"] = False
    served.answers += [BAD] if stream else [BAD, GOOD]
    response = http.post(path, json=body)
    if stream:
        assert streamed_text(ingress, events_of(response)[:-1]).replace(" ", "") == '{"sky":7}'
        assert events_of(response)[-1]["error"]["code"] == "output_invalid"
    else:
        assert json.loads(text_of(ingress, response, False)) == {"sky": "clear"}


@pytest.mark.parametrize("answer", ["[1]", "Sure!"])
def test_any_json_object_is_validated_too(
    served: Upstreams, http: httpx2.Client, answer: str
) -> None:
    ingress = INGRESSES["chat"]
    path, body = ingress.request("openai", [ingress.user("Sky?")])
    body["response_format"] = {"type": "json_object"}
    served.answers += [answer, '{"any": "thing"}']
    response = http.post(path, json=body)
    assert json.loads(text_of(ingress, response, False)) == {"any": "thing"}


@pytest.mark.parametrize(
    ("upstream", "answer"), [("openai", "[1, 2]"), ("anthropic-3", '{"value": [1, 2]}')]
)
@streams
def test_a_schema_of_an_array_is_answered_with_an_array(
    served: Upstreams, http: httpx2.Client, upstream: str, answer: str, stream: bool
) -> None:
    ingress = INGRESSES["chat"]
    path, body = ingress.request(upstream, [ingress.user("Numbers?")], schema=True, stream=stream)
    schema = {"type": "array", "items": {"type": "integer"}}
    body["response_format"]["json_schema"]["schema"] = schema
    served.answers += [answer]
    assert json.loads(text_of(ingress, http.post(path, json=body), stream)) == [1, 2]


@ingresses
def test_an_invalid_schema_is_refused(http: httpx2.Client, ingress: Ingress) -> None:
    path, body = ingress.request("openai", [ingress.user("Sky?")], schema=True)
    text = json.dumps(body).replace('"type": "string"', '"type": "strink"')
    response = http.post(path, content=text, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "strink" in response.text


def test_an_answer_after_a_tool_call_is_validated_and_the_call_is_hidden() -> None:
    model = ScriptedModel(
        [call("lookup", city="Rome"), say(BAD), say("```json\n" + GOOD + "\n```")],
        "openai/gpt-test",
    )
    config = config_of(ModelConfig(name="m", target="openai/gpt-test", tools=("lookup",)))
    ingress = INGRESSES["chat"]
    with (
        Serving(config, models={"m": model}, tools=[lookup]) as serving,
        client_of(serving) as http,
    ):
        seen = ingress.read(ask(http, ingress, "m").json())
    assert (seen.text, seen.calls) == (GOOD, [])
    assert model.requests[0].settings.response_schema == SCHEMA
