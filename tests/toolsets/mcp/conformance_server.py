"""Our MCP server with the tools of the conformance suite. Its prompts and resources are the SDK's.

`python conformance_server.py FILE` writes its address to the file.
"""

import base64
import json
import socket
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from tests.toolsets.mcp import conformance_tools

from windlass.cli.mcp_server import McpCallExecutor, guarded_app
from windlass.gateway.config.tool_loading import load_tools
from windlass.toolsets.mcp.serving.server import ToolServer
from windlass.toolsets.registry import registry

loaded = load_tools(["tests.toolsets.mcp.conformance_tools"], Path())
server = ToolServer(
    lambda: [*loaded.values(), *registry.list()], McpCallExecutor(), name="conformance", version="1"
)
conformance_tools.publish = server.bus.publish
others = MCPServer("conformance", subscriptions=server.bus)


@others.resource("test://static-text")
def static_text() -> str:
    """A static text resource for testing"""
    return "This is the content of the static text resource."


@others.resource("test://static-binary")
def static_binary() -> bytes:
    """A static binary resource (image) for testing"""
    return base64.b64decode(conformance_tools.IMAGE)


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
        conformance_tools.text_resource(resourceUri, "text/plain", words),
        types.TextContent(text="Please process the embedded resource above."),
    )


@others.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt that includes image content"""
    return said(
        types.ImageContent(data=conformance_tools.IMAGE, mime_type="image/png"),
        types.TextContent(text="Please analyze the image above."),
    )


@others.prompt()
async def test_input_required_result_prompt(ctx: Context) -> Any:
    """Tests InputRequiredResult from prompts/get"""
    answer = (ctx.input_responses or {}).get("user_context")
    if isinstance(answer, types.ElicitResult):
        words = f"Use the following context: {(answer.content or {}).get('context')}"
        return said(types.TextContent(text=words))
    question = conformance_tools._question("What context should the prompt use?", "context")
    return types.InputRequiredResult(input_requests={"user_context": question})


@others.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[], total=0, has_more=False)


async def nothing(context: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def adopt() -> None:
    """Adds features that our server does not have."""
    lowlevel = others._lowlevel_server
    for method in (
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    ):
        entry = lowlevel.get_request_handler(method)
        assert entry is not None
        server.add_request_handler(method, entry.params_type, entry.handler)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)


if __name__ == "__main__":
    adopt()
    listener = socket.create_server(("127.0.0.1", 0))
    Path(sys.argv[1]).write_text(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
    config = uvicorn.Config(
        guarded_app(server, "127.0.0.1", (), ()), log_level="warning", ws="none", lifespan="on"
    )
    uvicorn.Server(config).run(sockets=[listener])
