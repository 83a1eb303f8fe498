"""Runs in NATS JetStream, for a fleet of gateways: any of them can read, follow and go on."""

from windlass.runs.jetstream.log import JetStreamLog

__all__ = ["JetStreamLog"]
