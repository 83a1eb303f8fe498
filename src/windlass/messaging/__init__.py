"""NATS: connections to a server, and an embedded server."""
