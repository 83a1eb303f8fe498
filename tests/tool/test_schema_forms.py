"""Every form in which a tool's parameters may be written: declared, called, and checked."""

from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Any

import mcp_types
import pytest
from google.genai import types as genai
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from windlass import (
    Client,
    ConfigError,
    FunctionDeclaration,
    InvalidArguments,
    ProviderTool,
    Schema,
    Tool,
    ToolRegistry,
    parse,
)
from windlass.testing import ScriptedModel, call
from windlass.tool import as_tools
from windlass.toolsets.remote import ToolSpec, from_worker_tool


class Place(BaseModel):
    location: str
    days: int | None = Field(default=None, ge=1)


class PlaceDict(TypedDict):
    location: str
    days: int


GEMINI = Schema(
    type="OBJECT",
    properties={
        "location": Schema(type="STRING", description="The city."),
        "days": Schema(type="INTEGER", nullable=True, minimum=1),
    },
    required=["location"],
)
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "location": {"type": "string"},
        "days": {"type": ["integer", "null"], "minimum": 1},
    },
    "required": ["location"],
}
GOOGLE = genai.Schema(
    type=genai.Type.OBJECT,
    properties={
        "location": genai.Schema(type=genai.Type.STRING),
        "days": genai.Schema(type=genai.Type.INTEGER, nullable=True, minimum=1),
    },
    required=["location"],
)
WORKER_LIST = [
    {"name": "location", "type": "string", "description": "The city.", "required": True},
    {"name": "days", "type": "integer", "minimum": 1, "required": False},
]
WORKER_OBJECTS = [
    SimpleNamespace(name="location", type="string", description="The city.", required=True),
    SimpleNamespace(name="days", type="INTEGER", description="", required=False),
]

PARAMETERS: dict[str, Any] = {
    "JSON Schema": JSON_SCHEMA,
    "seed 003's Schema": GEMINI,
    "a read-only mapping": MappingProxyType(JSON_SCHEMA),
    "lists as tuples": {**JSON_SCHEMA, "required": ("location",)},
    "a Schema of google-genai": GOOGLE,
    "a Schema of google-genai inside": {
        "type": "OBJECT",
        "properties": dict(GOOGLE.properties or {}),
        "required": ["location"],
    },
    "google-genai's snake case": GOOGLE.model_dump(exclude_none=True),
    "a pydantic class": Place,
    "a pydantic class inside": {
        "type": "object",
        "properties": {"location": {"type": "string"}, "days": TypeAdapter(int)},
        "required": ["location"],
    },
    "pydantic's own JSON Schema": Place.model_json_schema(),
    "a TypeAdapter": TypeAdapter(PlaceDict),
    "a worker's list of parameters": WORKER_LIST,
    "a worker's parameters as objects": WORKER_OBJECTS,
}
WRONG = {"location": "Paris", "days": "many"}


def get_weather(location: str, days: int | None = None) -> dict[str, Any]:
    return {"location": location, "days": days}


def check(tool: Tool) -> None:
    assert tool.name == "get_weather"
    arguments = tool.validate('{"location": "Paris", "days": "3"}')
    assert arguments == {"location": "Paris", "days": 3}
    with pytest.raises(InvalidArguments, match="location: required"):
        tool.validate('{"days": 3}')
    with pytest.raises(InvalidArguments, match="days"):
        tool.validate('{"location": "Paris", "days": "many"}')


@pytest.mark.parametrize("form", PARAMETERS)
def test_parameters_in_every_form_are_declared_called_and_checked(form: str) -> None:
    declaration = FunctionDeclaration("get_weather", "Gets the weather", PARAMETERS[form])
    registry = ToolRegistry()
    check(registry.register(declaration, get_weather))
    model = ScriptedModel([call("get_weather", location="Paris", days=3), "done"])
    reply = Client(model).generate("?", tools=[registry])
    assert reply.results[0].output == {"location": "Paris", "days": 3}
    offered = model.requests[0].tools[0]
    assert isinstance(offered, FunctionDeclaration)
    assert offered.parameters["type"] == "object"
    assert offered.parameters["properties"]["location"]["type"] == "string"


@pytest.mark.parametrize("form", PARAMETERS)
def test_a_wrong_argument_is_reported_to_the_model_in_every_form(form: str) -> None:
    declaration = FunctionDeclaration("get_weather", "Gets the weather", PARAMETERS[form])
    client = Client(ScriptedModel([call("get_weather", **WRONG), "done"]))
    reply = client.generate("?", tools=[Tool(declaration, get_weather)])
    assert "internal error" not in (reply.results[0].error or "")
    assert (reply.results[0].error or "").startswith("Invalid arguments for get_weather: days")


