"""Tools that run in workers, and tool calls that clients make without a model."""
