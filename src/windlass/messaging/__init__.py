"""NATS: connections, an embedded server, and the error that needs no NATS client."""

from windlass.errors import ConfigError, StorageError


class NatsUnreachable(ConfigError, StorageError):
    """No NATS server answers at the address now. A later attempt may succeed."""
