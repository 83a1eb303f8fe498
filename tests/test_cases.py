"""The cases of the systems in docs/names.md, by name, on four wires."""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pytest
from google.genai import types as genai
from tests.conftest import MakeClient
from tests.support.serving import Serving, config_of
from tests.support.talking import asking, client_of, function
from tests.support.typed_answers import Point

import windlass
from windlass import (
    AsyncClient,
    BudgetExceeded,
    Client,
    ConfigError,
    Depends,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    NativeModeUnavailable,
    OutputInvalid,
    Part,
    Price,
    RoundLimitExceeded,
    RunEnded,
    Schema,
    Status,
    Text,
    TextDelta,
    Tool,
    ToolAnswer,
    ToolError,
    ToolExecutor,
    ToolJob,
    ToolRegistry,
    parse,
    tool,
)
from windlass.content import new_call_id
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.messaging.embedded import NatsServer
from windlass.models import create_model
from windlass.models.aistudio.functions import FunctionController
from windlass.models.aistudio.schema import SchemaConverter
from windlass.models.aistudio.selectors import ELEMENTS
from windlass.models.aistudio.written import WrittenCalls
from windlass.settings import FunctionCallingSettings, function_calling_settings
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    ScriptedModel,
    call,
    calls,
    refuse,
    say,
    tool_results,
)
from windlass.tool import as_tools
from windlass.toolsets.remote import (
    ToolSpec,
    execute_in_session,
    from_worker_tool,
    get_tools_for_model,
)
from windlass.worker import Worker

Connect = Callable[..., Client]
F = TypeVar("F", bound=Callable[..., Any])

NAMES = Path(__file__).parent.parent / "docs" / "names.md"
COVERED: dict[str, list[str]] = {}
"""The rows of docs/names.md, by their first cell, and the tests that cover them."""


def covers(*rows: str) -> Callable[[F], F]:
    """Names the rows of docs/names.md that the test covers."""

    def mark(test: F) -> F:
        for row in rows:
            COVERED.setdefault(row, []).append(test.__name__)
        return test

    return mark


def rows_of(page: str) -> list[tuple[str, bool]]:
    """The first cell of each row of the tables, and whether the row is marked."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    cells = [line.strip("|").split(" | ") for line in lines]
    return [(row[0].strip(), row[-1].strip() == "✓") for row in cells]


def test_every_row_of_the_names_has_a_test() -> None:
    marked = {row for row, is_marked in rows_of(NAMES.read_text()) if is_marked}
    assert len(marked) > 80
    assert marked - COVERED.keys() == set()


def test_every_test_names_an_existing_row() -> None:
    known = {row for row, is_marked in rows_of(NAMES.read_text()) if is_marked}
    assert COVERED.keys() - known == set()


FAKES: dict[str, Any] = {
    "openai": FakeOpenAI,
    "responses": FakeResponses,
    "gemini": FakeGemini,
    "anthropic": FakeAnthropic,
}


@pytest.fixture(params=list(FAKES))
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A client over the real wire of a fake service that follows the script."""
    opened: list[Any] = []

    def make(script: Any, **options: Any) -> Client:
        fake = FAKES[request.param](script)
        opened.append(fake.__enter__())
        client = Client(f"{request.param}/m", base_url=fake.base_url, api_key="k", **options)
        opened.append(client.__enter__())
        client.fake = fake  # pyright: ignore[reportAttributeAccessIssue]
        return client

    yield make
    for each in reversed(opened):
        each.__exit__(None, None, None)


