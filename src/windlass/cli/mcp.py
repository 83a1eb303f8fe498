"""`windlass mcp`: offers tools to other programs as an MCP server."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass import __version__
from windlass.cli.arguments import add_tools_option, port_number
from windlass.cli.model_selection import find_tools
from windlass.errors import ConfigError
from windlass.gateway.config.checks import is_loopback
from windlass.gateway.config.key_hashes import is_key_hash
from windlass.tool import Tool
from windlass.toolsets.mcp import missing_sdk
from windlass.toolsets.registry import registry

if TYPE_CHECKING:
    from windlass.toolsets.mcp.serving.server import ToolServer


DESCRIPTION = """\
Offers tools to programs that use MCP: over stdin and stdout to the program that starts it, or with
--http to many programs. It supports the protocol versions 2025-11-25 and 2026-07-28."""

EPILOG = """\
examples:
  windlass mcp --tools tools.py
  windlass mcp --tools tools.py --http --port 8931
  windlass mcp --tools tools.py --http --host 0.0.0.0 --key sha256:...

Most programs that use MCP servers are configured like this:
  {"mcpServers": {"mine": {"command": "windlass", "args": ["mcp", "--tools", "/path/tools.py"]}}}

A tool with approve=True asks the user of the other program before it runs, and does not run if that
program cannot ask. `windlass keys new` creates a key and its hash."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_tools_option(parser, "those of windlass.toml in this directory, or WINDLASS_TOOLS")
    parser.add_argument("--name", default="windlass", help="the name of the server")
    parser.add_argument(
        "--http", action="store_true", help="listen over HTTP instead of stdin and stdout"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="addresses other than this machine need --key"
    )
    parser.add_argument("--port", type=port_number, default=8931, help="0: any free port")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="HASH",
        help="the hash of a key that clients must send; can be repeated",
    )
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="URL",
        help="a web page that may use the server from a browser; can be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Serves until its client disconnects or a signal stops it. Raises `ConfigError`."""
    _check(options)
    try:
        from windlass.cli.mcp_server import McpCallExecutor, serve_http
        from windlass.toolsets.mcp.serving.server import ToolServer
    except ModuleNotFoundError as error:
        raise missing_sdk(error) from error
    # With stdio, stdout carries the protocol: output of tool modules goes to stderr.
    with contextlib.redirect_stdout(sys.stderr):
        tools = _offered(options.tools)
    server = ToolServer(tools, McpCallExecutor(), name=options.name, version=__version__)
    if options.http:
        serve_http(server, options.host, options.port, options.key, options.origin)
    else:
        asyncio.run(_serve_stdio(server))
    return 0


def _check(options: argparse.Namespace) -> None:
    for given in options.key:
        if not is_key_hash(given):
            raise ConfigError(
                "--key: must be 'sha256:' and 64 hexadecimal digits; create one with"
                " `windlass keys new`"
            )
    for option in ("key", "origin"):
        if getattr(options, option) and not options.http:
            raise ConfigError(f"--{option} needs --http")
    if options.http and not options.key and not is_loopback(options.host):
        raise ConfigError(
            f"--host: without --key, any client that reaches {options.host!r} could run the tools:"
            " create a key with `windlass keys new`, or listen on 127.0.0.1"
        )


def _offered(files: list[str]) -> Callable[[], list[Tool]]:
    """A function that returns the current tools: a module can register more at any time."""
    loaded = find_tools(files)
    before = {tool.name for tool in registry}

    def tools() -> list[Tool]:
        new = {tool.name: tool for tool in registry if tool.name not in before}
        removed = before - {tool.name for tool in registry}
        kept = {name: tool for name, tool in loaded.items() if name not in removed}
        return [*{**kept, **new}.values()]

    return tools


async def _serve_stdio(server: "ToolServer") -> None:
    from mcp.server.stdio import stdio_server

    # stdio_server takes stdout first; after that, output of tools goes to stderr.
    async with stdio_server() as (read, write):
        with contextlib.redirect_stdout(sys.stderr):
            await server.run(read, write, server.create_initialization_options())
