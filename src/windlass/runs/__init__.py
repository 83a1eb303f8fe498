"""Run logs (in memory, SQLite and NATS JetStream), and the run service above them."""
