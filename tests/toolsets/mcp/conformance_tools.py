"""The tools that the MCP conformance suite calls, as tools of ours."""

import asyncio
import base64
import json
from typing import Annotated, Any

import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from pydantic import Field

import windlass
from windlass import InlineData, Tool, ToolContext, ToolError, tool
from windlass.toolsets.mcp.serving.server import current_call

IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5"
    "ErkJggg=="
)
AUDIO = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PICTURE = InlineData(base64.b64decode(IMAGE), "image/png")

bus = InMemorySubscriptionBus()
"""How subscribers hear of changes."""
others = MCPServer("conformance", subscriptions=bus)
"""The prompts, resources and completions: the SDK's, which Windlass serves beside its tools."""


def served() -> tuple[ServerRequestContext, types.CallToolRequestParams]:
    call = current_call()
    assert call is not None
    return call


def text_resource(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(resource=contents)


@tool
def test_simple_text() -> str:
    """Tests simple text content response"""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> InlineData:
    """Tests image content response"""
    return PICTURE


@tool
def test_audio_content() -> InlineData:
    """Tests audio content response"""
    return InlineData(base64.b64decode(AUDIO), "audio/wav")


@tool
def test_embedded_resource() -> types.CallToolResult:
    """Tests embedded resource content response"""
    words = "This is an embedded resource content."
    return types.CallToolResult(
        content=[text_resource("test://embedded-resource", "text/plain", words)]
    )


@tool
def test_multiple_content_types() -> types.CallToolResult:
    """Tests response with multiple content types (text, image, resource)"""
    data = '{"test": "data", "value": 123}'
    return types.CallToolResult(
        content=[
            types.TextContent(text="Multiple content types test:"),
            types.ImageContent(data=IMAGE, mime_type="image/png"),
            text_resource("test://mixed-content-resource", "application/json", data),
        ]
    )


async def _logged(*lines: str) -> None:
    context, _ = served()
    for line in lines:
        await context.session.send_log_message("info", line, related_request_id=context.request_id)
        await asyncio.sleep(0.05)


@tool
async def test_tool_with_logging() -> str:
    """Tests tool that emits log messages during execution"""
    await _logged("Tool execution started", "Tool processing data", "Tool execution completed")
    return "Tool with logging executed successfully"


@tool
async def test_logging_tool() -> str:
    """Tests that nobody gets log messages who has not asked for them"""
    await _logged("Unwanted")
    return "logged"


@tool
async def test_tool_with_progress(context: ToolContext) -> str:
    """Tests tool that reports progress notifications"""
    for done in (0, 50, 100):
        context.progress(done / 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@tool
def test_error_handling() -> str:
    """Tests error response handling"""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_sampling(prompt: str) -> str:
    """Tests server-initiated sampling (LLM completion request)"""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    request = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )
    result = await _asked(request, types.CreateMessageResult)
    return f"LLM response: {result.content.text}"


@tool
async def test_elicitation(message: str) -> str:
    """Tests server-initiated elicitation (user input request)"""
    return await _elicited(message, {"response": {"type": "string"}}, ["response"])


@tool
async def test_elicitation_sep1034_defaults() -> str:
    """Tests elicitation with default values for all primitive types (SEP-1034)"""
    states = ["active", "inactive", "pending"]
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": states, "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicited("Please provide user information", fields, [])


@tool
async def test_elicitation_sep1330_enums() -> str:
    """Tests elicitation with enum schema variations per SEP-1330"""

    def titled(**options: str) -> list[dict[str, str]]:
        return [{"const": value, "title": title} for value, title in options.items()]

    levels = titled(low="Low Priority", medium="Medium Priority", high="High Priority")
    kinds = titled(feature="New Feature", bug="Bug Fix", docs="Documentation")
    rights = {"type": "string", "enum": ["read", "write", "execute"]}
    sizes = ["Small Size", "Medium Size", "Large Size"]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": ["active", "inactive", "pending"]},
        "titledSingle": {"type": "string", "oneOf": levels},
        "untitledMulti": {"type": "array", "items": rights},
        "titledMulti": {"type": "array", "items": {"anyOf": kinds}},
        "legacyEnum": {"type": "string", "enum": ["small", "medium", "large"], "enumNames": sizes},
    }
    return await _elicited("Please select values", fields, [])


async def _elicited(message: str, fields: dict[str, Any], required: list[str]) -> str:
    schema = {"type": "object", "properties": fields, "required": required}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    result = await _asked(types.ElicitRequest(params=params), types.ElicitResult)
    return f"User response: action={result.action}, content={json.dumps(result.content)}"


async def _asked(request: Any, kind: Any) -> Any:
    from mcp.shared.message import ServerMessageMetadata

    context, _ = served()
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(request, kind, metadata=metadata)


@tool
def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
) -> str:
    """Tests validation of Mcp-Param-* headers"""
    return f"region={region}"


@tool
def test_missing_capability() -> str:
    """Tests that a missing capability of the client is an error of the protocol"""
    capabilities = served()[0].session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool requires the client 'sampling' capability",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "Client declared sampling capability; proceeding."


