"""Our tools as an MCP server. `server` makes it, `listing` and `answers` are its pure parts."""
