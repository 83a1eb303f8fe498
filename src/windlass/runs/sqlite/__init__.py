"""Runs in one SQLite file, for any number of processes on one machine."""

from windlass.runs.sqlite.log import SQLiteLog

__all__ = ["SQLiteLog"]
