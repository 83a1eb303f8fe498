"""Where tools come from: the registry, MCP servers and remote workers."""
