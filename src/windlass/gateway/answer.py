"""A run's end as a chat completion. Pure."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, InlineData, Message, Opaque, Usage
from windlass.events import StopReason
from windlass.gateway.turns import CallIds
from windlass.jsontext import encode_json
from windlass.loop.reply import Reply
from windlass.models.fields import JsonObject, merged
from windlass.models.openai.media import encode_media
from windlass.models.openai.wire import encode_call

__all__ = [
    "FINISH_REASONS",
    "Head",
    "call_fields",
    "completion",
    "completion_fields",
    "image_fields",
    "message_extra",
    "signature_fields",
    "usage_fields",
]

FINISH_REASONS: dict[StopReason, str] = {
    "answer": "stop",
    "calls": "tool_calls",
    "max_rounds": "stop",
    "repetition": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "stopped": "stop",
}
"""What has no word here is an error."""

_ALREADY_SAID = frozenset({"reasoning_content", "reasoning", "role", "content", "tool_calls"})


class Head(Struct, frozen=True):
    """What every part of one answer begins with."""

    id: str
    created: int
    model: str


def completion(head: Head, reply: Reply, ids: CallIds) -> bytes:
    """The whole answer as one JSON body."""
    return encode_json(completion_fields(head, reply, ids))


def completion_fields(head: Head, reply: Reply, ids: CallIds) -> JsonObject:
    fields: JsonObject = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [
            {
                "index": 0,
                "message": _message(reply, ids),
                "logprobs": None,
                "finish_reason": FINISH_REASONS.get(reply.stop_reason, "stop"),
            }
        ],
    }
    if reply.usage != _NO_USAGE:
        fields["usage"] = usage_fields(reply.usage)
    return fields


_NO_USAGE = Usage()


def _message(reply: Reply, ids: CallIds) -> JsonObject:
    said = reply.rounds[-1].message if reply.rounds else Message("assistant", ())
    text = reply.text or ("" if not reply.pending else None)
    message: JsonObject = {"role": "assistant", "content": text, "refusal": None}
    if reply.pending:
        message["tool_calls"] = [call_fields(call, ids) for call in reply.pending]
    if thoughts := said.thoughts:
        message["reasoning_content"] = thoughts
    if images := image_fields(said.parts):
        message["images"] = images
    return message | message_extra(said.extra)


def message_extra(extra: JsonObject) -> JsonObject:
    """What the provider said of its message that has no place elsewhere: a refusal, citations."""
    fields: JsonObject = extra.get("openai", {})
    return {name: fields[name] for name in fields if name not in _ALREADY_SAID}


def call_fields(call: FunctionCall, ids: CallIds) -> JsonObject:
    return merged({**encode_call(call), "id": ids.outward(call.id)}, signature_fields(call))


def signature_fields(call: FunctionCall) -> JsonObject:
    """Gemini's thought signature in the place that Google's own compatible server gives it."""
    if call.signature is None:
        return {}
    return {"extra_content": {"google": {"thought_signature": call.signature}}}


def image_fields(parts: Iterable[AnyPart]) -> list[Any]:
    """Pictures that the model made; this wire has no field of its own for them."""
    images: list[Any] = []
    for part in parts:
        match part:
            case InlineData(mime_type=kind) if kind.startswith("image/"):
                images.append(encode_media(part))
            case Opaque(provider="openai", data={"type": "image_url"} as data):
                images.append(data)
            case _:
                pass
    return images


def usage_fields(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thought_tokens},
    }
