"""A gateway on a real port, in its own thread, for the official clients."""

import asyncio
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Self

from windlass.gateway import GatewayConfig, create_app
from windlass.gateway.config import ModelConfig
from windlass.gateway.serve import GatewayServer, address_of
from windlass.model import Model


class Serving:
    """Serves until the block ends: `with Serving(config) as gateway:`."""

    def __init__(
        self,
        config: GatewayConfig | None = None,
        *,
        models: Mapping[str, Model] | None = None,
        tools: Iterable[Any] | None = (),
    ) -> None:
        self.app = create_app(config or GatewayConfig(), models=models, tools=tools)
        self.gateway = self.app.gateway
        self.server = GatewayServer(self.app)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.root_url = address_of(self._listener)
        self.base_url = f"{self.root_url}/v1"
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60), "the gateway did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(60)
        self._listener.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def stop(self) -> None:
        """Stops the gateway, as a signal does."""
        self.server.should_exit = True

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        startup = self.server.startup

        async def started(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets=sockets)
            self._started.set()

        self.server.startup = started
        # Signals belong to the main thread: only the serving itself runs here.
        await self.server._serve([self._listener])


def config_of(*models: ModelConfig, **fields: Any) -> GatewayConfig:
    return GatewayConfig(models={model.name: model for model in models}, **fields)
