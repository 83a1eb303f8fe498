"""Servers with OAuth: logins by browser and device, refresh, and that no login crosses users."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support.ports import free_port
from tests.support.serving import Serving
from tests.support.thoroughness import WHOLE
from tests.toolsets.mcp.oauth_server import OAuthServer

import windlass.cli.mcp_login
from windlass.cli import main
from windlass.errors import ConfigError
from windlass.gateway.config import load_config, tool_loading
from windlass.gateway.config.keys import key_hash
from windlass.testing import ScriptedModel
from windlass.toolsets.mcp.oauth import Login, LoginStore

USERS = ("ada", "bob")


@pytest.fixture
def guarded() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, guarded: OAuthServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a configuration of that server, two keys, and a browser that logs in."""
    keys = "".join(
        f'[[keys]]\nname = "{name}"\nhash = "{key_hash(f"key-{name}")}"\n' for name in USERS
    )
    (tmp_path / "windlass.toml").write_text(f"""
[models.m]
target = "openai/x"
tools = ["guarded__whoami"]

[mcp.guarded]
url = "{guarded.url}"
auth = "oauth"
state_dir = "{tmp_path}"

{keys}""")

    def browse(url: str) -> bool:
        return httpx2.get(url, follow_redirects=True).is_success

    redirect = f"http://127.0.0.1:{free_port()}/callback"
    monkeypatch.setattr(windlass.cli.mcp_login, "LOGIN_REDIRECT", redirect)
    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    before = set(tool_loading._servers)
    yield tmp_path
    # A process keeps its connections until it exits, and logs that this server is gone.
    for connection in set(tool_loading._servers) - before:
        tool_loading._servers.pop(connection).close()


def log_in(guarded: OAuthServer, *users: str, options: tuple[str, ...] = ()) -> None:
    for user in users:
        guarded.person = user
        assert main(["mcp", "login", "guarded", "--for-key", user, *options]) == 0


async def whoami(gateway: Serving, user: str) -> Any:
    headers = {"Authorization": f"Bearer key-{user}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{gateway.root_url}/mcp", http_client=http)
        async with Client(transport, cache=None) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            if not names:
                return None
            return (await client.call_tool("guarded__whoami")).structured_content


def served(folder: Path) -> Serving:
    config = load_config(folder / "windlass.toml", {})
    return Serving(config, models={"m": ScriptedModel([])}, tools=None)


@pytest.mark.parametrize("options", [(), ("--device",)])
async def test_a_login_gives_its_key_the_tools(
    folder: Path, guarded: OAuthServer, options: tuple[str, ...], capsys: Any
) -> None:
    await asyncio.to_thread(log_in, guarded, "ada", options=options)
    assert "logged in to guarded for the key 'ada': 1 tools" in capsys.readouterr().out
    with served(folder) as gateway:
        assert await whoami(gateway, "ada") == {"result": "ada"}
        assert await whoami(gateway, "bob") is None


@pytest.mark.sweep
async def test_interleaved_calls_of_two_keys_use_their_own_logins(
    folder: Path, guarded: OAuthServer
) -> None:
    await asyncio.to_thread(log_in, guarded, *USERS)
    chosen = random.Random(22)
    with served(folder) as gateway:
        for _ in range(10 if WHOLE else 3):
            order = [chosen.choice(USERS) for _ in range(5)]
            said = await asyncio.gather(*(whoami(gateway, user) for user in order))
            assert said == [{"result": user} for user in order]


async def test_a_refused_token_is_refreshed_also_after_a_restart(
    folder: Path, guarded: OAuthServer
) -> None:
    await asyncio.to_thread(log_in, guarded, "ada")
    with served(folder) as gateway:
        assert await whoami(gateway, "ada") == {"result": "ada"}
        guarded.revoke_access()
        assert await whoami(gateway, "ada") == {"result": "ada"}
    assert len(guarded.refreshes) == 1


async def test_an_expired_token_is_refreshed_before_it_is_used(
    folder: Path, guarded: OAuthServer
) -> None:
    guarded.lifetime = 1  # less than the time that is left when it is refreshed
    await asyncio.to_thread(log_in, guarded, "ada")
    guarded.lifetime = 3600
    with served(folder) as gateway:
        assert await whoami(gateway, "ada") == {"result": "ada"}
    assert len(guarded.refreshes) == 1


async def test_a_login_that_has_ended_gives_no_tools_and_names_the_remedy(
    folder: Path, guarded: OAuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(log_in, guarded, "ada")
    guarded.revoke_all()
    with served(folder) as gateway:
        assert await whoami(gateway, "ada") is None
    assert "needs a login" in caplog.text
    assert "windlass mcp login guarded" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["login", "guarded"], "--for-key: must be one of ada, bob"),
        (["login", "other"], "has no [mcp.other]"),
        (["login"], "name a server"),
    ],
)
def test_a_server_without_logins_is_named(
    folder: Path, arguments: list[str], said: str, capsys: Any
) -> None:
    assert main(["mcp", *arguments]) != 0
    assert said in capsys.readouterr().err


def test_a_refused_login_is_an_error(folder: Path, guarded: OAuthServer, capsys: Any) -> None:
    guarded.approves = False
    assert main(["mcp", "login", "guarded", "--for-key", "ada"]) != 0
    assert "access_denied" in capsys.readouterr().err


def test_a_login_is_encrypted_and_readable_by_its_user_alone(tmp_path: Path) -> None:
    mine = LoginStore(tmp_path, "https://example.com/mcp", "ada")
    mine.write(Login(tokens="SECRET"))
    stored = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert all(b"SECRET" not in file.read_bytes() for file in stored)
    assert all(file.stat().st_mode & 0o077 == 0 for file in stored)
    assert mine.read().tokens == "SECRET"
    other = LoginStore(tmp_path, "https://example.com/mcp", "bob")
    assert not other.exists()
    other._file.write_bytes(mine._file.read_bytes())
    with pytest.raises(ConfigError, match="cannot be decrypted"):
        other.read()
