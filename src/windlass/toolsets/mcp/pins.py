"""What was first seen of each tool, kept in a small file: a description that changes is noticed.

What a server says of its tools goes into the model's instructions. A server that is harmless when
it is chosen can say something else a month later; what it says then needs somebody's yes.
"""

import hashlib
import logging
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from windlass.content import Schema
from windlass.errors import ConfigError

log = logging.getLogger("windlass.mcp")

FILE = "mcp-pins.json"


class Pin(Struct, frozen=True):
    """What a model is told of a tool, and its hash."""

    sha256: str
    description: str
    parameters: Schema


def pin_of(description: str, parameters: Schema) -> Pin:
    said = msgspec.json.encode([description, parameters], order="deterministic")
    return Pin(hashlib.sha256(said).hexdigest(), description, parameters)


class Pins:
    """The pins of one server: read from the file when they are asked for, written one by one."""

    def __init__(self, directory: Path, identity: str) -> None:
        """The server's identity may hold secrets: the file has its hash."""
        self._path = directory / FILE
        self._key = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._unwritten: dict[str, Pin] = {}

    def known(self) -> dict[str, Pin]:
        """The pins by the server's own names for its tools. Raises `ConfigError`."""
        return {**self._read().get(self._key, {}), **self._unwritten}

    def keep(self, pins: dict[str, Pin]) -> None:
        """Adds pins to the file, or puts them in the place of others. Raises `ConfigError`."""
        if not pins:
            return
        servers = self._read()
        servers[self._key] = {**servers.get(self._key, {}), **self._unwritten, **pins}
        try:
            self._write(servers)
            self._unwritten = {}
        except OSError as error:
            self._unwritten.update(pins)
            log.warning(
                "What MCP tools say cannot be kept in %s (%s): changes will not be noticed by the"
                " next process",
                self._path,
                error.strerror,
            )

    def _read(self) -> dict[str, dict[str, Pin]]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be read: {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=dict[str, dict[str, Pin]])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ConfigError(
                f"{self._path} is damaged: it has the tools of MCP servers as they were first"
                " seen; remove it to see all of them as new"
            ) from None

    def _write(self, servers: dict[str, Any]) -> None:
        """Whole or not at all: somebody else may be reading."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = msgspec.json.format(msgspec.json.encode(servers), indent=1)
        with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
            try:
                file.write(text)
                file.close()
                Path(file.name).replace(self._path)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise
