"""Tools and their results in MCP's terms: descriptions, output schemas and content. Pure."""

import base64
import inspect
import weakref
from typing import Any, NamedTuple, TypeAlias, cast, get_args

import mcp_types as types
from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from windlass.content import (
    FileData,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Part,
    Schema,
    media_label,
)
from windlass.tool import Tool
from windlass.tool.signature import namespace_of, resolved_hint, underlying

RESULT_URI = "windlass://runs/{run_id}/results/{call_id}"
"""The address of a stored result."""
WRAPPER = "result"
"""The field of a structured result whose value is no object, as in the SDK."""


class ResultType(NamedTuple):
    """The type of a tool's results."""

    schema: Schema
    wrapped: bool
    """Whether values are wrapped in an object."""


_outputs: weakref.WeakKeyDictionary[Any, ResultType | None] = weakref.WeakKeyDictionary()


def output_of(tool: Tool) -> ResultType | None:
    """The output schema of a tool with a typed result; None without a type that has a schema."""
    function: Any = getattr(tool, "__wrapped__", None)
    if function is None:
        return None
    given = getattr(function, "output_schema", None)
    if isinstance(given, dict):  # a tool of another MCP server
        return ResultType(cast("Schema", given), wrapped=False)
    try:
        if function not in _outputs:
            _outputs[function] = _output(function)
        return _outputs[function]
    except TypeError:  # it has no weak references
        return _output(function)


def _output(function: Any) -> ResultType | None:
    function = underlying(function)
    hint = getattr(function, "__annotations__", {}).get("return", inspect.Signature.empty)
    if hint in (inspect.Signature.empty, None, Any, object):
        return None
    try:
        hint = resolved_hint(hint, *namespace_of(function))
        if _is_content(hint) or hint in (type(None), Any, object):
            return None
        schema = TypeAdapter[Any](hint).json_schema(mode="serialization")
    except (NameError, TypeError, PydanticUserError, PydanticSchemaGenerationError):
        return None
    if schema.get("type") == "object":
        return ResultType(schema, wrapped=False)
    if not schema.keys() - {"title", "description"}:  # any value
        return None
    definitions = schema.pop("$defs", None)
    wrapped: Schema = {"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER]}
    if definitions:
        wrapped["$defs"] = definitions
    return ResultType(wrapped, wrapped=True)


def _is_content(hint: Any) -> bool:
    """Whether the type contains media or results of MCP, which are no structured values."""
    if isinstance(hint, type) and (
        issubclass(hint, Part | bytes) or hint.__module__.startswith("mcp_types")
    ):
        return True
    return any(_is_content(each) for each in get_args(hint))


def offered(tools: list[Tool]) -> list[Tool]:
    """The tools that can be served: those with a function."""
    return [
        tool
        for tool in tools
        if tool.runnable and isinstance(tool.declaration, FunctionDeclaration)
    ]


def described(tool: Tool) -> types.Tool:
    """The MCP description of a tool. Hints are present only if the tool's options set them."""
    declaration = tool.declaration
    assert isinstance(declaration, FunctionDeclaration)
    idempotent = True if tool.options.idempotent else None
    output = output_of(tool)
    return types.Tool(
        name=tool.name,
        description=declaration.description or None,
        input_schema={"type": "object", **declaration.parameters},
        output_schema=output.schema if output else None,
        annotations=types.ToolAnnotations(
            # A tool with a cache has no side effects.
            read_only_hint=True if tool.options.cache is not None else None,
            idempotent_hint=idempotent,
        )
        if idempotent or tool.options.cache is not None
        else None,
    )


def result_resource(uri: str, tool: str) -> types.Resource:
    """A stored result in a list of resources."""
    return types.Resource(
        uri=uri,
        name=f"Result of {tool}",
        description=f"The stored result of a call of {tool}.",
        mime_type="application/json",
    )


Medium: TypeAlias = InlineData | FileData


def result_of(response: FunctionResponse, output: ResultType | None = None) -> types.CallToolResult:
    """The result of a call. An object, and a value of a declared type, is also structured."""
    if response.error is not None:
        return failed(response.error)
    value: Any = response.output
    structured: dict[str, Any] | None = None
    if output is not None and output.wrapped:
        structured = {WRAPPER: value}
    elif isinstance(value, dict):
        structured = cast("dict[str, Any]", value)
    return types.CallToolResult(
        content=_content(value, list(response.parts), response.text),
        structured_content=structured,
    )


def failed(words: str) -> types.CallToolResult:
    """The result of a failed call; the model reads `words`."""
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


def _content(output: Any, media: list[Medium], text: str) -> list[types.ContentBlock]:
    if not media:
        return [types.TextContent(text=text)]
    pieces = cast("list[Any]", output) if isinstance(output, list) else [output]
    blocks: list[types.ContentBlock] = []
    for piece in pieces:
        if media and piece == media_label(media[0]):
            blocks.append(_medium(media.pop(0)))
        elif isinstance(piece, str):
            blocks.append(types.TextContent(text=piece))
        else:
            response = FunctionResponse("", {"output": piece})
            blocks.append(types.TextContent(text=response.text))
    return [*blocks, *map(_medium, media)]


def _medium(part: Medium) -> types.ContentBlock:
    match part:
        case FileData():
            name = part.uri.rstrip("/").rpartition("/")[2] or part.uri
            return types.ResourceLink(uri=part.uri, name=name, mime_type=part.mime_type)
        case InlineData():
            data = base64.b64encode(part.data).decode("ascii")
            if part.mime_type.startswith("image/"):
                return types.ImageContent(data=data, mime_type=part.mime_type)
            if part.mime_type.startswith("audio/"):
                return types.AudioContent(data=data, mime_type=part.mime_type)
            blob = types.BlobResourceContents(
                uri="windlass://result", blob=data, mime_type=part.mime_type
            )
            return types.EmbeddedResource(resource=blob)
