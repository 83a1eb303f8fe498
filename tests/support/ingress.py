"""The gateway's wires as clients see them: the form of requests, answers and errors."""

import base64
import json
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from tests.support.message_answers import check_order, final_message, sse_events
from tests.support.response_streams import checked, parsed

from windlass.content import FunctionDeclaration

Body = dict[str, Any]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n a picture").decode()
SCHEMA: Body = {
    "type": "object",
    "properties": {"sky": {"type": "string"}},
    "required": ["sky"],
    "additionalProperties": False,
}
RING = FunctionDeclaration(
    "ring", "Rings a bell.", {"type": "object", "properties": {"times": {"type": "integer"}}}
)


class Seen(NamedTuple):
    """The content of an answer, independent of the wire."""

    text: str
    thoughts: str
    calls: list[tuple[str, Body]]
    finish: str
    turn: Any
    """The answer in the form of the next request."""


class Failure(NamedTuple):
    """The content of an error. `code` is the field by which a client decides what to do."""

    code: str
    message: str


def data_lines(stream: bytes) -> list[str]:
    """Returns the data of each event of a stream."""
    lines = stream.decode().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


class Ingress:
    """A wire. The `finish` of an answer is `stop`, `calls`, `length` or `refusal`."""

    name = ""

    def request(self, model: str, said: Sequence[Any], **wanted: Any) -> tuple[str, Body]:
        """Returns the path and the body. `wanted`: `tools` (declarations), `schema`, `stream`."""
        raise NotImplementedError

    def user(self, text: str, image: bool = False) -> Any:
        raise NotImplementedError

    def read(self, body: Body) -> Seen:
        raise NotImplementedError

    def read_stream(self, stream: bytes) -> Seen:
        """Joins a stream, as a client does. The stream must have the form of the wire."""
        raise NotImplementedError

    def error(self, body: Body) -> Failure:
        """Returns the error in the body of a refused request."""
        raise NotImplementedError

    def stream_error(self, stream: bytes) -> Failure:
        """Returns the error that ends a stream."""
        raise NotImplementedError

    def results(self, seen: Seen, results: Sequence[str]) -> list[Any]:
        """Returns the turn and the results of its calls, as messages."""
        raise NotImplementedError


class Chat(Ingress):
    name = "chat"
    _FINISHES: ClassVar = {
        "stop": "stop",
        "tool_calls": "calls",
        "length": "length",
        "content_filter": "refusal",
    }

    def request(self, model: str, said: Sequence[Any], **wanted: Any) -> tuple[str, Body]:
        body: Body = {"model": model, "messages": list(said), "stream": wanted.get("stream", False)}
        if wanted.get("tools"):
            functions = [{"name": t.name, "parameters": t.parameters} for t in wanted["tools"]]
            body["tools"] = [{"type": "function", "function": each} for each in functions]
        if wanted.get("schema"):
            schema = {"name": "sky", "schema": SCHEMA, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return "/v1/chat/completions", body

    def user(self, text: str, image: bool = False) -> Any:
        if not image:
            return {"role": "user", "content": text}
        url = {"url": f"data:image/png;base64,{PIXEL}"}
        parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]
        return {"role": "user", "content": parts}

    def read(self, body: Body) -> Seen:
        [choice] = body["choices"]
        message = choice["message"]
        made = [each["function"] for each in message.get("tool_calls") or ()]
        return Seen(
            message["content"] or "",
            message.get("reasoning_content") or "",
            [(each["name"], json.loads(each["arguments"])) for each in made],
            self._FINISHES[choice["finish_reason"]],
            message,
        )

    def read_stream(self, stream: bytes) -> Seen:
        *chunks, done = data_lines(stream)
        assert done == "[DONE]"
        message: Body = {"role": "assistant", "content": "", "reasoning_content": ""}
        finish = None
        for choice in (each for chunk in chunks for each in json.loads(chunk)["choices"]):
            finish = choice["finish_reason"] or finish
            for name in ("content", "reasoning_content"):
                message[name] += choice["delta"].get(name) or ""
            for piece in choice["delta"].get("tool_calls", ()):
                self._add(message.setdefault("tool_calls", []), piece)
        return self.read({"choices": [{"message": message, "finish_reason": finish}]})

    def _add(self, calls: list[Body], piece: Body) -> None:
        if piece["index"] == len(calls):
            calls.append({key: piece[key] for key in piece if key != "index"})
        else:
            function = calls[piece["index"]]["function"]
            function["arguments"] += piece.get("function", {}).get("arguments", "")

    def error(self, body: Body) -> Failure:
        return Failure(body["error"]["code"], body["error"]["message"])

    def stream_error(self, stream: bytes) -> Failure:
        errors = [json.loads(line) for line in data_lines(stream) if '"error"' in line]
        return self.error(errors[-1])

    def results(self, seen: Seen, results: Sequence[str]) -> list[Any]:
        made = zip(seen.turn["tool_calls"], results, strict=True)
        answers = [{"role": "tool", "tool_call_id": c["id"], "content": r} for c, r in made]
        return [seen.turn, *answers]


