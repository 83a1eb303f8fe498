"""One connection to NATS: the few things that are done with it, and its errors in words."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import (
    AuthorizationError,
    InvalidUserCredentialsError,
    SecureConnFailedError,
    SecureConnRequiredError,
    SecureConnWantedError,
    StaleConnectionError,
)
from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from windlass.errors import ConfigError, raisable
from windlass.messaging.unreachable import NatsUnreachable

__all__ = [
    "Connection",
    "Connector",
    "JetStreamContext",
    "Msg",
    "NatsError",
    "NatsUnreachable",
    "connect",
    "connect_patiently",
    "is_nobody",
]

log = logging.getLogger("windlass.messaging")

CONNECT_SECONDS = 5.0
PING_SECONDS = 24 * 3600
OPTIONS: dict[str, Any] = {
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": 0.25,
    # A server that is gone without a word is known after so many seconds, twice.
    "ping_interval": 5,
    "max_outstanding_pings": 2,
}
RETRY_SECONDS = 0.25
"""Before the second attempt to reach a server; then twice as long each time."""
MAX_RETRY_SECONDS = 2.0
REFUSALS = (
    AuthorizationError,
    InvalidUserCredentialsError,
    SecureConnFailedError,
    SecureConnRequiredError,
    SecureConnWantedError,
    FileNotFoundError,
    PermissionError,
)
"""What does not change by itself: a refused user, no credentials file, wrong TLS settings."""
REFUSAL_WORDS = ("authorization", "authentication", "invalid connect url", "ssl", "tls")
OnMessage = Callable[[Msg], Awaitable[None]]


class Connection:
    """Comes back by itself when the server does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_return: Callable[[], Awaitable[None]] | None = None
        """Called when the connection is there again. What was said meanwhile may be lost."""
        self.is_idle: Callable[[], bool] = lambda: False
        """Whether nobody needs it now. It is closed then when it is lost, and not tried again."""
        self._quiet = self._connecting = True
        self._attempts: int | None = None
        """How many failed attempts end `open`; None for any number."""
        self._away = False
        self._ping: asyncio.Task[None] | None = None

    async def open(
        self, addresses: list[str], options: dict[str, Any], attempts: int | None = None
    ) -> None:
        """Connects. Raises what cannot heal, and the last of so many failed attempts.

        What it raises is not logged as well.
        """
        self._attempts = attempts
        chosen: dict[str, Any] = {
            **OPTIONS,
            "error_cb": self._note,
            "disconnected_cb": self._lost,
            "reconnected_cb": self._returned,
            **options,
        }
        await self._client.connect(addresses, **chosen)
        self._quiet = self._connecting = False

    @property
    def max_payload(self) -> int:
        """How large a message may be, as the server says."""
        return self._client.max_payload

    @property
    def version(self) -> tuple[int, int]:
        """Of the server."""
        version = self._client.connected_server_version
        return version.major, version.minor

    @property
    def closed(self) -> bool:
        return self._client.is_closed

    @property
    def connected(self) -> bool:
        """Whether there is a server at the other end now."""
        return self._client.is_connected

    @property
    def reconnects(self) -> int:
        """How often it was lost and has come back."""
        return self._client.stats["reconnects"]

    async def publish(self, subject: str, data: bytes = b"", reply: str = "") -> None:
        await self._client.publish(subject, data, reply)

    async def request(self, subject: str, data: bytes, seconds: float) -> bytes:
        return (await self._client.request(subject, data, timeout=seconds)).data

    async def answers(self, subject: str, data: bytes, seconds: float) -> list[Msg]:
        """Every answer, up to the one in which the server says that there are no more."""
        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]
        found: list[Msg] = []
        try:
            await self._client.publish(subject, data, inbox)
            while not found or not (found[-1].headers or {}).get("Status"):
                found.append(await subscription.next_msg(seconds))
        finally:
            with contextlib.suppress(NatsError):
                await subscription.unsubscribe()
        return found

    async def subscribe(
        self, subject: str, on_message: OnMessage, queue: str = ""
    ) -> Callable[[], None]:
        """Calls `on_message` with all that is said there. Returns the call that ends it."""
        subscription = await self._client.subscribe(subject, queue, cb=on_message)  # pyright: ignore[reportUnknownMemberType]
        loop = asyncio.get_running_loop()

        async def end() -> None:
            with contextlib.suppress(NatsError):
                await subscription.unsubscribe()

        def stop() -> None:
            """From any thread, as of a garbage collection."""
            if not loop.is_closed() and not self.closed:
                loop.call_soon_threadsafe(lambda: self._keep(loop.create_task(end())))

        return stop

    def jetstream(self, seconds: float = 5.0) -> JetStreamContext:
        """What is kept, and found again; `seconds` is how long it may take to answer."""
        return self._client.jetstream(timeout=seconds)  # pyright: ignore[reportUnknownMemberType]

    async def flush(self) -> None:
        """Waits until the server has all that was said."""
        # The client's ping overtakes what still waits to be sent; the second goes behind it.
        await self._client.flush()
        await self._client.flush()

    async def server_answers(self, seconds: float) -> bool:
        """Whether the server answers a ping within that time.

        By then, everything that the server sent before has been handed to its subscription.
        """
        if not self.connected:
            return False
        if self._ping is None or self._ping.done():
            self._ping = asyncio.create_task(self._exchange_ping())
        ping = self._ping
        await asyncio.wait([ping], timeout=seconds)
        return ping.done() and not ping.cancelled() and self.connected

    async def _exchange_ping(self) -> None:
        # Never given up: the client stops reading when a pong comes for a ping that was.
        await _quietly(self._client.flush(PING_SECONDS))

    async def close(self) -> None:
        self._forget_ping()
        await self._client.close()

    def _forget_ping(self) -> None:
        """Its pong cannot come any more: the connection that it was sent over is lost."""
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None

    # The client waits for what it tells us here: whatever takes longer is a task of its own.

    async def _lost(self) -> None:
        if not self.closed and self.is_idle():
            self._quiet = True
            self._keep(asyncio.create_task(self.close()))

    async def _returned(self) -> None:
        self._forget_ping()
        if self._away:
            self._away = False
            log.info("NATS is there again")
        if self.on_return is not None:
            self._keep(asyncio.create_task(_quietly(self.on_return())))

    async def _note(self, error: Exception) -> None:
        """One that is away is tried again and again: that is said once."""
        if self._connecting:
            self._failed_to_connect(error)
        lost = isinstance(error, OSError | StaleConnectionError)
        if self._quiet or self._away or (lost and self.is_idle()):
            return
        self._away = not self.connected
        _warn(error)

    def _failed_to_connect(self, error: Exception) -> None:
        """Ends `open` by raising, if another attempt is of no use."""
        if self._attempts is not None:
            self._attempts -= 1
        if _is_refusal(error) or self._attempts == 0:
            raise error

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Connector:
    """Connects to NATS for many callers.

    While a server is known to be unreachable, callers are refused at once instead of each waiting
    for it. That it is away, and that it is back, is logged once.
    """

    def __init__(self, servers: str | Sequence[str], name: str, options: dict[str, Any]) -> None:
        self._servers, self._name, self._options = servers, name, options
        self._failure: NatsUnreachable | None = None
        self._trying = False
        self._again = 0.0
        self._pause = RETRY_SECONDS

    def check(self) -> None:
        """Raises `NatsUnreachable` if the last attempt failed and the next is not due."""
        early = self._trying or asyncio.get_running_loop().time() < self._again
        if self._failure is not None and early:
            raise raisable(self._failure)

    async def connect(self) -> Connection:
        """One attempt. Raises `NatsUnreachable`, and `ConfigError` for what cannot heal."""
        self.check()
        self._trying = True
        try:
            connection = await connect(self._servers, self._name, self._options, once=True)
        except NatsUnreachable as error:
            if self._failure is None:
                log.warning("%s; trying again until one does", error)
            self._failure = error.with_traceback(None)
            self._again = asyncio.get_running_loop().time() + self._pause
            self._pause = min(2 * self._pause, MAX_RETRY_SECONDS)
            raise raisable(error) from None
        finally:
            self._trying = False
        if self._failure is not None:
            log.info("NATS answers at %s", _shown(_addresses(self._servers)))
        self._failure, self._pause = None, RETRY_SECONDS
        return connection