DECLARATION = FunctionDeclaration(
    "get_weather",
    "Gets weather for a location",
    {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
)


def get_weather(location: str) -> dict[str, Any]:
    return {"location": location, "degrees": 18}


# gemini_ex


@covers(
    "`Gemini.generate_content_with_auto_tools(contents, opts)`",
    "`Gemini.Tools.register(declaration, fun)`",
    "`Altar.ADM.new_function_declaration(...)`",
    "`Gemini.extract_text(response)`",
)
def test_tool_registration_and_standard_automatic_execution(connect: Connect) -> None:
    registry = ToolRegistry()
    registry.register(DECLARATION, get_weather)
    client = connect([call("get_weather", location="San Francisco"), "18 degrees."] * 3)
    for tools in ([registry], [DECLARATION, registry], ["get_weather", registry]):
        reply = client.generate("What's the weather?", tools=tools, max_rounds=5)
        assert reply.text == "18 degrees."
        assert reply.results[0].output == {"location": "San Francisco", "degrees": 18}


@covers("`Gemini.Tools.register(declaration, fun)`")
def test_a_declaration_of_the_process_s_registry_runs(connect: Connect) -> None:
    windlass.registry.register(DECLARATION, get_weather)
    try:
        client = connect([call("get_weather", location="San Francisco"), "18 degrees."])
        reply = client.generate("What's the weather?", tools=[DECLARATION], max_rounds=5)
    finally:
        windlass.registry.unregister("get_weather")
    assert (reply.text, reply.stop_reason) == ("18 degrees.", "answer")


@covers(
    "`Gemini.stream_generate_with_auto_tools`",
    "`Gemini.subscribe_stream(stream_id)`",
    "`{:stream_event, id, event}`",
)
def test_streaming_automatic_execution_for_subscribers(connect: Connect) -> None:
    client = connect([call("get_weather", location="Tokyo"), "18 degrees in Tokyo."])
    run = client.start("What's the weather in Tokyo?", tools=[get_weather])
    first, second = list(client.subscribe(run.id)), list(client.subscribe(run.id))
    assert first == second
    text = "".join(e.text for e in first if isinstance(e, TextDelta))
    assert text == "18 degrees in Tokyo."
    assert isinstance(first[-1], RunEnded)


@covers(
    "`{:stream_complete, id}` / `{:stream_error, id, error}`",
)
def test_a_stream_error_reaches_the_subscriber(connect: Connect) -> None:
    client = connect([refuse(400, "no such model")])
    run = client.start("?")
    end = list(client.subscribe(run.id))[-1]
    assert isinstance(end, RunEnded)
    assert end.reason == "error"
    assert "no such model" in (end.error or "")


@covers(
    "`turn_limit: 10`",
)
def test_turn_limit(connect: Connect) -> None:
    client = connect([call("get_weather", location="x")] * 3)
    with pytest.raises(RoundLimitExceeded):
        client.generate("?", tools=[get_weather], max_rounds=2, on_limit="error")


def test_multiple_tool_calls_in_sequence(connect: Connect) -> None:
    client = connect(
        [call("get_weather", location="Paris"), call("get_weather", location="Rome"), "Both 18."]
    )
    reply = client.generate("?", tools=[get_weather])
    assert [c.arguments for c in reply.calls] == [{"location": "Paris"}, {"location": "Rome"}]


@covers(
    "`Chat.new`, `Chat.add_turn(chat, role, text_or_calls_or_results)`",
    "`Content.from_tool_results(results)`",
)
def test_chat_history_is_built_by_turns(connect: Connect) -> None:
    client = connect(["Hello.", "18 degrees."])
    chat = client.chat()
    chat.send("Hi")
    chat.add("Weather in Boston?", role="user")
    chat.add([Part.from_function_call("get_weather", {"location": "Boston"})], role="model")
    results = client.execute(chat.messages[-1].calls, tools=[get_weather])
    assert Message.tool(results).role == "tool"
    chat.add(results, role="user")
    assert chat.send().text == "18 degrees."
    assert [m.role for m in chat.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@covers(
    "`ToolOrchestrator` phases `:awaiting_model_call`, `:executing_tools`,"
    " `:awaiting_final_response`",
)
def test_phases(connect: Connect) -> None:
    client = connect([call("look"), "done"])
    seen: list[str] = []

    def look() -> str:
        seen.append(client.runs()[0].phase)
        return "ok"

    run = client.start("?", tools=[look])
    run.result()
    assert seen == ["executing_tools"]


# AiService


@covers(
    "`$response->content['text']`",
)
def test_send_request_returns_the_final_response(connect: Connect) -> None:
    client = connect([call("get_weather", location="Paris"), "The weather in Paris is 18°C"])
    assert client.generate("What is the weather in Paris?", tools=[get_weather]).text == (
        "The weather in Paris is 18°C"
    )


@covers(
    "`$aiService->sendRequest($payload, maxToolRounds: 5)`",
)
def test_multi_round_tool_calling(connect: Connect) -> None:
    def compare_cities(a: str, b: str) -> str:
        return f"{a} equals {b}"

    client = connect(
        [
            call("get_weather", location="Paris"),
            call("get_weather", location="London"),
            call("compare_cities", a="Paris", b="London"),
            "They are equal.",
        ]
    )
    reply = client.generate("Compare", tools=[get_weather, compare_cities])
    assert reply.text == "They are equal."
    assert len(reply.rounds) == 4


@covers(
    '"Max tool execution rounds reached", "Maximum tool execution rounds reached.'
    ' Generating final response..."',
)
def test_max_rounds_disables_tools_for_one_final_request(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    cities = ["Paris", "London", "Berlin"]
    client = connect([*(call("get_weather", location=city) for city in cities), "All 18."])
    with client.stream("?", tools=[get_weather], max_rounds=3) as stream:
        statuses = [e.message for e in stream if isinstance(e, Status)]
    assert statuses == [
        *["Executing get_weather..."] * 3,
        "Maximum tool execution rounds reached. Generating final response...",
    ]
    assert "Max tool execution rounds reached" in caplog.text
    assert stream.reply.text == "All 18."
    assert "tools" not in client.fake.requests[-1].body  # pyright: ignore[reportAttributeAccessIssue]


@covers(
    '`{"error": "..."}` as a tool\'s result',
)
def test_tool_errors_are_sent_back_as_results(connect: Connect) -> None:
    def query() -> str:
        raise ToolError("Database connection failed")

    def answer(body: Any) -> Any:
        results = tool_results(body)
        return say(f"I read: {results[0].text}") if results else call("query")

    text = connect(answer).generate("?", tools=[query]).text
    assert text == 'I read: {"error":"Database connection failed"}'


@covers(
    "log lines `Tool execution required`, `Tool call parsed`, `TestTool executed`,"
    " `Tool executed successfully`",
)
def test_test_tool_with_its_log_lines(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    def test_tool(message: str, count: int = 1) -> str:
        return " ".join([message] * count)

    caplog.set_level(logging.INFO, "windlass")
    client = connect([call("test_tool", message="Hello", count=2), "Hello Hello"])
    reply = client.generate("Please use test_tool", tools=[test_tool])
    assert reply.results[0].output == "Hello Hello"
    lines = [r.getMessage() for r in caplog.records if r.name == "windlass.loop"]
    assert lines == [
        "Tool execution required",
        "Tool call parsed",
        "test_tool executed",
        "Tool executed successfully",
    ]


@covers(
    "`isDone`, masked during tool execution",
)
def test_done_is_masked_until_the_whole_run_is_over(connect: Connect) -> None:
    client = connect([call("get_weather", location="x"), "done"])
    with client.stream("?", tools=[get_weather]) as stream:
        flags = [event.done for event in stream]
    assert flags.count(True) == 1
    assert flags[-1] is True


@covers(
    "`$chunk->type` of `content`, `status`, `tool_call`, `tool_result`",
)
def test_types_tell_content_status_calls_and_results_apart(connect: Connect) -> None:
    client = connect([calls(call("get_weather", location="x"), text="Hm."), "done"])
    with client.stream("?", tools=[get_weather]) as stream:
        types = {event.type for event in stream}
    assert types == {"content", "status", "tool_call", "tool_result", "control"}


@covers(
    "`$toolService->requiresToolExecution($response)`",
    "`$toolService->buildFollowUpRequest($request, $response)`",
    "`Gemini.Tools.execute_calls(calls)`",
    "`auto_execute_tools: false`",
    "`automatic_function_calling.disable`",
    "`CallIdManager.register_call`, `get_pending_calls`",
)
def test_manual_control(connect: Connect) -> None:
    client = connect([call("get_weather", location="x"), "done"])
    turn = client.generate("?", tools=[get_weather], execute_tools=False)
    assert turn.pending
    follow_up = turn.follow_up(client.execute(turn.calls))
    assert client.generate(follow_up, tools=[get_weather]).text == "done"


@covers(
    "`executeToolCalls` overridden in a subclass",
)
def test_custom_tool_execution(connect: Connect) -> None:
    seen: list[str] = []

    class Custom(ToolExecutor):
        async def execute(self, job: ToolJob) -> ToolAnswer:
            seen.append(job.call.name)
            return await super().execute(job)

    client = connect([call("get_weather", location="x"), "done"], executor=Custom())
    client.generate("?", tools=[get_weather])
    assert seen == ["get_weather"]


@covers(
    "`enabled_tools: []`",
)
def test_an_empty_list_of_enabled_tools_means_none(connect: Connect) -> None:
    client = connect(["hi"])
    client.generate("?", tools=[])
    assert "tools" not in client.fake.requests[0].body  # pyright: ignore[reportAttributeAccessIssue]


# Gemini.Types.Tooling


@covers(
    "`Tool{function_declarations: [...]}`",
    "`FunctionDeclaration`",
    "`FunctionCall{name, args}`",
    "`Part.function_call(name, args)`",
    "`Part.function_response(name, response)`",
    '`Content.text(prompt, "user")`, `Content.new(role:, parts:)`',
)
def test_the_workflow_of_declaration_call_execution_and_response(connect: Connect) -> None:
    prompt = "What's the weather like in Boston?"
    client = connect([call("get_weather", location="Boston, MA"), "22°C and windy."])
    first = client.generate(prompt, tools=[{"function_declarations": [DECLARATION]}])
    asked = first.pending[0]
    assert (asked.name, asked.arguments) == ("get_weather", {"location": "Boston, MA"})
    result = {"temperature": "22", "forecast": "windy"}
    function_call_part = Part.from_function_call(asked.name, {"location": "Boston, MA"})
    history = [
        Message.user(prompt),
        Message("model", [function_call_part]),  # pyright: ignore[reportArgumentType]
        Message("user", [Part.from_function_response(asked.name, {"result": result})]),  # pyright: ignore[reportArgumentType]
    ]
    assert client.generate(history).text == "22°C and windy."


@covers(
    "`Tool{google_search: %GoogleSearch{}}`",
)
def test_google_search_is_a_marker_beside_functions() -> None:
    with FakeGemini(["found"]) as fake:
        client = Client("gemini/m", base_url=fake.base_url, api_key="k")
        client.generate("?", tools=[GoogleSearch(), get_weather])
        client.close()
    tools = fake.requests[0].body["tools"]
    assert any("googleSearch" in each for each in tools)
    assert any("functionDeclarations" in each for each in tools)


@tool
def roll(sides: int = 6) -> int:
    """Rolls a die."""
    return sides


@covers(
    "`FunctionResponse{name, response}`",
)
def test_a_response_is_matched_to_its_call_by_name_and_id(connect: Connect) -> None:
    client = connect([calls(call("roll", sides=4), call("roll", sides=8)), "done"])
    reply = client.generate("?", tools=[roll])
    assert [type(r) for r in reply.results] == [FunctionResponse] * 2
    assert [r.id for r in reply.results] == [c.id for c in reply.calls]
    assert [r.output for r in reply.results] == [4, 8]


@covers("`Part.text`, `Part.inline_data`")
def test_parts_of_text_and_of_bytes(connect: Connect) -> None:
    assert Part.from_text("hi") == Text("hi")
    image = Part.from_bytes(b"\x89PNG", "image/png")
    assert image == InlineData(b"\x89PNG", "image/png")
    assert connect(["A cat."]).generate([Part.from_text("What is it?"), image]).text == "A cat."


@covers("`Schema{type: :OBJECT, ...}`")
def test_a_schema_in_capitals_is_called_and_checked(connect: Connect) -> None:
    declaration = FunctionDeclaration(
        "get_weather",
        "Gets weather",
        Schema(
            type="OBJECT",
            properties={"location": Schema(type="STRING", description="The city.")},
            required=["location"],
        ),
    )
    registry = ToolRegistry()
    registry.register(declaration, get_weather)
    client = connect([call("get_weather"), call("get_weather", location="Paris"), "18."])
    reply = client.generate("?", tools=[declaration, registry])
    assert reply.results[0].error == (
        "Invalid arguments for get_weather: location: required, but missing"
    )
    assert reply.results[1].output == {"location": "Paris", "degrees": 18}


# What gemini_ex names as enhancements


@covers("tool result caching")
def test_results_are_cached(connect: Connect) -> None:
    ran: list[str] = []

    @tool(cache=60)
    def lookup(city: str) -> str:
        ran.append(city)
        return city

    client = connect([call("lookup", city="x"), call("lookup", city="x"), "done"])
    assert [each.output for each in client.generate("?", tools=[lookup]).results] == ["x", "x"]
    assert ran == ["x"]


@covers("parallel execution")
def test_calls_of_a_turn_run_at_once(connect: Connect) -> None:
    both = threading.Barrier(2)

    def meet() -> str:
        both.wait(timeout=20)
        return "met"

    client = connect([calls(call("meet"), call("meet")), "done"])
    assert [each.output for each in client.generate("?", tools=[meet]).results] == ["met", "met"]


@covers("dependency management")
def test_order_between_calls_and_values_that_the_model_does_not_see(connect: Connect) -> None:
    ran: list[str] = []

    def user() -> str:
        return "ada"

    def save(who: Annotated[str, Depends(user)]) -> str:
        ran.append(f"save {who}")
        return "saved"

    @tool(after=["save"])
    def publish() -> str:
        ran.append("publish")
        return "published"

    client = connect([calls(call("publish"), call("save")), "done"])
    client.generate("?", tools=[save, publish])
    assert ran == ["save ada", "publish"]


@covers("retry with backoff")
def test_a_failed_call_is_tried_again() -> None:
    tries: list[int] = []

    @tool(idempotent=True, retries=2)
    def unsteady() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("down")
        return "up"

    async def no_wait(seconds: float) -> None:
        assert seconds > 0

    executor = ToolExecutor(sleep=no_wait)
    client = Client(ScriptedModel([call("unsteady"), "done"]), executor=executor)
    assert client.generate("?", tools=[unsteady]).results[0].output == "up"


# AiService: what a front end prints


@covers(
    "`$aiService->sendStreamRequest($payload, $onData)`",
    "`$chunk->content['text']` where `type` is `content`",
    "`$chunk->statusMessage` where `type` is `status`",
)
def test_a_handler_of_two_branches(connect: Connect) -> None:
    printed: list[str] = []
    client = connect([call("get_weather", location="Paris"), "Sunny."])
    with client.stream("?", tools=[get_weather]) as stream:
        for chunk in stream:
            if chunk.type == "status":
                printed.append(f"Status: {chunk.message}")  # pyright: ignore[reportAttributeAccessIssue]
            elif chunk.type == "content":
                printed.append(chunk.text)  # pyright: ignore[reportAttributeAccessIssue]
    assert printed[0] == "Status: Executing get_weather..."
    assert "".join(printed[1:]) == "Sunny."


@covers('`{"error": "Database connection failed"}` of any exception')
def test_the_text_of_any_exception_if_that_is_asked_for(connect: Connect) -> None:
    def query() -> str:
        raise ConnectionError("Database connection failed")

    def answer(body: Any) -> Any:
        results = tool_results(body)
        return say(f"I read: {results[0].text}") if results else call("query")

    client = connect(answer)
    hidden = client.generate("?", tools=[query]).text
    assert hidden == 'I read: {"error":"query failed with an internal error."}'
    shown = client.generate("?", tools=[query], expose_errors=True).text
    assert shown == 'I read: {"error":"Database connection failed"}'


# Gemini.ToolBridge and Snakepit


@pytest.mark.process
@covers(
    "a Python worker that registers its functions",
    "`Gemini.ToolBridge.get_tools_for_gemini(session_id)`",
    "`Snakepit.Bridge.ToolRegistry.list_tools(session_id)`",
    "`Snakepit.execute_in_session(session_id, name, args)`",
    "the whole workflow, from the worker to the answer",
)
async def test_the_workflow_over_a_worker() -> None:
    def get_current_weather(location: str, unit: str = "celsius") -> dict[str, str]:
        """Gets the current weather for a given location."""
        return {"temperature": "22", "unit": unit, "location": location}

    async with (
        NatsServer() as server,
        Worker([get_current_weather], nats=server.url, session="user_123"),
    ):
        declared = await get_tools_for_model("user_123", nats=server.url)
        assert [each.name for each in declared] == ["get_current_weather"]
        session = windlass.remote("user_123", nats=server.url)
        assert [each.name for each in await session.list_tools()] == ["get_current_weather"]

        prompt = "What's the weather like in Boston?"
        script = [call("get_current_weather", location="Boston, MA"), "22 degrees."]
        async with AsyncClient(ScriptedModel(script)) as client:
            (asked,) = (await client.generate(prompt, tools=declared)).pending
            assert isinstance(asked.arguments, dict)
            result = await execute_in_session(
                "user_123", asked.name, asked.arguments, nats=server.url
            )
            assert result == {"temperature": "22", "unit": "celsius", "location": "Boston, MA"}
            history = [
                Message.user(prompt),
                Message("model", (asked,)),  # pyright: ignore[reportArgumentType]
                Message("user", (Part.from_function_response(asked.name, {"result": result}),)),
            ]
            assert (await client.generate(history)).text == "22 degrees."
        async with AsyncClient(ScriptedModel(script)) as client:
            reply = await client.generate(prompt, tools=[session])
            assert (reply.text, reply.results[0].output) == ("22 degrees.", result)
        await session.aclose()


@covers(
    "`Gemini.ToolBridge.from_snakepit_tool(spec)`",
    "`convert_params_to_schema(params)`",
    "`Snakepit.Bridge.InternalToolSpec`",
)
def test_a_worker_s_spec_becomes_a_declaration() -> None:
    parameters = [
        {"name": "location", "type": "string", "description": "The city.", "required": True},
        {"name": "unit", "type": "STRING", "description": "", "required": False},
    ]
    schema = {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "The city."},
            "unit": {"type": "string", "description": ""},
        },
        "required": ["location"],
    }
    listed = {"name": "get_weather", "description": "Gets weather", "parameters": parameters}
    declared = FunctionDeclaration("get_weather", "Gets weather", schema)
    assert from_worker_tool(listed) == declared
    assert Tool.from_snakepit_tool(listed).declaration == declared
    spec = ToolSpec(name="get_weather", description="Gets weather", parameters=schema)
    assert from_worker_tool(spec) == declared


# AIstudioProxyAPI

ENVIRONMENT: dict[str, tuple[str, Any, Any]] = {
    "FUNCTION_CALLING_MODE": ("mode", "emulated", "auto"),
    "FC_NATIVE_RETRY_COUNT": ("native_retry_count", "7", 2),
    "FC_FALLBACK_ON_FAILURE": ("fallback_on_failure", "false", True),
    "FC_CLEAR_BETWEEN_REQUESTS": ("clear_between_requests", "false", True),
    "FC_UI_TIMEOUT_MS": ("ui_timeout_ms", "70", 5000),
    "FC_DEBUG_LOGS": ("debug_logs", "true", False),
    "FUNCTION_CALLING_CACHE_ENABLED": ("cache_enabled", "false", True),
    "FUNCTION_CALLING_CACHE_TTL": ("cache_ttl", "7", None),
}


@covers(
    "`FunctionCallingConfig`",
    "`FUNCTION_CALLING_MODE` (`emulated`)",
    "`FC_NATIVE_RETRY_COUNT` (2)",
    "`FC_FALLBACK_ON_FAILURE` (true)",
    "`FC_CLEAR_BETWEEN_REQUESTS` (true)",
    "`FC_UI_TIMEOUT_MS` (5000)",
    "`FC_DEBUG_LOGS` (false)",
    "`FUNCTION_CALLING_CACHE_ENABLED` (true), `FUNCTION_CALLING_CACHE_TTL`",
)
@pytest.mark.parametrize("name", ENVIRONMENT)
def test_the_environment_variables_and_their_defaults(name: str) -> None:
    field, text, default = ENVIRONMENT[name]
    assert getattr(FunctionCallingSettings(), field) == default
    given = getattr(function_calling_settings({name: text}), field)
    assert str(given).lower().removesuffix(".0") == text


def in_words(body: Any) -> Any:
    """A model without function calling, which writes what it is asked to."""
    if "tools" in body:
        return refuse(400, "this model does not support tools")
    if "degrees" in str(body["messages"]):
        return say("18 degrees.")
    arguments = '{"location": "Paris"}'
    return say(f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>')


@covers(
    "`FunctionCallingMode.EMULATED`, `NATIVE`, `AUTO`",
    "`PreparedRequest.mode_used`, `ProcessedResponse.mode_used`",
    '`process_with_fallback`, "Native mode failed: ..., falling back to emulated"',
    '`{"error": {"type": "function_calling_error", "code": "native_mode_unavailable"}}`',
)
def test_the_modes(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOpenAI(in_words) as fake:
        with Client("openai/m", base_url=fake.base_url) as client:
            reply = client.generate("?", tools=[get_weather], mode="emulated")
            assert (reply.text, reply.mode) == ("18 degrees.", "emulated")
            assert not caplog.records
            reply = client.generate("?", tools=[get_weather], mode="auto")
            assert (reply.text, reply.mode) == ("18 degrees.", "emulated")
            assert "Native mode failed: this model does not support tools" in caplog.text
            assert "falling back to emulated" in caplog.text
        monkeypatch.setenv("FC_FALLBACK_ON_FAILURE", "false")
        with (
            Client("openai/m", base_url=fake.base_url) as client,
            pytest.raises(NativeModeUnavailable) as caught,
        ):
            client.generate("?", tools=[get_weather])
    assert (caught.value.type, caught.value.code) == (
        "function_calling_error",
        "native_mode_unavailable",
    )
    with (
        FakeOpenAI([call("get_weather", location="x"), "18."]) as fake,
        Client("openai/m", base_url=fake.base_url) as client,
    ):
        assert client.generate("?", tools=[get_weather], mode="native").mode == "native"


@covers(
    "`X-Function-Calling-Mode: native`",
    "`ResponseFormatter.format_tool_calls`, `format_tool_call_delta`",
    "an invalid tool definition is a 400",
)
def test_the_gateway_answers_in_the_form_of_openai() -> None:
    serving = Serving(
        config_of(ModelConfig(name="m", target="scripted/m")),
        models={"m": ScriptedModel([call("look", a=1)] * 2)},
    )
    mode = {"X-Function-Calling-Mode": "native"}
    with serving, client_of(serving) as client:
        path = "/v1/chat/completions"
        answer = client.post(path, json=asking("?", tools=[function("look")]), headers=mode)
        streamed = client.post(path, json=asking("?", tools=[function("look")], stream=True))
        wrong: Any = function("look")
        wrong["function"]["parameters"] = {"type": "objekt"}
        refused = client.post(path, json=asking("?", tools=[wrong]))
    assert answer.headers["x-function-calling-mode"] == "native"
    (choice,) = answer.json()["choices"]
    (made,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], made["type"]) == ("tool_calls", "function")
    assert made["function"] == {"name": "look", "arguments": '{"a":1}'}
    assert '"arguments":""' in streamed.text
    assert '"finish_reason":"tool_calls"' in streamed.text
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "tools[0].function.parameters.type"


@covers('`{"function_call": ...}` in the response')
@pytest.mark.parametrize(
    "text",
    [
        '{"function_call": {"name": "look", "args": {"a": 1}}}',
        '```json\n{"tool_calls": [{"function": {"name": "look", "arguments": {"a": 1}}}]}\n```',
    ],
)
def test_json_in_the_response_is_a_call(text: str) -> None:
    reader = WrittenCalls(("look",))
    assert reader.feed(text) == ""
    assert [(each.name, each.arguments) for each in reader.finish()[1]] == [("look", {"a": 1})]


@covers("explicit cache clear requests")
def test_the_cache_can_be_cleared() -> None:
    class Caching(ScriptedModel):
        def clear_cache(self) -> int:
            return 3

    serving = Serving(
        config_of(ModelConfig(name="m", target="scripted/m")), models={"m": Caching([])}
    )
    with serving, client_of(serving) as client:
        assert client.delete("/v1/models/m/cache").json() == {"model": "m", "cleared": 3}
    with Client(Caching([])) as client:
        assert client.clear_cache() == 3
    with Client(ScriptedModel([])) as client:
        assert client.clear_cache() == 0


@covers(
    "`SchemaConverter.convert_tools`, `to_json_string`",
    "a SHA-256 digest of the tool definitions",
)
def test_tools_become_the_declarations_of_the_page() -> None:
    converter = SchemaConverter()
    (tool,) = as_tools(
        [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Get weather for a location",
                    "parameters": DECLARATION.parameters,
                    "strict": True,
                },
            }
        ]
    )
    assert isinstance(tool.declaration, FunctionDeclaration)
    declarations = converter.convert_tools([tool.declaration])
    assert declarations.functions == [
        {
            "name": "get_weather",
            "description": "Get weather for a location",
            "parameters": DECLARATION.parameters,
        }
    ]
    assert converter.to_json_string(declarations).startswith('[{"name":"get_weather"')
    assert re.fullmatch("[0-9a-f]{64}", declarations.digest)
    assert declarations.digest == converter.convert_tools([tool.declaration]).digest


@covers("`CallIdManager.generate_id()`: `call_` and 24 hexadecimal digits")
def test_ids_of_calls() -> None:
    assert re.fullmatch("call_[0-9a-f]{24}", new_call_id())
    assert new_call_id() != new_call_id()
    with (
        FakeGemini([call("get_weather", location="x")]) as fake,
        Client("gemini/m", base_url=fake.base_url, api_key="k") as client,
    ):
        assert client.generate("?", tools=[DECLARATION]).pending[0].id


@covers(
    "`ResponseParser.parse_native_response`",
    "`ParsedFunctionCall{name, arguments, raw_text}`",
    "`Request function call: name` in the text",
)
def test_calls_in_a_text_are_read() -> None:
    text = 'Request function call: get_weather\nParameters:\n{"location": "Boston"}'
    parsed = parse(text, tools=[DECLARATION])
    (made,) = parsed.calls
    assert (made.name, made.arguments, made.error) == ("get_weather", {"location": "Boston"}, None)
    assert FunctionCall(made.name, made.json).arguments == made.arguments
    assert parsed.content.strip() == ""


@covers(
    "`FunctionController.enable_function_calling`, `set_function_declarations`,"
    " `clear_function_declarations`, `extract_function_call_response`",
    "`FunctionCallingOrchestrator.prepare_request`, `process_response`",
    "`config/selectors.py`",
)
@pytest.mark.on_page
async def test_functions_are_declared_called_and_answered_on_the_page(
    client_of: MakeClient,
) -> None:
    for name in ("enable", "disable", "set_declarations", "clear_declarations"):
        assert callable(getattr(FunctionController, name))
    assert all(element.selectors for element in ELEMENTS.values())
    client = client_of([call("get_weather", location="Boston"), "18 degrees."])
    reply = await client.generate("Weather in Boston?", tools=[get_weather])
    assert reply.text.strip() == "18 degrees."
    assert reply.results[0].output == {"location": "Boston", "degrees": 18}


@covers("`googleSearch`, `google_search_retrieval` as functions")
@pytest.mark.parametrize("name", ["googleSearch", "google_search_retrieval"])
def test_search_by_the_name_of_a_function(name: str) -> None:
    (tool,) = as_tools([{"type": "function", "function": {"name": name}}])
    assert tool.declaration == GoogleSearch()


# LiteLLM


@covers(
    '`max_budget` with `budget_duration: "1d"` or `"1mo"` of a key',
    "`input_cost_per_token`, `output_cost_per_token` of a model",
)
def test_a_key_has_a_budget_of_cost() -> None:
    key, hashed = new_key()
    price = Price(input=1_000_000, output=0)
    served = ModelConfig(name="m", target="scripted/m", prices=price)
    limited = KeyConfig(name="web", hash=hashed, max_cost_per_day=Decimal(10))
    models = {"m": ScriptedModel(["Hello.", "Never."])}
    with (
        Serving(config_of(served, keys=(limited,)), models=models) as serving,
        client_of(serving) as http,
    ):
        headers, body = {"authorization": f"Bearer {key}"}, asking("Hi.", model="m")
        assert http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
        refused = http.post("/v1/chat/completions", json=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            429,
            "key_budget_exceeded",
        )


@covers(
    "`UsageLimits(total_tokens_limit=...)`",
    "`UsageLimitExceeded`",
    "`completion_cost(response)`",
    "`BinaryContent(data=..., media_type=...)` as the result of a tool",
)
def test_a_run_has_a_budget_and_a_cost_and_its_tools_return_media() -> None:
    @tool
    def draw() -> InlineData:
        """Draws a picture."""
        return Part.from_bytes(b"png", "image/png")

    model = ScriptedModel(lambda request: call("draw") if request.tools else say("Done."))
    prices = {"model": Price(input=1, output=2)}
    with Client(model, tools=[draw], prices=prices) as client:
        reply = client.generate("Draw", max_tokens_total=20)
        assert (reply.stop_reason, reply.text) == ("budget", "Done.")
        assert reply.cost == Decimal("0.00004")
        assert reply.results[0].parts == (Part.from_bytes(b"png", "image/png"),)
        with pytest.raises(BudgetExceeded):
            client.generate("Draw", max_tokens_total=1, on_limit="error")


@covers(
    "`ANTHROPIC_BASE_URL` of the proxy, for Claude Code",
    '`model_list: [{model_name: "claude-*"}]`',
    "`LITELLM_MASTER_KEY`, virtual keys",
    "`models: [...]` of a key",
    "`/v1/messages/count_tokens`",
    "`drop_params: true`",
    "`anthropic_beta_headers_config.json`",
    "`Gemini.list_models()`, `Gemini.count_tokens(contents)`",
    "`/v1/chat/completions` and `/v1/models` for OpenAI's clients",
)
def test_claude_code_uses_a_gateway_by_an_alias_and_a_key() -> None:
    key, hashed = new_key()
    served = ModelConfig(name="m", target="openai/gpt-test", aliases=("claude-*",))
    restricted = KeyConfig(name="web", hash=hashed, models=("m",))
    body = asking("Hi.", model="claude-opus-5-5", max_tokens=9, context_management={"edits": []})
    with (
        FakeOpenAI(["Hello.", "Hello.", "Hello."]) as fake,
        Serving(
            config_of(served, keys=(restricted,)),
            models={"m": create_model("openai/gpt-test", base_url=fake.base_url, api_key="k")},
        ) as serving,
        client_of(serving) as http,
    ):
        for header in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}):
            sent = {**header, "anthropic-version": "2023-06-01", "anthropic-beta": "new-2030-01-01"}
            answer = http.post("/v1/messages?beta=true", json=body, headers=sent)
            assert answer.json()["content"] == [{"type": "text", "text": "Hello."}]
            assert "context_management" not in fake.requests[-1].body
            counted = http.post("/v1/messages/count_tokens", json=body, headers=sent)
            assert counted.json()["input_tokens"] > 0
            assert http.get("/v1/models", headers=sent).json()["first_id"] == "m"
            listed = http.get("/v1/models", headers=header).json()
            assert [each["id"] for each in listed["data"]] == ["m"]
        chat = http.post("/v1/chat/completions", json=asking("Hi."), headers={"x-api-key": key})
        assert chat.json()["choices"][0]["message"]["content"] == "Hello."
        assert http.post("/v1/messages", json=body).status_code == 401


