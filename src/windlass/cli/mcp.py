"""`windlass mcp`: offers tools to other programs as an MCP server."""

import argparse
import asyncio
import contextlib
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from windlass import __version__
from windlass.cli.arguments import add_tools_option, port_number
from windlass.cli.model_selection import find_tools
from windlass.errors import ConfigError
from windlass.gateway.config import GatewayConfig, KeyConfig, find_config, load_config
from windlass.gateway.config.checks import is_loopback
from windlass.gateway.config.environment import modules_in
from windlass.gateway.config.keys import is_key_hash
from windlass.gateway.config.tool_loading import mcp_extras
from windlass.tool import Tool
from windlass.toolsets.mcp import missing_sdk
from windlass.toolsets.registry import registry

if TYPE_CHECKING:
    from windlass.gateway.app import App
    from windlass.toolsets.mcp.serving.server import ToolServer


DESCRIPTION = """\
Offers tools to programs that use MCP: over stdin and stdout to the program that starts it, or with
--http to many programs. It supports the protocol versions 2025-11-25 and 2026-07-28."""

EPILOG = """\
examples:
  windlass mcp --tools tools.py
  windlass mcp --tools tools.py --http --port 8931
  windlass mcp --tools tools.py --http --host 0.0.0.0 --key sha256:...
  windlass mcp login NAME --for-key web
  windlass mcp trust NAME

Most programs that use MCP servers are configured like this:
  {"mcpServers": {"mine": {"command": "windlass", "args": ["mcp", "--tools", "/path/tools.py"]}}}

A tool with approve=True asks the user of the other program before it runs, and does not run if that
program cannot ask. `windlass keys new` creates a key and its hash."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "action",
        nargs="?",
        choices=("serve", "login", "trust"),
        default="serve",
        help="login: log in to a server with OAuth; trust: accept its changed descriptions",
    )
    parser.add_argument("server", nargs="?", metavar="NAME", help="[mcp.NAME] in windlass.toml")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="for login and trust (default: windlass.toml)"
    )
    parser.add_argument(
        "--for-key", default="", metavar="KEY", help="login: the name of the key that may use it"
    )
    parser.add_argument(
        "--device", action="store_true", help="login: enter a code on another device"
    )
    add_tools_option(parser, "those of windlass.toml in this directory, or WINDLASS_TOOLS")
    parser.add_argument("--name", default="windlass", help="the name of the server")
    parser.add_argument("--prompts", metavar="FOLDER", help="a folder of prompts to offer")
    parser.add_argument(
        "--http", action="store_true", help="listen over HTTP instead of stdin and stdout"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="addresses other than this machine need a key"
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
    if options.action != "serve":
        return _manage(options)
    try:
        from windlass.cli import mcp_server
        from windlass.gateway.app import create_app
    except ModuleNotFoundError as error:
        raise missing_sdk(error) from error
    # With stdio, stdout carries the protocol: output of tool modules goes to stderr.
    with contextlib.redirect_stdout(sys.stderr):
        path = None if options.tools else find_config(Path())
        config = None if path is None else load_config(path, os.environ, host="127.0.0.1")
        keys = (*_keys(options), *(config.keys if config else _keys_here()))
        _check(options, bool(keys))
        if config is not None:
            # Only the tools are served: the models need no keys.
            unused = {name: mcp_server.UnusedModel(name) for name in config.models}
            app = create_app(_adapted(config, options, keys), models=unused)
            server = mcp_server.gateway_server(app.gateway, options.name)
        else:
            app, server = None, _local_server(options)
    if not options.http:
        asyncio.run(_serve_stdio(server, app))
    elif app is not None:
        mcp_server.serve_gateway(app, server, options.host, options.port)
    else:
        mcp_server.serve_http(server, options.host, options.port, keys, options.origin)
    return 0


def _manage(options: argparse.Namespace) -> int:
    """Runs `login` and `trust`."""
    try:
        from windlass.cli import mcp_login
    except ModuleNotFoundError as error:
        raise missing_sdk(error) from error
    if not options.server:
        raise ConfigError(f"windlass mcp {options.action} NAME: name a server [mcp.NAME]")
    config, server = mcp_login.configured_server(options.config, options.server)
    if options.action == "trust":
        return mcp_login.trust(config, server)
    return mcp_login.log_in(config, server, options.for_key, device=options.device)


def _local_server(options: argparse.Namespace) -> "ToolServer":
    """The server of the named tool files, or of those in the environment."""
    from windlass.cli.mcp_server import LocalTools
    from windlass.toolsets.mcp.serving.prompts import PromptFolder
    from windlass.toolsets.mcp.serving.server import ToolServer

    tools = _offered(options.tools)
    modules = options.tools or modules_in(os.environ)
    return ToolServer(
        LocalTools(tools),
        name=options.name,
        version=__version__,
        prompts=PromptFolder(Path(options.prompts)) if options.prompts else None,
        extras=mcp_extras(modules, Path()),
    )


def _adapted(
    config: GatewayConfig, options: argparse.Namespace, keys: tuple[KeyConfig, ...]
) -> GatewayConfig:
    """The configuration with the options of the command line. Over stdio, no key is needed."""
    server = config.server
    origins = tuple(options.origin) or server.cors_origins
    return replace(
        config,
        server=replace(server, host=options.host, cors_origins=origins),
        keys=keys if options.http else (),
        prompts=str(Path(options.prompts).resolve()) if options.prompts else config.prompts,
    )


def _keys_here() -> tuple[KeyConfig, ...]:
    """The keys of a `windlass.toml` in this directory, for tools that it does not name."""
    path = find_config(Path())
    if path is None:
        return ()
    content = tomllib.loads(path.read_text("utf-8-sig"))
    return msgspec.convert(content.get("keys", []), tuple[KeyConfig, ...])


def _keys(options: argparse.Namespace) -> list[KeyConfig]:
    for given in options.key:
        if not is_key_hash(given):
            raise ConfigError(
                "--key: must be 'sha256:' and 64 hexadecimal digits; create one with"
                " `windlass keys new`"
            )
    return [KeyConfig(name=f"key {at}", hash=key) for at, key in enumerate(options.key)]


def _check(options: argparse.Namespace, has_keys: bool) -> None:
    for option in ("key", "origin"):
        if getattr(options, option) and not options.http:
            raise ConfigError(f"--{option} needs --http")
    if options.http and not has_keys and not is_loopback(options.host):
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


async def _serve_stdio(server: "ToolServer", app: "App | None") -> None:
    from mcp.server.stdio import stdio_server

    # stdio_server takes stdout first; after that, output of tools goes to stderr.
    async with stdio_server() as (read, write):
        with contextlib.redirect_stdout(sys.stderr):
            try:
                if app is not None:
                    await app.gateway.open()
                await server.run(read, write, server.create_initialization_options())
            finally:
                if app is not None:
                    await app.gateway.aclose()
