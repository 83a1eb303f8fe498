"""API keys: where they come from and the header that carries them. A repr never shows a key."""

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from windlass.errors import ConfigError

Key: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a function that returns the current one, for access tokens that expire."""

MAX_REMEMBERED_KEYS = 32  # previous values of a changing key, to redact them
_SECRET_HEADERS = ("auth", "key", "token", "secret", "cookie")


def key_from(key: Key | None, *variables: str) -> Key | None:
    """The given key, else the value of the first variable that is set."""
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
        """The headers that are the same for every request."""
        self.secrets: list[str] = [
            word
            for header, value in self.fixed.items()
            if is_secret(header)
            for word in (value, value.rpartition(" ")[2])
        ]
        """Texts that must not be shown."""
        if isinstance(key, str):
            self.fixed = self._with(key) | self.fixed

    async def current(self) -> dict[str, str] | None:
        """The header with the current key, if the key changes; None otherwise."""
        if self._key is None:
            return None
        key = self._key()
        return self._with(await key if inspect.isawaitable(key) else key)

    def _with(self, key: str) -> dict[str, str]:
        if not key.isascii() or not key.isprintable():
            raise ConfigError("the API key contains characters that are not allowed in a header")
        if key not in self.secrets:
            self.secrets = [*self.secrets, key][-MAX_REMEMBERED_KEYS:]
        return {self._name: f"{self._prefix}{key}"}


def is_secret(header: str) -> bool:
    return any(mark in header.lower() for mark in _SECRET_HEADERS)


def has_auth(headers: Mapping[str, str] | None) -> bool:
    """Whether the caller's headers already contain a key."""
    return any(is_secret(name) for name in headers or ())
