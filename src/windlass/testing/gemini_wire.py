"""Turns on the Gemini wire: a GenerateContentResponse, or a stream of them."""

import base64
import random
import secrets
import string
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    InlineData,
    Opaque,
    Text,
    Thought,
    Usage,
)
from windlass.testing.exchange import Frames, json_bytes
from windlass.testing.gemini_partial import partial_call_parts
from windlass.testing.pieces import split, with_ids
from windlass.testing.script import Pieces, Turn

__all__ = ["GenerateExchange"]

FINISH_WORDS: dict[str, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "other": "OTHER",
}


class GenerateExchange(Struct, frozen=True, kw_only=True):
    """A generated content that is wanted, and how Gemini would write it."""

    model: str
    streams: bool
    as_list: bool = False
    """A stream that is not asked for as server-sent events is one JSON array."""
    ids: bool = True
    signs: bool = False
    """Whether a turn's first call is signed, as Gemini 3 does."""
    partial: bool = False
    """Whether the arguments of a call are streamed, as Vertex can."""
    logprobs: bool = False

    def body(self, turn: Turn) -> bytes:
        if self.as_list:
            frames = self.frames(turn)
            return b"[" + b",\r\n".join([*frames.pieces, *frames.tail]) + b"]"
        turn, malformed = self._prepared(turn)
        parts = [part for piece in turn.content for part in _wire_parts(piece, "whole")]
        return self._response(_token(22), parts, turn.usage, _end(turn, malformed))

    def frames(self, turn: Turn) -> Frames:
        turn, malformed = self._prepared(turn)
        response_id = _token(22)
        parts = [part for said in turn.content for part in self._streamed(said, turn.pieces)]
        pieces = [
            self._response(response_id, [part], _so_far(turn.usage, place + 1, len(parts)))
            for place, part in enumerate(parts)
        ]
        last = [] if malformed else [{"text": ""}]
        end = self._response(response_id, last, turn.usage, _end(turn, malformed))
        return Frames([], pieces, [end])

    def _streamed(self, part: AnyPart, pieces: Pieces) -> Iterable[dict[str, Any]]:
        partial: list[dict[str, Any]] | None = None
        if self.partial and isinstance(part, FunctionCall):
            partial = partial_call_parts(part, pieces)
        return _wire_parts(part, pieces) if partial is None else partial

    def _prepared(self, turn: Turn) -> tuple[Turn, FunctionCall | None]:
        """The turn with ids and signatures, and its first call that Gemini could not write."""
        turn = with_ids(turn, _call_id) if self.ids else _without_ids(turn)
        calls = [part for part in turn.content if isinstance(part, FunctionCall)]
        malformed = next((made for made in calls if made.error), None)
        if malformed:
            readable = tuple(
                part for part in turn.content if not (isinstance(part, FunctionCall) and part.error)
            )
            turn = msgspec.structs.replace(turn, text="", thoughts="", calls=(), parts=readable)
        if self.signs and calls and not any(made.signature for made in calls):
            turn = _signed(turn, calls[0])
        return turn, malformed

    def _response(
        self,
        response_id: str,
        parts: list[dict[str, Any]],
        usage: Usage,
        end: dict[str, Any] | None = None,
    ) -> bytes:
        content = {**({"parts": parts} if parts else {}), "role": "model"}
        texts = [part["text"] for part in parts if part.get("text") and not part.get("thought")]
        scored = {"logprobsResult": _logprobs(texts)} if self.logprobs and texts else {}
        return json_bytes(
            {
                "candidates": [{"content": content, **(end or {}), **scored, "index": 0}],
                "usageMetadata": _usage(usage),
                "modelVersion": self.model,
                "responseId": response_id,
            }
        )


def _logprobs(tokens: list[str]) -> dict[str, Any]:
    """Each text is a token here, the likelier the shorter it is."""
    chosen = [
        {"token": token, "tokenId": 1, "logProbability": -len(token) / 10} for token in tokens
    ]
    return {
        "chosenCandidates": chosen,
        "topCandidates": [{"candidates": [each]} for each in chosen],
    }


def _wire_parts(part: AnyPart, pieces: Pieces) -> Iterator[dict[str, Any]]:
    match part:
        case Text(text=text, signature=signature) | Thought(text=text, signature=signature):
            thought = {"thought": True} if isinstance(part, Thought) else {}
            texts = split(text, pieces)
            if signature is not None and pieces != "whole":
                texts.append("")  # In a stream the signature comes last, on an empty text.
            signed = {"thoughtSignature": signature} if signature is not None else {}
            for place, piece in enumerate(texts or [text]):
                yield {"text": piece, **thought, **(signed if place >= len(texts) - 1 else {})}
        case FunctionCall():
            yield _call_part(part)
        case InlineData(data=data, mime_type=mime_type):
            encoded = base64.b64encode(data).decode()
            yield {"inlineData": {"mimeType": mime_type, "data": encoded}}
        case FileData(uri=uri, mime_type=mime_type):
            yield {"fileData": {"fileUri": uri, **({"mimeType": mime_type} if mime_type else {})}}
        case Opaque(data=data):
            yield data
        case _:
            raise ValueError(f"the Gemini wire has no place in an answer for {part!r}")


def _call_part(made: FunctionCall) -> dict[str, Any]:
    return {
        "functionCall": {
            **({"id": made.id} if made.id else {}),
            "name": made.name,
            "args": made.arguments,
        },
        **({"thoughtSignature": made.signature} if made.signature is not None else {}),
    }


def _end(turn: Turn, malformed: FunctionCall | None) -> dict[str, Any]:
    if malformed:
        text = f"Malformed function call: {malformed.name}({malformed.json})"
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": text}
    return {"finishReason": FINISH_WORDS.get(turn.finish_word, turn.finish_word)}


def _without_ids(turn: Turn) -> Turn:
    def nameless(part: AnyPart) -> AnyPart:
        return msgspec.structs.replace(part, id="") if isinstance(part, FunctionCall) else part

    parts = tuple(map(nameless, turn.content))
    return msgspec.structs.replace(turn, text="", thoughts="", calls=(), parts=parts)


def _signed(turn: Turn, first: FunctionCall) -> Turn:
    signature = base64.b64encode(secrets.token_bytes(24)).decode()
    signed = msgspec.structs.replace(first, signature=signature)
    parts = tuple(signed if part is first else part for part in turn.content)
    return msgspec.structs.replace(turn, text="", thoughts="", calls=(), parts=parts)


def _so_far(usage: Usage, done: int, pieces: int) -> Usage:
    """Within one stream the counts are running totals."""
    output = usage.output_tokens * done // pieces
    return msgspec.structs.replace(
        usage,
        output_tokens=max(output, usage.thought_tokens),
        total_tokens=usage.total_tokens - usage.output_tokens + max(output, usage.thought_tokens),
    )


def _usage(usage: Usage) -> dict[str, Any]:
    # Gemini counts thoughts beside the answer, and Windlass's output tokens are both.
    optional = {
        "cachedContentTokenCount": usage.cached_tokens,
        "thoughtsTokenCount": usage.thought_tokens,
    }
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.thought_tokens,
        "totalTokenCount": usage.total_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input_tokens}],
        **{name: count for name, count in optional.items() if count},
    }


def _call_id() -> str:
    return _token(8).lower()


def _token(length: int) -> str:
    return "".join(random.choices(string.ascii_letters + string.digits, k=length))
