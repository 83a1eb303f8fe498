"""Encodes a run as an answer of generateContent: as one body, or as chunks. Pure.

The rounds of server tools are hidden: the client sees one turn of the model, with the thoughts (if
it asked for them) and the text of all rounds, and the calls of its own tools at the end.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

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
from windlass.events import (
    Event,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallStarted,
    TurnEnded,
    joined_logprobs,
)
from windlass.jsontext import encode_any_json, encode_json
from windlass.reply import Reply
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.encoding import ROUND_GAP, events_of
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest
from windlass.wires.gemini.messages import PROVIDER, Token, encode_part, encode_token
from windlass.wires.gemini.read_events import CANDIDATE
from windlass.wires.text_frames import framed_texts
from windlass.wires.upstream_errors import CONTEXT_EXCEEDED, prompt_size

if TYPE_CHECKING:  # its imports are slow, and only the gateway's document needs them
    from windlass.wires.gemini.types import GeminiModelJson

FINISH_REASONS: dict[StopReason, str] = {
    "answer": "STOP",
    "calls": "STOP",
    "max_rounds": "STOP",
    "budget": "MAX_TOKENS",
    "repetition": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "stopped": "OTHER",
}
"""Other stop reasons are errors."""

_EMPTY: JsonObject = {"text": ""}
_NO_USAGE = Usage()


class AnswerHead(Struct, frozen=True):
    """The common fields of all chunks of an answer."""

    id: str
    model: str


class Form(Struct, frozen=True, omit_defaults=True):
    """The form of an answer, which depends on its request and the gateway's settings."""

    thoughts: bool = False
    """Whether the client asked for thoughts."""
    all_text: bool = True
    """Whether the answer has the text of all rounds, or only of the last."""


DEFAULT_FORM = Form()


# Parts, in the order that both forms have.


class _Piece(NamedTuple):
    """A part, or a piece of its text, and the log probabilities of its tokens."""

    part: JsonObject
    logprobs: JsonObject | None = None


_Table: TypeAlias = "dict[type[Event], Callable[..., list[_Piece]]]"


class _PartMachine:
    """Turns the events of a run into the parts that its client sees.

    Blank text waits for more text, because the client does not see the text of an earlier round
    without any. If the client sees only the text of the last round, all text waits.
    """

    __slots__ = (
        "_calling",
        "_form",
        "_held",
        "_new_thought",
        "_thought_end",
        "_waits",
        "is_open",
        "new_text",
        "text_end",
    )

    def __init__(self, tools: Mapping[str, Tool], form: Form) -> None:
        self._form = form
        self._waits = not form.all_text and any(tool.runnable for tool in tools.values())
        """Whether the text of a round waits until the round is known to be the last."""
        self._held: list[TextDelta | PartReceived | TurnEnded] = []
        self.is_open = False
        """Whether text of this round is shown at once."""
        self._calling = False
        """Whether this turn has any calls."""
        self.text_end = self._thought_end = ""
        """The last character of the text so far, and of the thoughts."""
        self.new_text = self._new_thought = False
        """Whether the next piece is the first of its round."""

    def add(self, event: RunEvent) -> list[_Piece]:
        read = self._READERS.get(type(event))
        return read(self, event) if read is not None else []

    def release(self) -> list[_Piece]:
        """The parts of the delayed events, in order."""
        held, self._held, self.is_open = self._held, [], True
        return [piece for event in held for piece in self._shown(event)]

    def _round_started(self, event: RoundStarted | RoundRestarted) -> list[_Piece]:
        self._held = []
        self.is_open = self._calling = False
        self.new_text = self._new_thought = True
        return []

    def _call_started(self, event: ToolCallStarted) -> list[_Piece]:
        self._calling = True
        return []

    def _turn_ended(self, event: TurnEnded) -> list[_Piece]:
        if event.logprobs is not None:
            self._held.append(event)
        # A turn without calls is the last one.
        is_last = self._waits and not self._calling
        return self.release() if self.is_open or is_last else []

    def _text(self, event: TextDelta) -> list[_Piece]:
        if self.is_open:
            return self._shown(event)
        self._held.append(event)
        return [] if self._waits or not event.text.strip() else self.release()

    def _part(self, event: PartReceived) -> list[_Piece]:
        if self._waits and not self.is_open:
            self._held.append(event)
            return []
        return self._shown(event)

    def _thought(self, event: ThoughtDelta) -> list[_Piece]:
        if not self._form.thoughts:
            return []
        pieces: list[_Piece] = []
        if event.text:
            if self._new_thought and _needs_gap(self._thought_end, event.text):
                pieces.append(_Piece({"text": ROUND_GAP, "thought": True}))
            self._new_thought, self._thought_end = False, event.text[-1]
        thought = Thought(event.text, event.signature, extra=event.extra or {})
        return [*pieces, *_pieces_of(thought)]

    def _shown(self, event: TextDelta | PartReceived | TurnEnded) -> list[_Piece]:
        match event:
            case TextDelta():
                return self._text_pieces(event)
            case PartReceived():
                return _pieces_of(event.part)
            case TurnEnded():
                return [_Piece(_EMPTY, event.logprobs)]

    def _text_pieces(self, event: TextDelta) -> list[_Piece]:
        pieces: list[_Piece] = []
        if event.text:
            if self.new_text and _needs_gap(self.text_end, event.text):
                pieces.append(_Piece({"text": ROUND_GAP}))
            self.new_text, self.text_end = False, event.text[-1]
        text = Text(event.text, event.signature, extra=event.extra or {})
        found = _pieces_of(text)
        if event.logprobs is not None:
            found = [_Piece(found[0].part if found else _EMPTY, event.logprobs)]
        return [*pieces, *found]

    # On the class: a table of bound methods would be a reference cycle.
    _READERS: ClassVar[_Table] = {
        RoundStarted: _round_started,
        RoundRestarted: _round_started,
        TextDelta: _text,
        ThoughtDelta: _thought,
        PartReceived: _part,
        ToolCallStarted: _call_started,
        TurnEnded: _turn_ended,
    }


