"""Helpers of the encoders: a cache, the size of a request, and pieces of text. Pure."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from windlass.content import Declaration, FunctionDeclaration, Message, size_of_message
from windlass.jsontext import LARGE, STEP, encode_any_json, encode_json, is_larger
from windlass.model import ModelRequest

K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[K, V]):
    """Caches by identity: comparing a tool list costs as much as encoding it."""

    def __init__(self, make: Callable[[K], V], size: int = 64) -> None:
        self._make, self._size = make, size
        self._made: dict[int, tuple[K, V]] = {}

    def get(self, key: K) -> V:
        known = self._made.get(id(key))
        if known is not None:
            return known[1]
        if len(self._made) >= self._size:
            self._made.clear()
        # Keep the key: an id is unique only while its object exists.
        value = self._make(key)
        self._made[id(key)] = (key, value)
        return value


CONVERSION_FACTOR = 8
"""Converting a schema takes this many times longer than encoding it."""


def request_size(request: ModelRequest) -> int:
    """The approximate size in characters. A result above `LARGE` means only "large"."""
    size = sum(map(size_of_message, request.messages))
    if size > LARGE:
        return size
    schema, extra = request.settings.response_schema, request.extra
    has_more = (schema or extra) and is_larger((schema, extra), LARGE // CONVERSION_FACTOR)
    if has_more or (request.tools and _have_large_schemas.get(request.tools)):
        return LARGE + 1
    return size


def _large_schemas(tools: tuple[Declaration, ...]) -> bool:
    schemas = [tool.parameters for tool in tools if isinstance(tool, FunctionDeclaration)]
    return is_larger(schemas, LARGE // CONVERSION_FACTOR)


_have_large_schemas = IdentityCache(_large_schemas)
"""Most requests of a run, and of a gateway, have the same tools."""


def message_encoder(message: Message) -> Callable[[object], bytes]:
    """The function that encodes the message's JSON values, in short steps if they are large."""
    return encode_json if size_of_message(message) <= LARGE else encode_any_json


def json_text(text: str) -> bytes:
    """A piece of text as JSON. Long text is encoded in short steps."""
    if len(text) > STEP:
        return encode_any_json(text)
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return encode_json(text)


ROUND_GAP = "\n\n"


def gap_between(before: str, after: str) -> str:
    """The separator between the texts of two rounds: a paragraph break, unless there is a space."""
    return "" if not before or before[-1].isspace() or after[:1].isspace() else ROUND_GAP
