"""A small MCP server, written with the SDK alone, for the tests of our client.

`python sample_server.py DIRECTORY` on stdio, `python sample_server.py --http PORT DIRECTORY` on a
port. It records its events in files of
the directory.
"""

import asyncio
import os
import socket
import sys
import warnings
from pathlib import Path
from typing import Annotated

import mcp_types as types
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)

server = MCPServer("tests/Sample Server", version="1.0")


def directory() -> Path:
    return Path(sys.argv[-1])


def tell(what: str, text: str = "yes") -> None:
    (directory() / what).write_text(text)


@server.tool(description=os.environ.get("ADD_SAYS", "Adds two numbers."), structured_output=False)
def add(a: int, b: int) -> str:
    return str(a + b)


@server.tool(name="files.read/all", structured_output=False)
def strange_name(context: str = "here", self: str = "me") -> str:
    """A name that no provider takes, and arguments that Python has a use for."""
    return f"{context} {self}"


class Place(BaseModel):
    city: str
    degrees: float


@server.tool()
def weather(city: str) -> Place:
    """Structured output."""
    return Place(city=city, degrees=20.5)


@server.tool(structured_output=False)
def picture() -> list[types.TextContent | types.ImageContent]:
    """A text and an image."""
    return [
        types.TextContent(text="One pixel:"),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
    ]


@server.tool(structured_output=False)
def fails() -> types.CallToolResult:
    """Says that it failed."""
    return types.CallToolResult(
        content=[types.TextContent(text="no such city: Atlantis")], is_error=True
    )


@server.tool(structured_output=False)
async def counts(context: Context) -> str:
    """Reports its progress."""
    await context.report_progress(1, 2, "half")
    await context.report_progress(2, 2)
    return "counted"


@server.tool(structured_output=False)
async def logs(context: Context) -> str:
    """Writes log messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in the newer protocol
        await context.debug("too fine")
        await context.warning("watch out", logger_name="pump")
        await context.error({"code": 7})
    return "logged"


@server.tool(structured_output=False)
async def waits(context: Context, reports: int = 0) -> str:
    """Never answers, and records its cancellation."""
    tell("waiting")
    try:
        for count in range(reports):
            await context.report_progress(count)
        await asyncio.Event().wait()
    finally:
        tell("cancelled")
    return "never"


class Booking(BaseModel):
    seats: int = 2
    name: str


async def wants_booking() -> Elicit[Booking]:
    return Elicit("How many seats?", Booking)


@server.tool(structured_output=False)
async def books(booking: Annotated[Booking, Resolve(wants_booking)]) -> str:
    """Asks for the details."""
    return f"{booking.seats} seats for {booking.name}"


@server.tool(structured_output=False)
async def grows(context: Context) -> str:
    """Adds a tool."""

    def grown() -> str:
        """New here."""
        return "grown"

    server.add_tool(grown, structured_output=False)
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "done"


def serve_http() -> None:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    port = listener.getsockname()[1]
    tell("port", str(port))
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    with (directory() / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if "--http" in sys.argv:
        serve_http()
    else:
        server.run("stdio")