def _needs_gap(before: str, after: str) -> bool:
    """Whether a paragraph break must separate the texts of two rounds."""
    return bool(before) and not before.isspace() and not after[:1].isspace()


def _pieces_of(part: AnyPart) -> list[_Piece]:
    """The part as the client sees it; parts that this wire cannot express are left out."""
    match part:
        case Text(text="", signature=None) | Thought(text="", signature=None) if not part.extra:
            return []
        case Text() | Thought():
            return [_Piece(_signed(part, encode_part(part, True) or _EMPTY))]
        case InlineData() | FileData():
            return [_Piece(encode_part(part, True) or {})]
        case Opaque(provider="gemini", data=data) if data:
            return [_Piece(data)]
        case Opaque(data={"type": "refusal", "refusal": str(text)}) if text:
            return [_Piece({"text": text})]
        case Opaque(data={"type": "image_url", "image_url": {"url": str(uri)}}):
            return [_Piece({"fileData": {"fileUri": uri, "mimeType": "image/*"}})]
        case _:
            return []


def _signed(part: Text | Thought, fields: JsonObject) -> JsonObject:
    extra = rest(part.extra, PROVIDER)
    if part.signature is None and not extra:
        return fields
    return {**fields, "thoughtSignature": encode_token(Token("", part.signature, extra))}


def _call_part(call: FunctionCall, ids: CallIds) -> JsonObject:
    fields = encode_part(call, True) or {}
    outward = ids.outward(call.id)
    token = Token(outward, call.signature, rest(call.extra, PROVIDER))
    fields["functionCall"] = {"id": outward, **rest(fields["functionCall"], "id")}
    return {**fields, "thoughtSignature": encode_token(token)}


# One body.


def answer_body(
    head: AnswerHead,
    reply: Reply,
    tools: Mapping[str, Tool],
    ids: CallIds,
    form: Form = DEFAULT_FORM,
) -> bytes:
    """The whole answer as one JSON body."""
    return encode_any_json(answer_fields(head, reply, tools, ids, form))


