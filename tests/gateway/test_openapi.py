"""The OpenAPI document matches the gateway's behaviour."""

import copy
import functools
import json
from collections.abc import Iterator
from typing import Annotated, Any, NotRequired, get_args

import jsonschema_rs
import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import Field
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from schemathesis.specs.openapi.schemas import OpenApiSchema
from starlette.routing import Route
from tests.support.serving import Serving, config_of
from tests.support.thoroughness import WHOLE, examples

from windlass.events import RunEvent, TextDelta
from windlass.gateway.app import create_app
from windlass.gateway.config import GatewayConfig, ModelConfig
from windlass.gateway.openapi.document import PROBLEMS, document_of
from windlass.gateway.openapi.operations import Operation
from windlass.gateway.routes.openapi import PATHS, openapi_document
from windlass.jsontext import encode_json
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Turn, call, refuse, think, tool_results
from windlass.tool import tool
from windlass.wires.fields import Json

pytestmark = pytest.mark.sweep

SECONDS = 60
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
]
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
_LISTED_TOOLS = {"type": "array", "items": {"$ref": "#/components/schemas/GeminiTool"}}
OPERATIONS = [(path, method) for path, methods in PATHS.items() for method in methods]


@functools.cache
def whole_document() -> dict[str, Any]:
    """Takes a second: only the process that runs these tests makes it."""
    return msgspec.json.decode(encode_json(openapi_document()))


def refuses(path: str, method: str) -> bool:
    """Whether the document excludes any value there."""
    operation = PATHS[path][method]
    return operation.body is not None or "{run_id}" in path


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def adding(request: ModelRequest) -> Turn:
    if results := tool_results(request):
        return think("That is it.", str(results[0].output))
    return think("I had better add.", call("add", a=1, b=2))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Serving]:
    config = config_of(ModelConfig(name="busy", target="scripted/busy", tools=("add",)))
    models = {
        "m": ScriptedModel("{}", strict=False),  # valid for a schema of the answer
        "busy": ScriptedModel(adding),
        "broken": ScriptedModel(refuse(400)),
    }
    with Serving(config, models=models, tools=[add]) as serving:
        yield serving


