"""Names that every provider takes, out of names that MCP allows, and back. Pure."""

import hashlib
import re

LONGEST = 64
SEPARATOR = "__"

_OTHERS = re.compile(r"[^A-Za-z0-9_-]|_(?=x[0-9a-f]+_)")
_ESCAPED = re.compile(r"_x([0-9a-f]+)_")
_FIRST = re.compile(r"[A-Za-z_]")


def valid(name: str) -> str:
    """The name with each character that is not allowed as `_xHEX_`; `original` is the inverse."""
    return _OTHERS.sub(lambda found: f"_x{ord(found[0]):x}_", name)


def original(name: str) -> str:
    """The name that `valid` was given."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)


def outer_name(prefix: str, name: str) -> str:
    """What the model calls the tool: with the prefix, valid, and at most 64 characters long.

    A name that is too long ends in a part of its hash: the tool itself knows what it is short for.
    """
    outer = f"{prefix}{SEPARATOR}{valid(name)}" if prefix else valid(name)
    if not _FIRST.match(outer):
        outer = f"_{outer}"
    if len(outer) <= LONGEST:
        return outer
    digest = hashlib.sha256(outer.encode()).hexdigest()[:10]
    return f"{outer[: LONGEST - len(digest) - 1]}-{digest}"


def readable_prefix(name: str) -> str:
    """What a server calls itself as the beginning of a name: `mcp-servers/files` is `files`."""
    last = name.strip().rstrip("/").rpartition("/")[2]
    words = re.sub(r"[^A-Za-z0-9]+", "_", last).strip("_").lower()[:24]
    return words if words and _FIRST.match(words) else f"mcp_{words}".rstrip("_")