DECLARATIONS: dict[str, Any] = {
    "a dict": {"name": "get_weather", "parameters": GEMINI},
    "OpenAI's dict": {
        "type": "function",
        "function": {"name": "get_weather", "parameters": JSON_SCHEMA, "strict": True},
    },
    "Gemini's dict": {"functionDeclarations": [{"name": "get_weather", "parameters": GEMINI}]},
    "Gemini's dict with our declarations": {
        "function_declarations": [FunctionDeclaration("get_weather", "", GEMINI)]
    },
    "MCP's dict": {"name": "get_weather", "inputSchema": JSON_SCHEMA},
    "MCP's object": mcp_types.Tool(name="get_weather", input_schema=JSON_SCHEMA),
    "google-genai's declaration": genai.FunctionDeclaration(name="get_weather", parameters=GOOGLE),
    "google-genai's declaration with JSON Schema": genai.FunctionDeclaration(
        name="get_weather", parameters_json_schema=JSON_SCHEMA
    ),
    "google-genai's tool": genai.Tool(
        function_declarations=[genai.FunctionDeclaration(name="get_weather", parameters=GOOGLE)]
    ),
    "a worker's dict": {"name": "get_weather", "parameters": WORKER_LIST},
}


@pytest.mark.parametrize("form", DECLARATIONS)
def test_declarations_in_every_form_are_declared_called_and_checked(form: str) -> None:
    check(Tool.from_declaration(DECLARATIONS[form], get_weather))
    (declared,) = as_tools([DECLARATIONS[form]])
    assert not declared.runnable
    client = Client(ScriptedModel([call("get_weather", location="Paris")]))
    reply = client.generate("?", tools=[DECLARATIONS[form]])
    assert [each.name for each in reply.pending] == ["get_weather"]


def test_google_search_of_google_genai_is_a_marker() -> None:
    (tool,) = as_tools([genai.Tool(google_search=genai.GoogleSearch())])
    assert tool.name == "google_search"


def test_a_workers_spec_becomes_a_declaration_in_json_schema() -> None:
    for spec in (
        ToolSpec(name="get_weather", parameters=GEMINI),
        {"name": "get_weather", "description": "", "parameters": WORKER_LIST},
    ):
        parameters = from_worker_tool(spec).parameters
        assert parameters["properties"]["location"] == {
            "type": "string",
            "description": "The city.",
        }
        assert parameters["required"] == ["location"]


def test_the_parser_reads_arguments_by_a_schema_in_capitals() -> None:
    declaration = FunctionDeclaration("get_weather", "", GEMINI)
    text = '<tool_call>{"name": "get_weather", "arguments": {"location": "Paris"}}</tool_call>'
    assert parse(text, tools=[declaration]).calls[0].arguments == {"location": "Paris"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"type": "STRING", "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "String"}, {"type": "string"}),
        ({"type": ["STRING", "NULL"]}, {"type": ["string", "null"]}),
        ({"type": "TYPE_UNSPECIFIED", "description": "x"}, {"description": "x"}),
        ({"type": "ARRAY", "items": {"type": "NUMBER"}}, None),
        ({"type": "ARRAY", "minItems": "2"}, {"type": "array", "minItems": 2}),
        ({"any_of": [{"type": "INTEGER"}]}, {"anyOf": [{"type": "integer"}]}),
        (
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            {"type": "number", "exclusiveMinimum": 0},
        ),
        ({"type": "STRING", "format": "enum", "enum": ["A", "B"]}, None),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (True, True),
    ],
)
def test_a_dialect_becomes_json_schema(written: Any, meant: Any) -> None:
    tool = Tool(
        FunctionDeclaration("f", "", {"type": "OBJECT", "properties": {"a": written}}),
        lambda **kwargs: kwargs,
    )
    assert isinstance(tool.declaration, FunctionDeclaration)
    became = tool.declaration.parameters["properties"]["a"]
    if meant is not None:
        assert became == meant
    else:
        assert became["type"].islower()


def test_names_of_properties_and_values_are_left_alone() -> None:
    schema = {
        "type": "object",
        "properties": {"any_of": {"type": "string"}, "type": {"enum": ["OBJECT", "STRING"]}},
    }
    assert as_tools([FunctionDeclaration("f", "", schema)])[0].declaration == FunctionDeclaration(
        "f", "", schema
    )


NESTED: dict[str, Any] = {"type": "object", "properties": {}}
for _ in range(5_000):
    NESTED = {"type": "object", "properties": {"a": NESTED}}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "objekt"}, "parameters.type"),
        ({"type": "string"}, "parameters.type"),
        (
            {"type": "object", "properties": {"a": {"type": "strng"}}},
            "parameters.properties.a.type",
        ),
        ({"type": "object", "properties": {"a": "string"}}, "parameters.properties.a"),
        ({"type": "object", "properties": {"a": int}}, "parameters.properties.a"),
        ({"type": "object", "properties": {"a": None}}, "parameters.properties.a"),
        ({"type": "object", "properties": {"a": {"required": True}}}, "properties.a.required"),
        ({"type": "object", "properties": {"a": {"enum": "x"}}}, "parameters.properties.a.enum"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "x"}]}}}, "a.anyOf[0].type"),
        ({"type": "object", "properties": ["a"]}, "parameters.properties"),
        ({"type": "object", "required": "a"}, "parameters.required"),
        ({"type": "object", "properties": {"a": {"default": object()}}}, "properties.a.default"),
        ("a text", "parameters"),
        (7, "parameters"),
        (True, "parameters"),
        ([{"type": "string"}], "parameters[0]"),
        (NESTED, "parameters"),
    ],
)
@pytest.mark.parametrize("function", [None, get_weather])
def test_an_invalid_json_schema_is_refused_immediately_with_its_place(
    schema: Any, place: str, function: Callable[..., Any] | None
) -> None:
    declaration = FunctionDeclaration("f", "", schema)
    with pytest.raises(ConfigError, match=r"^f: the parameters are not a JSON Schema") as caught:
        ToolRegistry().register(declaration, function)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}},
    ],
)
def test_a_schema_that_cannot_validate_arguments_is_refused_immediately(schema: Any) -> None:
    with pytest.raises(ConfigError, match="not a JSON Schema"):
        Tool(FunctionDeclaration("f", "", schema), get_weather)


def test_tools_that_openai_runs_are_markers() -> None:
    search = {"type": "web_search", "search_context_size": "low"}
    server = {"type": "mcp", "server_label": "my sky", "server_url": "https://x"}
    patch = {"type": "custom", "name": "apply_patch"}
    tools = as_tools([search, server, patch])
    assert [tool.name for tool in tools] == ["web_search", "mcp_my_sky", "apply_patch"]
    assert tools[0].declaration == ProviderTool("responses", search)
    assert not any(tool.runnable for tool in tools)


SNAKEPIT = {
    "name": "search",
    "description": "Searches.",
    "parameters": [
        {"name": "query", "type": "string", "required": True, "description": "What to find."},
        {"name": "limit", "type": "int", "required": False, "default": 10},
        {"name": "score", "type": "FLOAT", "default_value": 0.5},
        {"name": "tags", "type": "list", "items": {"type": "string"}},
        {"name": "options", "type": "map"},
        {"name": "strict", "type": "boolean"},
        {"name": "anything", "type": "any", "description": "Any value."},
    ],
}
SNAKEPIT_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to find."},
        "limit": {"type": "integer", "default": 10},
        "score": {"type": "number", "default": 0.5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object"},
        "strict": {"type": "boolean"},
        "anything": {"description": "Any value."},
    },
    "required": ["query"],
}


def test_a_tool_of_snakepit_is_read_with_its_list_of_parameters() -> None:
    objects = SimpleNamespace(
        name="search",
        description="Searches.",
        parameters=[SimpleNamespace(**each) for each in WORKER_LIST],
    )
    declared = FunctionDeclaration("search", "Searches.", SNAKEPIT_SCHEMA)
    assert Tool.from_snakepit_tool(SNAKEPIT).declaration == declared
    assert Tool.from_snakepit_tool(objects).name == "search"
    schema = {**SNAKEPIT, "parameters": JSON_SCHEMA}
    read = Tool.from_snakepit_tool(schema).declaration
    assert isinstance(read, FunctionDeclaration)
    assert read.parameters == JSON_SCHEMA
    tool = Tool.from_snakepit_tool(SNAKEPIT, lambda **given: given, timeout=3)
    assert tool.options.timeout == 3
    assert tool.validate('{"query": "x", "score": 1}') == {"query": "x", "limit": 10, "score": 1}
    with pytest.raises(InvalidArguments, match="query: required"):
        tool.validate("{}")


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ([{"name": "x", "type": "strnig"}], r"parameters\[0\].type: unknown type 'strnig'"),
        ([{"type": "string"}], r"parameters\[0\]: expected a parameter with a name"),
        ([{"name": "x"}, "y"], r"parameters\[1\]: expected a parameter with a name, got 'y'"),
        ([{"name": "x"}, {"name": "x"}], r"parameters\[1\]: duplicate parameter 'x'"),
        ([{"name": "x", "required": "yes"}], r"required must be true or false, not 'yes'"),
        ([{"name": "x", "type": 7}], "x.type"),
        ("query: string", "parameters: expected a schema, got 'query: string'"),
    ],
)
def test_parameters_of_snakepit_that_cannot_be_read_are_refused(
    parameters: Any, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        Tool.from_snakepit_tool({"name": "search", "parameters": parameters})


def test_a_value_that_is_no_snakepit_tool_is_refused() -> None:
    for spec in ("search", 7, None, ["search"]):
        with pytest.raises(ConfigError, match="not a tool specification"):
            Tool.from_snakepit_tool(spec)
