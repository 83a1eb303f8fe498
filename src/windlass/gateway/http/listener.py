"""The socket that a gateway listens on."""

import socket

from windlass.errors import ConfigError

BACKLOG = 2048


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigError` if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # `create_server` adds the address to its message.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(f"cannot listen on {host}:{port}: {reason}") from None


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
