"""Plain HTTP requests to a gateway, and a model whose script depends on the conversation."""

import json
import socket
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
from tests.support.serving import Serving

from windlass.model import ModelRequest
from windlass.testing import Step, last_prompt

Body = dict[str, Any]

SECONDS = 60
"""The time limit of every wait."""


class Scripts:
    """A script for many tests with one model. Each conversation is identified by its prompt."""

    def __init__(self) -> None:
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self._steps: dict[str, deque[Step]] = {}

    def prompt(self, *steps: Step) -> str:
        """Returns a new prompt. The model answers it with these steps."""
        prompt = f"prompt {len(self._steps) + 1}"
        self._steps[prompt] = deque(steps)
        return prompt

    def __call__(self, request: ModelRequest | Body) -> Step:
        prompt = last_prompt(request)
        self.requests[prompt].append(request)
        return self._steps[prompt].popleft()


class SentEvent(NamedTuple):
    """One server-sent event of a run."""

    id: int
    name: str
    data: Body


def client_of(serving: Serving, key: str | None = None) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.Client(
        base_url=serving.root_url, headers=headers, timeout=SECONDS, verify=False, trust_env=False
    )


def asking(prompt: str, *more: Body, model: str = "m", **fields: Any) -> Body:
    """The body of a chat completion."""
    return {"model": model, "messages": [{"role": "user", "content": prompt}, *more], **fields}


def function(name: str) -> Body:
    """Returns a client tool."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def sent_events(response: httpx2.Response) -> Iterator[SentEvent]:
    """The events of a run as they arrive."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield SentEvent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}


def payloads(response: httpx2.Response) -> Iterator[str]:
    """The text after each `data:` of a stream."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def streamed(client: httpx2.Client, body: Body) -> list[Body]:
    """Returns the chunks of a streamed answer, up to its end or to an error."""
    with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
        return [json.loads(payload) for payload in payloads(response) if payload != "[DONE]"]


def joined(chunks: list[Body]) -> Body:
    """Joins the chunks of a stream to a message."""
    message: Body = {"role": "assistant", "content": "", "tool_calls": []}
    for delta in (choice["delta"] for chunk in chunks for choice in chunk["choices"]):
        message["content"] += delta.get("content") or ""
        for piece in delta.get("tool_calls", ()):
            if piece["index"] == len(message["tool_calls"]):
                message["tool_calls"].append(piece)
            else:
                known = message["tool_calls"][piece["index"]]
                known["function"]["arguments"] += piece.get("function", {}).get("arguments", "")
                known.update({name: piece[name] for name in ("extra_content",) if name in piece})
    return message


class RawConnection:
    """A client on its own socket, which can be closed at any moment."""

    def __init__(self, serving: Serving) -> None:
        host, port = serving.root_url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=SECONDS)

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def post(self, body: Body) -> None:
        data = json.dumps(body).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + data)

    def read_to(self, marker: bytes) -> bytes:
        """Reads until the marker, and returns the received bytes."""
        came = b""
        while marker not in came:
            piece = self.socket.recv(65536)
            assert piece, f"the gateway hung up after {came!r}"
            came += piece
        return came

    def cut(self) -> None:
        self.socket.close()
