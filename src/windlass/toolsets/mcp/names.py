"""Converts MCP tool names to names that every provider accepts, and back. Pure."""

import hashlib
import re

MAX_NAME_LENGTH = 64
SEPARATOR = "__"

_INVALID = re.compile(r"[^A-Za-z0-9_-]|_(?=x[0-9a-f]+_)")
_ESCAPED = re.compile(r"_x([0-9a-f]+)_")
_VALID_START = re.compile(r"[A-Za-z_]")


def valid(name: str) -> str:
    """The name with each invalid character written as `_xHEX_`. `original` is the inverse."""
    return _INVALID.sub(lambda found: f"_x{ord(found[0]):x}_", name)


def original(name: str) -> str:
    """The name that `valid` was given."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)


def outer_name(prefix: str, name: str) -> str:
    """The name that the model uses: with the prefix, valid, and at most 64 characters long.

    A longer name is shortened and ends in a part of its hash.
    """
    outer = f"{prefix}{SEPARATOR}{valid(name)}" if prefix else valid(name)
    if not _VALID_START.match(outer):
        outer = f"_{outer}"
    if len(outer) <= MAX_NAME_LENGTH:
        return outer
    digest = hashlib.sha256(outer.encode()).hexdigest()[:10]
    return f"{outer[: MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"


def readable_prefix(name: str) -> str:
    """A prefix made from a server's own name: `files` for `mcp-servers/files`."""
    last = name.strip().rstrip("/").rpartition("/")[2]
    words = re.sub(r"[^A-Za-z0-9]+", "_", last).strip("_").lower()[:24]
    return words if words and _VALID_START.match(words) else f"mcp_{words}".rstrip("_")
