"""Run logs: the numbered events of each run, in memory, in SQLite or in NATS JetStream."""
