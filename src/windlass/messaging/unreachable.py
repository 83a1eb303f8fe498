"""The error for a NATS server that cannot be reached now. Needs no NATS client."""

from windlass.errors import ConfigError, StorageError

__all__ = ["NatsUnreachable"]


class NatsUnreachable(ConfigError, StorageError):
    """No NATS server answers at the address. One may later: try again."""
