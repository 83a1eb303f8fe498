"""A NATS server that is killed and restarted with its data."""

import os
import signal
from pathlib import Path

from tests.support.ports import free_port

from windlass.messaging.embedded import MAX_PAYLOAD, NatsServer


class MortalNats:
    """Use it as `async with`."""

    def __init__(self, store: Path, max_payload: int = MAX_PAYLOAD) -> None:
        self._store, self._port = store, free_port()
        self._max_payload = max_payload
        self._server = self._new()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    async def __aenter__(self) -> "MortalNats":
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.aclose()

    async def kill(self) -> None:
        """`kill -9`."""
        os.kill(self._server.process_id, signal.SIGKILL)
        await self._server.aclose()

    def pause(self) -> None:
        os.kill(self._server.process_id, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._server.process_id, signal.SIGCONT)

    async def come_back(self) -> None:
        self._server = await self._new().__aenter__()

    def _new(self) -> NatsServer:
        return NatsServer(port=self._port, store=self._store, max_payload=self._max_payload)
