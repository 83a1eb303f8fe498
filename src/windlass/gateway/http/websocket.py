"""uvicorn's WebSocket protocol with the gateway's limits."""

from collections.abc import Callable

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from windlass.gateway.http.context import BUSY


class CountedSocket(WebSocketsSansIOProtocol):
    """A WebSocket that counts as a connection of its address, and finishes its current response.

    uvicorn closes every WebSocket at the start of a shutdown. This class leaves one with a response
    in flight to the application, which closes it after the response.
    """

    on_lost: Callable[[], None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()

    def shutdown(self) -> None:
        if not (self.handshake_complete and self.scope.get(BUSY)):
            super().shutdown()
