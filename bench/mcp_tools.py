"""The tool that bench/mcp_calls.py calls. `windlass mcp` serves it, or the SDK, with this command:

python bench/mcp_tools.py stdio|PORT
"""

import sys

from windlass import tool


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


if __name__ == "__main__":
    from mcp.server import MCPServer

    server = MCPServer("bare", log_level="ERROR")
    server.add_tool(echo.__wrapped__, name="echo", structured_output=False)
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