def answer_fields(
    head: AnswerHead,
    reply: Reply,
    tools: Mapping[str, Tool],
    ids: CallIds,
    form: Form = DEFAULT_FORM,
) -> JsonObject:
    machine = _PartMachine(tools, form)
    pieces = [piece for event in events_of(reply) for piece in machine.add(event)]
    pieces += machine.release()
    parts = [*_joined(piece.part for piece in pieces), *_call_parts(reply, ids)]
    logprobs = joined_logprobs(piece.logprobs for piece in pieces if piece.logprobs)
    candidate: JsonObject = {
        "content": {"role": "model", "parts": parts or [_EMPTY]},
        **({"logprobsResult": _logprobs(logprobs)} if logprobs else {}),
        **_ending(reply),
    }
    return {
        "candidates": [candidate],
        **_usage(reply),
        "modelVersion": head.model,
        "responseId": head.id,
    }


def _joined(parts: Iterable[JsonObject]) -> list[JsonObject]:
    """The parts with adjacent plain texts, and adjacent plain thoughts, as one part."""
    joined: list[JsonObject] = []
    pieces: list[str] = []
    for part in parts:
        kind = part.keys()
        if kind != {"text"} and kind != {"text", "thought"}:
            joined.append(part)
            pieces = []
            continue
        if not pieces or joined[-1].keys() != kind:
            pieces = []
            joined.append(part)
        pieces.append(part["text"])
        if len(pieces) > 1:
            joined[-1] = {**part, "text": pieces}
    return [_with_text(part) for part in joined if part != _EMPTY]


def _with_text(part: JsonObject) -> JsonObject:
    pieces = as_list(part.get("text"))
    return part if pieces is None else {**part, "text": "".join(pieces)}


def _call_parts(reply: Reply, ids: CallIds) -> list[JsonObject]:
    return [_call_part(call, ids) for call in reply.pending]


def _ending(reply: Reply) -> JsonObject:
    """The last fields of a candidate: its finish reason and the service's details about it."""
    reason = "STOP" if reply.pending else FINISH_REASONS.get(reply.stop_reason, "STOP")
    extra = reply.rounds[-1].message.extra if reply.rounds else {}
    return {"finishReason": reason, "index": 0, **(as_object(extra.get(CANDIDATE)) or {})}


def _usage(reply: Reply) -> JsonObject:
    return {} if reply.usage == _NO_USAGE else {"usageMetadata": usage_fields(reply.usage)}


def usage_fields(usage: Usage) -> JsonObject:
    """The token counts of all rounds. Google's candidates do not include thoughts."""
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": max(0, usage.output_tokens - usage.thought_tokens),
        "totalTokenCount": usage.total_tokens,
        **({"cachedContentTokenCount": usage.cached_tokens} if usage.cached_tokens else {}),
        **({"thoughtsTokenCount": usage.thought_tokens} if usage.thought_tokens else {}),
    }


def _logprobs(logprobs: JsonObject) -> JsonObject:
    """The log probabilities as `logprobsResult`."""
    tokens = [as_object(token) or {} for token in as_list(logprobs.get("content")) or ()]
    return {
        "chosenCandidates": [_token(token) for token in tokens],
        "topCandidates": [
            {"candidates": [_token(top) for top in as_list(token.get("top_logprobs")) or ()]}
            for token in tokens
        ],
    }


def _token(token: Any) -> JsonObject:
    fields = as_object(token) or {}
    text = as_text(fields.get("token")) or ""
    return {"token": text, "logProbability": fields.get("logprob", 0.0)}


# The stream.


