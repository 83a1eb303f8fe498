"""The thought signatures that clients of the gateway receive: opaque tokens. Pure.

A client returns the signature of a part unchanged, even if it drops the ids of calls. So the token
has what the client does not see of the part: the id of a call, the signature of the model, and
fields of the model's provider. It is base64, because clients decode and encode signatures.
"""

from typing import Any

import msgspec
from msgspec import Struct

from windlass.jsontext import encode_json, from_base64, to_base64
from windlass.wires.gemini.messages import PLACEHOLDER_SIGNATURE

_START = b"windlass:"
_ENCODED_START = to_base64(_START)
_PLACEHOLDERS = frozenset({PLACEHOLDER_SIGNATURE, PLACEHOLDER_SIGNATURE.replace("_", "/")})
"""Google's placeholder, and what a client makes of it that uses the other base64 alphabet."""


class Token(Struct, frozen=True, omit_defaults=True):
    """What a signature stands for."""

    id: str = ""
    """The id of the call."""
    signature: str | None = None
    """The model's own signature."""
    extra: dict[str, Any] = {}
    """Fields of other providers."""


_decode = msgspec.json.Decoder(Token).decode


def encode_token(token: Token) -> str:
    """The token as a signature."""
    return to_base64(_START + encode_json(token))


def decode_token(signature: str | None) -> Token:
    """The token in a signature. A signature of another service is the model's own."""
    if not signature or signature in _PLACEHOLDERS:
        return Token()
    if not signature.startswith(_ENCODED_START):
        return Token(signature=signature)
    text = signature.replace("-", "+").replace("_", "/")
    try:
        return _decode(from_base64(text + "=" * (-len(text) % 4))[len(_START) :])
    except (ValueError, msgspec.DecodeError):
        return Token()
