"""A gateway with both fake services, and a strict client that reads the raw stream."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self

import aiohttp
import pytest
from tests.support.serving import Serving

from windlass.gateway.config import GatewayConfig, ModelConfig
from windlass.testing import FakeGemini, FakeOpenAI, Fault, Step, Turn
from windlass.testing.script import Stepper
from windlass.testing.upstream import FakeUpstream
from windlass.tool import as_tools

Body = dict[str, Any]

WIRES = ("openai", "gemini")
KEY_NAME = "WIRE_TEST_KEY"
KEY = "upstream-key-of-the-operator"
MODELS = {"openai": "openai/gpt-test", "gemini": "gemini/gemini-2.5-flash"}
FAKES: dict[str, Callable[..., FakeUpstream]] = {"openai": FakeOpenAI, "gemini": FakeGemini}


class Upstream:
    """A fake service whose script each test sets: `upstream.plays(call("f"), "done")`."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.fake = FAKES[wire](self._step, api_key=KEY)
        self.plays()

    @property
    def model(self) -> str:
        """The model's name for clients. This model has no server tools."""
        return self.wire

    @property
    def model_with_tools(self) -> str:
        return f"{self.wire}-with-tools"

    @property
    def bodies(self) -> list[Body]:
        """The requests since the script was set."""
        return [request.body for request in self.fake.requests]

    def plays(self, *steps: Step) -> None:
        self._stepper: Stepper[Body] = Stepper(steps)
        self.fake.requests.clear()

    def answers(self, script: Callable[[Body], Step]) -> None:
        """A model that answers any number of requests, depending on each."""
        self._stepper = Stepper(script)
        self.fake.requests.clear()

    def _step(self, body: Body) -> Turn | Fault | Exception:
        return self._stepper.next(body)


class Stage:
    """A gateway with both services. Each has a model without tools, and one with these tools."""

    def __init__(
        self,
        *,
        tools: Iterable[Any] = (),
        mode: Any = None,
        targets: dict[str, str] | None = None,
        **fields: Any,
    ) -> None:
        self._tools, self._mode, self._fields = as_tools(tools), mode, fields
        self._targets = {**MODELS, **(targets or {})}
        self._open = contextlib.ExitStack()
        self.upstreams = {wire: Upstream(wire) for wire in WIRES}

    def __enter__(self) -> Self:
        with self._open as stack:
            stack.enter_context(pytest.MonkeyPatch.context()).setenv(KEY_NAME, KEY)
            for upstream in self.upstreams.values():
                stack.enter_context(upstream.fake)
            models = [model for upstream in self.upstreams.values() for model in self._of(upstream)]
            config = GatewayConfig(models={model.name: model for model in models}, **self._fields)
            self.serving = stack.enter_context(Serving(config, tools=self._tools))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def base_url(self) -> str:
        return self.serving.base_url

    def _of(self, upstream: Upstream) -> Iterable[ModelConfig]:
        names = tuple(tool.name for tool in self._tools)
        for name, tools in ((upstream.model, ()), (upstream.model_with_tools, names)):
            yield ModelConfig(
                name=name,
                target=self._targets[upstream.wire],
                base_url=upstream.fake.base_url,
                api_key_env=KEY_NAME,
                mode=self._mode,
                tools=tools,
            )


def function(name: str, **properties: Any) -> Any:
    """A client's tool: `function("get_weather", city={"type": "string"})`."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    described = {"name": name, "description": f"Does {name}.", "parameters": parameters}
    return {"type": "function", "function": described}


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def tool_message(call_id: str, content: str) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def declared_names(body: Body) -> list[str]:
    """Returns the functions that a request to a service declares, on any wire."""
    names: list[str] = []
    for tool in body.get("tools") or []:
        functions = [tool["function"]] if "function" in tool else tool.get("functionDeclarations")
        names += [declared["name"] for declared in functions or []]
    return names


class Answer:
    """A streamed answer, line by line."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status
        self.headers = response.headers

    async def lines(self) -> AsyncIterator[str]:
        """Every line that is not empty: data and comments."""
        async for line in self.response.content:
            if text := line.decode().rstrip("\n"):
                yield text

    async def payloads(self) -> AsyncIterator[str]:
        async for line in self.lines():
            if line.startswith("data: "):
                yield line.removeprefix("data: ")

    async def chunks(self) -> list[Body]:
        """Returns all chunks, and checks that `[DONE]` is the last one, once."""
        *chunks, done = [payload async for payload in self.payloads()]
        assert done == "[DONE]"
        assert "[DONE]" not in chunks
        return [json.loads(chunk) for chunk in chunks]


@contextlib.asynccontextmanager
async def asked(
    stage: Stage | Serving, model: str, *, headers: dict[str, str] | None = None, **fields: Any
) -> AsyncIterator[Answer]:
    """The answer to a chat completion over plain HTTP."""
    body = {"model": model, "messages": [user("Go.")], **fields}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stage.base_url}/chat/completions", json=body, headers=headers) as response,
    ):
        yield Answer(response)


async def streamed(stage: Stage | Serving, model: str, **fields: Any) -> list[Body]:
    """The chunks of a streamed chat completion."""
    async with asked(stage, model, stream=True, **fields) as answer:
        assert answer.status == 200, await answer.response.text()
        return await answer.chunks()


async def blocking(stage: Stage | Serving, model: str, **fields: Any) -> Body:
    """A chat completion in one body."""
    async with asked(stage, model, **fields) as answer:
        return await answer.response.json()


def reassembled(chunks: list[Body]) -> Body:
    """Returns the message that a strict client builds, and its finish reason."""
    message: Body = {"content": "", "reasoning_content": "", "tool_calls": []}
    reasons: list[str] = []
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        delta = choice["delta"]
        for name in ("content", "reasoning_content"):
            message[name] += delta.get(name) or ""
        for piece in delta.get("tool_calls") or []:
            _add_piece(message["tool_calls"], piece)
        for field, text in (delta.get("function_call") or {}).items():
            legacy = message.setdefault("function_call", {})
            legacy[field] = legacy.get(field, "") + text
        reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    [message["finish_reason"]] = reasons
    return message


def _add_piece(calls: list[Body], piece: Body) -> None:
    """Checks that calls are numbered from 0 without a gap, and have their id and name once."""
    index, function = piece["index"], piece.get("function") or {}
    if index == len(calls):
        assert piece["type"] == "function"
        calls.append({"id": piece["id"], "name": function["name"], "arguments": ""})
    else:
        assert 0 <= index < len(calls)
        assert "id" not in piece
        assert "name" not in function
    calls[index]["arguments"] += function.get("arguments") or ""
