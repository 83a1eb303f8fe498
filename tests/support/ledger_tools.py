"""Tools that record their starts and ends, each in its own file (ledger).

The killed gateway loads this module. A ledger shows what really happened.
"""

import asyncio
import os
import time
from pathlib import Path

from windlass import ToolContext, tool

LEDGERS = Path(os.environ["WINDLASS_CRASH_LEDGERS"])


def note(what: str, context: ToolContext) -> None:
    """Writes a line in one write, which a kill cannot interrupt."""
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
    """Has no effect, so it may start before the turn is complete."""
    return await take(seconds, context)


@tool(idempotent=True)
def read(seconds: float, context: ToolContext) -> str:
    """The same in a thread."""
    return take_in_a_thread(seconds, context)


@tool
async def pay(seconds: float, context: ToolContext) -> str:
    """Must not run twice: the model reads that the effect is unknown."""
    return await take(seconds, context)


@tool(serial=True)
def sign(seconds: float, context: ToolContext) -> str:
    """The same, while no other call runs."""
    return take_in_a_thread(seconds, context)


@tool(on_interrupt="retry")
def book(seconds: float, context: ToolContext) -> str:
    """May be retried with the same key."""
    return take_in_a_thread(seconds, context)


@tool(on_interrupt="fail")
async def launch(seconds: float, context: ToolContext) -> str:
    """If it was interrupted, the run must end."""
    return await take(seconds, context)


@tool(approve=True)
async def erase(seconds: float, context: ToolContext) -> str:
    """Needs an approval."""
    return await take(seconds, context)
