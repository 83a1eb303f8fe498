"""A run's end as a chat completion. Pure."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, InlineData, Message, Opaque, Usage
from windlass.events import StopReason, joined_logprobs
from windlass.gateway.runs.hidden_turns import CallIds
from windlass.jsontext.large import encode_any_json
from windlass.loop.reply import Reply, RoundRecord
from windlass.wires.chat.messages import encode_call, encode_media
from windlass.wires.fields import JsonObject, merged

__all__ = [
    "FINISH_REASONS",
    "USUAL_FORM",
    "Form",
    "Head",
    "call_fields",
    "completion",
    "completion_fields",
    "finish_reason",
    "gap_between",
    "image_fields",
    "message_extra",
    "service_fields",
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

ROUND_GAP = "\n\n"
_ALREADY_SAID = frozenset({"reasoning_content", "reasoning", "role", "content", "tool_calls"})


_OF_THE_SERVICE = ("service_tier", "system_fingerprint")


class Head(Struct, frozen=True):
    """What every part of one answer begins with."""

    id: str
    created: int
    model: str


class Form(Struct, frozen=True):
    """What an answer looks like, by what its request and its gateway say."""

    legacy_functions: bool = False
    """Whether a call comes back as `function_call`."""
    all_text: bool = True
    """Whether it has the text of all rounds, or of the last one alone."""


USUAL_FORM = Form()


def completion(head: Head, reply: Reply, ids: CallIds, form: Form = USUAL_FORM) -> bytes:
    """The whole answer as one JSON body."""
    return encode_any_json(completion_fields(head, reply, ids, form))


def completion_fields(
    head: Head, reply: Reply, ids: CallIds, form: Form = USUAL_FORM
) -> JsonObject:
    shown = shown_rounds(reply, form)
    fields: JsonObject = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [
            {
                "index": 0,
                "message": _message(reply, ids, form, shown),
                "logprobs": joined_logprobs(each.logprobs for each in shown if each.logprobs),
                "finish_reason": finish_reason(reply, form),
            }
        ],
        **service_fields(reply.rounds[-1].about if reply.rounds else {}),
    }
    if reply.usage != _NO_USAGE:
        fields["usage"] = usage_fields(reply.usage)
    return fields


_NO_USAGE = Usage()


def finish_reason(reply: Reply, form: Form) -> str:
    if form.legacy_functions and reply.stop_reason == "calls":
        return "function_call"
    return FINISH_REASONS.get(reply.stop_reason, "stop")


def service_fields(about: JsonObject) -> JsonObject:
    """What the upstream says of its answer, as far as clients know it."""
    return {name: about[name] for name in _OF_THE_SERVICE if name in about}


def shown_rounds(reply: Reply, form: Form) -> tuple[RoundRecord, ...]:
    """The rounds whose text is in the answer: the last one, and those before it that have any."""
    *earlier, last = reply.rounds or (None,)
    if last is None:
        return ()
    return (*(each for each in earlier if form.all_text and each.message.text.strip()), last)


def gap_between(before: str, after: str) -> str:
    """What stands between the texts of two rounds: a paragraph ends, unless there is a gap."""
    return "" if not before or before[-1].isspace() or after[:1].isspace() else ROUND_GAP


def joined_texts(texts: Iterable[str]) -> str:
    """The texts of several rounds as one, with gaps between them."""
    joined = ""
    for text in texts:
        joined += (gap_between(joined, text) if text else "") + text
    return joined


def _message(reply: Reply, ids: CallIds, form: Form, shown: tuple[RoundRecord, ...]) -> JsonObject:
    said = reply.rounds[-1].message if reply.rounds else Message("assistant", ())
    # The last text is the reply's own: the run itself may have put it in place of an empty one.
    text = joined_texts([*(each.message.text for each in shown[:-1]), reply.text])
    content = text or ("" if not reply.pending else None)
    message: JsonObject = {"role": "assistant", "content": content, "refusal": None}
    if reply.pending and form.legacy_functions:
        message["function_call"] = encode_call(reply.pending[0])["function"]
    elif reply.pending:
        message["tool_calls"] = [call_fields(call, ids) for call in reply.pending]
    if thoughts := joined_texts(each.message.thoughts for each in reply.rounds):
        message["reasoning_content"] = thoughts
    rounds = reply.rounds if form.all_text else reply.rounds[-1:]
    if images := image_fields(part for each in rounds for part in each.message.parts):
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
