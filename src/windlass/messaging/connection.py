"""Connections to NATS: a thin wrapper around the client, with retries and clear errors."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
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
from windlass.messaging import NatsUnreachable

log = logging.getLogger("windlass.messaging")

CONNECT_SECONDS = 5.0
PING_SECONDS = 24 * 3600
OPTIONS: dict[str, Any] = {
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": 0.25,
    # Detects a server that does not close its connection after two intervals.
    "ping_interval": 5,
    "max_outstanding_pings": 2,
}
RETRY_SECONDS = 0.25
"""The pause before the second attempt to connect; it doubles each time."""
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
"""Permanent errors: a refused user, a missing credentials file, wrong TLS settings."""
REFUSAL_WORDS = ("authorization", "authentication", "invalid connect url", "ssl", "tls")
OnMessage = Callable[[Msg], Awaitable[None]]


class Connection:
    """A connection that reconnects automatically."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_return: Callable[[], Awaitable[None]] | None = None
        """Called after a reconnection. Messages sent meanwhile may be lost."""
        self.is_idle: Callable[[], bool] = lambda: False
        """Whether the connection is unused. If so, it is closed when lost, without reconnecting."""
        self._quiet = self._connecting = True
        self._attempts: int | None = None
        """The number of failed attempts after which `open` raises; None means no limit."""
        self._away = False
        self._ping: asyncio.Task[None] | None = None

    async def open(
        self, addresses: list[str], options: dict[str, Any], attempts: int | None = None
    ) -> None:
        """Connects. Raises permanent errors, and the error of the last of `attempts`.

        Does not log the errors that it raises.
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
        """The maximum size of a message, as reported by the server."""
        return self._client.max_payload

    @property
    def version(self) -> tuple[int, int]:
        """The version of the server."""
        version = self._client.connected_server_version
        return version.major, version.minor

    @property
    def closed(self) -> bool:
        return self._client.is_closed

    @property
    def connected(self) -> bool:
        """Whether the connection is up now."""
        return self._client.is_connected

    @property
    def reconnects(self) -> int:
        """How often it has reconnected."""
        return self._client.stats["reconnects"]

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        await self._client.publish(subject, data, reply, headers)

    async def request(self, subject: str, data: bytes, seconds: float) -> bytes:
        return (await self._client.request(subject, data, timeout=seconds)).data

    async def answers(self, subject: str, data: bytes, seconds: float) -> list[Msg]:
        """All answers, up to and including the one with a status, which ends them."""
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
        """Calls `on_message` with each message. Returns the function that unsubscribes."""
        subscription = await self._client.subscribe(subject, queue, cb=on_message)  # pyright: ignore[reportUnknownMemberType]
        loop = asyncio.get_running_loop()

        async def end() -> None:
            with contextlib.suppress(NatsError):
                await subscription.unsubscribe()

        def stop() -> None:
            """May run in any thread, for example during garbage collection."""
            if not loop.is_closed() and not self.closed:
                loop.call_soon_threadsafe(lambda: self._keep(loop.create_task(end())))

        return stop

    def jetstream(self, seconds: float = 5.0) -> JetStreamContext:
        """A JetStream context whose requests time out after `seconds`."""
        return self._client.jetstream(timeout=seconds)  # pyright: ignore[reportUnknownMemberType]

    async def flush(self) -> None:
        """Waits until the server has received all published messages."""
        # The first ping may overtake messages in the send buffer; the second does not.
        await self._client.flush()
        await self._client.flush()

    async def server_answers(self, seconds: float) -> bool:
        """Whether the server answers a ping within that time.

        By then, subscriptions have received everything that the server sent before.
        """
        if not self.connected:
            return False
        if self._ping is None or self._ping.done():
            self._ping = asyncio.create_task(self._exchange_ping())
        ping = self._ping
        await asyncio.wait([ping], timeout=seconds)
        return ping.done() and not ping.cancelled() and self.connected

    async def sent(self, seconds: float) -> bool:
        """Whether the server confirms within that time that it has all published messages."""
        # The first ping may overtake messages in the send buffer; the second does not.
        return await self.server_answers(seconds) and await self.server_answers(seconds)

    async def _exchange_ping(self) -> None:
        # No timeout: the client stops reading if a pong arrives for a cancelled ping.
        await _quietly(self._client.flush(PING_SECONDS))

    async def close(self) -> None:
        self._forget_ping()
        await self._client.close()

    def _forget_ping(self) -> None:
        """Cancels the ping: the connection is lost, so its pong cannot arrive."""
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None

    # The client waits for these callbacks, so longer work runs in its own task.

    async def _lost(self) -> None:
        if not self.closed and self.is_idle():
            self._quiet = True
            self._keep(asyncio.create_task(self.close()))

    async def _returned(self) -> None:
        self._forget_ping()
        if self._away:
            self._away = False
            log.info("NATS reconnected")
        if self.on_return is not None:
            self._keep(asyncio.create_task(_quietly(self.on_return())))

    async def _note(self, error: Exception) -> None:
        """Logs an error. While the server is unreachable, logs only the first."""
        if self._connecting:
            self._failed_to_connect(error)
        lost = isinstance(error, OSError | StaleConnectionError)
        if self._quiet or self._away or (lost and self.is_idle()):
            return
        self._away = not self.connected
        _warn(error)

    def _failed_to_connect(self, error: Exception) -> None:
        """Makes `open` raise if the error is permanent or no attempts are left."""
        if self._attempts is not None:
            self._attempts -= 1
        # The client reports the error that is raised here once more, and would then try again.
        if _is_refusal(error) or (self._attempts is not None and self._attempts <= 0):
            raise error

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Connector:
    """Connects to NATS for many callers.

    While the servers are known to be unreachable, callers fail at once instead of waiting. Logs
    the failure once and the recovery once.
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
        """One attempt. Raises `NatsUnreachable`, and `ConfigError` for permanent errors."""
        self.check()
        self._trying = True
        try:
            connection = await connect(self._servers, self._name, self._options, once=True)
        except NatsUnreachable as error:
            if self._failure is None:
                log.warning("%s; retrying until a server answers", error)
            self._failure = error.with_traceback(None)
            self._again = asyncio.get_running_loop().time() + self._pause
            self._pause = min(2 * self._pause, MAX_RETRY_SECONDS)
            raise raisable(error) from None
        finally:
            self._trying = False
        if self._failure is not None:
            log.info("Connected to NATS at %s", _without_passwords(_addresses(self._servers)))
        self._failure, self._pause = None, RETRY_SECONDS
        return connection