@pytest.fixture(scope="module")
def schema(gateway: Serving) -> OpenApiSchema:
    """The document with names that exist, so that most requests get past a 404."""
    started = requests.post(f"{gateway.base_url}/runs", json=BODY, timeout=SECONDS)
    asked = {"model": "m", "input": "Hi", "background": True}
    stored = requests.post(f"{gateway.base_url}/responses", json=asked, timeout=SECONDS)
    document = copy.deepcopy(whole_document())
    schemas = document["components"]["schemas"]
    fields = schemas["ChatCompletionRequest"]["properties"]
    fields["model"] = {"enum": ["m"]}
    del fields["replaces"]  # needs a chat, and this gateway stores none
    for name in ("tools", "functions"):
        fields[name]["anyOf"][0]["maxItems"] = 1  # no two of one name
    fields["function_call"] = schemas["ToolChoice"] = {"enum": ["auto", "none"]}
    schemas["ChatMessage"]["anyOf"] = schemas["ChatMessage"]["anyOf"][:2]  # no results of calls
    schemas["ChatFunction"]["properties"]["parameters"] = {"enum": [{"type": "object"}]}
    for name in ("JsonSchema", "SchemaTextFormat"):
        schemas[name]["properties"]["schema"] = {"enum": [{"type": "object"}]}
    audio = schemas["AudioPart"]["properties"]
    audio["input_audio"] = {"enum": [{"data": "aGk=", "format": "wav"}]}
    for name in ("ResponseRequest", "ResponseInput"):
        fields = schemas[name]["properties"]
        fields["model"] = {"enum": ["m"]}
        del fields["previous_response_id"]  # an unknown one is refused
        fields["tools"]["anyOf"][0]["maxItems"] = 1  # no two of one name
    schemas["ResponseTool"]["anyOf"] = schemas["ResponseTool"]["anyOf"][:2]
    schemas["ResponseFunctionTool"]["properties"]["parameters"] = {"enum": [{"type": "object"}]}
    schemas["InputFile"]["properties"]["file_data"] = {"enum": ["aGk="]}
    schemas["ResponseToolChoice"] = {"enum": ["auto", "none"]}
    schemas["InputItem"]["anyOf"] = schemas["InputItem"]["anyOf"][:2]  # no results of calls
    schemas["GeminiPart"] = schemas["GeminiTextPart"]
    schemas["GeminiFunction"]["properties"] = {"name": {"enum": ["f"]}}
    schemas["GeminiTool"]["properties"]["functionDeclarations"]["maxItems"] = 1
    for name in ("GenerateContentRequest", "CountedContents"):  # no two functions of one name
        schemas[name]["properties"]["tools"] = {"maxItems": 1, **_LISTED_TOOLS}
    schemas["FunctionCallingConfig"]["properties"] = {"mode": {"enum": ["AUTO", "NONE"]}}
    for name in ("responseSchema", "responseJsonSchema"):
        schemas["GenerationConfig"]["properties"][name] = {"enum": [{"type": "object"}]}
    for name in ("MessageRequest", "CountRequest"):
        fields = schemas[name]["properties"]
        fields["model"] = {"enum": ["m"]}
        fields["tools"]["maxItems"] = 1  # no two of one name
    schemas["MessageToolChoice"] = {"enum": [{"type": "auto"}, {"type": "none"}]}
    declared = schemas["MessageTool"]["properties"]
    declared["name"] = {"enum": ["ring"]}
    declared["input_schema"] = {"enum": [{"type": "object"}]}
    blocks = schemas["ContentBlock"]["anyOf"]
    schemas["ContentBlock"]["anyOf"] = [blocks[0], blocks[2]]  # no results of calls, no base64
    chats = document["paths"]["/v1/chats"]["get"]
    chats["parameters"] = [each for each in chats["parameters"] if each["name"] != "before"]
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "response_id":
                    parameter["schema"] = {"enum": [stored.json()["id"], "resp_unknown"]}
                elif parameter["name"] == "after":
                    parameter["schema"] = {"enum": [""]}
                elif parameter["name"] == "run_id":
                    parameter["schema"] = {"enum": [started.json()["id"], "run_unknown"]}
                elif parameter["name"] == "before":
                    parameter["schema"] = {"enum": [started.json()["id"]]}
                elif parameter["name"] == "model":
                    parameter["schema"] = {"enum": ["m", "busy", "unknown"]}
                elif parameter["name"] == "name":
                    parameter["schema"] = {"enum": ["add", "busy", "unknown"]}
    return schemathesis.openapi.from_dict(document)


def test_the_document_is_valid_openapi() -> None:
    OPENAPI_31_VALIDATOR.validate(whole_document())
    for name, schema in whole_document()["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name
    names = [
        each["operationId"] for path in whole_document()["paths"].values() for each in path.values()
    ]
    assert len(set(names)) == len(names)


def test_every_reference_has_a_target() -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            yield from (each for inner in value.values() for each in references(inner))
        elif isinstance(value, list):
            yield from (each for inner in value for each in references(inner))

    for reference in references(whole_document()):
        place: Any = whole_document()
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_every_route_but_those_of_the_page_is_in_the_document_and_the_reverse() -> None:
    app = create_app(GatewayConfig())
    routes = {
        (route.path.replace(":path}", "}"), method.lower())
        for route in app._router.routes
        if isinstance(route, Route) and route.include_in_schema
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routes == {(path, method) for path, methods in PATHS.items() for method in methods}


def test_every_kind_of_event_is_in_the_document() -> None:
    mapping = whole_document()["components"]["schemas"]["RunEvent"]["discriminator"]["mapping"]
    assert mapping == {
        kind.__struct_config__.tag: f"#/components/schemas/{kind.__name__}"
        for kind in get_args(RunEvent)
    }


class GreetingJson(Json):
    """A greeting."""

    name: Annotated[str, Field(max_length=9)]
    """Whom to greet."""
    note: NotRequired[TextDelta]


class RefusalJson(Json):
    why: str


def test_a_family_of_another_wire_describes_its_types_and_its_errors() -> None:
    greet = Operation(
        id="greet",
        summary="Greets.",
        body=GreetingJson,
        answer=dict[str, str],
        problems=(404,),
        error=RefusalJson,
    )
    document = document_of({"/greet": {"post": greet}})
    OPENAPI_31_VALIDATOR.validate(document)
    described, schemas = document["paths"]["/greet"]["post"], document["components"]["schemas"]
    assert described["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Greeting"
    }
    assert schemas["Greeting"] == {
        "description": "A greeting.",
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 9, "description": "Whom to greet."},
            "note": {"$ref": "#/components/schemas/TextDelta"},
        },
        "required": ["name"],
    }
    refusal = described["responses"]["404"]["content"]["application/json"]["schema"]
    assert refusal == {"$ref": "#/components/schemas/Refusal"}


