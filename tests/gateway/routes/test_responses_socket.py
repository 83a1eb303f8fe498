"""The WebSocket at `/v1/responses`: with the `websockets` client, and with the official SDKs."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from openai import AsyncOpenAI, NotFoundError
from tests.support.responding import is_stored, text_of
from tests.support.serving import Serving, config_of
from tests.support.talking import SECONDS, Body, Scripts
from websockets.asyncio.client import ClientConnection, connect

from windlass import tool
from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig, RunsConfig, ServerConfig
from windlass.gateway.config.keys import key_hash
from windlass.gateway.routes.response_requests import MAX_KNOWN, SocketMemory
from windlass.testing import Gate, ScriptedModel, call, interrupt, refuse, say, slow

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
KEY = "sk-of-a-client"


@tool
def count_letters(word: str) -> int:
    """How many letters a word has."""
    return len(word)


@tool(approve=True)
def erase(path: str) -> str:
    """Erases a file."""
    return f"erased {path}"


def serving_of(file: Path, scripts: Scripts, **fields: Any) -> Serving:
    model = ModelConfig(name="m", target="scripted/m", tools=("count_letters", "erase"))
    given: Any = {
        "server": ServerConfig(access_log=False),
        "runs": RunsConfig(path=str(file)),
        **fields,
    }
    config = config_of(model, **given)
    return Serving(config, models={"m": ScriptedModel(scripts)}, tools=[count_letters, erase])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "runs.db"


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def serving(file: Path, scripts: Scripts) -> Iterator[Serving]:
    limits = LimitsConfig(max_body_bytes=100_000)
    with serving_of(file, scripts, limits=limits) as serving:
        yield serving


class Talk:
    """One connection: requests as frames, and the frames of their answers."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, given: Any, **fields: Any) -> None:
        frame = {"type": "response.create", "model": "m", "input": given, **fields}
        await self.socket.send(json.dumps(frame))

    async def frame(self) -> Body:
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.socket.recv())

    async def events(self) -> list[Body]:
        """The frames up to the last one of a response, or to an error."""
        found = [await self.frame()]
        while not ends(found[-1]):
            found.append(await self.frame())
        return found

    async def ask(self, given: Any, **fields: Any) -> Body:
        """The response to a request."""
        await self.send(given, **fields)
        last = (await self.events())[-1]
        assert last["type"] == "response.completed", last
        return last["response"]

    async def error(self, given: Any = "Hi", **fields: Any) -> Body:
        """The error of a request that is refused."""
        await self.send(given, **fields)
        return (await self.events())[-1]


def ends(frame: Body) -> bool:
    over = ("response.completed", "response.failed", "response.incomplete")
    return frame["type"] in over or (frame["type"] == "error" and "status" in frame)


@asynccontextmanager
async def talking(serving: Serving, **options: Any) -> AsyncIterator[Talk]:
    url = f"{serving.base_url.replace('http', 'ws', 1)}/responses"
    async with connect(url, **options) as socket:
        yield Talk(socket)


async def test_a_response_comes_as_events_one_in_a_frame(
    serving: Serving, scripts: Scripts
) -> None:
    prompt = scripts.prompt(call("count_letters", word="four"), "It has four.", "Yes.")
    async with talking(serving) as talk:
        await talk.send(prompt)
        events = await talk.events()
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[0]["type"] == "response.created"
        response = events[-1]["response"]
        assert text_of(response) == "It has four."
        again = await talk.ask(prompt)
        assert text_of(again) == "Yes."
    async with AsyncOpenAI(base_url=serving.base_url, api_key="none") as client:
        stored = await client.responses.retrieve(response["id"])
        assert stored.output_text == "It has four."


async def test_a_response_continues_a_stored_one_on_any_connection(
    serving: Serving, scripts: Scripts
) -> None:
    first, second = scripts.prompt("One."), scripts.prompt("Two.")
    async with talking(serving) as talk:
        before = await talk.ask(first)
    async with talking(serving) as talk:
        await talk.ask(second, previous_response_id=before["id"])
    [asked] = scripts.requests[second]
    assert [message.text for message in asked.messages] == [first, "One.", second]


async def test_a_response_that_is_not_stored_continues_only_on_its_connection(
    serving: Serving, scripts: Scripts, file: Path
) -> None:
    first, second = scripts.prompt("A hidden word."), scripts.prompt("Two.")
    async with talking(serving) as talk, talking(serving) as other:
        before = await talk.ask(first, store=False)
        refused = await other.error(previous_response_id=before["id"], store=False)
        assert refused["status"] == 400
        assert refused["error"]["code"] == "previous_response_not_found"
        assert text_of(await talk.ask(second, previous_response_id=before["id"])) == "Two."
    assert scripts.requests[second][0].messages[0].text == first
    async with AsyncOpenAI(base_url=serving.base_url, api_key="none") as client:
        with pytest.raises(NotFoundError):
            await client.responses.retrieve(before["id"])


