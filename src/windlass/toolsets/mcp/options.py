"""The options of an MCP server, validated, and the names that its tools get. Pure."""

import hashlib
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
    max_result_bytes: int
    optional: bool
    roots: Sequence[str | Path]
    read_resources: bool
    sampling: Any
    sampling_tokens: int


class ServerOptions(Struct, frozen=True, kw_only=True):
    """A server, by its command or its address, and how to run its tools."""

    command: tuple[str, ...] = ()
    url: str | None = None
    name: str | None = None
    """The prefix of its tools' names: None means the server's own name, "" no prefix."""
    env: Mapping[str, str] = {}
    """Environment variables for the command, in addition to PATH, HOME and similar ones."""
    cwd: str | Path | None = None
    headers: Mapping[str, str] = {}
    """Headers of every request to the address."""
    auth: Any = None
    """An `httpx2.Auth` for the address, such as the SDK's `OAuthClientProvider`."""
    timeout: float = 60.0
    """Seconds that a call may take without a result or a progress report."""
    longest: float = 3600.0
    """Seconds that a call may take in total."""
    start_timeout: float = 60.0
    """Seconds to start the server, connect and list its tools."""
    approve: bool | Collection[str] = False
    """Whether calls need an approval: all calls, or those of these tools."""
    trust_hints: bool = False
    """Whether to trust the server's hint that a tool can safely run twice."""
    on_change: OnChange = "approve"
    """What to do with a tool whose description has changed since it was first seen."""
    state_dir: str | Path | None = None
    """Where the first descriptions are stored; None means the user's state directory."""
    protocol: Protocol = "auto"
    max_result_bytes: int = 64 * 2**20
    """The maximum size of a result."""
    optional: bool = False
    """Whether a server that cannot be started is tried again until it can."""
    roots: Sequence[str | Path] = ()
    """The directories that the server may work in."""
    read_resources: bool = False
    """Whether the model gets a tool that reads the server's resources, which results link to."""
    sampling: Any = None
    """A `Sampler` that answers the server's requests for a model; None refuses them."""
    sampling_tokens: int = 10_000
    """How many tokens these answers may cost in one run."""

    def __post_init__(self) -> None:
        for field in ("timeout", "longest", "start_timeout"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(
                    f"mcp: {field} must be a number of seconds above 0, not {value!r}"
                )
        for field, choices in (("on_change", OnChange), ("protocol", Protocol)):
            value = getattr(self, field)
            if value not in get_args(choices):
                known = ", ".join(repr(choice) for choice in get_args(choices))
                raise ConfigError(f"mcp: {field} must be one of {known}, not {value!r}")
        size = getattr(self, "max_result_bytes")  # noqa: B009 - any value can be passed
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(
                f"mcp: max_result_bytes must be a whole number of bytes above 0, not {size!r}"
            )
        if isinstance(self.approve, str):
            raise ConfigError(f"mcp: approve must be True, False or a list, not {self.approve!r}")

    @property
    def identity(self) -> str:
        """Identifies the server. It can contain secrets: never show it."""
        return self.url or shlex.join(self.command)

    @property
    def label(self) -> str:
        """The name in errors: a host or a program, without arguments, which can be secret."""
        if self.name:
            return self.name
        if self.url:
            return urlsplit(self.url).hostname or "the server"
        return Path(self.command[0]).name

    @property
    def max_message_bytes(self) -> int:
        """The maximum size of a message: a result with its structured copy, or a list of tools."""
        return 2 * self.max_result_bytes + 4 * 2**20

    @property
    def credentials_remedy(self) -> str:
        """The remedy for refused credentials, for the operator."""
        if self.auth is not None:
            return f"log in again with `windlass mcp login {self.name or 'NAME'}`"
        return "set its token (`headers` or `auth`; in windlass.toml token_env, headers or auth)"

    def needs_approval(self, tool: str) -> bool:
        """Whether calls of the tool need an approval. `tool` is the server's name for it."""
        return self.approve if isinstance(self.approve, bool) else tool in self.approve

    def __repr__(self) -> str:
        """Without the command, address, variables and headers, which can contain secrets."""
        return f"ServerOptions({self.label!r})"


def server_from(target: str | Sequence[str], **options: Any) -> ServerOptions:
    """Reads `"command with arguments"`, `["command", "argument"]` or `"https://..."`.

    Raises `ConfigError` for an invalid target, and for options of the other kind of target.
    """
    unknown = options.keys() - ServerOptions.__struct_fields__
    if unknown or "command" in options or "url" in options:
        names = ", ".join(sorted(unknown or {"command", "url"} & options.keys()))
        known = ", ".join(sorted(McpOptions.__annotations__))
        raise ConfigError(f"mcp: unknown option {names}; supported: {known}")
    if isinstance(target, str) and _ADDRESS.match(target):
        return _remote(target, options)
    return _local(target, options)


def _remote(url: str, options: dict[str, Any]) -> ServerOptions:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            "mcp: an address must start with http:// or https:// and have a host; this one starts"
            f" with {parts.scheme}://"
        )
    _refuse(options, ("env", "cwd"), "a command, not for an address")
    return ServerOptions(url=url, **options)


def _local(command: str | Sequence[str], options: dict[str, Any]) -> ServerOptions:
    try:
        words = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError as error:
        raise ConfigError(f"mcp: cannot parse the command: {error}") from None
    if not words or not words[0]:
        raise ConfigError(
            "mcp: no server: pass a command such as 'npx some-server' or an http address"
        )
    _refuse(options, ("headers", "auth"), "an address, not for a command")
    return ServerOptions(command=words, **options)


def _refuse(options: dict[str, Any], names: tuple[str, ...], whose: str) -> None:
    for name in names:
        if options.get(name):
            raise ConfigError(f"mcp: {name} is an option for {whose}")


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
