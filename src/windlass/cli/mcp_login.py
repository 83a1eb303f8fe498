"""`windlass mcp login` and `windlass mcp trust`: what a person decides about an MCP server."""

import asyncio
import os
import sys
import webbrowser
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from windlass.errors import ConfigError
from windlass.gateway.config import GatewayConfig, McpConfig, examine_config, find_config
from windlass.gateway.config.problems import nearest, raise_errors
from windlass.gateway.config.tool_loading import LOGIN_REDIRECT, login_store, mcp_toolset
from windlass.toolsets.mcp import mcp
from windlass.toolsets.mcp.oauth import (
    BrowserLogin,
    DeviceLogin,
    LoginStore,
    StoredLogin,
    client_metadata,
)

LOGIN_SECONDS = 600.0
"""How long a person may take to log in."""
PAGE = b"""HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n\
<!doctype html><title>Windlass</title><p>Windlass has the answer. You can close this page."""


def configured_server(path: Path | None, name: str) -> tuple[GatewayConfig, McpConfig]:
    """The server `[mcp.NAME]` of a configuration. Raises `ConfigError`."""
    path = path or find_config(Path())
    if path is None:
        raise ConfigError("there is no windlass.toml here: name one with --config")
    config, problems = examine_config(path, os.environ, servers=False)
    raise_errors(problems)
    if name not in config.mcp:
        raise ConfigError(f"{path} has no [mcp.{name}]{nearest(name, config.mcp)}")
    return config, config.mcp[name]


def trust(config: GatewayConfig, server: McpConfig) -> int:
    """Accepts the current descriptions of a server's tools, and reports which had changed."""
    with mcp_toolset(server, config.base) as toolset:
        changed = toolset.trust()
    for name in changed:
        sys.stdout.write(f"accepted the new description of {server.name}__{name}\n")
    if not changed:
        sys.stdout.write(f"no description of {server.name} has changed\n")
    return 0


def log_in(config: GatewayConfig, server: McpConfig, owner: str, *, device: bool) -> int:
    """Logs in to a server for one key. Raises `ConfigError`."""
    if server.auth != "oauth" or server.url is None:
        raise ConfigError(f'[mcp.{server.name}] has no logins: set auth = "oauth"')
    names = [key.name for key in config.keys]
    if owner not in (names or [""]):
        hint = f"one of {', '.join(names)}" if names else "left out: there are no [[keys]]"
        raise ConfigError(f"--for-key: must be {hint}")
    store = login_store(server, owner)
    store.forget()
    login = _device_login(server, store) if device else _browser_login(server, store)
    toolset = mcp(
        server.url,
        name=server.name,
        auth=login,
        headers=server.headers,
        protocol=server.protocol,
        start_timeout=LOGIN_SECONDS,
        state_dir=server.state_dir,
    )
    with toolset:
        count = len(toolset.list())
    if not store.exists():
        raise ConfigError(f"the MCP server {server.name!r} did not ask for a login")
    whose = f" for the key {owner!r}" if owner else ""
    sys.stdout.write(f"logged in to {server.name}{whose}: {count} tools\n")
    return 0


def _browser_login(server: McpConfig, store: LoginStore) -> StoredLogin:
    answer: list[asyncio.Future[AuthorizationCodeResult]] = []
    listening: list[asyncio.Server] = []

    async def show(url: str) -> None:
        future: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        answer.append(future)
        listening.append(await _listen(future))
        sys.stderr.write(f"Log in at this address:\n\n  {url}\n\n")
        sys.stderr.flush()
        await asyncio.to_thread(webbrowser.open, url)

    async def callback() -> AuthorizationCodeResult:
        try:
            return await answer[-1]
        finally:
            for each in listening:
                each.close()

    metadata = client_metadata(LOGIN_REDIRECT, server.scope)
    return BrowserLogin(server.url or "", store, metadata, show, callback)


async def _listen(answer: "asyncio.Future[AuthorizationCodeResult]") -> asyncio.Server:
    """Waits for the browser to return to `LOGIN_REDIRECT`. Raises `ConfigError`."""
    address = urlsplit(LOGIN_REDIRECT)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode("latin-1").split()
        target = urlsplit(line[1]) if len(line) > 1 else urlsplit("")
        writer.write(PAGE if target.path == address.path else b"HTTP/1.1 404 Not Found\r\n\r\n")
        await writer.drain()
        writer.close()
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        if target.path != address.path or answer.done():
            return
        if "code" in query:
            found = {name: query.get(name) for name in ("code", "state", "iss")}
            answer.set_result(AuthorizationCodeResult.model_validate(found))
        else:
            reason = query.get("error_description") or query.get("error") or "no answer"
            answer.set_exception(OAuthFlowError(f"the login was refused: {reason}"))

    try:
        return await asyncio.start_server(serve, address.hostname, address.port)
    except OSError as error:
        raise ConfigError(f"cannot listen on {address.netloc}: {error.strerror}") from None


def _device_login(server: McpConfig, store: LoginStore) -> StoredLogin:
    async def show(url: str, code: str) -> None:
        sys.stderr.write(f"On any device, open {url} and enter the code {code}\n")
        sys.stderr.flush()

    metadata = client_metadata(LOGIN_REDIRECT, server.scope, device=True)
    return DeviceLogin(server.url or "", store, metadata, show, asyncio.sleep)
