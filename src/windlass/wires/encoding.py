"""Helpers of the encoders: sizes, pieces of text, and the events of a finished reply. Pure."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from windlass.content import (
    Declaration,
    FunctionCall,
    FunctionDeclaration,
    Message,
    Text,
    Thought,
    size_of_message,
)
from windlass.events import (
    ModelEvent,
    PartReceived,
    RoundStarted,
    RunEnded,
    RunEvent,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    TurnEnded,
)
from windlass.jsontext import LARGE, STEP, encode_any_json, encode_json, is_larger
from windlass.model import ModelRequest
from windlass.reply import Reply, RoundRecord

K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[K, V]):
    """Caches by identity: comparing a tool list costs as much as encoding it."""

    def __init__(self, make: Callable[[K], V], size: int = 64) -> None:
        self._make, self._size = make, size
        self._values: dict[int, tuple[K, V]] = {}

    def get(self, key: K) -> V:
        known = self._values.get(id(key))
        if known is not None:
            return known[1]
        if len(self._values) >= self._size:
            self._values.clear()
        # Keep the key: an id is unique only while its object exists.
        value = self._make(key)
        self._values[id(key)] = (key, value)
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


_WITHOUT_CALLS: frozenset[StopReason] = frozenset(
    {"answer", "max_rounds", "budget", "repetition", "content_filter", "malformed_call"}
)
"""The stop reasons of runs that did not run the calls of their last turn."""


def events_of(reply: Reply, ended_at: float = 0.0) -> Iterator[RunEvent]:
    """The events of a run that ended with this reply, in whole pieces."""
    is_refused = not reply.pending and reply.stop_reason in _WITHOUT_CALLS
    for record in reply.rounds:
        is_last = record is reply.rounds[-1]
        yield RoundStarted(record.number, "awaiting_model_call", is_last and is_refused)
        yield from _turn_events(record)
        for answer in record.answers:
            yield ToolRunEnded(answer.response, answer.outcome)
        if is_last and reply.text != record.message.text:
            yield TextDelta(reply.text)  # the run replaced an empty answer with this text
    yield RunEnded(reply.stop_reason, reply.usage, len(reply.rounds), time=ended_at)


def _turn_events(record: RoundRecord) -> Iterator[ModelEvent]:
    message, logprobs = record.message, record.logprobs
    number = 0
    for part in message.parts:
        match part:
            case Text():
                yield TextDelta(part.text, part.signature, part.extra or None, logprobs)
                logprobs = None
            case Thought():
                yield ThoughtDelta(part.text, part.signature, part.extra or None)
            case FunctionCall():
                yield ToolCallStarted(number, part.id, part.name)
                yield ToolCallDelta(number, part.json)
                yield ToolCallEnded(number, part)
                number += 1
            case _:
                yield PartReceived(part)
    extra = message.extra or None
    yield TurnEnded(record.finish, record.usage, message_extra=extra, logprobs=logprobs)
