"""A run log in one SQLite file, shared by the processes of one machine."""

from windlass.runs.sqlite.log import SQLiteLog

__all__ = ["SQLiteLog"]
