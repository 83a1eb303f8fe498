"""Our tools as MCP tells of them. Pure."""

import mcp_types as types

from windlass.content import FunctionDeclaration
from windlass.tool import Tool

__all__ = ["described", "offered"]


def offered(tools: list[Tool]) -> list[Tool]:
    """The tools that can be served: those with something to run."""
    return [
        tool
        for tool in tools
        if tool.runnable and isinstance(tool.declaration, FunctionDeclaration)
    ]


def described(tool: Tool) -> types.Tool:
    """What a client is told of a tool. Hints are given only where our own options say so."""
    declaration = tool.declaration
    assert isinstance(declaration, FunctionDeclaration)
    idempotent = True if tool.options.idempotent else None
    return types.Tool(
        name=tool.name,
        description=declaration.description or None,
        input_schema={"type": "object", **declaration.parameters},
        annotations=types.ToolAnnotations(
            # What may be answered from a cache changes nothing.
            read_only_hint=True if tool.options.cache is not None else None,
            idempotent_hint=idempotent,
        )
        if idempotent or tool.options.cache is not None
        else None,
    )
