"""Keys as text: made here, and stored as hashes. This module knows nothing of the configuration."""

import hashlib
import re
import secrets

__all__ = ["is_key_hash", "key_hash", "new_key"]

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