class ChunkEncoder:
    """Encodes one run for one client. All chunks together equal the body of the same run.

    With `sse`, chunks are server-sent events; otherwise they are the items of one JSON list. An
    idle stream is kept open by line breaks, because Google's clients read a comment as data.
    """

    paused = False

    def __init__(
        self,
        head: AnswerHead,
        tools: Mapping[str, Tool],
        ids: CallIds,
        form: Form = DEFAULT_FORM,
        *,
        sse: bool = True,
    ) -> None:
        self._ids, self._sse = ids, sse
        self._parts = _PartMachine(tools, form)
        start, self._separator = (b"data: ", b"\n\n") if sse else (b"", b",\n")
        self._before = start + b'{"candidates":[{"content":{"role":"model","parts":['
        self._about = b'"modelVersion":%s,"responseId":%s}' % (
            encode_json(head.model),
            encode_json(head.id),
        )
        self._after = b']},"index":0}],' + self._about + self._separator
        self._text_before = self._before + b'{"text":'
        self._text_after = b"}" + self._after
        self.heartbeat = b"\n\n" if sse else b"\n"

    def begin(self) -> bytes:
        return b"" if self._sse else b"["

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """The chunks of these events; often none."""
        parts = self._parts
        chunks: list[bytes] = []
        texts: list[str] = []
        for event in events:
            if (
                type(event) is TextDelta
                and parts.is_open
                and not parts.new_text
                and event.text
                and event.signature is None
                and event.extra is None
                and event.logprobs is None
            ):  # the fast path, for nearly all events
                texts.append(event.text)
            else:
                if texts:
                    chunks.append(self._text_chunks(texts))
                    texts = []
                chunks += map(self._chunk, parts.add(event))
        if texts:
            chunks.append(self._text_chunks(texts))
        return b"".join(chunks)

    def end(self, reply: Reply | None) -> bytes:
        """The last chunks: the calls, the finish reason, and the usage of the whole run.

        The last one always has a part: chats of google-genai drop a turn with an empty content.
        """
        assert reply is not None
        chunks = [self._chunk(piece) for piece in self._parts.release()]
        parts = _call_parts(reply, self._ids) or [_EMPTY]
        last: JsonObject = {
            "candidates": [{"content": {"role": "model", "parts": parts}, **_ending(reply)}],
            **_usage(reply),
        }
        body = encode_any_json(last)[:-1] + b"," + self._about
        return b"".join(chunks) + (b"data: " + body + b"\n\n" if self._sse else body + b"]")

    def fail(self, problem: Problem) -> bytes:
        """The end of the stream of a run that failed.

        The JSON without `data:` at the end of an event stream makes `@google/genai` raise an error.
        It reads an error in an event as an empty chunk, and would return half an answer.
        """
        body = error_body(problem)
        return b"data: " + body + b"\n\n" + body + b"\n" if self._sse else body + b"]"

    def _text_chunks(self, texts: Sequence[str]) -> bytes:
        """The chunks of texts that continue the text of their round."""
        self._parts.text_end = texts[-1][-1]
        return framed_texts(texts, self._text_before, self._text_after)

    def _chunk(self, piece: _Piece) -> bytes:
        part = encode_any_json(piece.part)
        if piece.logprobs is None:
            return self._before + part + self._after
        result = encode_json(_logprobs(piece.logprobs))
        candidate = b']},"logprobsResult":%s,"index":0}],' % result
        return self._before + part + candidate + self._about + self._separator


# Errors.

STATUSES: dict[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RPC = "type.googleapis.com/google.rpc."


def error_fields(problem: Problem) -> JsonObject:
    """An error in the form that Google's clients read."""
    other = "INVALID_ARGUMENT" if 400 <= problem.status < 500 else "INTERNAL"
    details: list[JsonObject] = []
    if problem.code:
        reason = problem.code.upper()
        details.append({"@type": f"{_RPC}ErrorInfo", "reason": reason, "domain": "windlass"})
    if problem.param:
        violation = {"field": problem.param, "description": problem.message}
        details.append({"@type": f"{_RPC}BadRequest", "fieldViolations": [violation]})
    if problem.retry_after is not None:
        delay = f"{problem.retry_after:g}s"
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": delay})
    return {
        "code": problem.status,
        "message": _message(problem),
        "status": STATUSES.get(problem.status, other),
        "details": details,
    }


def _message(problem: Problem) -> str:
    """The message. For a prompt that is too long it has Google's words, since there is no code."""
    size = prompt_size(problem.message) if problem.code == CONTEXT_EXCEEDED else None
    if size is None:
        return problem.message
    return (
        f"The input token count ({size.tokens}) exceeds the maximum number of tokens allowed"
        f" ({size.maximum})."
    )


def error_body(problem: Problem) -> bytes:
    """The body of an error response."""
    return encode_json({"error": error_fields(problem)})


METHODS = ("generateContent", "streamGenerateContent", "countTokens")


def model_fields(name: str) -> "GeminiModelJson":
    """A model as Google's clients expect it."""
    return {
        "name": f"models/{name}",
        "baseModelId": name,
        "version": "1",
        "displayName": name,
        "description": "A model of this gateway, with its tools.",
        "supportedGenerationMethods": list(METHODS),
    }
