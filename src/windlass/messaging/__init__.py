"""NATS: a connection to it, and a server of our own where there is none."""
