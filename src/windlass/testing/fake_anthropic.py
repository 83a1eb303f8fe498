"""A fake of Anthropic's Messages service."""

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from windlass.content import AnyPart, FunctionCall, Opaque, Text, Thought, Usage
from windlass.jsontext import decode_json
from windlass.testing.anthropic_rules import (
    ANY_MODEL,
    AnthropicRules,
    check_messages_request,
    signature_of,
)
from windlass.testing.exchange import (
    Frames,
    Received,
    RequestRefused,
    ResponseWriter,
    Transport,
    TransportOptions,
    json_bytes,
)
from windlass.testing.fake_openai import openai_token
from windlass.testing.script import Pieces, Refuse, Script, Turn, split, with_ids
from windlass.testing.upstream import FakeUpstream

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
CHARACTERS_PER_TOKEN = 4


class FakeAnthropic(FakeUpstream):
    """Anthropic's API, driven by a script.

    It has `POST /v1/messages`, `POST /v1/messages/count_tokens` and `GET /v1/models`. Thoughts are
    signed, and a thinking block that comes back changed is refused. `models`: the known models;
    other names are refused. Without it, every name is accepted. `rules`: what the model supports.
    `api_key`: the required key. The other options are in `TransportOptions`.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        rules: AnthropicRules = ANY_MODEL,
        port: int = 0,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(script, api_key, port, Transport(**options, named=True))
        self._models, self._rules = tuple(models), rules

    @property
    def base_url(self) -> str:
        return self.root_url

    def _headers(self) -> dict[str, str]:
        return {"request-id": f"req_{openai_token(24)}"}

    def _is_model_request(self, received: Received) -> bool:
        return received.path == "/v1/messages" and received.method == "POST"

    def _accepted(self, received: Received) -> ResponseWriter | Any:
        self._check_headers(received)
        match received.method, received.path:
            case "POST", "/v1/messages":
                body = check_messages_request(received.body, self._rules)
                self._check_model(body["model"])
                return MessageWriter(model=body["model"], streams=body.get("stream") is True)
            case "POST", "/v1/messages/count_tokens":
                check_messages_request(received.body, self._rules, counting=True)
                return {"input_tokens": len(received.raw) // CHARACTERS_PER_TOKEN + 1}
            case "GET", "/v1/models":
                return _listing(self._models or ("claude-fake",))
            case "GET", path if path.startswith("/v1/models/"):
                name = path.removeprefix("/v1/models/")
                self._check_model(name)
                return _model(name)
            case _:
                raise RequestRefused(404, "Not Found")

    def _check_headers(self, received: Received) -> None:
        bearer = received.headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = received.headers.get("x-api-key") or bearer
        if self.api_key is not None and key != self.api_key:
            text = "invalid x-api-key" if key else "x-api-key header is required"
            raise RequestRefused(401, text)
        if "anthropic-version" not in received.headers:
            raise RequestRefused(400, "anthropic-version: header is required")

    def _check_model(self, model: str) -> None:
        if self._models and model not in self._models:
            raise RequestRefused(404, f"model: {model}")

    def _error_body(self, error: Refuse | RequestRefused) -> Any:
        kind = _ERROR_TYPES.get(error.status, "api_error" if error.status >= 500 else None)
        return {
            "type": "error",
            "error": {
                "type": error.code or kind or "invalid_request_error",
                "message": error.message,
            },
            "request_id": f"req_{openai_token(24)}",
        }


def _listing(names: Sequence[str]) -> dict[str, Any]:
    return {
        "data": [_model(name) for name in names],
        "has_more": False,
        "first_id": names[0],
        "last_id": names[-1],
    }


def _model(name: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
    }


class MessageWriter(Struct, frozen=True, kw_only=True):
    """Writes the response to a Messages request as Anthropic does."""

    model: str
    streams: bool

    def body(self, turn: Turn) -> bytes:
        turn = with_ids(turn, _call_id)
        content = [_block(part) for part in turn.content if not _is_empty(part)]
        return json_bytes({**self._message(content), **_ending(turn), "usage": _usage(turn.usage)})

    def frames(self, turn: Turn) -> Frames:
        turn = with_ids(turn, _call_id)
        opened = {**_usage(turn.usage), "output_tokens": min(1, turn.usage.output_tokens)}
        start = {**self._message([]), "stop_reason": None, "stop_sequence": None, "usage": opened}
        head = [
            json_bytes({"type": "message_start", "message": start}),
            json_bytes({"type": "ping"}),
        ]
        pieces: list[bytes] = []
        closing: list[bytes] = []
        parts = [part for part in turn.content if not _is_empty(part)]
        for index, part in enumerate(parts):
            for events in _streamed(part, index, turn.pieces):
                pieces.append(b"\n".join([*closing, *map(json_bytes, events)]))
                closing = []
            if signature := _signature(part):
                delta = {"type": "signature_delta", "signature": signature}
                closing.append(json_bytes(_delta(index, delta)))
            closing.append(json_bytes({"type": "content_block_stop", "index": index}))
        end = {"type": "message_delta", "delta": _ending(turn), "usage": _usage(turn.usage)}
        tail = [*closing, json_bytes(end), json_bytes({"type": "message_stop"})]
        return Frames(head, pieces, tail)

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"msg_{openai_token(24)}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
        }


def _is_empty(part: AnyPart) -> bool:
    return isinstance(part, Text) and not part.text


def _signature(part: AnyPart) -> str | None:
    return signature_of(part.text) if isinstance(part, Thought) else None


def _ending(turn: Turn) -> dict[str, Any]:
    reason = STOP_REASONS.get(turn.finish_word, turn.finish_word)
    return {"stop_reason": reason, "stop_sequence": None}


def _block(part: AnyPart) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thought(text=text):
            return {"type": "thinking", "thinking": text, "signature": signature_of(text)}
        case FunctionCall():
            return {
                "type": "tool_use",
                "id": part.id,
                "name": part.name,
                "input": _input(part),
                "caller": {"type": "direct"},
            }
        case Opaque(provider="anthropic", data=data):
            return data
        case _:
            raise ValueError(f"a message of Anthropic cannot contain {part!r}")


def _input(made: FunctionCall) -> Any:
    """The arguments. A body with malformed arguments is impossible: they are an object there."""
    if not made.json:
        return {}
    try:
        return decode_json(made.json.encode())
    except ValueError:
        raise ValueError("a message in one body cannot have malformed arguments") from None


def _streamed(part: AnyPart, index: int, pieces: Pieces) -> Iterator[list[dict[str, Any]]]:
    """The events of a block, in pieces; the first piece starts the block."""

    def started(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": fields}

    match part:
        case Text(text=text):
            opening = [started({"type": "text", "text": ""})]
            for piece in split(text, pieces) or [text]:
                yield [*opening, _delta(index, {"type": "text_delta", "text": piece})]
                opening = []
        case Thought(text=text):
            opening = [started({"type": "thinking", "thinking": "", "signature": ""})]
            for piece in split(text, pieces) or [text]:
                yield [*opening, _delta(index, {"type": "thinking_delta", "thinking": piece})]
                opening = []
        case FunctionCall():
            yield [started({**_block(replace(part, json="")), "input": {}})]
            for piece in split(part.json, pieces, words=False) or [""]:
                yield [_delta(index, {"type": "input_json_delta", "partial_json": piece})]
        case _:
            yield [started(_block(part))]


def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _usage(usage: Usage) -> dict[str, Any]:
    # Anthropic's input tokens do not include the cached ones.
    thoughts = {"output_tokens_details": {"thinking_tokens": usage.thought_tokens}}
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        **(thoughts if usage.thought_tokens else {}),
    }


def _call_id() -> str:
    return f"toolu_{openai_token(24)}"
