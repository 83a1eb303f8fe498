"""The gateway's keys: made here, written into the configuration as hashes, found again by them."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence

from windlass.gateway.config.values import KeyConfig

__all__ = ["KeyRing", "is_key_hash", "key_hash", "new_key", "presented_key"]

PREFIX = "wl_"
_ALGORITHM = "sha256:"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def new_key() -> tuple[str, str]:
    """A key, which is shown once, and its hash, which is kept."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, key_hash(key)


def key_hash(key: str) -> str:
    """What the configuration holds in place of a key.

    A plain SHA-256: slow hashes are there for passwords that people choose. A key is 32 random
    bytes, which nobody can guess however fast the guesses are, and it is checked at each request.
    """
    return _ALGORITHM + hashlib.sha256(key.encode()).hexdigest()


def is_key_hash(text: str) -> bool:
    """Whether it has the form of a key's hash."""
    return _HASH.fullmatch(text) is not None


class KeyRing:
    """The keys of a gateway. An empty ring asks nobody for a key."""

    def __init__(self, keys: Sequence[KeyConfig]) -> None:
        self._keys = [(key.hash.encode(), key) for key in keys]

    @property
    def required(self) -> bool:
        return bool(self._keys)

    def find(self, presented: str | None) -> KeyConfig | None:
        """Whose key it is. Takes the same time whichever key it is, and if it is none."""
        if not presented or not presented.isascii():
            return None
        hashed = key_hash(presented).encode()
        found: KeyConfig | None = None
        for known, key in self._keys:
            if hmac.compare_digest(known, hashed):
                found = key
        return found


def presented_key(headers: Mapping[bytes, bytes]) -> str | None:
    """The key in a request's headers, whose names are in small letters.

    It is in `Authorization: Bearer KEY`, else in `X-API-Key: KEY`; None if it is in neither, or is
    malformed.
    """
    scheme, _, credentials = headers.get(b"authorization", b"").strip().partition(b" ")
    bearer = credentials.strip() if scheme.lower() == b"bearer" else b""
    return _key_text(bearer or headers.get(b"x-api-key", b"").strip())


def _key_text(value: bytes) -> str | None:
    text = value.decode("ascii", "replace")
    return text if text.isascii() and text.isprintable() and text and " " not in text else None
