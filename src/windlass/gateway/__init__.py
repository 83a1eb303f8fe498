"""The HTTP face of the run service: tools on the server, behind the wires that clients speak."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.gateway.app import App, create_app
    from windlass.gateway.config import GatewayConfig, load_config

__all__ = ["App", "GatewayConfig", "create_app", "load_config"]

_HOMES = {
    "App": "windlass.gateway.app",
    "create_app": "windlass.gateway.app",
    "GatewayConfig": "windlass.gateway.config",
    "load_config": "windlass.gateway.config",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a configuration can be checked where no server is installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