class Responses(Ingress):
    name = "responses"

    def request(self, model: str, said: Sequence[Any], **wanted: Any) -> tuple[str, Body]:
        body: Body = {"model": model, "input": list(said), "stream": wanted.get("stream", False)}
        if wanted.get("tools"):
            body["tools"] = [
                {"type": "function", "name": each.name, "parameters": each.parameters}
                for each in wanted["tools"]
            ]
        if wanted.get("schema"):
            schema = {"type": "json_schema", "name": "sky", "schema": SCHEMA, "strict": True}
            body["text"] = {"format": schema}
        return "/v1/responses", body

    def user(self, text: str, image: bool = False) -> Any:
        parts: list[Body] = [{"type": "input_text", "text": text}]
        if image:
            url = f"data:image/png;base64,{PIXEL}"
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
        return {"role": "user", "content": parts}

    def read(self, body: Body) -> Seen:
        said = [item for item in body["output"] if item["type"] == "message"]
        made = [item for item in body["output"] if item["type"] == "function_call"]
        thought = [item for item in body["output"] if item["type"] == "reasoning"]
        pieces = [part.get("text") or part.get("refusal") for i in said for part in i["content"]]
        thoughts = [p["text"] for i in thought for p in (i.get("content") or i["summary"])]
        reason = (body.get("incomplete_details") or {}).get("reason")
        usual = "calls" if made else "stop"
        finishes = {"max_output_tokens": "length", "content_filter": "refusal", None: usual}
        return Seen(
            "".join(pieces),
            "".join(thoughts),
            [(each["name"], json.loads(each["arguments"])) for each in made],
            finishes[reason],
            body["output"],
        )

    def read_stream(self, stream: bytes) -> Seen:
        seen = self.read(checked(stream))
        deltas = [e for e in parsed(stream) if e["type"] == "response.output_text.delta"]
        assert "".join(event["delta"] for event in deltas) == seen.text
        return seen

    def error(self, body: Body) -> Failure:
        return Failure(body["error"]["code"], body["error"]["message"])

    def stream_error(self, stream: bytes) -> Failure:
        return self.error(checked(stream))

    def results(self, seen: Seen, results: Sequence[str]) -> list[Any]:
        made = [item for item in seen.turn if item["type"] == "function_call"]
        pairs = zip(made, results, strict=True)
        answers = [
            {"type": "function_call_output", "call_id": c["call_id"], "output": r} for c, r in pairs
        ]
        return [*seen.turn, *answers]


