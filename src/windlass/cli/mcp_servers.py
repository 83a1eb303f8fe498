"""`--mcp`: servers whose tools a command uses besides those of files."""

import argparse
import re
from collections.abc import Iterable

from windlass.gateway.config.values import McpConfig
from windlass.toolsets.mcp.options import server_from

__all__ = ["add_mcp_option", "servers_from"]

HELP = (
    "an MCP server whose tools to use: a command in quotes, or an http address; NAME=... says what"
    " their names begin with; may be given again"
)
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31})=(.*)", re.DOTALL)


def add_mcp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mcp", action="append", default=[], metavar="SERVER", help=HELP)


def servers_from(given: Iterable[str]) -> list[McpConfig]:
    """Reads `"npx some-server"`, `https://...` and `NAME=` either. Raises `ConfigError`."""
    return [_server(target) for target in given]


def _server(target: str) -> McpConfig:
    named = _NAMED.fullmatch(target)
    name, target = (named[1], named[2]) if named else ("", target)
    server = server_from(target)
    if server.url is not None:
        return McpConfig(name=name, url=server.url)
    return McpConfig(name=name, command=target)
