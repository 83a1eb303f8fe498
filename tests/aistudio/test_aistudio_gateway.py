"""The page behind the gateway: OpenAI's wire in front, a real browser behind."""

import asyncio
import json
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from tests.aistudio.browsing import CHROMIUM, FLAGS, SHORT
from tests.gateway.serving import Serving

from windlass.gateway import GatewayConfig
from windlass.gateway.config import ServerConfig
from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.browser import Browser
from windlass.models.aistudio.config import BrowserConfig
from windlass.models.retry import Retry
from windlass.settings import FunctionCallingSettings
from windlass.testing import Gate, call, calls, cut, say, slow, think
from windlass.testing.aistudio import FakeAIStudio, model_error, quota_callout

NATIVE = {"X-Function-Calling-Mode": "native"}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
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
PARIS = call("get_weather", city="Paris")


class Studio:
    """A gateway over a whole page (`studio`) and one without its edit button (`changed`)."""

    def __init__(self, profile: Path) -> None:
        self.script: deque[Any] = deque()
        self.fake = FakeAIStudio(lambda _: self.script.popleft())
        self.changed = FakeAIStudio(lambda _: self.script.popleft(), broken={"edit_button"})
        config = BrowserConfig("", profile, CHROMIUM, arguments=FLAGS)
        self._browser = Browser(config)
        models = {
            "studio": self._model(self.fake, config),
            "changed": self._model(self.changed, config),
        }
        server = GatewayConfig(server=ServerConfig(access_log=False))
        self.gateway = Serving(server, models=models)

    def _model(self, fake: FakeAIStudio, config: BrowserConfig) -> AIStudioModel:
        fake.__enter__()
        return AIStudioModel(
            "gemini-2.5-flash",
            config=BrowserConfig(fake.url, config.profile, config.program, pages=1),
            settings=FunctionCallingSettings(ui_timeout_ms=1000, native_retry_count=1),
            patience=SHORT,
            retry=Retry(attempts=1),
            browser=lambda _: self._browser,
        )

    def close(self) -> None:
        self.fake.__exit__()
        self.changed.__exit__()


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


def test_a_model_that_declines_answers_in_words(ask: Any) -> None:
    answer = ask(["I know: sunny."], tools=[WEATHER])
    assert answer.choices[0].message.content == "I know: sunny."
    assert answer.choices[0].message.tool_calls is None


def test_a_streamed_call_is_deltas_of_one_call(ask: Any) -> None:
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


def test_native_mode_on_a_changed_page_is_an_error_of_its_own_kind(ask: Any) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        ask([], tools=[WEATHER], model="changed")
    assert caught.value.status_code == 500
    problem = body_of(caught.value)
    assert "edit_button" in problem.pop("message")
    assert problem == {
        "type": "function_calling_error",
        "param": None,
        "code": "native_mode_unavailable",
    }


def test_auto_mode_on_a_changed_page_goes_on_emulated(ask: Any) -> None:
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    answer = ask([written], tools=[WEATHER], model="changed", extra_headers={})
    assert answer.choices[0].message.tool_calls[0].function.name == "get_weather"


@pytest.mark.parametrize(
    ("step", "status", "words"),
    [(quota_callout(), 429, "quota"), (model_error("It broke."), 503, "It broke.")],
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


async def test_a_client_that_goes_away_stops_the_page(studio: Studio) -> None:
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
        async with asyncio.timeout(20):
            await studio.fake.stopped.wait()
