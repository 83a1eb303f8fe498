"""The route of `/mcp`. The MCP SDK is imported with the first request."""

from typing import TYPE_CHECKING

from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Receive, Scope, Send
from windlass.gateway.http.errors import Refused
from windlass.wires.errors import Problem

if TYPE_CHECKING:
    from windlass.gateway.routes.mcp import McpEndpoint
    from windlass.toolsets.mcp.serving.server import ToolServer

PATH = "/mcp"
METHODS = ["GET", "POST", "DELETE"]


class McpRoute:
    """An ASGI application that serves `/mcp`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._endpoint: McpEndpoint | None = None
        self.server: ToolServer | None = None
        """The server, if it is not the gateway's own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._endpoint is None:
            try:
                from windlass.gateway.routes.mcp import endpoint
            except ModuleNotFoundError as error:
                message = f"This gateway cannot serve MCP: {error.name} is not installed."
                raise Refused(Problem(501, message, "mcp_not_available")) from None
            self._endpoint = endpoint(self._gateway, self.server)
        await self._endpoint.handle(scope, receive, send)

    async def aclose(self) -> None:
        """Ends all sessions."""
        if self._endpoint is not None:
            await self._endpoint.aclose()
