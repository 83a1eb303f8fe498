"""`kill -9` of the gateway in the middle of a background response: no reader loses an event."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.crash.drill import client_session
from tests.crash.forks import Forks
from tests.support.gateway_process import GatewayProcess
from tests.support.responding import PATH, events, text_of

from windlass.testing import FakeOpenAI, Gate, call, say, slow, tool_results

TEXT = "One two three four five six."
BEFORE: dict[str, Any] = {"in its text": None, "after a tool": call("look", seconds=0)}


class Upstream:
    """A model that stops in the middle of its first answer until the gate opens."""

    def __init__(self, first: Any) -> None:
        self.gate = Gate()
        self._first = first

    def __call__(self, body: dict[str, Any]) -> Any:
        if self._first is not None and not tool_results(body):
            return self._first
        return say(TEXT) if self.gate.is_open else slow(say(TEXT), self.gate, after=3)


async def read_until(answer: aiohttp.ClientResponse, marker: bytes) -> bytes:
    """Whole events, up to the first one with the marker."""
    came = b""
    async for line in answer.content:
        came += line
        if marker in came and came.endswith(b"\n\n"):
            return came
    raise AssertionError(f"the stream ended before {marker!r}: {came!r}")


@pytest.mark.parametrize("when", BEFORE)
@pytest.mark.process
async def test_a_reader_ends_with_the_identical_sequence(tmp_path: Path, when: str) -> None:
    model = Upstream(BEFORE[when])
    async with FakeOpenAI(model) as upstream, Forks(tmp_path) as forks, client_session() as session:
        gateway = GatewayProcess(forks, upstream.base_url)
        await gateway.start()
        await gateway.ready()
        url = f"{gateway.url}{PATH}"
        body = {"model": "m", "input": "Go.", "background": True, "stream": True}
        async with session.post(url, json=body) as answer:
            begun = await read_until(answer, b"three")
            await gateway.kill()
        seen = events(begun + b"data: [DONE]\n\n")
        response, last = seen[0]["response"]["id"], seen[-1]["sequence_number"]
        model.gate.open()
        await gateway.start()
        await gateway.ready()
        follow = f"{url}/{response}?stream=true"
        async with session.get(f"{follow}&starting_after={last}") as answer:
            rest = await answer.read()
        async with session.get(follow) as answer:
            whole = await answer.read()
        async with session.get(f"{url}/{response}") as answer:
            stored = await answer.json()
    assert begun + rest == whole
    final = events(whole)[-1]
    assert final["type"] == "response.completed"
    assert final["response"] == stored
    assert text_of(stored).endswith(TEXT)
    assert [event["type"] for event in events(whole)].count("response.created") == 1
