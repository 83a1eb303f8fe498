"""Reads stored runs: the file with sqlite3, the events with a client."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windlass import AsyncClient, RunEvent


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens the file with sqlite3."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def rows(path: Path, query: str) -> list[Any]:
    with opened(path) as connection:
        return connection.execute(query).fetchall()


async def events_of(client: AsyncClient, run_id: str, after: int = 0) -> list[RunEvent]:
    """All events of a run after that number."""
    return [event async for event in client.subscribe(run_id, after)]
