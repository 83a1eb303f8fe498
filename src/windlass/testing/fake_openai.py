"""A fake of OpenAI's chat completions service."""

import random
import string
import time
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, Opaque, Text, Thought, Usage
from windlass.events import TextDelta, ThoughtDelta, ToolCallDelta, ToolCallStarted
from windlass.testing.exchange import (
    DONE,
    Frames,
    Received,
    RequestRefused,
    ResponseWriter,
    Transport,
    TransportOptions,
    json_bytes,
)
from windlass.testing.openai_rules import check_chat_request
from windlass.testing.script import Refuse, Script, Turn, events_of, split, with_ids
from windlass.testing.upstream import FakeUpstream

# OpenAI's `type` and `code` for an error of this status.
_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header "
    "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
)


class FakeOpenAI(FakeUpstream):
    """OpenAI's API, driven by a script: `POST /v1/chat/completions` and `GET /v1/models`.

    `models`: the known models; other names are refused. Without it, every name is accepted.
    `api_key`: the required key. The other options are in `TransportOptions`.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        port: int = 0,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(script, api_key, port, Transport(**options))
        self._models = tuple(models)

    @property
    def base_url(self) -> str:
        return f"{self.root_url}/v1"

    def _headers(self) -> dict[str, str]:
        return {"x-request-id": f"req_{openai_token(32)}", "openai-version": "2020-10-01"}

    def _is_model_request(self, received: Received) -> bool:
        return received.path == "/v1/chat/completions" and received.method == "POST"

    def _accepted(self, received: Received) -> ResponseWriter | Any:
        self._check_key(received.headers.get("authorization", ""))
        if not self._is_model_request(received):
            return self._listing(received)
        body = check_chat_request(received.body)
        self._check_model(body["model"])
        include_usage = (body.get("stream_options") or {"include_usage": False}).get(
            "include_usage"
        )
        return ChatWriter(
            model=body["model"],
            streams=bool(body.get("stream")),
            include_usage=include_usage is True,
            logprobs=body.get("logprobs") is True,
            top_logprobs=body.get("top_logprobs") or 0,
        )

    def _listing(self, received: Received) -> dict[str, Any]:
        names = self._models or ("gpt-fake",)
        match received.method, received.path.removeprefix("/v1/models"):
            case "GET", "":
                return {"object": "list", "data": [_model(name) for name in names]}
            case "GET", path if path.startswith("/"):
                self._check_model(path[1:])
                return _model(path[1:])
            case _:
                raise RequestRefused(404, f"Invalid URL ({received.method} {received.path})")

    def _check_key(self, authorization: str) -> None:
        key = authorization.removeprefix("Bearer ").strip()
        if self.api_key is None or key == self.api_key:
            return
        shown = f"Incorrect API key provided: {key[:3]}{'*' * 8}."
        raise RequestRefused(401, shown if key else _NO_KEY)

    def _check_model(self, model: str) -> None:
        if self._models and model not in self._models:
            text = f"The model `{model}` does not exist or you do not have access to it."
            raise RequestRefused(404, text, code="model_not_found")

    def _error_body(self, error: Refuse | RequestRefused) -> Any:
        kind, code = _ERRORS.get(
            error.status, ("server_error" if error.status >= 500 else "invalid_request_error", None)
        )
        return {
            "error": {
                "message": error.message,
                "type": kind,
                "param": error.param if isinstance(error, RequestRefused) else None,
                "code": error.code or code,
            }
        }


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "windlass"}


_ALPHABET = string.ascii_letters + string.digits


def openai_token(length: int) -> str:
    """The random part of OpenAI's ids."""
    return "".join(random.choices(_ALPHABET, k=length))


