"""Our tools' answers as MCP sends them: text, structured content, images. Pure."""

import base64
import re
from typing import Any, TypeAlias, cast

import mcp_types as types

from windlass.content import FileData, FunctionResponse, InlineData

__all__ = ["failed", "result_of"]

Medium: TypeAlias = InlineData | FileData

_LABEL = re.compile(r"\[[\w.+-]+(/[\w.+-]+)?(, \d+ bytes)?\]")
"""What stands in a result where a medium was."""


def result_of(response: FunctionResponse) -> types.CallToolResult:
    """The result of a call: a value that is an object is also sent as structured content."""
    if response.error is not None:
        return failed(response.error)
    output: Any = response.output
    structured = cast("dict[str, Any]", output) if isinstance(output, dict) else None
    return types.CallToolResult(
        content=_content(output, list(response.parts), response.text),
        structured_content=structured,
    )


def failed(words: str) -> types.CallToolResult:
    """The result of a call that failed: what the model is to read."""
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


def _content(output: Any, media: list[Medium], text: str) -> list[types.ContentBlock]:
    if not media:
        return [types.TextContent(text=text)]
    pieces = cast("list[Any]", output) if isinstance(output, list) else [output]
    blocks: list[types.ContentBlock] = []
    for piece in pieces:
        if isinstance(piece, str) and media and _LABEL.fullmatch(piece):
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
