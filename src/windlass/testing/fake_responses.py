"""A fake of OpenAI's Responses service."""

import hashlib
import time
from collections.abc import Sequence
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, Opaque, Text, Thought, Usage
from windlass.testing.exchange import (
    Frames,
    Received,
    RequestRefused,
    ResponseWriter,
    TransportOptions,
    json_bytes,
)
from windlass.testing.fake_openai import FakeOpenAI, openai_token
from windlass.testing.responses_rules import check_responses_request
from windlass.testing.script import Refuse, Script, Turn, split, with_ids

_INCOMPLETE = {"length": "max_output_tokens"}
"""The service's reasons for an incomplete response, where they differ from ours."""
_ECHOED: dict[str, Any] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
"""The fields of a request that its response repeats, with their defaults."""


class FakeResponses(FakeOpenAI):
    """OpenAI's Responses API, driven by a script: `POST /v1/responses` and `GET /v1/models`.

    A `Thought` of a turn is a reasoning item. Items of the service's own tools are parts
    `Opaque("responses", item)`. `stored` has the conversation of every stored response; delete one
    to let it expire. The options are those of `FakeOpenAI`; `reasoning=False` is a model that
    refuses to return encrypted reasoning.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        port: int = 0,
        reasoning: bool = True,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(script, api_key=api_key, models=models, port=port, **options)
        self._transport = msgspec.structs.replace(self._transport, named=True)
        self.stored: dict[str, list[dict[str, Any]]] = {}
        self._reasoning = reasoning

    def _is_model_request(self, received: Received) -> bool:
        return received.path == "/v1/responses" and received.method == "POST"

    def _accepted(self, received: Received) -> ResponseWriter | Any:
        self._check_key(received.headers.get("authorization", ""))
        if not self._is_model_request(received):
            return self._listing(received)
        body, items = check_responses_request(received.body, self.stored)
        self._check_model(body["model"])
        include: list[str] = body.get("include") or []
        if not self._reasoning and "reasoning.encrypted_content" in include:
            text = "Encrypted content is not supported with this model."
            raise RequestRefused(400, text, param="include")
        tools: list[dict[str, Any]] = body.get("tools") or []
        return ResponsesWriter(
            request=body,
            streams=bool(body.get("stream")),
            encrypted="reasoning.encrypted_content" in include,
            logprobs="message.output_text.logprobs" in include,
            custom=tuple(tool["name"] for tool in tools if tool["type"] == "custom"),
            conversation=items,
            stored=self.stored if body.get("store") is not False else None,
            error_body=self._error_body,
        )


class _OutputItem(Struct):
    """One output item: as it starts, its pieces as events, its last events, and as it ends."""

    begun: dict[str, Any]
    opening: list[dict[str, Any]]
    deltas: list[dict[str, Any]]
    closing: list[dict[str, Any]]
    done: dict[str, Any]


class ResponsesWriter(Struct, frozen=True, kw_only=True):
    """Writes the response to a Responses request as OpenAI does."""

    request: dict[str, Any]
    streams: bool
    encrypted: bool
    logprobs: bool
    custom: tuple[str, ...]
    conversation: list[dict[str, Any]]
    stored: dict[str, list[dict[str, Any]]] | None
    error_body: Any

    def body(self, turn: Turn) -> bytes:
        pieces = [self._piece(part, turn) for part in with_ids(turn, _call_id).content]
        return json_bytes(self._ended(self._begun(), turn, [piece.done for piece in pieces]))

    def frames(self, turn: Turn) -> Frames:
        numbers = _EventNumbers()
        turn = with_ids(turn, _call_id)
        begun = self._begun()
        pieces = [self._piece(part, turn) for part in turn.content]
        head = [
            numbers.event("response.created", {"response": begun}),
            numbers.event("response.in_progress", {"response": begun}),
        ]
        groups: list[bytes] = []
        before: list[bytes] = []
        for index, piece in enumerate(pieces):
            place = {"output_index": index, "item_id": piece.begun["id"]}
            added = {"output_index": index, "item": piece.begun}
            before.append(numbers.event("response.output_item.added", added))
            before += [numbers.event(each["type"], {**place, **each}) for each in piece.opening]
            is_call = piece.begun["type"] in ("function_call", "custom_tool_call")
            if is_call or not piece.deltas:  # the start of a call is a piece, too
                groups.append(b"\n".join(before))
                before = []
            for delta in piece.deltas:
                before.append(numbers.event(delta["type"], {**place, **delta}))
                groups.append(b"\n".join(before))
                before = []
            before += [numbers.event(each["type"], {**place, **each}) for each in piece.closing]
            done = {"output_index": index, "item": piece.done}
            before.append(numbers.event("response.output_item.done", done))
        ended = self._ended(begun, turn, [piece.done for piece in pieces])
        before.append(numbers.event(f"response.{ended['status']}", {"response": ended}))
        return Frames(head, groups, [b"\n".join(before)])

    def failure(self, error: Refuse) -> list[bytes]:
        """The events that report an error within the stream."""
        fields = self.error_body(error)["error"]
        code = fields["code"] or fields["type"]
        flat = {"code": code, "message": fields["message"], "param": fields["param"]}
        failed = {
            **self._begun(),
            "status": "failed",
            "error": {"code": code, "message": fields["message"]},
        }
        numbers = _EventNumbers()
        events = [
            numbers.event("error", flat),
            numbers.event("response.failed", {"response": failed}),
        ]
        return [b"\n".join(events)]

    def _begun(self) -> dict[str, Any]:
        asked = {name: self.request.get(name) for name in _ECHOED}
        given = {name: value for name, value in asked.items() if value is not None}
        tools = [_echoed_tool(tool) for tool in given.get("tools", [])]
        return {
            "id": f"resp_{openai_token(48)}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": self.request["model"],
            "output": [],
            "usage": None,
            **_ECHOED,
            **given,
            "tools": tools,
        }

    def _ended(
        self, begun: dict[str, Any], turn: Turn, output: list[dict[str, Any]]
    ) -> dict[str, Any]:
        complete = turn.finish_word in ("stop", "tool_calls")
        reason = _INCOMPLETE.get(turn.finish_word, turn.finish_word)
        if self.stored is not None:
            self.stored[begun["id"]] = [*self.conversation, *output]
        return {
            **begun,
            "status": "completed" if complete else "incomplete",
            "completed_at": int(time.time()) if complete else None,
            "incomplete_details": None if complete else {"reason": reason},
            "output": output,
            "usage": _usage(turn.usage),
        }

    def _piece(self, part: AnyPart, turn: Turn) -> _OutputItem:
        match part:
            case Text(text=text):
                return self._message(text, turn)
            case Thought(text=text):
                return self._reasoning(text, turn)
            case FunctionCall() if part.name in self.custom:
                return _custom_call(part, turn)
            case FunctionCall():
                return _function_call(part, turn)
            case Opaque(provider="responses", data={"type": "refusal", "refusal": str(text)}):
                return _refusal(text, turn)
            case Opaque(provider="responses", data=data):
                item = {"id": f"item_{openai_token(24)}", "status": "completed", **data}
                return _OutputItem(item, [], [], [], item)
            case _:
                raise ValueError(f"a response of the Responses API cannot contain {part!r}")

    def _message(self, text: str, turn: Turn) -> _OutputItem:
        at = {"content_index": 0}
        kind = "response.output_text"
        tokens = split(text, turn.pieces)
        whole: dict[str, Any] = {"type": "output_text", "annotations": [], "text": text}
        whole["logprobs"] = self._logprobs(tokens)
        empty: dict[str, Any] = {**whole, "text": "", "logprobs": []}
        item = {"id": f"msg_{openai_token(48)}", "type": "message", "role": "assistant"}
        return _OutputItem(
            {**item, "status": "in_progress", "content": []},
            [{"type": "response.content_part.added", **at, "part": empty}],
            [
                {"type": f"{kind}.delta", **at, "delta": each, "logprobs": self._logprobs([each])}
                for each in tokens
            ],
            [
                {"type": f"{kind}.done", **at, "text": text, "logprobs": whole["logprobs"]},
                {"type": "response.content_part.done", **at, "part": whole},
            ],
            {**item, "status": _status(turn), "content": [whole]},
        )

    def _logprobs(self, tokens: list[str]) -> list[dict[str, Any]]:
        """Each piece counts as one token; shorter tokens are more likely."""
        if not self.logprobs:
            return []
        return [
            {
                "token": token,
                "logprob": -len(token) / 10,
                "bytes": list(token.encode()),
                "top_logprobs": [],
            }
            for token in tokens
        ]

    def _reasoning(self, text: str, turn: Turn) -> _OutputItem:
        at = {"summary_index": 0}
        kind = "response.reasoning_summary"
        part = {"type": "summary_text", "text": text}
        # The same reasoning in the same place has the same id: clients return it unchanged.
        mark = hashlib.sha256(f"{len(self.conversation)} {text}".encode()).hexdigest()
        secret = {"encrypted_content": f"gAAAAA{mark}"} if self.encrypted else {}
        item: dict[str, Any] = {"id": f"rs_{mark[:48]}", "type": "reasoning"}
        return _OutputItem(
            {**item, **secret, "summary": []},
            [{"type": f"{kind}_part.added", **at, "part": {"type": "summary_text", "text": ""}}],
            [
                {"type": f"{kind}_text.delta", **at, "delta": each}
                for each in split(text, turn.pieces)
            ],
            [
                {"type": f"{kind}_text.done", **at, "text": text},
                {"type": f"{kind}_part.done", **at, "part": part},
            ],
            {**item, **secret, "summary": [part]},
        )


def _refusal(text: str, turn: Turn) -> _OutputItem:
    at = {"content_index": 0}
    whole = {"type": "refusal", "refusal": text}
    item = {"id": f"msg_{openai_token(48)}", "type": "message", "role": "assistant"}
    empty = {"type": "refusal", "refusal": ""}
    return _OutputItem(
        {**item, "status": "in_progress", "content": []},
        [{"type": "response.content_part.added", **at, "part": empty}],
        [
            {"type": "response.refusal.delta", **at, "delta": each}
            for each in split(text, turn.pieces)
        ],
        [
            {"type": "response.refusal.done", **at, "refusal": text},
            {"type": "response.content_part.done", **at, "part": whole},
        ],
        {**item, "status": "completed", "content": [whole]},
    )


def _function_call(made: FunctionCall, turn: Turn) -> _OutputItem:
    kind = "response.function_call_arguments"
    item = {"id": f"fc_{openai_token(48)}", "type": "function_call"}
    item |= {"call_id": made.id, "name": made.name}
    return _OutputItem(
        {**item, "status": "in_progress", "arguments": ""},
        [],
        [
            {"type": f"{kind}.delta", "delta": each}
            for each in split(made.json, turn.pieces, words=False)
        ],
        [{"type": f"{kind}.done", "arguments": made.json, "name": made.name}],
        {**item, "status": _status(turn), "arguments": made.json},
    )


def _custom_call(made: FunctionCall, turn: Turn) -> _OutputItem:
    kind = "response.custom_tool_call_input"
    arguments = made.arguments
    text = arguments if isinstance(arguments, str) else str(arguments.get("input", ""))
    item = {"id": f"ctc_{openai_token(48)}", "type": "custom_tool_call"}
    item |= {"call_id": made.id, "name": made.name}
    return _OutputItem(
        {**item, "status": "in_progress", "input": ""},
        [],
        [{"type": f"{kind}.delta", "delta": each} for each in split(text, turn.pieces)],
        [{"type": f"{kind}.done", "input": text}],
        {**item, "status": "completed", "input": text},
    )


def _status(turn: Turn) -> str:
    return "completed" if turn.finish_word in ("stop", "tool_calls") else "incomplete"


class _EventNumbers:
    """Numbers the events of one stream."""

    def __init__(self) -> None:
        self._next = 0

    def event(self, kind: str, fields: dict[str, Any]) -> bytes:
        number, self._next = self._next, self._next + 1
        return json_bytes({"type": kind, "sequence_number": number, **fields})


def _echoed_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": True, **tool}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thought_tokens},
        "total_tokens": usage.total_tokens,
    }


def _call_id() -> str:
    return f"call_{openai_token(24)}"