class ChatWriter(Struct, frozen=True, kw_only=True):
    """Writes the response to a chat completion request as OpenAI does."""

    model: str
    streams: bool
    include_usage: bool
    logprobs: bool = False
    top_logprobs: int = 0

    def body(self, turn: Turn) -> bytes:
        message = _message(with_ids(turn, _call_id))
        choice = {
            "index": 0,
            "message": message,
            "logprobs": self._logprobs(split(message["content"] or "", turn.pieces)),
            "finish_reason": turn.finish_word,
        }
        completion = {**self._head("chat.completion"), "choices": [choice]}
        return json_bytes({**completion, "usage": _usage(turn.usage)})

    def frames(self, turn: Turn) -> Frames:
        turn = with_ids(turn, _call_id)
        head = self._head("chat.completion.chunk")
        # With `include_usage`, every chunk has the field; only the last one has a value.
        usage = {"usage": None} if self.include_usage else {}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            logprobs = self._logprobs([delta["content"]]) if delta.get("content") else None
            choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
            return json_bytes({**head, "choices": [choice], **usage})

        tail = [chunk({}, turn.finish_word)]
        if self.include_usage:
            tail.append(json_bytes({**head, "choices": [], "usage": _usage(turn.usage)}))
        opening = {"role": "assistant", "content": _opening_content(turn), "refusal": None}
        return Frames([chunk(opening)], [chunk(d) for d in _deltas(turn)], [*tail, DONE])

    def _logprobs(self, tokens: list[str]) -> dict[str, Any] | None:
        """Each piece counts as one token; shorter tokens are more likely."""
        if not self.logprobs or not tokens:
            return None
        content = [
            {**_token(token), "top_logprobs": [_token(token)][: self.top_logprobs]}
            for token in tokens
        ]
        return {"content": content, "refusal": None}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{openai_token(29)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": "fp_fake0000",
        }


def _token(token: str) -> dict[str, Any]:
    return {"token": token, "logprob": -len(token) / 10, "bytes": list(token.encode())}


def _opening_content(turn: Turn) -> str | None:
    return None if turn.content and isinstance(turn.content[0], FunctionCall) else ""


def _message(turn: Turn) -> dict[str, Any]:
    texts = [part.text for part in turn.content if isinstance(part, Text)]
    thoughts = [part.text for part in turn.content if isinstance(part, Thought)]
    calls = [_call(part) for part in turn.content if isinstance(part, FunctionCall)]
    own: dict[str, Any] = {}
    for part in turn.content:
        own |= _own_fields(part)
    return {
        "role": "assistant",
        "content": "".join(texts) if texts or not calls else None,
        "refusal": None,
        "annotations": [],
        **({"reasoning_content": "".join(thoughts)} if thoughts else {}),
        **({"tool_calls": calls} if calls else {}),
        **own,
    }


def _deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    calls = [part for part in turn.content if isinstance(part, FunctionCall)]
    for part in turn.content:
        if own := _own_fields(part):
            yield own
    for event in events_of(turn):
        match event:
            case TextDelta(text=text):
                yield {"content": text}
            case ThoughtDelta(text=text):
                yield {"reasoning_content": text}
            case ToolCallStarted(index=index):
                opened = msgspec.structs.replace(calls[index], json="")
                yield {"tool_calls": [{"index": index, **_call(opened)}]}
            case ToolCallDelta(index=index, json=json):
                yield {"tool_calls": [{"index": index, "function": {"arguments": json}}]}
            case _:
                pass


def _call(made: FunctionCall) -> dict[str, Any]:
    signed = {"extra_content": {"google": {"thought_signature": made.signature}}}
    return {
        "id": made.id,
        "type": "function",
        "function": {"name": made.name, "arguments": made.json},
        **(signed if made.signature else {}),
    }


def _own_fields(part: object) -> dict[str, Any]:
    """Additional message fields from the script, which Windlass does not know."""
    match part:
        case Opaque(provider="openai", data=data):
            return data
        case Text() | Thought() | FunctionCall():
            return {}
        case _:
            raise ValueError(f"an OpenAI message cannot contain {part!r}")


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.thought_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _call_id() -> str:
    return f"call_{openai_token(24)}"
