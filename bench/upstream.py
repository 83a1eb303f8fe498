"""A scripted server for chat completions, in a separate process, so that its CPU does not count.

The model's name is the script: `tools-5` calls a tool five times and then answers, `tokens-1000`
answers with a thousand tokens, and `paced-1000` does the same with a token every half millisecond.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from functools import cache

PACE_SECONDS = 0.0005
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def tokens(count: int) -> list[str]:
    """The answer of `tokens-<count>`, token by token."""
    return [f" w{number}" for number in range(count)]


def answer(model: str) -> list[str]:
    kind, _, count = model.partition("-")
    return ["It is ", "sunny."] if kind == "tools" else tokens(int(count))


def asks_for_tool(model: str, rounds_done: int) -> bool:
    kind, _, count = model.partition("-")
    return kind == "tools" and rounds_done < int(count)


def tool_call(name: str, number: int) -> dict[str, object]:
    # The arguments differ from round to round, because the loop stops a model that repeats a call.
    arguments = json.dumps({"city": f"city {number}"})
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def envelope(model: str, kind: str, choices: list[dict[str, object]]) -> dict[str, object]:
    return {
        "id": "chatcmpl-bench",
        "object": kind,
        "created": 1760000000,
        "model": model,
        "system_fingerprint": "fp_bench",
        "choices": choices,
    }


def json_body(model: str, call: dict[str, object] | None) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": None, "refusal": None}
    message |= {"tool_calls": [call]} if call else {"content": "".join(answer(model))}
    finish = "tool_calls" if call else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return json.dumps(envelope(model, "chat.completion", [choice]) | {"usage": USAGE}).encode()


def sse_writes(model: str, call: dict[str, object] | None) -> list[bytes]:
    """Returns one HTTP chunk per event. The end of the body follows the last event."""
    deltas: list[Mapping[str, object]] = [{"role": "assistant", "content": None if call else ""}]
    if call:
        deltas.append({"tool_calls": [{"index": 0, **call}]})
    else:
        deltas.extend({"content": token} for token in answer(model))
    choices: list[dict[str, object]] = [
        {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas
    ]
    finish = "tool_calls" if call else "stop"
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish})
    kind = "chat.completion.chunk"
    events = [json.dumps(envelope(model, kind, [choice])) for choice in choices]
    events += [json.dumps(envelope(model, kind, []) | {"usage": USAGE}), "[DONE]"]
    payloads = [f"data: {event}\n\n".encode() for event in events]
    return [b"%x\r\n%s\r\n" % (len(payload), payload) for payload in payloads] + [b"0\r\n\r\n"]


@cache
def response(model: str, stream: bool, rounds_done: int, tool_name: str) -> list[bytes]:
    wanted = asks_for_tool(model, rounds_done)
    call = tool_call(tool_name, rounds_done) if wanted else None
    if stream:
        return [SSE_HEAD, *sse_writes(model, call)]
    body = json_body(model, call)
    return [JSON_HEAD % (len(body), body)]


class Connection(asyncio.Protocol):
    """A minimal HTTP/1.1 server: POST bodies with a length, one at a time, on open connections."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""
        self.pacing: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.pacing:
            self.pacing.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self.buffer[:head_end].lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body_end = head_end + 4 + length
        if len(self.buffer) >= body_end:
            body = self.buffer[head_end + 4 : body_end]
            self.buffer = self.buffer[body_end:]
            self.respond(json.loads(body))

    def respond(self, request: dict[str, object]) -> None:
        model = str(request["model"])
        messages, tools = request["messages"], request.get("tools")
        assert isinstance(messages, list)
        rounds_done = sum(message["role"] == "tool" for message in messages)
        name = tools[0]["function"]["name"] if isinstance(tools, list) and tools else ""
        writes = response(model, bool(request.get("stream")), rounds_done, name)
        if model.startswith("paced-"):
            self.pacing = asyncio.create_task(self.write_paced(writes))
            return
        # One write per token, as real servers do. A slow reader may still get several at once.
        for write in writes:
            self.transport.write(write)

    async def write_paced(self, writes: list[bytes]) -> None:
        for write in writes:
            self.transport.write(write)
            await asyncio.sleep(PACE_SECONDS)


async def serve() -> None:
    """Listens on a free port, prints the port to stdout, and serves until stdin closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
