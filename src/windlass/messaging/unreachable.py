"""The error for an unreachable NATS server. In its own module, because it needs no NATS client."""

from windlass.errors import ConfigError, StorageError


class NatsUnreachable(ConfigError, StorageError):
    """No NATS server answers at the address now. A later attempt may succeed."""
