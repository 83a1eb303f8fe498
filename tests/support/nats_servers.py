"""A real NATS server for the tests of workers, one for each process that runs tests."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from windlass.messaging.connection import Connection, connect
from windlass.messaging.embedded import NatsServer
from windlass.runs.jetstream import leases
from windlass.toolsets.remote.bridge import Bridge

DOCUMENTED = re.search(
    r"permissions: \{(.*?)\n\} \}", Path("docs/workers.md").read_text(), flags=re.DOTALL
)
assert DOCUMENTED is not None


def session_permissions(session: str) -> str:
    """Returns the permissions for the workers of a session, as in the documentation."""
    assert DOCUMENTED is not None
    return re.sub(r"\bA\b", session, DOCUMENTED[1])


PERMISSIONS = f"""
authorization {{
  users = [
    {{ user: gateway, password: g, permissions: {{ publish: ">", subscribe: ">" }} }}
    {{ user: a, password: a, permissions: {{ {session_permissions("A")} }} }}
    {{ user: b, password: b, permissions: {{ {session_permissions("B")} }} }}
  ]
}}
"""


def _server(*extra: str) -> Iterator[NatsServer]:
    loop = asyncio.new_event_loop()
    server = NatsServer(extra=extra)
    loop.run_until_complete(server.__aenter__())
    yield server
    loop.run_until_complete(server.aclose())
    loop.close()


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    yield from _server()


@pytest.fixture(scope="session")
def guarded_server() -> Iterator[NatsServer]:
    """Starts a server with users that are restricted to their sessions."""
    yield from _server(PERMISSIONS)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the wait for the ping of an exited process, which takes two seconds."""
    monkeypatch.setattr(leases, "GRACE_SECONDS", 0.0)


@pytest.fixture
def nats(nats_server: NatsServer) -> str:
    return nats_server.url


@pytest.fixture
def session() -> str:
    """Returns a session that no other test uses."""
    return f"s-{secrets.token_hex(4)}"


@pytest.fixture
async def bridge_of(nats: str) -> AsyncIterator[Callable[..., Bridge]]:
    """Creates bridges, and closes them at the end."""
    made: list[Bridge] = []

    def make(servers: str = nats, **options: object) -> Bridge:
        made.append(Bridge(servers, **options))  # pyright: ignore[reportArgumentType]
        return made[-1]

    yield make
    for bridge in made:
        await bridge.aclose()


@pytest.fixture
async def wire(nats: str) -> AsyncIterator[Connection]:
    """A plain connection, for workers that violate the protocol."""
    connection = await connect(nats, "test", {})
    yield connection
    await connection.close()
