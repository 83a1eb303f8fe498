"""A fake of Google's Gemini service, at the paths of the Gemini API and of Vertex AI."""

import base64
import random
import re
import secrets
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Unpack, cast

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
from windlass.testing.exchange import (
    Frames,
    Received,
    RequestRefused,
    ResponseWriter,
    Transport,
    TransportOptions,
    json_bytes,
)
from windlass.testing.gemini_rules import GeminiRules, check_generate_request
from windlass.testing.script import Pieces, Refuse, Script, Turn, split, with_ids
from windlass.testing.upstream import FakeUpstream

_MODEL_PATH = re.compile(
    r"/(?P<version>v\d\w*)/"
    r"(?P<vertex>(projects/[^/]+/locations/[^/]+/)?publishers/google/)?"
    r"models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent)"
)
_LIST_PATH = re.compile(r"/v\d\w*/models(/(?P<model>[^/:]+))?")
_STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_NO_KEY = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use "
    "API Key or other form of API consumer identity to call this API."
)
_BAD_TOKEN = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
    "or other valid authentication credential."
)


class FakeGemini(FakeUpstream):
    """Gemini's API, driven by a script: `generateContent` and `streamGenerateContent`.

    `ids`: whether calls have an id. At Vertex's paths they never do, and a sent `id` is refused.
    `signatures`: whether calls are signed and unsigned ones are refused; None means only for
    gemini-3 and later. `json_schema`: whether `parametersJsonSchema` is supported. `models`: the
    known models; without it, every name is accepted. The other options are in `TransportOptions`.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        ids: bool = True,
        signatures: bool | None = None,
        json_schema: bool = True,
        port: int = 0,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(script, api_key, port, Transport(**options))
        self._models = tuple(models)
        self._ids = ids
        self._signatures = signatures
        self._json_schema = json_schema

    @property
    def base_url(self) -> str:
        return self.root_url

    def _is_model_request(self, received: Received) -> bool:
        return received.method == "POST" and _MODEL_PATH.fullmatch(received.path) is not None

    def _accepted(self, received: Received) -> ResponseWriter | Any:
        found = _MODEL_PATH.fullmatch(received.path)
        if found is None or received.method != "POST":
            return self._listing(received)
        vertex = found["vertex"] is not None
        self._check_key(received, vertex)
        model = found["model"]
        self._check_model(model, found["version"])
        signatures = self._signs(model)
        rules = GeminiRules(ids=not vertex, json_schema=self._json_schema, signatures=signatures)
        request = check_generate_request(received.body, rules)
        events = received.query.get("alt") == "sse"
        wants_stream = found["verb"] == "streamGenerateContent"
        return GenerateWriter(
            model=model,
            streams=wants_stream and events,
            as_list=wants_stream and not events,
            ids=self._ids and not vertex,
            signs=signatures,
            partial=vertex and _streams_arguments(request),
            logprobs=_config(request).get("responseLogprobs") is True,
        )

    def _signs(self, model: str) -> bool:
        if self._signatures is not None:
            return self._signatures
        generation = re.match(r"gemini-(\d+)", model)
        return generation is not None and int(generation[1]) >= 3

    def _listing(self, received: Received) -> dict[str, Any]:
        self._check_key(received, vertex=False)
        found = _LIST_PATH.fullmatch(received.path)
        if found is None or received.method != "GET":
            raise RequestRefused(404, f"Not found: {received.method} {received.path}")
        if found["model"]:
            self._check_model(found["model"], "v1beta")
            return _model(found["model"])
        return {"models": [_model(name) for name in self._models or ("gemini-fake",)]}

    def _check_key(self, received: Received, vertex: bool) -> None:
        bearer = received.headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = received.headers.get("x-goog-api-key") or received.query.get("key") or bearer
        if self.api_key is None or key == self.api_key:
            return
        if vertex:
            raise RequestRefused(401, _BAD_TOKEN)
        if not key:
            raise RequestRefused(403, _NO_KEY)
        raise RequestRefused(400, "API key not valid. Please pass a valid API key.")

    def _check_model(self, model: str, version: str) -> None:
        if self._models and model not in self._models:
            raise RequestRefused(
                404,
                f"models/{model} is not found for API version {version}, or is not supported for "
                "generateContent. Call ListModels to see the list of available models and their "
                "supported methods.",
            )

    def _error_body(self, error: Refuse | RequestRefused) -> Any:
        details: list[dict[str, Any]] = []
        if isinstance(error, Refuse) and error.retry_after is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            details.append({"@type": kind, "retryDelay": f"{error.retry_after:g}s"})
        return {
            "error": {
                "code": error.status,
                "message": error.message,
                "status": error.code or _STATUS_WORDS.get(error.status, "UNKNOWN"),
                **({"details": details} if details else {}),
            }
        }


def _config(request: dict[str, Any]) -> dict[str, Any]:
    return request.get("generationConfig") or request.get("generation_config") or {}


def _streams_arguments(request: dict[str, Any]) -> bool:
    match request.get("toolConfig"):
        case {"functionCallingConfig": {"streamFunctionCallArguments": True}}:
            return True
        case _:
            return False


def _model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


FINISH_WORDS: dict[str, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "other": "OTHER",
}


class GenerateWriter(Struct, frozen=True, kw_only=True):
    """Writes the response to a generateContent request as Gemini does."""

    model: str
    streams: bool
    as_list: bool = False
    """Write the stream as one JSON array: the client did not ask for server-sent events."""
    ids: bool = True
    signs: bool = False
    """Whether the first call of a turn is signed, as in Gemini 3."""
    partial: bool = False
    """Whether the arguments of a call are streamed, as Vertex supports."""
    logprobs: bool = False

    def body(self, turn: Turn) -> bytes:
        if self.as_list:
            frames = self.frames(turn)
            return b"[" + b",\r\n".join([*frames.pieces, *frames.tail]) + b"]"
        turn, malformed = self._prepared(turn)
        parts = [part for piece in turn.content for part in _wire_parts(piece, "whole")]
        return self._response(_token(22), parts, turn.usage, _finish_fields(turn, malformed))

    def frames(self, turn: Turn) -> Frames:
        turn, malformed = self._prepared(turn)
        response_id = _token(22)
        parts = [part for said in turn.content for part in self._streamed(said, turn.pieces)]
        pieces = [
            self._response(response_id, [part], _running_total(turn.usage, place + 1, len(parts)))
            for place, part in enumerate(parts)
        ]
        last = [] if malformed else [{"text": ""}]
        end = self._response(response_id, last, turn.usage, _finish_fields(turn, malformed))
        return Frames([], pieces, [end])

    def _streamed(self, part: AnyPart, pieces: Pieces) -> Iterable[dict[str, Any]]:
        partial: list[dict[str, Any]] | None = None
        if self.partial and isinstance(part, FunctionCall):
            partial = partial_call_parts(part, pieces)
        return _wire_parts(part, pieces) if partial is None else partial

    def _prepared(self, turn: Turn) -> tuple[Turn, FunctionCall | None]:
        """The turn with ids and signatures, and its first malformed call."""
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
    """Each text counts as one token; shorter tokens are more likely."""
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
                texts.append("")  # In a stream the signature is last, on an empty text.
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
            raise ValueError(f"a Gemini response cannot contain {part!r}")


def _call_part(made: FunctionCall) -> dict[str, Any]:
    return {
        "functionCall": {
            **({"id": made.id} if made.id else {}),
            "name": made.name,
            "args": made.arguments,
        },
        **({"thoughtSignature": made.signature} if made.signature is not None else {}),
    }


def _finish_fields(turn: Turn, malformed: FunctionCall | None) -> dict[str, Any]:
    if malformed:
        text = f"Malformed function call: {malformed.name}({malformed.json})"
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": text}
    return {"finishReason": FINISH_WORDS.get(turn.finish_word, turn.finish_word)}


def _without_ids(turn: Turn) -> Turn:
    def without_id(part: AnyPart) -> AnyPart:
        return msgspec.structs.replace(part, id="") if isinstance(part, FunctionCall) else part

    parts = tuple(map(without_id, turn.content))
    return msgspec.structs.replace(turn, text="", thoughts="", calls=(), parts=parts)


def _signed(turn: Turn, first: FunctionCall) -> Turn:
    signature = base64.b64encode(secrets.token_bytes(24)).decode()
    signed = msgspec.structs.replace(first, signature=signature)
    parts = tuple(signed if part is first else part for part in turn.content)
    return msgspec.structs.replace(turn, text="", thoughts="", calls=(), parts=parts)


def _running_total(usage: Usage, done: int, pieces: int) -> Usage:
    """The counts in a stream are running totals."""
    output = usage.output_tokens * done // pieces
    return msgspec.structs.replace(
        usage,
        output_tokens=max(output, usage.thought_tokens),
        total_tokens=usage.total_tokens - usage.output_tokens + max(output, usage.thought_tokens),
    )


def _usage(usage: Usage) -> dict[str, Any]:
    # Gemini counts thoughts separately; Windlass's output tokens include them.
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


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def partial_call_parts(made: FunctionCall, pieces: Pieces) -> list[dict[str, Any]] | None:
    """The call as streamed parts, one for each piece; None if it cannot be streamed.

    An empty list or object inside the arguments has no JSON path.
    """
    try:
        values = list(_partial_args(made.arguments, "$", pieces))
    except _NoPath:
        return None
    identity = {"id": made.id} if made.id else {}
    signed = {"thoughtSignature": made.signature} if made.signature is not None else {}
    head = {"functionCall": {**identity, "name": made.name, "willContinue": True}, **signed}
    more = [{"functionCall": {"partialArgs": [v], "willContinue": True}} for v in values]
    return [head, *more, {"functionCall": {}}]


class _NoPath(Exception):
    pass


def _partial_args(value: object, path: str, pieces: Pieces) -> Iterator[dict[str, Any]]:
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            if not fields and path != "$":
                raise _NoPath
            for name, field in fields.items():
                yield from _partial_args(field, path + _step(name), pieces)
        case list():
            items = cast("list[Any]", value)
            if not items:
                raise _NoPath
            for place, item in enumerate(items):
                yield from _partial_args(item, f"{path}[{place}]", pieces)
        case str():
            *others, last = split(value, pieces, words=False) or [""]
            for piece in others:
                yield {"jsonPath": path, "stringValue": piece, "willContinue": True}
            yield {"jsonPath": path, "stringValue": last}
        case bool():
            yield {"jsonPath": path, "boolValue": value}
        case None:
            yield {"jsonPath": path, "nullValue": "NULL_VALUE"}
        case _:
            yield {"jsonPath": path, "numberValue": value}


def _step(name: str) -> str:
    if _NAME.fullmatch(name):
        return f".{name}"
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"
