"""Tools that write down, each in a ledger of its own, when they begin and when they end.

The gateway that is killed loads this file. What stands in a ledger has happened, whatever the
gateway knows of it.
"""

import asyncio
import os
import time
from pathlib import Path

from windlass import ToolContext, tool

LEDGERS = Path(os.environ["WINDLASS_CRASH_LEDGERS"])


def note(what: str, context: ToolContext) -> None:
    """One line by one write, which a kill cannot cut."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    ledger = os.open(LEDGERS / f"{context.name}.txt", flags, 0o600)
    try:
        os.write(ledger, f"{what} {context.call_key} {time.time():.6f}\n".encode())
    finally:
        os.close(ledger)


async def take(seconds: float, context: ToolContext) -> str:
    note("began", context)
    await asyncio.sleep(seconds)
    note("ended", context)
    return f"done {context.call_key}"


def take_in_a_thread(seconds: float, context: ToolContext) -> str:
    note("began", context)
    time.sleep(seconds)
    note("ended", context)
    return f"done {context.call_key}"


@tool(idempotent=True)
async def look(seconds: float, context: ToolContext) -> str:
    """Changes nothing, so it may begin while the turn still arrives."""
    return await take(seconds, context)


@tool(idempotent=True)
def read(seconds: float, context: ToolContext) -> str:
    """The same in a thread."""
    return take_in_a_thread(seconds, context)


@tool
async def pay(seconds: float, context: ToolContext) -> str:
    """Must not happen twice: the model is told if nobody knows whether it has happened."""
    return await take(seconds, context)


@tool(serial=True)
def sign(seconds: float, context: ToolContext) -> str:
    """The same, with nothing beside it."""
    return take_in_a_thread(seconds, context)


@tool(on_interrupt="retry")
def book(seconds: float, context: ToolContext) -> str:
    """Has a key against doing it twice."""
    return take_in_a_thread(seconds, context)


@tool(on_interrupt="fail")
async def launch(seconds: float, context: ToolContext) -> str:
    """If nobody knows whether it has happened, the run must not go on."""
    return await take(seconds, context)


@tool(approve=True)
async def erase(seconds: float, context: ToolContext) -> str:
    """Waits for somebody's yes."""
    return await take(seconds, context)
