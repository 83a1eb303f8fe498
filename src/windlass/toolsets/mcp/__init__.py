"""MCP: the tools of other programs as ours, and ours for other programs.

`mcp` makes a toolset of a server. `serving` has the other side. The official SDK does the protocol,
in both of its eras; it is loaded when the first toolset is made.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from windlass.errors import ConfigError
from windlass.toolsets.mcp.options import McpOptions, server_from

if TYPE_CHECKING:
    from windlass.toolsets.mcp.toolset import McpToolset

__all__ = ["McpOptions", "mcp", "missing_sdk"]


def mcp(target: str | Sequence[str], **options: Unpack[McpOptions]) -> "McpToolset":
    """The tools of an MCP server: `"command with arguments"`, a list of words, or an http address.

    Nothing is started yet. `name` is what the names of its tools begin with. Raises `ConfigError`
    for a target or an option that cannot be right, and without the extra `windlass[mcp]`.
    """
    server = server_from(target, **options)
    try:
        from windlass.toolsets.mcp.toolset import McpToolset
    except ModuleNotFoundError as error:
        raise missing_sdk(error) from error
    return McpToolset(server)


def missing_sdk(error: ModuleNotFoundError) -> ConfigError:
    """How to get what MCP needs."""
    return ConfigError(f"MCP needs {error.name}: pip install 'windlass[mcp]'")
