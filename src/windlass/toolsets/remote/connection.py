"""One connection to NATS: the few things that are done with it, and its errors in words."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from windlass.errors import ConfigError

__all__ = ["Connection", "Msg", "NatsError", "connect", "is_nobody"]

OnMessage = Callable[[Msg], Awaitable[None]]


class Connection:
    """Comes back by itself when the server does."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def max_payload(self) -> int:
        """How large a message may be, as the server says."""
        return self._client.max_payload

    @property
    def closed(self) -> bool:
        return self._client.is_closed

    async def publish(self, subject: str, data: bytes = b"", reply: str = "") -> None:
        await self._client.publish(subject, data, reply)

    async def request(self, subject: str, data: bytes, seconds: float) -> bytes:
        return (await self._client.request(subject, data, timeout=seconds)).data

    async def subscribe(self, subject: str, on_message: OnMessage, queue: str = "") -> None:
        await self._client.subscribe(subject, queue, cb=on_message)  # pyright: ignore[reportUnknownMemberType]

    async def flush(self) -> None:
        """Waits until the server has all that was said."""
        await self._client.flush()

    async def close(self) -> None:
        await self._client.close()


async def connect(servers: str | Sequence[str], name: str, options: dict[str, Any]) -> Connection:
    """Raises `ConfigError`, without any password in it, if nobody answers there."""
    addresses = [servers] if isinstance(servers, str) else list(servers)
    try:
        client: Client = await nats.connect(  # pyright: ignore[reportUnknownMemberType]
            addresses, name=name, max_reconnect_attempts=-1, **options
        )
    except (OSError, NatsError, TimeoutError) as error:
        raise ConfigError(f"no NATS server answers at {_shown(addresses)}: {error}") from error
    return Connection(client)


def is_nobody(message: Msg) -> bool:
    """Whether this is the server's own word that nobody listens to the subject."""
    return message.headers is not None and message.headers.get("Status") == "503"


def _shown(addresses: Iterable[str]) -> str:
    return ", ".join(address.rpartition("@")[2] for address in addresses)
