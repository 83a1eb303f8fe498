"""What a user may say about an MCP server, checked. Pure."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.errors import ConfigError

OnChange: TypeAlias = Literal["approve", "refuse", "allow"]
Protocol: TypeAlias = Literal["auto", "2025-11-25", "2026-07-28"]

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class McpOptions(TypedDict, total=False):
    """The options of `windlass.mcp`."""

    name: str | None
    env: Mapping[str, str]
    cwd: str | Path | None
    headers: Mapping[str, str]
    auth: Any
    timeout: float
    longest: float
    start_timeout: float
    approve: bool | Collection[str]
    trust_hints: bool
    on_change: OnChange
    state_dir: str | Path | None
    protocol: Protocol


class McpServer(Struct, frozen=True, kw_only=True):
    """A server to start by its command or to reach at its address, and how its tools are run."""

    command: tuple[str, ...] = ()
    url: str | None = None
    name: str | None = None
    """What its tools' names begin with: None for what the server calls itself, "" for nothing."""
    env: Mapping[str, str] = {}
    """Variables for the command, beside PATH, HOME and the like."""
    cwd: str | Path | None = None
    headers: Mapping[str, str] = {}
    """Sent with every request to the address."""
    auth: Any = None
    """An `httpx2.Auth` for the address, such as the SDK's `OAuthClientProvider`."""
    timeout: float = 60.0
    """Seconds that a call may go without an answer or a word of progress."""
    longest: float = 3600.0
    """Seconds that a call may take in all."""
    start_timeout: float = 60.0
    """Seconds to start, connect and list."""
    approve: bool | Collection[str] = False
    """Whether each call needs somebody's yes: all of them, or those of these tools."""
    trust_hints: bool = False
    """Whether the server is believed when it says that a tool may safely be run twice."""
    on_change: OnChange = "approve"
    """What happens to a tool whose description is not the one that was first seen."""
    state_dir: str | Path | None = None
    """Where the first descriptions are kept; None for the user's own directory for such."""
    protocol: Protocol = "auto"

    def __post_init__(self) -> None:
        for field in ("timeout", "longest", "start_timeout"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"mcp: {field} is a number of seconds above 0, not {value!r}")
        for field, choices in (("on_change", OnChange), ("protocol", Protocol)):
            value = getattr(self, field)
            if value not in get_args(choices):
                known = ", ".join(repr(choice) for choice in get_args(choices))
                raise ConfigError(f"mcp: {field} is one of {known}, not {value!r}")
        if isinstance(self.approve, str):
            raise ConfigError(f"mcp: approve is True, False or a list, not {self.approve!r}")

    @property
    def identity(self) -> str:
        """The same text for the same server; it may hold secrets and is never shown."""
        return self.url or shlex.join(self.command)

    @property
    def label(self) -> str:
        """What errors call it: a host or a program, never an argument, which may be a secret."""
        if self.name:
            return self.name
        if self.url:
            return urlsplit(self.url).hostname or "the server"
        return Path(self.command[0]).name

    def asks_for(self, tool: str) -> bool:
        """Whether calls of the tool, by the server's own name for it, need somebody's yes."""
        return self.approve if isinstance(self.approve, bool) else tool in self.approve

    def __repr__(self) -> str:
        """Commands, addresses, variables and headers may hold secrets."""
        return f"McpServer({self.label!r})"


def server_from(target: str | Sequence[str], **options: Any) -> McpServer:
    """Reads `"command with arguments"`, `["command", "argument"]` or `"https://..."`.

    Raises `ConfigError` for a target that is neither, and for options that go with the other kind.
    """
    unknown = options.keys() - McpServer.__struct_fields__
    if unknown or "command" in options or "url" in options:
        said = ", ".join(sorted(unknown or {"command", "url"} & options.keys()))
        known = ", ".join(sorted(McpOptions.__annotations__))
        raise ConfigError(f"mcp: there is no option {said}; there are {known}")
    if isinstance(target, str) and _ADDRESS.match(target):
        return _remote(target, options)
    return _local(target, options)


def _remote(url: str, options: dict[str, Any]) -> McpServer:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            "mcp: an address begins with http:// or https:// and names a host; this one begins"
            f" with {parts.scheme}://"
        )
    _refuse(options, ("env", "cwd"), "a command, not an address")
    return McpServer(url=url, **options)


def _local(command: str | Sequence[str], options: dict[str, Any]) -> McpServer:
    try:
        words = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError as error:
        raise ConfigError(f"mcp: the command cannot be read: {error}") from None
    if not words or not words[0]:
        raise ConfigError(
            "mcp: say which server: a command such as 'npx some-server', or its http address"
        )
    _refuse(options, ("headers", "auth"), "an address, not a command")
    return McpServer(command=words, **options)


def _refuse(options: dict[str, Any], names: tuple[str, ...], whose: str) -> None:
    for name in names:
        if options.get(name):
            raise ConfigError(f"mcp: {name} goes with {whose}")