def test_every_problem_is_used_by_an_endpoint() -> None:
    used = {status for path in PATHS.values() for each in path.values() for status in each.problems}
    assert used == set(PROBLEMS)


def test_the_gateway_serves_the_document(gateway: Serving) -> None:
    answer = requests.get(f"{gateway.root_url}/openapi.json", timeout=SECONDS)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == whole_document()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_a_valid_request_gets_a_response_of_the_document(
    path: str, method: str, gateway: Serving, schema: OpenApiSchema
) -> None:
    check(path, method, GenerationMode.POSITIVE, gateway, schema)


@pytest.mark.parametrize(("path", "method"), [each for each in OPERATIONS if refuses(*each)])
def test_an_invalid_request_gets_an_error_of_the_document(
    path: str, method: str, gateway: Serving, schema: OpenApiSchema
) -> None:
    check(path, method, GenerationMode.NEGATIVE, gateway, schema)


def check(
    path: str, method: str, mode: GenerationMode, gateway: Serving, schema: OpenApiSchema
) -> None:
    operation = schema[path][method]

    @settings(
        max_examples=examples(3) if WHOLE else 2,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(operation.as_strategy(generation_mode=mode))
    def keeps(case: Case) -> None:
        case.call_and_validate(
            base_url=gateway.root_url, session=session, checks=CHECKS, timeout=SECONDS
        )

    with requests.Session() as session:
        keeps()


def test_chunks_match_the_document(gateway: Serving) -> None:
    options = {"include_usage": True, "include_tool_events": True}
    body = {**BODY, "model": "busy", "stream": True, "stream_options": options}
    answer = requests.post(f"{gateway.base_url}/chat/completions", json=body, timeout=SECONDS)
    *chunks, done = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    read = [json.loads(chunk) for chunk in chunks]
    for chunk in read:
        assert_conforms(chunk, "ChatCompletionChunk")
    shown = {chunk["windlass"]["event"] for chunk in read if "windlass" in chunk}
    assert {"tool_run_started", "tool_run_ended"} <= shown


def test_events_and_runs_match_the_document(gateway: Serving) -> None:
    body = {**BODY, "model": "busy"}
    run = requests.post(f"{gateway.base_url}/runs", json=body, timeout=SECONDS).json()
    assert_conforms(run, "Run")
    answer = requests.get(f"{gateway.base_url}/runs/{run['id']}/events", timeout=SECONDS)
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    for event in map(json.loads, events):
        assert_conforms(event, "RunEvent")
    ended = requests.get(f"{gateway.base_url}/runs/{run['id']}", timeout=SECONDS).json()
    assert ended["response"]["choices"][0]["message"]["content"] == "3"
    assert_conforms(ended, "Run")


def test_a_failed_run_matches_the_document(gateway: Serving) -> None:
    body = {**BODY, "model": "broken"}
    run = requests.post(f"{gateway.base_url}/runs", json=body, timeout=SECONDS).json()
    requests.get(f"{gateway.base_url}/runs/{run['id']}/events", timeout=SECONDS)
    ended = requests.get(f"{gateway.base_url}/runs/{run['id']}", timeout=SECONDS).json()
    assert ended["status"] == "failed"
    assert_conforms(ended, "Run")


def assert_conforms(value: Any, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": whole_document()["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate(value)
