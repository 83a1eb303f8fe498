"""Windlass tools as an MCP server."""
