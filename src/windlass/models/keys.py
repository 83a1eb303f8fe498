"""Where a key comes from, and the header it travels in. A key is never part of a repr."""

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from windlass.errors import ConfigError

Key: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a function that gives the current one: access tokens expire."""

LONGEST_MEMORY = 32  # of keys that a changing one has had
_SECRET_HEADERS = ("auth", "key", "token", "secret", "cookie")


def key_from(key: Key | None, *variables: str) -> Key | None:
    """The key as given, else the first of the environment variables that is set."""
    if key is not None:
        return key or None
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


class Auth:
    """The headers of every request, with the key in one of them."""

    __slots__ = ("_key", "_name", "_prefix", "changes", "fixed", "secrets")

    def __init__(
        self, name: str, prefix: str, key: Key | None, headers: Mapping[str, str] | None = None
    ) -> None:
        self._name, self._prefix = name, prefix
        self._key = None if isinstance(key, str) else key
        self.changes = self._key is not None
        self.fixed: dict[str, str] = dict(headers or {})
        """The headers that never change."""
        self.secrets: list[str] = [
            word
            for header, value in self.fixed.items()
            if is_secret(header)
            for word in (value, value.rpartition(" ")[2])
        ]
        """What must not be shown."""
        if isinstance(key, str):
            self.fixed = self._with(key) | self.fixed

    async def current(self) -> dict[str, str] | None:
        """The headers that belong to this request alone: a fresh key, if keys change."""
        if self._key is None:
            return None
        key = self._key()
        return self._with(await key if inspect.isawaitable(key) else key)

    def _with(self, key: str) -> dict[str, str]:
        if not key.isascii() or not key.isprintable():
            raise ConfigError("the key has characters that cannot be in a header")
        if key not in self.secrets:
            self.secrets = [*self.secrets, key][-LONGEST_MEMORY:]
        return {self._name: f"{self._prefix}{key}"}


def is_secret(header: str) -> bool:
    return any(mark in header.lower() for mark in _SECRET_HEADERS)


def has_auth(headers: Mapping[str, str] | None) -> bool:
    """Whether the caller's own headers carry a key already."""
    return any(is_secret(name) for name in headers or ())