async def connect(
    servers: str | Sequence[str], name: str, options: dict[str, Any], *, once: bool = False
) -> Connection:
    """Tries for some seconds, or each server `once`.

    Raises `NatsUnreachable` if no server answers, and `ConfigError` for permanent errors: a refused
    user, a wrong address, TLS. The errors contain no password.
    """
    addresses = _addresses(servers)
    shown = _without_passwords(addresses)
    connection = Connection(Client())
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            attempts = len(addresses) if once else None
            await connection.open(addresses, {"name": name, **options}, attempts)
    except TimeoutError:
        raise NatsUnreachable(
            f"no NATS server answers at {shown} within {CONNECT_SECONDS:g} seconds"
        ) from None
    except (OSError, NatsError, ValueError) as error:
        if _is_refusal(error):
            text = f"cannot connect to NATS at {shown}: {error or type(error).__name__}"
            raise ConfigError(text) from error
        raise NatsUnreachable(f"no NATS server answers at {shown}: {error}") from error
    return connection


async def connect_patiently(
    servers: str | Sequence[str], name: str, options: dict[str, Any]
) -> Connection:
    """Tries until a server answers. Raises `ConfigError` for permanent errors."""
    connector = Connector(servers, name, options)
    pause = RETRY_SECONDS
    while True:
        try:
            return await connector.connect()
        except NatsUnreachable:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)


def _is_refusal(error: BaseException) -> bool:
    """Whether the error is permanent, so that trying again is useless."""
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
    """Logs an error of a connection that reconnects automatically, without the address."""
    log.warning("NATS: %s", error or type(error).__name__)


def is_no_responders(message: Msg) -> bool:
    """Whether this is the server's reply that the subject has no subscriber."""
    return message.headers is not None and message.headers.get("Status") == "503"


def _without_passwords(addresses: Iterable[str]) -> str:
    return ", ".join(address.rpartition("@")[2] for address in addresses)


TRACES_SINCE = (2, 11)
TRACE_SECONDS = 1.0
_CLIENT = 0
"""The kind of a client's connection; the other kinds are servers."""


class _TraceEvent(Struct):
    type: str
    kind: int = _CLIENT
    hop: str = ""
    """Set if another server continues the trace."""
    error: str = ""


class Trace(Struct):
    """The report of one server."""

    events: list[_TraceEvent]

    @property
    def subscribers(self) -> int:
        delivered = (event for event in self._egress if event.kind == _CLIENT)
        return sum(1 for event in delivered if not event.error)

    @property
    def hops(self) -> int:
        """How many other servers report too."""
        return sum(1 for event in self._egress if event.hop)

    @property
    def _egress(self) -> list[_TraceEvent]:
        return [event for event in self.events if event.type == "eg"]


_TRACE = msgspec.json.Decoder(Trace)


async def count_subscribers(connection: Connection, subject: str, trace: str) -> int | None:
    """The number of subscriptions of clients to the subject; None if it cannot be known.

    `trace` is an unused subject for the reports, which this user must be allowed to publish to.
    """
    if connection.version < TRACES_SINCE:
        return None
    reports: asyncio.Queue[Msg] = asyncio.Queue()
    stop = await connection.subscribe(trace, reports.put)
    headers = {"Nats-Trace-Dest": trace, "Nats-Trace-Only": "true"}
    try:
        async with asyncio.timeout(TRACE_SECONDS):
            await connection.publish(subject, headers=headers)
            return await _total(reports)
    except (TimeoutError, NatsError, msgspec.DecodeError):
        return None
    finally:
        stop()


async def _total(reports: "asyncio.Queue[Any]") -> int:
    total, servers = 0, 1
    while servers:
        report = _TRACE.decode((await reports.get()).data)
        total += report.subscribers
        servers += report.hops - 1
    return total
