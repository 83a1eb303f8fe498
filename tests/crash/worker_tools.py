"""The tools of workers. The others are the gateway's own."""

from tests.support.ledger_tools import book, erase, look, pay, read

__all__ = ["book", "erase", "look", "pay", "read"]