async def test_nothing_of_a_response_that_is_not_stored_is_in_the_log(
    serving: Serving, scripts: Scripts, file: Path
) -> None:
    prompt = scripts.prompt("A word of silence.")
    async with talking(serving) as talk:
        await talk.ask([{"role": "system", "content": "Unheard of."}, user(prompt)], store=False)
    assert not is_stored(file, "Unheard of.")
    assert not is_stored(file, "A word of silence.")


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def test_a_connection_remembers_a_bounded_number_of_responses() -> None:
    memory = SocketMemory()
    for number in range(3 * MAX_KNOWN):
        memory.remember(f"resp_{number}")
    assert list(memory.known) == [f"resp_{n}" for n in range(2 * MAX_KNOWN, 3 * MAX_KNOWN)]


async def test_results_of_client_tools_continue_without_storage(
    serving: Serving, scripts: Scripts
) -> None:
    prompt = scripts.prompt(call("get_weather", city="Oslo"), "It rains.")
    async with talking(serving) as talk:
        first = await talk.ask(prompt, store=False, tools=[WEATHER])
        made = first["output"][-1]
        result = {"type": "function_call_output", "call_id": made["call_id"], "output": "rain"}
        second = await talk.ask(
            [result], store=False, tools=[WEATHER], previous_response_id=first["id"]
        )
    assert text_of(second) == "It rains."


async def test_a_failed_continuation_evicts_the_response_that_it_named(
    serving: Serving, scripts: Scripts
) -> None:
    first = scripts.prompt("One.")
    failing = scripts.prompt(interrupt(say("One two three."), 2, error=refuse(500, "Broke.")))
    async with talking(serving) as talk:
        before = await talk.ask(first, store=False)
        await talk.send(failing, previous_response_id=before["id"], store=False)
        *_, error, failed = await talk.events()
        assert (error["type"], failed["type"]) == ("error", "response.failed")
        refused = await talk.error(previous_response_id=before["id"], store=False)
        assert refused["error"]["code"] == "previous_response_not_found"
        assert text_of(await talk.ask(scripts.prompt("Fine."))) == "Fine."


async def test_a_warm_up_returns_an_id_that_continues_without_a_request_to_the_model(
    serving: Serving, scripts: Scripts
) -> None:
    second = scripts.prompt("Warm.")
    async with talking(serving) as talk:
        warmed = await talk.ask("Context.", generate=False, store=False)
        assert (warmed["status"], warmed["output"]) == ("completed", [])
        response = await talk.ask(second, previous_response_id=warmed["id"])
    assert text_of(response) == "Warm."
    [asked] = scripts.requests[second]
    assert [message.text for message in asked.messages] == ["Context.", second]


