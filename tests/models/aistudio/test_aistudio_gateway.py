"""The page behind the gateway: OpenAI's wire in front, a real browser with its profile behind."""

import asyncio
import json
import logging
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.models.aistudio.test_aistudio_faults import out_of_patience_once_asked
from tests.support.asgi import post
from tests.support.browsing import HEADLESS, LEAN
from tests.support.serving import Serving

from windlass.gateway import GatewayConfig, create_app
from windlass.gateway.config import ServerConfig
from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.config import BrowserConfig
from windlass.models.aistudio.page import TurnWatch
from windlass.models.aistudio.schema import SchemaConverter
from windlass.models.aistudio.turn import Patience
from windlass.models.retry import Retry
from windlass.settings import FunctionCallingSettings
from windlass.testing import Gate, call, calls, cut, hang, raw_call, say, slow, think
from windlass.testing.aistudio import (
    FakeAIStudio,
    filled_late,
    late_calls,
    model_error,
    quota_callout,
    rendered_twice,
    toast,
    written_call,
)

pytestmark = pytest.mark.process

NATIVE = {"X-Function-Calling-Mode": "native"}
WITHOUT_A_GATEWAY = pytest.mark.whole("test_aistudio_calling, test_aistudio_faults")
"""The page's own tests cover this in every run; here it goes through the gateway too."""


def declared(name: str) -> Any:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "title": "City"}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }


WEATHER = declared("get_weather")
PARIS = call("get_weather", city="Paris")
PAGES: dict[str, dict[str, Any]] = {
    "studio": {},
    "patient": {},
    "older": {"variant": "older"},
    "newer": {"variant": "newer"},
    "worst": {
        "visual_tab_first": True,
        "tools_collapsed": True,
        "overlay": "closable",
        "switched_on": ["google_search", "url_context", "code_execution"],
        "late": {"page": 0.05, "switch": 0.05, "dialog": 0.05, "save": 0.05},
    },
    "changed": {"broken": {"edit_button"}},
    "without": {"without_function_calling": ["gemini-2.5-flash"]},
    "blocked": {"overlay": "stuck"},
}
"""The pages that are served, by the name of their model; one of them waits long for a call."""


class Studio:
    """A gateway over pages in one profile's browser, all with one script."""

    def __init__(self, profile: Path) -> None:
        self.script: deque[Any] = deque()
        self._stack = ExitStack()
        self.fakes = {
            name: FakeAIStudio(lambda _: self.script.popleft(), **options)
            for name, options in PAGES.items()
        }
        models = {
            name: self._model(fake, profile, late_call=30.0 if name == "patient" else 0.1)
            for name, fake in self.fakes.items()
        }
        server = GatewayConfig(server=ServerConfig(access_log=False))
        self.gateway = Serving(server, models=models)

    def _model(self, fake: FakeAIStudio, profile: Path, late_call: float) -> AIStudioModel:
        self._stack.enter_context(fake)
        return AIStudioModel(
            "gemini-2.5-flash",
            config=BrowserConfig(fake.url, profile, HEADLESS, pages=1, arguments=LEAN),
            settings=FunctionCallingSettings(ui_timeout_ms=3000, native_retry_count=1),
            patience=Patience(quiet=0.05, late_call=late_call),
            retry=Retry(attempts=1),
        )

    @property
    def fake(self) -> FakeAIStudio:
        return self.fakes["studio"]

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    studio = Studio(tmp_path_factory.mktemp("profile"))
    with studio.gateway:
        yield studio
    studio.close()