# google-genai


@covers("`automatic_function_calling.maximum_remote_calls`")
def test_the_calls_after_the_last_round_are_handed_back(connect: Connect) -> None:
    client = connect([call("get_weather", location="x")] * 2)
    reply = client.generate("?", tools=[get_weather], max_rounds=1, on_limit="return_calls")
    assert (reply.stop_reason, len(reply.results), len(reply.pending)) == ("max_rounds", 1, 1)
    with pytest.raises(ConfigError, match="did you mean 'max_rounds'"):
        client.generate("?", maximum_remote_calls=1)  # pyright: ignore[reportCallIssue]


@covers("`tool_config.function_calling_config.mode` `AUTO` / `ANY` / `NONE`")
@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", None),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("get_weather", {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}),
    ],
)
def test_every_tool_choice(choice: str, config: Any) -> None:
    script = ["hi"] if choice in ("auto", "none") else [call("get_weather")]
    with (
        FakeGemini(script) as fake,
        Client("gemini/m", base_url=fake.base_url, api_key="k", mode="native") as client,
    ):
        client.generate("?", tools=[DECLARATION], tool_choice=choice)
    sent = fake.requests[0].body.get("toolConfig", {}).get("functionCallingConfig")
    assert sent == config


@covers("`types.Tool`, `types.FunctionDeclaration`, `types.Schema`")
def test_tools_of_google_genai(connect: Connect) -> None:
    schema = genai.Schema(
        type=genai.Type.OBJECT,
        properties={"location": genai.Schema(type=genai.Type.STRING)},
        required=["location"],
    )
    declaration = genai.FunctionDeclaration(name="get_weather", parameters=schema)
    client = connect([call("get_weather", location="x")] * 2)
    for given in (declaration, genai.Tool(function_declarations=[declaration])):
        assert client.generate("?", tools=[given]).pending[0].arguments == {"location": "x"}


