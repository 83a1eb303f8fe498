"""A model's server for OpenAI's and Gemini's API, in a separate process, with fixed answers.

It chooses the answer without parsing the request. The name of the model decides:

- `bench-answer` gets a hundred tokens.
- `bench-tool` gets a call of `get_weather`, until the request contains a result.
- `bench-live` gets a token every 20 ms, and `bench-paced` every 10 ms.
- `bench-idle` gets no token.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import upstream
import uvloop

TOOL = "get_weather"
ANSWER = upstream.tokens(100)
PACES = {b"bench-live": 0.02, b"bench-paced": 0.01, b"bench-idle": 3600.0}
"""The seconds between two tokens, by model."""
USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
WANTS_STREAM = re.compile(rb'"stream": ?true|:streamGenerateContent')
HAS_RESULT = re.compile(rb'"role": ?"tool"|"function_?[rR]esponse"')


class RequestKind(NamedTuple):
    gemini: bool
    stream: bool
    calls_tool: bool


def gemini_response(parts: Sequence[Mapping[str, object]], finish: str | None) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    metadata = {"modelVersion": "bench", "responseId": "bench"}
    return {"candidates": [candidate], "usageMetadata": USAGE, **metadata}


def gemini_call() -> dict[str, object]:
    return {"functionCall": {"id": "call_0", "name": TOOL, "args": {"city": "city 0"}}}


def gemini_body(calls_tool: bool) -> bytes:
    part = gemini_call() if calls_tool else {"text": "".join(ANSWER)}
    return json.dumps(gemini_response([part], "STOP")).encode()


def gemini_chunks(calls_tool: bool) -> Iterator[bytes]:
    parts = [gemini_call()] if calls_tool else [{"text": token} for token in ANSWER]
    responses = [gemini_response([part], None) for part in parts]
    responses.append(gemini_response([{"text": ""}], "STOP"))
    for response in responses:
        event = b"data: %s\r\n\r\n" % json.dumps(response).encode()
        yield b"%x\r\n%s\r\n" % (len(event), event)
    yield b"0\r\n\r\n"


def response_parts(kind: RequestKind) -> list[bytes]:
    """Returns the parts of the answer. Those of a stream are the head and the chunks."""
    if not kind.gemini:
        model = "tools-1" if kind.calls_tool else f"tokens-{len(ANSWER)}"
        return upstream.response(model, kind.stream, 0, TOOL)
    if kind.stream:
        return [upstream.SSE_HEAD, *gemini_chunks(kind.calls_tool)]
    body = gemini_body(kind.calls_tool)
    return [upstream.JSON_HEAD % (len(body), body)]


PIECES = {
    kind: response_parts(kind)
    for gemini in (False, True)
    for stream in (False, True)
    for calls_tool in (False, True)
    for kind in [RequestKind(gemini, stream, calls_tool)]
}
WHOLE = {kind: b"".join(pieces) for kind, pieces in PIECES.items()}


class Connection(asyncio.Protocol):
    """A minimal HTTP/1.1 server: POST bodies with a length, one at a time, on open connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transport has another class
        self.buffer = b""
        self.pacing: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.pacing:
            self.pacing.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if length and len(body) >= int(length[1]):
            request, self.buffer = self.buffer, b""
            self.answer(request)

    def answer(self, request: bytes) -> None:
        kind = RequestKind(
            gemini=b"enerateContent" in request[:200],
            stream=WANTS_STREAM.search(request) is not None,
            calls_tool=b"bench-tool" in request and not HAS_RESULT.search(request),
        )
        pace = next((PACES[model] for model in PACES if model in request), None)
        if kind.stream and pace is not None:
            self.pacing = asyncio.create_task(self.write_paced(PIECES[kind], pace))
        else:
            self.transport.write(WHOLE[kind])

    async def write_paced(self, writes: list[bytes], pace: float) -> None:
        due = asyncio.get_running_loop().time()
        for write in writes:
            self.transport.write(write)
            due += pace  # a late token does not delay the others
            await asyncio.sleep(due - asyncio.get_running_loop().time())


async def serve() -> None:
    """Listens on a free port, prints the port to stdout, and serves until stdin closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
