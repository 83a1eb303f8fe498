"""A run log in NATS JetStream, shared by a fleet of gateways."""

from windlass.runs.jetstream.log import JetStreamLog

__all__ = ["JetStreamLog"]
