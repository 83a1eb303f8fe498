"""MCP: use the tools of MCP servers, and serve Windlass tools over MCP.

`mcp` returns the toolset of a server; `serving` is the server side. The official SDK implements
the protocol, in its versions with and without a handshake. It is imported with the first toolset.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from windlass.errors import ConfigError
from windlass.toolsets.mcp.options import McpOptions, server_from

if TYPE_CHECKING:
    from windlass.toolsets.mcp.toolset import McpToolset

__all__ = ["McpOptions", "mcp", "missing_sdk"]


def mcp(target: str | Sequence[str], **options: Unpack[McpOptions]) -> "McpToolset":
    """The tools of an MCP server: `"command with arguments"`, a list of words, or an HTTP address.

    The server starts when its tools are first needed. `name` is the prefix of its tools' names.
    Raises `ConfigError` for an invalid target or option, and without the extra `windlass[mcp]`.
    """
    server = server_from(target, **options)
    try:
        from windlass.toolsets.mcp.toolset import McpToolset
    except ModuleNotFoundError as error:
        raise missing_sdk(error) from error
    return McpToolset(server)


def missing_sdk(error: ModuleNotFoundError) -> ConfigError:
    """The error for a missing package, with the command that installs it."""
    return ConfigError(f"MCP needs {error.name}: pip install 'windlass[mcp]'")
