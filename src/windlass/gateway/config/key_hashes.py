"""Creates API keys and their hashes, which the configuration stores."""

import hashlib
import re
import secrets

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
