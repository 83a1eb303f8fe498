"""The HTTP face: tools that run on the server, behind the wire that every client speaks."""

from windlass.gateway.app import App, create_app
from windlass.gateway.config import GatewayConfig, load_config

__all__ = ["App", "GatewayConfig", "create_app", "load_config"]