BAD: dict[str, tuple[str | bytes, int, str]] = {
    "no JSON": ("{", 400, "invalid_json"),
    "no object": ("[1]", 400, "invalid_json"),
    "deep": ("[" * 100_000, 400, "invalid_json"),
    "bytes": (b"{}", 400, "invalid_frame"),
    "another type": ('{"type": "session.update"}', 400, "unknown_type"),
    "no type": ('{"model": "m", "input": "Hi"}', 400, "unknown_type"),
    "no model": ('{"type": "response.create", "input": "Hi"}', 400, "missing_field"),
    "unknown model": (
        '{"type": "response.create", "model": "x", "input": "Hi"}',
        404,
        "model_not_found",
    ),
    "unknown response": (
        '{"type": "response.create", "model": "m", "input": "Hi", "previous_response_id": "r"}',
        400,
        "previous_response_not_found",
    ),
    "a result without its call": (
        (
            '{"type": "response.create", "model": "m", "input": [{"type": "function_call_output",'
            ' "call_id": "c", "output": "1"}]}'
        ),
        400,
        "invalid_request_error",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_frame_gets_an_error_and_the_socket_stays_usable(
    serving: Serving, scripts: Scripts, case: str
) -> None:
    frame, status, code = BAD[case]
    async with talking(serving) as talk:
        await talk.socket.send(frame)
        error = await talk.frame()
        assert (error["type"], error["status"]) == ("error", status)
        assert error["error"]["code"] == code
        assert error["error"].keys() == {"message", "type", "param", "code"}
        assert text_of(await talk.ask(scripts.prompt("Fine."))) == "Fine."


async def test_only_one_response_is_in_flight(serving: Serving, scripts: Scripts) -> None:
    gate = Gate()
    prompt = scripts.prompt(slow(say("One two three."), gate, after=1))
    async with talking(serving) as talk:
        await talk.send(prompt)
        await gate.reached.wait()
        await talk.send("Too early.")
        while (frame := await talk.frame())["type"] != "error":
            pass
        assert frame["error"]["code"] == "response_in_progress"
        gate.open()
        assert (await talk.events())[-1]["type"] == "response.completed"


async def test_a_client_that_leaves_stops_its_response(serving: Serving, scripts: Scripts) -> None:
    gate = Gate()
    prompt = scripts.prompt(slow(say("One two three."), gate, after=1))
    async with talking(serving) as talk:
        await talk.send(prompt)
        created = await talk.frame()
        await gate.reached.wait()
    async with AsyncOpenAI(base_url=serving.base_url, api_key="none") as client:
        stream = await client.responses.retrieve(created["response"]["id"], stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.incomplete"
    assert last.response.status == "cancelled"
    gate.open()


async def test_approvals_are_decided_on_the_socket(serving: Serving, scripts: Scripts) -> None:
    prompt = scripts.prompt(call("erase", path="x"), "Erased.")
    async with talking(serving) as talk:
        first = await talk.ask(prompt)
        waiting = first["output"][-1]
        assert waiting["type"] == "mcp_approval_request"
        yes = {
            "type": "mcp_approval_response",
            "approval_request_id": waiting["id"],
            "approve": True,
        }
        second = await talk.ask([yes], previous_response_id=first["id"])
    assert text_of(second) == "Erased."


async def test_a_frame_larger_than_a_body_may_be_closes_the_socket(serving: Serving) -> None:
    async with talking(serving) as talk:
        await talk.send("x" * 200_000)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await talk.frame()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


# Access.


async def denied(serving: Serving, path: str = "/responses", **headers: str) -> int:
    url = f"{serving.base_url.replace('http', 'ws', 1)}{path}"
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with connect(url, additional_headers=headers):
            pass
    body = json.loads(refused.value.response.body)
    assert body["error"]["message"]
    return refused.value.response.status_code


async def test_a_socket_needs_a_key_before_it_is_accepted(tmp_path: Path, scripts: Scripts) -> None:
    keys = [KeyConfig(name="client", hash=key_hash(KEY))]
    async with serving_of(tmp_path / "runs.db", scripts, keys=keys) as serving:
        assert await denied(serving) == 401
        assert await denied(serving, Authorization="Bearer wrong") == 401
        allowed = {"Authorization": f"Bearer {KEY}"}
        async with talking(serving, additional_headers=allowed) as talk:
            assert text_of(await talk.ask(scripts.prompt("Hi."))) == "Hi."


async def test_a_web_page_of_another_origin_is_refused(serving: Serving) -> None:
    assert await denied(serving, Origin="https://evil.example") == 403
    assert await denied(serving, "/runs") == 404


async def test_sockets_count_as_connections_of_their_address(
    tmp_path: Path, scripts: Scripts
) -> None:
    limits = LimitsConfig(max_connections_per_address=2)
    async with serving_of(tmp_path / "runs.db", scripts, limits=limits) as serving:
        for _ in range(3):  # closed ones leave room
            async with talking(serving) as one, talking(serving) as other:
                assert text_of(await one.ask(scripts.prompt("A."))) == "A."
                assert text_of(await other.ask(scripts.prompt("B."))) == "B."
                with pytest.raises(websockets.InvalidHandshake):
                    async with talking(serving):
                        pass


async def test_the_limit_of_requests_counts_frames(tmp_path: Path, scripts: Scripts) -> None:
    keys = [KeyConfig(name="client", hash=key_hash(KEY), requests_per_minute=1)]
    async with serving_of(tmp_path / "runs.db", scripts, keys=keys) as serving:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with talking(serving, additional_headers=headers) as talk:
            assert text_of(await talk.ask(scripts.prompt("Hi."))) == "Hi."
            assert (await talk.error())["status"] == 429


async def test_a_shutdown_finishes_the_response_and_closes_all_sockets(
    tmp_path: Path, scripts: Scripts
) -> None:
    gate = Gate()
    prompt = scripts.prompt(slow(say("One two three."), gate, after=1))
    async with (
        serving_of(tmp_path / "runs.db", scripts) as serving,
        talking(serving) as busy,
        talking(serving) as idle,
    ):
        await busy.send(prompt)
        await gate.reached.wait()
        serving.stop()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await idle.frame()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        gate.open()
        last = (await busy.events())[-1]
        assert text_of(last["response"]) == "One two three."
        with pytest.raises(websockets.ConnectionClosed):
            await busy.frame()


# The official clients.


async def test_the_sdk_of_openai_connects(serving: Serving, scripts: Scripts) -> None:
    prompt = scripts.prompt(call("count_letters", word="four"), "Four.")
    async with (
        AsyncOpenAI(base_url=serving.base_url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="m", input=prompt)
        last: Any = None
        async for event in connection:
            last = event
            if event.type == "response.completed":
                break
    assert last.response.output_text == "Four."


@pytest.mark.sdk
async def test_an_agent_of_openai_agents_uses_the_socket(
    serving: Serving, scripts: Scripts
) -> None:
    from agents import Agent, ModelSettings, Runner, set_tracing_disabled
    from agents.models.openai_responses import OpenAIResponsesWSModel

    set_tracing_disabled(True)
    prompt = scripts.prompt(call("count_letters", word="four"), "Four.")
    async with AsyncOpenAI(base_url=serving.base_url, api_key="none") as client:
        model = OpenAIResponsesWSModel(model="m", openai_client=client)
        agent = Agent(name="a", model=model, model_settings=ModelSettings(store=False))
        result = await Runner.run(agent, prompt)
        assert result.final_output == "Four."
        await model.close()