class Messages(Ingress):
    name = "messages"
    _FINISHES: ClassVar = {
        "end_turn": "stop",
        "tool_use": "calls",
        "max_tokens": "length",
        "refusal": "refusal",
    }

    def request(self, model: str, said: Sequence[Any], **wanted: Any) -> tuple[str, Body]:
        body: Body = {"model": model, "max_tokens": 1000, "messages": list(said)}
        body["stream"] = wanted.get("stream", False)
        if wanted.get("tools"):
            body["tools"] = [
                {"name": each.name, "input_schema": each.parameters} for each in wanted["tools"]
            ]
        if wanted.get("schema"):
            body["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
        return "/v1/messages", body

    def user(self, text: str, image: bool = False) -> Any:
        parts: list[Body] = [{"type": "text", "text": text}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
            parts.append({"type": "image", "source": source})
        return {"role": "user", "content": parts}

    def read(self, body: Body) -> Seen:
        def of(kind: str) -> list[Body]:
            return [block for block in body["content"] if block["type"] == kind]

        return Seen(
            "".join(block["text"] for block in of("text")),
            "".join(block["thinking"] for block in of("thinking")),
            [(block["name"], block["input"]) for block in of("tool_use")],
            self._FINISHES[body["stop_reason"]],
            body["content"],
        )

    def read_stream(self, stream: bytes) -> Seen:
        check_order(list(sse_events(stream)))
        return self.read(final_message(stream))

    def error(self, body: Body) -> Failure:
        assert body["type"] == "error"
        return Failure(body["error"]["type"], body["error"]["message"])

    def stream_error(self, stream: bytes) -> Failure:
        *_, last = sse_events(stream)
        return self.error(last)

    def results(self, seen: Seen, results: Sequence[str]) -> list[Any]:
        made = [block for block in seen.turn if block["type"] == "tool_use"]
        pairs = zip(made, results, strict=True)
        answers = [{"type": "tool_result", "tool_use_id": c["id"], "content": r} for c, r in pairs]
        return [{"role": "assistant", "content": seen.turn}, {"role": "user", "content": answers}]


class Gemini(Ingress):
    name = "gemini"
    _FINISHES: ClassVar = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}

    def request(self, model: str, said: Sequence[Any], **wanted: Any) -> tuple[str, Body]:
        config: Body = {"thinkingConfig": {"includeThoughts": True}}
        body: Body = {"contents": list(said), "generationConfig": config}
        if wanted.get("tools"):
            declared = [
                {"name": each.name, "parametersJsonSchema": each.parameters}
                for each in wanted["tools"]
            ]
            body["tools"] = [{"functionDeclarations": declared}]
        if wanted.get("schema"):
            config |= {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
        verb = "streamGenerateContent?alt=sse" if wanted.get("stream") else "generateContent"
        return f"/v1beta/models/{model}:{verb}", body

    def user(self, text: str, image: bool = False) -> Any:
        parts: list[Body] = [{"text": text}]
        if image:
            parts.append({"inlineData": {"mimeType": "image/png", "data": PIXEL}})
        return {"role": "user", "parts": parts}

    def read(self, body: Body) -> Seen:
        [candidate] = body["candidates"]
        parts = candidate.get("content", {}).get("parts") or []
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        finish = self._FINISHES[candidate["finishReason"]]
        return Seen(
            "".join(part.get("text", "") for part in parts if not part.get("thought")),
            "".join(part.get("text", "") for part in parts if part.get("thought")),
            [(each["name"], each.get("args") or {}) for each in made],
            "calls" if made and finish == "stop" else finish,
            candidate.get("content"),
        )

    def read_stream(self, stream: bytes) -> Seen:
        chunks = [json.loads(line) for line in data_lines(stream)]
        candidates = [each for chunk in chunks for each in chunk["candidates"]]
        parts = [part for each in candidates for part in each["content"]["parts"]]
        assert [each for each in candidates if "finishReason" in each] == candidates[-1:]
        assert "usageMetadata" in chunks[-1]
        content = {"role": "model", "parts": parts}
        return self.read({"candidates": [{**candidates[-1], "content": content}]})

    def error(self, body: Body) -> Failure:
        return Failure(body["error"]["status"], body["error"]["message"])

    def stream_error(self, stream: bytes) -> Failure:
        return self.error(json.loads(data_lines(stream)[-1]))

    def results(self, seen: Seen, results: Sequence[str]) -> list[Any]:
        made = [part["functionCall"] for part in seen.turn["parts"] if "functionCall" in part]
        answers: list[Body] = []
        for call, result in zip(made, results, strict=True):
            kept = {key: call[key] for key in ("id", "name") if key in call}
            answers.append({"functionResponse": {**kept, "response": {"output": result}}})
        return [seen.turn, {"role": "user", "parts": answers}]


INGRESSES: dict[str, Ingress] = {
    wire.name: wire for wire in (Chat(), Responses(), Messages(), Gemini())
}
