"""Files that are not run logs, and full disks."""

import sqlite3
from pathlib import Path

from windlass.runs.sqlite import SQLiteLog, database


async def fill(log: SQLiteLog, room: int = 2) -> None:
    """Limits the disk to this number of further pages."""

    def limit(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + room}")

    await log._write(limit)


def not_a_database(path: Path) -> None:
    path.write_text("Dear diary, " * 100)


def somebody_elses(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE diary (day)")
    connection.commit()
    connection.close()


def of_a_later_version(path: Path) -> None:
    database.connect(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