async def connect(
    servers: str | Sequence[str], name: str, options: dict[str, Any], *, once: bool = False
) -> Connection:
    """Tries for some seconds, or each server `once`.

    Raises `NatsUnreachable` if no server answers, and `ConfigError` for what cannot heal: a refused
    user, a bad address, TLS. Neither names a password.
    """
    addresses = _addresses(servers)
    connection = Connection(Client())
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            attempts = len(addresses) if once else None
            await connection.open(addresses, {"name": name, **options}, attempts)
    except TimeoutError:
        raise NatsUnreachable(
            f"no NATS server answers at {_shown(addresses)} within {CONNECT_SECONDS:g} seconds"
        ) from None
    except (OSError, NatsError, ValueError) as error:
        if _is_refusal(error):
            text = f"cannot connect to NATS at {_shown(addresses)}: {error or type(error).__name__}"
            raise ConfigError(text) from error
        raise NatsUnreachable(f"no NATS server answers at {_shown(addresses)}: {error}") from error
    return connection


async def connect_patiently(
    servers: str | Sequence[str], name: str, options: dict[str, Any]
) -> Connection:
    """Tries until a server answers. Raises `ConfigError` for what cannot heal."""
    connector = Connector(servers, name, options)
    pause = RETRY_SECONDS
    while True:
        try:
            return await connector.connect()
        except NatsUnreachable:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)


def _is_refusal(error: BaseException) -> bool:
    """Whether trying again is of no use."""
    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    if isinstance(error, REFUSALS):
        return True
    if isinstance(error, NatsError):
        text = str(error).lower()
        return "timeout" not in text and any(word in text for word in REFUSAL_WORDS)
    return isinstance(error, ValueError) and not isinstance(error, OSError)


def _addresses(servers: str | Sequence[str]) -> list[str]:
    return [servers] if isinstance(servers, str) else list(servers)


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except NatsError as error:  # the connection is lost again
        _warn(error)


def _warn(error: Exception) -> None:
    """What goes wrong on a connection that tries again by itself. It names no address."""
    log.warning("NATS: %s", error or type(error).__name__)


def is_nobody(message: Msg) -> bool:
    """Whether this is the server's own word that nobody listens to the subject."""
    return message.headers is not None and message.headers.get("Status") == "503"


def _shown(addresses: Iterable[str]) -> str:
    return ", ".join(address.rpartition("@")[2] for address in addresses)
