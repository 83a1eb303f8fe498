"""API keys: creation, hashes, and the key that a request presents."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

if TYPE_CHECKING:  # whose checks import this module
    from windlass.gateway.config.values import KeyConfig

PREFIX = "wl_"
_ALGORITHM = "sha256:"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def new_key() -> tuple[str, str]:
    """A new key, which is shown once, and its hash, which is stored."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, key_hash(key)


def key_hash(key: str) -> str:
    """The hash of a key, as the configuration stores it.

    It is plain SHA-256. Slow hashes protect passwords that people choose; a key is 32 random bytes,
    which cannot be guessed, and it is checked for each request.
    """
    return _ALGORITHM + hashlib.sha256(key.encode()).hexdigest()


def is_key_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


_KEY_HEADERS = (b"x-api-key", b"x-goog-api-key")


class KeyRing:
    """The keys of a gateway. A gateway without keys accepts every request."""

    def __init__(self, keys: "Sequence[KeyConfig]") -> None:
        self._keys = [(key.hash.encode(), key) for key in keys]

    @property
    def required(self) -> bool:
        return bool(self._keys)

    def find(self, presented: str | None) -> "KeyConfig | None":
        """The entry of a presented key, or None. Takes the same time for every key."""
        if not presented or not presented.isascii():
            return None
        hashed = key_hash(presented).encode()
        found: KeyConfig | None = None
        for known, key in self._keys:
            if hmac.compare_digest(known, hashed):
                found = key
        return found


def presented_key(headers: Mapping[bytes, bytes], query: bytes = b"") -> str | None:
    """The key of `Authorization: Bearer KEY`, `X-API-Key`, `X-Goog-Api-Key` or `?key=`.

    None if it is malformed. The names of `headers` are in lower case.
    """
    scheme, _, credentials = headers.get(b"authorization", b"").strip().partition(b" ")
    bearer = credentials.strip() if scheme.lower() == b"bearer" else b""
    named = (headers.get(name, b"").strip() for name in _KEY_HEADERS)
    return _key_text(bearer or next(filter(None, named), b"") or _key_in(query))


def _key_in(query: bytes) -> bytes:
    return next((value for name, value in parse_qsl(query) if name == b"key"), b"").strip()


def _key_text(value: bytes) -> str | None:
    text = value.decode("ascii", "replace")
    return text if text.isascii() and text.isprintable() and text and " " not in text else None