@covers(
    "`types.Part.from_text`, `from_bytes`, `from_uri`, `from_function_call`,"
    " `from_function_response`"
)
def test_the_constructors_of_parts_have_the_same_names() -> None:
    for name in ("text", "bytes", "uri", "function_call", "function_response"):
        assert callable(getattr(Part, f"from_{name}"))
        assert callable(getattr(genai.Part, f"from_{name}"))


@covers(
    "`client.create(response_model=User, messages=[...])`",
    "`create_with_completion`",
    "`Agent(model, output_type=City)`, `result.output`",
)
def test_an_answer_with_a_type(connect: Connect) -> None:
    client = connect(['{"x": 1}'])
    reply = client.generate("?", output=Point)
    assert (reply.output, reply.messages[-1].text) == (Point(1), '{"x": 1}')
    with pytest.raises(ConfigError, match="did you mean 'output'"):
        client.generate("?", response_model=Point)  # pyright: ignore[reportCallIssue]


@covers(
    "`response_model=list[User]`, `Iterable[User]`",
    "`output_type=[Box, str]`",
    "`StructuredDict(schema)`",
)
def test_lists_unions_and_schemas_are_types(connect: Connect) -> None:
    client = connect(['{"value": [{"x": 1}]}', '{"value": "none"}', '{"x": 2}'])
    assert client.generate("?", output=list[Point]).output == [Point(1)]
    assert client.generate("?", output=Point | str).output == "none"
    assert client.generate("?", output={"type": "object"}).output == {"x": 2}


@covers(
    "`create_partial(response_model=User)`, `Partial[User]`",
    "`result.stream_output()`",
)
def test_a_value_is_seen_while_it_is_written(connect: Connect) -> None:
    with connect(['{"x": 1, "y": 2}']).stream("?", output=Point) as stream:
        assert list(stream.partial_outputs())[-1] == Point(1, 2)


@covers(
    "`max_retries=3`",
    "`InstructorRetryException`",
    "`@agent.output_validator`, `ModelRetry`",
    '`Agent(retries={"output": 3})`, `output_retries`',
    "`UnexpectedModelBehavior: Exceeded maximum output retries`",
)
def test_an_invalid_value_is_asked_for_again(connect: Connect) -> None:
    def check(point: Point) -> None:
        raise ToolError("wrong")

    with pytest.raises(OutputInvalid, match="after 4 attempts: wrong") as caught:
        connect(['{"x": 1}'] * 4).generate(
            "?", output=Point, output_validator=check, output_retries=3
        )
    assert (caught.value.text, caught.value.errors) == ('{"x": 1}', ("wrong",))


@covers(
    "`mode=instructor.Mode.TOOLS`, `JSON_SCHEMA`, `MD_JSON`",
    "`ToolOutput`, `NativeOutput`, `PromptedOutput`",
)
@pytest.mark.parametrize("method", ["tool", "native", "prompt"])
def test_the_method_can_be_chosen(connect: Connect, method: Any) -> None:
    client = connect([call("final_answer", x=1) if method == "tool" else '{"x": 1}'])
    assert client.generate("?", output=Point, output_method=method).output == Point(1)