@pytest.fixture
def ask(studio: Studio) -> Iterator[Any]:
    """Asks the gateway: `ask([step, ...], "Hi", tools=[...])`."""
    studio.script.clear()
    studio.fake.requests.clear()
    client = OpenAI(base_url=studio.gateway.base_url, api_key="unused", max_retries=0)

    def ask(script: list[Any], messages: Any = "Weather in Paris?", **options: Any) -> Any:
        studio.script.extend(script)
        said: Any = (
            [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        )
        options = {"model": "studio", "extra_headers": NATIVE, **options}
        return client.chat.completions.create(messages=said, **options)

    with client:
        yield ask


def body_of(error: openai.APIError) -> dict[str, Any]:
    assert isinstance(error.body, dict)
    return error.body


def cities_in(answer: Any) -> list[str]:
    """The city of the weather tool."""
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    made = [each.function for each in choice.message.tool_calls]
    assert {each.name for each in made} == {"get_weather"}
    return [json.loads(each.arguments)["city"] for each in made]


# The scenarios.


def test_a_call_and_its_result_go_through_the_page(ask: Any, studio: Studio) -> None:
    answer = ask([PARIS, "It is sunny."], tools=[WEATHER])
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (made,) = choice.message.tool_calls
    assert made.id.startswith("call_")
    assert (made.function.name, made.function.arguments) == ("get_weather", '{"city":"Paris"}')
    result = {"role": "tool", "tool_call_id": made.id, "content": '{"sky": "clear"}'}
    history = [{"role": "user", "content": "Weather in Paris?"}, choice.message, result]
    answer = ask([], history, tools=[WEATHER])
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (
        "It is sunny.",
        "stop",
    )
    assert [request.body["prompt"] for request in studio.fake.requests] == [
        "Weather in Paris?",
        None,
    ]


@WITHOUT_A_GATEWAY
def test_a_model_that_declines_answers_with_text(ask: Any) -> None:
    answer = ask(["I know: sunny."], tools=[WEATHER])
    assert answer.choices[0].message.content == "I know: sunny."
    assert answer.choices[0].message.tool_calls is None


@WITHOUT_A_GATEWAY
def test_of_several_functions_the_model_picks_one(ask: Any) -> None:
    assert cities_in(ask([PARIS], tools=[declared("get_time"), WEATHER])) == ["Paris"]


def test_a_streamed_call_is_deltas_of_one_call(ask: Any) -> None:
    """Beside a thought, and text that grows."""
    step = think("Hm.", calls(PARIS, call("get_weather", city="Rome"), text="Let me see."))
    chunks = list(ask([step], tools=[WEATHER], stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Let me see."
    arguments: dict[int, str] = {}
    for delta in deltas:
        for piece in delta.tool_calls or ():
            arguments[piece.index] = arguments.get(piece.index, "") + piece.function.arguments
    assert [json.loads(text)["city"] for text in arguments.values()] == ["Paris", "Rome"]
    finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [finish for finish in finishes if finish] == ["tool_calls"]


def test_an_invalid_tool_is_a_bad_request(ask: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask([], tools=[tool])
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("changed", "edit_button"),
        pytest.param("without", "no function calling", marks=WITHOUT_A_GATEWAY),
    ],
)
def test_native_mode_on_a_page_that_cannot_is_an_error_of_its_own_kind(
    ask: Any, model: str, why: str
) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        ask([], tools=[WEATHER], model=model)
    assert caught.value.status_code == 500
    problem = body_of(caught.value)
    message = problem.pop("message")
    assert why in message
    assert message.count("Native function calling failed") == 1
    assert problem == {
        "type": "function_calling_error",
        "param": None,
        "code": "native_mode_unavailable",
    }


@WITHOUT_A_GATEWAY
def test_auto_mode_on_a_changed_page_continues_emulated(
    ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    with caplog.at_level(logging.WARNING, "windlass"):
        answer = ask([written], tools=[WEATHER], model="changed", extra_headers={})
    assert cities_in(answer) == ["Paris"]
    assert "falling back to emulated" in caplog.text


# Faults of the page.


@WITHOUT_A_GATEWAY
@pytest.mark.parametrize("model", ["older", "newer", "worst"])
def test_a_page_in_any_state_is_brought_to_work(ask: Any, model: str) -> None:
    assert cities_in(ask([PARIS], tools=[WEATHER], model=model)) == ["Paris"]


@WITHOUT_A_GATEWAY
@pytest.mark.parametrize(
    ("step", "cities"),
    [
        (slow(PARIS, seconds=0.05), ["Paris"]),
        (late_calls(PARIS, seconds=0.05), ["Paris"]),
        (filled_late(PARIS, seconds=0.05), ["Paris"]),
        (rendered_twice(calls(PARIS, PARIS)), ["Paris", "Paris"]),
        (
            calls(
                raw_call("default_api:get_weather", "{<ctrl46>city<ctrl46>: <ctrl46>Oslo<ctrl46>}"),
                call("get_wea", city="Rome"),
            ),
            ["Oslo", "Rome"],
        ),
    ],
    ids=["late", "late call", "filled late", "drawn twice", "odd names and quotes"],
)
def test_a_call_is_a_call_however_the_page_shows_it(ask: Any, step: Any, cities: list[str]) -> None:
    assert cities_in(ask([step], tools=[WEATHER], model="patient")) == cities


@WITHOUT_A_GATEWAY
def test_a_call_as_text_is_a_call(ask: Any) -> None:
    answer = ask([written_call("get_weather", city="Paris")], tools=[WEATHER])
    assert (cities_in(answer), answer.choices[0].message.content) == (["Paris"], None)


@pytest.mark.parametrize(
    ("step", "status", "words"),
    [
        (quota_callout(), 429, "quota"),
        pytest.param(model_error("It broke."), 503, "It broke.", marks=WITHOUT_A_GATEWAY),
        pytest.param(toast("Failed.", "error"), 503, "Failed.", marks=WITHOUT_A_GATEWAY),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_on_the_page_has_openai_s_shape(
    ask: Any, step: Any, status: int, words: str, stream: bool
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        list(ask([step], stream=stream))
    assert caught.value.status_code == status
    problem = body_of(caught.value)
    assert words in problem["message"]
    assert problem.keys() == {"message", "type", "param", "code"}


def test_a_declaration_that_the_editor_refuses_is_a_bad_request_with_its_words(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion should prevent it; if the editor becomes stricter, its error is the user's."""
    for refused, words in {
        '[{"name": "f", "title": "F"}]': 'Unknown key "title"',
        '[{"name": "f", "parameters": {}}]': "Missing type",
        "[{]": "Invalid JSON",
    }.items():
        monkeypatch.setattr(SchemaConverter, "to_json_string", lambda *_, text=refused: text)
        with pytest.raises(openai.BadRequestError, match=words):
            ask([], tools=[WEATHER])


@WITHOUT_A_GATEWAY
def test_a_dialog_that_cannot_be_closed_is_named(ask: Any) -> None:
    with pytest.raises(openai.InternalServerError, match="a dialog covers the page") as caught:
        ask([], model="blocked")
    assert caught.value.status_code == 503


def test_a_spinner_that_never_ends_is_a_time_out(
    ask: Any, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TurnWatch, "next", out_of_patience_once_asked(studio.fake))
    with pytest.raises(openai.InternalServerError, match="has not shown anything new") as caught:
        ask([hang()])
    assert caught.value.status_code == 504


def test_an_error_in_the_middle_of_a_stream_is_no_assistant_text(ask: Any) -> None:
    gate = Gate()
    said: list[str] = []
    with pytest.raises(openai.APIError, match="Failed to generate"):
        for chunk in ask([slow(cut("One two three.", 2), gate, after=2)], stream=True):
            said += [choice.delta.content or "" for choice in chunk.choices]
            gate.open()
    assert "One two three.".startswith("".join(said))


def test_no_address_in_a_request_is_ever_called(ask: Any) -> None:
    """A tool server named by a client would be a way into the gateway's own network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        answer = ask(
            [PARIS],
            tools=[WEATHER],
            extra_headers={**NATIVE, "X-MCP-Executor-Endpoint": address, "X-MCP-Endpoint": address},
        )
        assert answer.choices[0].finish_reason == "tool_calls"
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_a_disconnect_stops_the_page(studio: Studio) -> None:
    gate = Gate()
    studio.script.clear()
    studio.script.append(slow(say("One two three."), gate, after=1))
    client = openai.AsyncOpenAI(base_url=studio.gateway.base_url, api_key="unused", max_retries=0)
    async with client:
        stream = await client.chat.completions.create(
            model="studio", messages=[{"role": "user", "content": "Count."}], stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await stream.close()
        async with asyncio.timeout(60):
            await studio.fake.stopped.wait()


def test_the_cache_of_a_model_is_cleared_by_its_endpoint(ask: Any, studio: Studio) -> None:
    ask([PARIS], tools=[WEATHER])
    url = f"{studio.gateway.base_url}/models/studio/cache"
    client = httpx2.Client()
    assert client.delete(url).json() == {"model": "studio", "cleared": 1}
    assert client.delete(url).json() == {"model": "studio", "cleared": 0}
    saves = len(studio.fakes["studio"].saves)
    ask([PARIS], tools=[WEATHER])
    assert len(studio.fakes["studio"].saves) == saves + 1
    unknown = client.delete(url.replace("studio/cache", "nothing/cache"))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    client.close()


async def test_a_browser_that_cannot_start_is_the_gateway_s_problem_with_the_operator_s_remedy(
    tmp_path: Path,
) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    config = BrowserConfig("http://localhost:1/", tmp_path / "profile", program)
    app = create_app(GatewayConfig(), models={"studio": AIStudioModel("default", config=config)})
    asked = {"model": "studio", "messages": [{"role": "user", "content": "Hi"}]}
    answer = await post(app, asked)
    await app.gateway.aclose()
    assert (answer.status, answer.error["code"]) == (503, "browser_unavailable")
    assert "playwright install chromium" in answer.error["message"]
    assert str(tmp_path) not in answer.error["message"]