def _question(message: str, field: str = "name", kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(params=params)


def _sampling(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    return types.CreateMessageRequest(params=params)


def _wanted(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def _responses() -> dict[str, Any]:
    return served()[1].input_responses or {}


def _field(answer: Any, name: str) -> Any:
    return (answer.content or {}).get(name) if isinstance(answer, types.ElicitResult) else None


@tool
def test_input_required_result_elicitation() -> Any:
    """Tests InputRequiredResult with a single elicitation request"""
    if "user_name" in (given := _responses()):
        return f"Hello, {_field(given['user_name'], 'name')}!"
    return _wanted(user_name=_question("What is your name?"))


@tool
def test_streaming_elicitation() -> Any:
    """Tests that a question is a result, and no request of its own"""
    if "user_name" in _responses():
        return "thanks"
    return _wanted(user_name=_question("What is your name?"))


@tool
def test_input_required_result_sampling() -> Any:
    """Tests InputRequiredResult with a single sampling request"""
    if "capital_question" in (given := _responses()):
        return f"Model said: {given['capital_question'].content.text}"
    return _wanted(capital_question=_sampling("What is the capital of France?"))


@tool
def test_input_required_result_list_roots() -> Any:
    """Tests InputRequiredResult with a single roots/list request"""
    if "client_roots" in (given := _responses()):
        return f"Client exposed {len(given['client_roots'].roots)} root(s)."
    return _wanted(client_roots=types.ListRootsRequest())


@tool
def test_input_required_result_request_state() -> Any:
    """Tests requestState round-tripping in the InputRequiredResult flow"""
    if "confirm" in _responses() and served()[1].request_state == "nonce":
        return "state-ok: confirmation received"
    return _wanted("nonce", confirm=_question("Please confirm", "ok", "boolean"))


@tool
def test_input_required_result_multiple_inputs() -> Any:
    """Tests InputRequiredResult carrying elicitation, sampling and roots requests together"""
    if {"user_name", "greeting", "client_roots"} <= _responses().keys():
        return "All inputs received."
    return _wanted(
        "multiple-inputs",
        user_name=_question("What is your name?"),
        greeting=_sampling("Generate a greeting"),
        client_roots=types.ListRootsRequest(),
    )


@tool
def test_input_required_result_multi_round() -> Any:
    """Tests a three-round InputRequiredResult flow with evolving requestState"""
    given, state = _responses(), json.loads(served()[1].request_state or "{}")
    if state.get("round") == 1 and "step1" in given:
        state = {"round": 2, "name": _field(given["step1"], "name")}
        return _wanted(json.dumps(state), step2=_question("Step 2: Your colour?", "color"))
    if state.get("round") == 2 and "step2" in given:
        return f"{state['name']} likes {_field(given['step2'], 'color')}."
    return _wanted(json.dumps({"round": 1}), step1=_question("Step 1: What is your name?"))


@tool
def test_input_required_result_tampered_state() -> Any:
    """Tests that the server rejects a tampered requestState"""
    if (state := served()[1].request_state) is not None:
        return f"state-ok: {state}"
    return _wanted("round-1", confirm=_question("Please confirm", "ok", "boolean"))


@tool
def test_input_required_result_capabilities() -> Any:
    """Tests that inputRequests only include methods the client declared support for"""
    can = served()[0].session.client_capabilities
    requests: dict[str, Any] = {}
    if can is None or can.sampling is not None:
        requests["sample"] = _sampling("Say hello")
    if can is None or can.elicitation is not None:
        requests["ask"] = _question("What is your name?")
    return _wanted("capability-gated", **requests)


SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

json_schema_2020_12_tool = Tool.from_declaration(
    {
        "name": "json_schema_2020_12_tool",
        "description": "Tests that keywords of JSON Schema 2020-12 are kept",
        "parameters": SCHEMA_2020_12,
    },
    lambda **arguments: "json_schema_2020_12_tool",
)


@tool
async def test_trigger_tool_change() -> str:
    """Changes the list of tools"""

    def test_dynamic_tool() -> str:
        """New here"""
        return "dynamic"

    windlass.registry.register(test_dynamic_tool, replace=True)
    await bus.publish(ToolsListChanged())
    return "tool list changed"


@tool
async def test_trigger_prompt_change() -> str:
    """Says that the list of prompts has changed"""
    await bus.publish(PromptsListChanged())
    return "prompt list changed"


@others.resource("test://static-text")
def static_text() -> str:
    """A static text resource for testing"""
    return "This is the content of the static text resource."


@others.resource("test://static-binary")
def static_binary() -> bytes:
    """A static binary resource (image) for testing"""
    return base64.b64decode(IMAGE)


@others.resource("test://template/{id}/data")
def template(id: str) -> str:
    """A resource template with parameter substitution"""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@others.resource("test://watched-resource")
def watched() -> str:
    """A resource that can be subscribed to for updates"""
    return "Watched resource content"


def said(*contents: types.ContentBlock) -> list[UserMessage]:
    return [UserMessage(role="user", content=content) for content in contents]


@others.prompt()
def test_simple_prompt() -> list[UserMessage]:
    """A simple prompt without arguments"""
    return said(types.TextContent(text="This is a simple prompt for testing."))


@others.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    """A prompt with required arguments"""
    return said(types.TextContent(text=f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))


@others.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """A prompt that includes an embedded resource"""
    words = "Embedded resource content for testing."
    return said(
        text_resource(resourceUri, "text/plain", words),
        types.TextContent(text="Please process the embedded resource above."),
    )


@others.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt that includes image content"""
    return said(
        types.ImageContent(data=IMAGE, mime_type="image/png"),
        types.TextContent(text="Please analyze the image above."),
    )


@others.prompt()
async def test_input_required_result_prompt(ctx: Context) -> Any:
    """Tests InputRequiredResult from prompts/get"""
    answer = (ctx.input_responses or {}).get("user_context")
    if isinstance(answer, types.ElicitResult):
        words = f"Use the following context: {(answer.content or {}).get('context')}"
        return said(types.TextContent(text=words))
    question = _question("What context should the prompt use?", "context")
    return types.InputRequiredResult(input_requests={"user_context": question})


@others.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[], total=0, has_more=False)
