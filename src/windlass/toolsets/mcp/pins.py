"""Pins: the first description of each tool, stored in a file, to detect later changes.

A server's descriptions become part of the model's instructions. A harmless server can change them
later, so a changed description needs an approval.
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
    """The description and the parameters of a tool, with their hash."""

    sha256: str
    description: str
    parameters: Schema


def pin_of(description: str, parameters: Schema) -> Pin:
    said = msgspec.json.encode([description, parameters], order="deterministic")
    return Pin(hashlib.sha256(said).hexdigest(), description, parameters)


class Pins:
    """The pins of one server, in a file that all servers share."""

    def __init__(self, directory: Path, identity: str) -> None:
        """The file contains only a hash of `identity`, which can contain secrets."""
        self._path = directory / FILE
        self._key = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._unsaved: dict[str, Pin] = {}

    def known(self) -> dict[str, Pin]:
        """The pins by the server's names for its tools. Raises `ConfigError`."""
        return {**self._read().get(self._key, {}), **self._unsaved}

    def version(self) -> object:
        """A value that changes when the file changes."""
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_ino)

    def keep(self, pins: dict[str, Pin]) -> None:
        """Adds pins to the file or replaces them. Raises `ConfigError`."""
        if not pins:
            return
        servers = self._read()
        servers[self._key] = {**servers.get(self._key, {}), **self._unsaved, **pins}
        try:
            self._write(servers)
            self._unsaved = {}
        except OSError as error:
            self._unsaved.update(pins)
            log.warning(
                "cannot store the descriptions of MCP tools in %s (%s): the next process will not"
                " detect changes",
                self._path,
                error.strerror,
            )

    def _read(self) -> dict[str, dict[str, Pin]]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=dict[str, dict[str, Pin]])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ConfigError(
                f"{self._path} is damaged: it stores the first descriptions of MCP tools;"
                " remove it to accept all current descriptions as new"
            ) from None

    def _write(self, servers: dict[str, Any]) -> None:
        """Writes atomically: another process can read at the same time."""
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
