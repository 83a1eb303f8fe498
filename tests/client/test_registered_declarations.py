"""Declarations and names in `tools=[...]` that a registry knows: they run, in every method."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types as genai

import windlass
from windlass import (
    AsyncClient,
    Client,
    ConfigError,
    FunctionDeclaration,
    Part,
    Tool,
    ToolRegistry,
    tool,
)
from windlass.testing import ScriptedModel, call

PARAMETERS = {
    "type": "object",
    "properties": {"location": {"type": "string"}},
    "required": ["location"],
}
DECLARATION = FunctionDeclaration("get_weather", "Gets weather for a location", PARAMETERS)
SAME = {
    "a declaration": DECLARATION,
    "a name": "get_weather",
    "a dict": {"name": "get_weather", "parameters": PARAMETERS},
    "OpenAI's dict": {
        "type": "function",
        "function": {"name": "get_weather", "parameters": PARAMETERS},
    },
    "Gemini's dict": {
        "functionDeclarations": [
            {
                "name": "get_weather",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {"location": {"type": "STRING", "description": "The city."}},
                    "required": ["location"],
                },
            }
        ]
    },
    "google-genai's tool": genai.Tool(
        function_declarations=[
            genai.FunctionDeclaration(name="get_weather", parameters_json_schema=PARAMETERS)
        ]
    ),
}


def get_weather(location: str) -> str:
    return f"sunny in {location}"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    windlass.registry.register(DECLARATION, get_weather)
    yield
    if "get_weather" in windlass.registry:
        windlass.registry.unregister("get_weather")


def scripted(*turns: Any) -> ScriptedModel:
    return ScriptedModel([*turns] or [call("get_weather", location="Paris"), "It is sunny."])


def offered(model: ScriptedModel) -> list[FunctionDeclaration]:
    return [each for each in model.requests[0].tools if isinstance(each, FunctionDeclaration)]


@pytest.mark.parametrize("form", SAME)
def test_a_registered_declaration_runs(form: str) -> None:
    model = scripted()
    reply = Client(model).generate("Weather in Paris?", tools=[SAME[form]], max_rounds=5)
    assert (reply.text, reply.stop_reason) == ("It is sunny.", "answer")
    assert reply.results[0].output == "sunny in Paris"
    assert [each.name for each in offered(model)] == ["get_weather"]


@pytest.mark.parametrize("form", SAME)
def test_it_runs_in_every_verb(form: str) -> None:
    tools = [SAME[form]]
    with Client(scripted()).stream("?", tools=tools) as stream:
        list(stream)
    assert stream.reply.results[0].output == "sunny in Paris"
    assert Client(scripted()).start("?", tools=tools).result().text == "It is sunny."
    chat = Client(scripted()).chat(tools=tools)
    assert chat.send("?").text == "It is sunny."
    client = Client(scripted(), tools=tools)
    assert client.generate("?").text == "It is sunny."
    asked = [Part.from_function_call("get_weather", {"location": "Rome"})]
    assert client.execute(asked)[0].output == "sunny in Rome"
    assert Client(scripted()).execute(asked, tools=tools)[0].output == "sunny in Rome"
    turn = Client(scripted()).generate("?", tools=tools, execute_tools=False)
    assert Client(scripted()).execute(turn.pending)[0].output == "sunny in Paris"


async def test_it_runs_in_every_verb_of_the_async_client() -> None:
    async with AsyncClient(scripted()) as client:
        assert (await client.generate("?", tools=[DECLARATION])).text == "It is sunny."
    async with AsyncClient(scripted()) as client:
        async with client.stream("?", tools=["get_weather"]) as stream:
            async for _ in stream:
                pass
        assert stream.reply.text == "It is sunny."
    async with AsyncClient(scripted()) as client:
        run = await client.start("?", tools=[DECLARATION])
        assert (await run.result()).text == "It is sunny."
    async with AsyncClient(scripted()) as client:
        assert (await client.chat(tools=[DECLARATION]).send("?")).text == "It is sunny."
        asked = [Part.from_function_call("get_weather", {"location": "Rome"})]
        assert (await client.execute(asked))[0].output == "sunny in Rome"


def test_a_client_may_have_its_own_registry() -> None:
    own = ToolRegistry()
    own.register(DECLARATION, lambda location: f"rain in {location}")
    for client in (Client(scripted(), registry=own), Client(scripted(), tools=[own])):
        reply = client.generate("?", tools=[DECLARATION])
        assert reply.results[0].output == "rain in Paris"


def test_a_clients_own_registry_is_the_only_one_unless_it_has_a_parent() -> None:
    reply = Client(scripted(), registry=ToolRegistry()).generate("?", tools=[DECLARATION])
    assert (reply.stop_reason, reply.results) == ("calls", ())
    session = windlass.registry.session()
    reply = Client(scripted(), registry=session).generate("?", tools=[DECLARATION])
    assert reply.results[0].output == "sunny in Paris"


def test_of_two_registries_the_one_in_the_list_is_asked_first() -> None:
    other = ToolRegistry()
    other.register(DECLARATION, lambda location: f"snow in {location}")
    for tools in ([DECLARATION, other], [other, DECLARATION], [other, "get_weather"], [other]):
        reply = Client(scripted()).generate("?", tools=tools)
        assert reply.results[0].output == "snow in Paris"


def test_an_unregistered_tool_is_only_declared_again() -> None:
    client = Client(scripted(*[call("get_weather", location="Paris")] * 2, "It is sunny."))
    windlass.registry.unregister("get_weather")
    reply = client.generate("?", tools=[DECLARATION])
    assert (reply.stop_reason, [each.name for each in reply.pending]) == ("calls", ["get_weather"])
    windlass.registry.register(DECLARATION, get_weather)
    assert client.execute(reply.pending)[0].output == "sunny in Paris"
    assert client.generate("?", tools=[DECLARATION]).text == "It is sunny."


def test_the_model_sees_another_description_and_the_function_runs() -> None:
    model = scripted()
    other = FunctionDeclaration("get_weather", "Only for capitals.", PARAMETERS)
    reply = Client(model).generate("?", tools=[other])
    assert reply.results[0].output == "sunny in Paris"
    assert offered(model)[0].description == "Only for capitals."


def test_other_parameters_under_a_registered_name_are_refused() -> None:
    other = FunctionDeclaration(
        "get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}}
    )
    with pytest.raises(ConfigError, match="'get_weather' has other parameters"):
        Client(scripted()).generate("?", tools=[other])


def test_an_explicit_tool_without_a_function_hands_its_calls_back() -> None:
    reply = Client(scripted()).generate("?", tools=[Tool(DECLARATION)])
    assert (reply.stop_reason, len(reply.pending)) == ("calls", 1)


def test_the_options_of_the_registered_tool_apply() -> None:
    windlass.registry.register(
        tool(get_weather, approve=True, description=DECLARATION.description), replace=True
    )
    reply = Client(scripted()).generate("?", tools=[DECLARATION], approve=lambda _: False)
    assert (reply.results[0].error or "").startswith("The call was denied")


def test_a_name_that_is_not_registered_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'get_wether' is registered \(did you mean 'get_we"):
        Client(scripted()).generate("?", tools=["get_wether"])


@pytest.mark.parametrize("tools", ["get_weather", get_weather, DECLARATION, SAME["a dict"]])
def test_a_tool_outside_of_a_list_is_refused(tools: Any) -> None:
    with pytest.raises(ConfigError, match=r"tools must be a list: put .* in \[...\]"):
        Client(scripted()).generate("?", tools=tools)
    with pytest.raises(ConfigError, match="tools must be a list"):
        Client(scripted(), tools=tools)
