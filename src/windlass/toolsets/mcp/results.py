"""From what an MCP tool answers to what our loop takes: text, values, media. Pure."""

import base64
import binascii
from typing import Any, TypeAlias, assert_never

import mcp_types as types

from windlass.content import FunctionResponse, InlineData
from windlass.errors import ToolError

__all__ = ["value_of"]

Piece: TypeAlias = "str | dict[str, Any] | InlineData"


def value_of(result: types.CallToolResult) -> object:
    """The tool's value: its structured content, else its one text, else a list of its pieces.

    Raises `ToolError` with the tool's own words when the tool says that it failed.
    """
    pieces = [_piece(block) for block in result.content]
    if result.is_error:
        words = "\n".join(piece for piece in pieces if isinstance(piece, str))
        raise ToolError(words or "the tool failed and gave no reason")
    if result.structured_content is not None:
        media = tuple(piece for piece in pieces if isinstance(piece, InlineData))
        value = result.structured_content
        return FunctionResponse("", {"output": value}, parts=media) if media else value
    if len(pieces) == 1:
        return pieces[0]
    return pieces or ""


def _piece(block: types.ContentBlock) -> Piece:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _medium(block.data, block.mime_type)
        case types.ResourceLink():
            return _link(block)
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return {"uri": str(resource.uri), "text": resource.text}
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _medium(resource.blob, resource.mime_type or "application/octet-stream")
        case types.EmbeddedResource():
            raise ToolError("the tool embedded a resource of an unknown kind")
        case _:
            assert_never(block)


def _medium(data: str, mime_type: str) -> InlineData:
    try:
        return InlineData(base64.b64decode(data, validate=True), mime_type)
    except (binascii.Error, ValueError):
        raise ToolError(f"the tool sent {mime_type} that is not valid base64") from None


def _link(link: types.ResourceLink) -> dict[str, Any]:
    """A resource of the server's is nothing that a model's provider could fetch: it is told of."""
    known = {
        "uri": str(link.uri),
        "name": link.name,
        "description": link.description,
        "mimeType": link.mime_type,
    }
    return {name: value for name, value in known.items() if value is not None}
