"""Runs over HTTP: start, follow, stop and approve."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from tests.support.serving import Serving, config_of
from tests.support.talking import (
    SECONDS,
    Body,
    Scripts,
    SentEvent,
    asking,
    client_of,
    function,
    payloads,
    sent_events,
    streamed,
)

from windlass import tool
from windlass.gateway import GatewayConfig, create_app
from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import Gate, ScriptedModel, call, calls, refuse, say, slow

WEB, WEB_HASH = new_key()
OTHER, OTHER_HASH = new_key()

erased: list[str] = []


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


@tool(approve=True)
def erase(path: str) -> str:
    """Erases a file."""
    erased.append(path)
    return f"erased {path}"


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def serving(scripts: Scripts) -> Iterator[Serving]:
    config = config_of(
        ModelConfig(name="m", target="scripted/model", tools=("lookup", "erase")),
        keys=(KeyConfig(name="web", hash=WEB_HASH), KeyConfig(name="other", hash=OTHER_HASH)),
        limits=LimitsConfig(max_running=2, max_queued=0),
    )
    model = ScriptedModel(scripts)
    with Serving(config, models={"m": model}, tools=[lookup, erase]) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[httpx2.Client]:
    with client_of(serving, WEB) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(serving: Serving) -> Iterator[httpx2.Client]:
    with client_of(serving, OTHER) as client:
        yield client


def start(client: httpx2.Client, prompt: str, *more: Body, **fields: Any) -> str:
    response = client.post("/v1/runs", json=asking(prompt, *more, **fields))
    assert response.status_code == 202, response.text
    return response.json()["id"]


def events(
    client: httpx2.Client, run_id: str, after: int | None = None, last: int | None = None
) -> list[SentEvent]:
    """A run's events up to its end."""
    query = "" if after is None else f"?after={after}"
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    path = f"/v1/runs/{run_id}/events{query}"
    with client.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(sent_events(response))


def text_of(told: list[SentEvent]) -> str:
    return "".join(event.data["text"] for event in told if event.name == "text_delta")


def ended(client: httpx2.Client, run_id: str) -> Body:
    """The run, when it has ended."""
    events(client, run_id)
    return client.get(f"/v1/runs/{run_id}").json()


def until(response: httpx2.Response, name: str) -> list[SentEvent]:
    """The events up to the first of that name."""
    told: list[SentEvent] = []
    for event in sent_events(response):
        told.append(event)
        if event.name == name:
            return told
    raise AssertionError(f"no {name} in {told}")


def waiting_for_approval(client: httpx2.Client, run_id: str) -> str:
    """The id of the call that waits for a decision."""
    with client.stream("GET", f"/v1/runs/{run_id}/events") as response:
        return until(response, "approval_requested")[-1].data["call"]["id"]


def decide(client: httpx2.Client, run_id: str, **decision: Any) -> httpx2.Response:
    return client.post(f"/v1/runs/{run_id}/approve", json=decision)


def results(client: httpx2.Client, run_id: str) -> list[Body]:
    return [event.data for event in events(client, run_id) if event.name == "tool_run_ended"]


def test_a_started_run_is_returned_before_its_model_answers(
    client: httpx2.Client, scripts: Scripts
) -> None:
    gate = Gate()
    response = client.post("/v1/runs", json=asking(scripts.prompt(slow("Done.", gate))))
    run = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/runs/{run['id']}"
    gate.reached.block()
    going = client.get(f"/v1/runs/{run['id']}").json()
    assert going == {
        "id": run["id"],
        "object": "run",
        "created": run["created"],
        "ended": None,
        "model": "m",
        "status": "running",
        "phase": "awaiting_model_call",
        "mode": "native",
        "events": 2,
        "title": going["title"],
        "chat_id": None,
    }
    gate.open()
    told = events(client, run["id"])
    whole = client.get(f"/v1/runs/{run['id']}").json()
    assert (whole["status"], whole["phase"], whole["stop_reason"]) == ("ended", "ended", "answer")
    assert whole["events"] == len(told)
    assert whole["response"]["object"] == "chat.completion"
    assert whole["response"]["choices"][0]["message"]["content"] == "Done."


def test_the_events_of_a_run_are_numbered_from_its_start_to_its_end(
    client: httpx2.Client, scripts: Scripts
) -> None:
    run_id = start(client, scripts.prompt(call("lookup", city="Rome"), "Sunny."))
    told = events(client, run_id)
    assert [event.id for event in told] == list(range(1, len(told) + 1))
    assert [event.data["seq"] for event in told] == [event.id for event in told]
    assert [event.data["event"] for event in told] == [event.name for event in told]
    assert (told[0].name, told[-1].name) == ("run_started", "run_ended")
    assert [event.data["done"] for event in told] == [False] * (len(told) - 1) + [True]
    [result] = [event.data for event in told if event.data["type"] == "tool_result"]
    assert result["response"]["response"] == {"output": "sunny in Rome"}
    assert "Executing lookup..." in [event.data.get("message") for event in told]


def test_a_reader_continues_after_its_last_event(client: httpx2.Client, scripts: Scripts) -> None:
    run_id = start(client, scripts.prompt("One two three."))
    whole = events(client, run_id)
    assert events(client, run_id, after=3) == whole[3:]
    assert events(client, run_id, last=4) == whole[4:]
    assert events(client, run_id, after=1, last=4) == whole[4:]
    assert events(client, run_id, after=0) == whole


def test_a_reader_that_has_all_events_receives_204(client: httpx2.Client, scripts: Scripts) -> None:
    run_id = start(client, scripts.prompt("One two three."))
    whole = events(client, run_id)
    for after in (len(whole), len(whole) + 100):
        response = client.get(f"/v1/runs/{run_id}/events", params={"after": after})
        assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize("number", ["-1", "one", "1.5", "٣", "9" * 20])
def test_an_invalid_number_is_refused(client: httpx2.Client, scripts: Scripts, number: str) -> None:
    run_id = start(client, scripts.prompt("Done."))
    ended(client, run_id)
    response = client.get(f"/v1/runs/{run_id}/events", params={"after": number})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "after")


def test_two_readers_see_the_same_while_the_run_is_active(
    client: httpx2.Client, scripts: Scripts
) -> None:
    gate = Gate()
    run_id = start(client, scripts.prompt(slow("One two three.", gate, after=1)))
    path = f"/v1/runs/{run_id}/events"
    with client.stream("GET", path) as one, client.stream("GET", path) as two:
        reading = sent_events(one), sent_events(two)
        first = [[next(reader) for _ in range(3)] for reader in reading]
        assert first[0] == first[1]
        assert first[0][-1].data["text"] == "One "
        gate.open()
        rest = [list(reader) for reader in reading]
    assert rest[0] == rest[1]
    assert text_of(first[0] + rest[0]) == "One two three."
    assert events(client, run_id) == first[0] + rest[0], "a late reader sees it all"


async def test_a_head_request_does_not_wait_for_the_run() -> None:
    gate = Gate()
    app = create_app(GatewayConfig(), models={"m": ScriptedModel([slow("Done.", gate)])}, tools=[])
    # Without a server in between, an answer arrives when the gateway has finished it.
    transport = httpx2.ASGITransport(app=app)
    async with (
        asyncio.timeout(SECONDS),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        run_id = (await client.post("/v1/runs", json=asking("Go."))).json()["id"]
        response = await client.head(f"/v1/runs/{run_id}/events")
        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["x-windlass-run-id"] == run_id
        assert (await client.head("/v1/runs/run_0/events")).status_code == 404
    await app.gateway.aclose()


def test_a_stopped_run_ends_at_once_for_its_readers(
    client: httpx2.Client, scripts: Scripts
) -> None:
    gate = Gate()
    run_id = start(client, scripts.prompt(slow("One two three.", gate, after=1)))
    with client.stream("GET", f"/v1/runs/{run_id}/events") as response:
        until(response, "text_delta")
        stopped = client.post(f"/v1/runs/{run_id}/stop").json()
    assert (stopped["status"], stopped["stop_reason"]) == ("ended", "stopped")
    assert stopped["response"]["choices"][0]["message"]["content"] == "One "
    last = events(client, run_id)[-1]
    assert (last.name, last.data["reason"]) == ("run_ended", "stopped")
    again = client.post(f"/v1/runs/{run_id}/stop")
    assert (again.status_code, again.json()) == (200, stopped), "to stop twice changes nothing"


def test_an_approved_call_runs_with_the_arguments_of_the_model(
    client: httpx2.Client, scripts: Scripts
) -> None:
    run_id = start(client, scripts.prompt(call("erase", path="approved.txt"), "Gone."))
    call_id = waiting_for_approval(client, run_id)
    assert "approved.txt" not in erased
    assert client.get(f"/v1/runs/{run_id}").json()["phase"] == "executing_tools"
    assert decide(client, run_id, call_id=call_id).json()["status"] == "running"
    [result] = results(client, run_id)
    assert result["response"]["response"] == {"output": "erased approved.txt"}
    assert erased.count("approved.txt") == 1


def test_edited_arguments_replace_those_of_the_model(
    client: httpx2.Client, scripts: Scripts
) -> None:
    run_id = start(client, scripts.prompt(call("erase", path="model.txt"), "Gone."))
    call_id = waiting_for_approval(client, run_id)
    decide(client, run_id, call_id=call_id, approved=True, arguments={"path": "person.txt"})
    [result] = results(client, run_id)
    assert result["response"]["response"] == {"output": "erased person.txt"}
    assert "model.txt" not in erased


def test_a_denied_call_does_not_run_and_the_model_receives_the_reason(
    client: httpx2.Client, scripts: Scripts
) -> None:
    run_id = start(client, scripts.prompt(call("erase", path="denied.txt"), "I may not."))
    call_id = waiting_for_approval(client, run_id)
    decide(client, run_id, call_id=call_id, approved=False, reason="not that one")
    [result] = results(client, run_id)
    assert result["outcome"] == "denied"
    assert "not that one" in result["response"]["response"]["error"]
    assert "denied.txt" not in erased
    answer = client.get(f"/v1/runs/{run_id}").json()["response"]
    assert answer["choices"][0]["message"]["content"] == "I may not."


def test_a_decision_without_a_waiting_call_is_a_conflict(
    client: httpx2.Client, scripts: Scripts
) -> None:
    run_id = start(client, scripts.prompt(call("erase", path="once.txt"), "Gone."))
    call_id = waiting_for_approval(client, run_id)
    unknown = decide(client, run_id, call_id="call_0")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (409, "nothing_to_approve")
    assert decide(client, run_id, call_id=call_id).status_code == 200
    ended(client, run_id)
    late = decide(client, run_id, call_id=call_id, approved=False)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "nothing_to_approve")


@pytest.mark.parametrize(
    "body",
    [[], {}, {"call_id": 1}, {"call_id": "c", "approved": "yes"}, {"call_id": "c", "aproved": 1}],
    ids=str,
)
def test_an_invalid_decision_is_refused(client: httpx2.Client, scripts: Scripts, body: Any) -> None:
    run_id = start(client, scripts.prompt(call("erase", path="unclear.txt"), "Gone."))
    waiting_for_approval(client, run_id)
    response = client.post(f"/v1/runs/{run_id}/approve", json=body)
    assert (response.status_code, response.json()["error"]["type"]) == (
        400,
        "invalid_request_error",
    )
    client.post(f"/v1/runs/{run_id}/stop")
    assert "unclear.txt" not in erased


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/events"), ("POST", "/stop"), ("POST", "/approve")]
)
def test_a_run_of_another_key_is_not_found(
    client: httpx2.Client, stranger: httpx2.Client, scripts: Scripts, method: str, path: str
) -> None:
    gate = Gate()
    run_id = start(client, scripts.prompt(slow("Mine.", gate)))
    response = stranger.request(method, f"/v1/runs/{run_id}{path}", json={"call_id": "c"})
    unknown = stranger.request(method, f"/v1/runs/run_0{path}", json={"call_id": "c"})
    assert response.status_code == unknown.status_code == 404
    assert response.json()["error"]["code"] == "run_not_found"
    assert response.text == unknown.text.replace("run_0", run_id)
    gate.open()
    assert ended(client, run_id)["stop_reason"] == "answer", "and it is left alone"


def test_the_list_has_the_runs_of_the_key_newest_first(
    client: httpx2.Client, stranger: httpx2.Client, scripts: Scripts
) -> None:
    first, second = (start(client, scripts.prompt("Mine.")) for _ in range(2))
    assert [ended(client, run_id)["id"] for run_id in (first, second)] == [first, second]
    theirs = start(stranger, scripts.prompt("Theirs."))
    listed = client.get("/v1/runs").json()
    assert listed["object"] == "list"
    assert [run["id"] for run in listed["data"]][:2] == [second, first]
    assert all("response" not in run for run in listed["data"]), "answers are shown one by one"
    assert theirs not in [run["id"] for run in listed["data"]]
    assert stranger.get("/v1/runs").json()["data"][0]["id"] == theirs
    assert ended(stranger, theirs)["stop_reason"] == "answer"


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_completion_names_its_run_whose_events_can_be_read(
    client: httpx2.Client, scripts: Scripts, stream: bool
) -> None:
    prompt = scripts.prompt(call("lookup", city="Oslo"), "Sunny in Oslo.")
    response = client.post("/v1/chat/completions", json=asking(prompt, stream=stream))
    told = events(client, response.headers["x-windlass-run-id"])
    assert text_of(told) == "Sunny in Oslo."
    assert [event.data["outcome"] for event in told if event.name == "tool_run_ended"] == ["ok"]


def test_a_failed_chat_completion_names_its_run_too(
    client: httpx2.Client, scripts: Scripts
) -> None:
    response = client.post("/v1/chat/completions", json=asking(scripts.prompt(refuse(400, "No."))))
    assert response.status_code == 400
    run = client.get(f"/v1/runs/{response.headers['x-windlass-run-id']}").json()
    assert (run["status"], run["stop_reason"]) == ("failed", "error")
    assert run["error"] == response.json()["error"]
    assert "response" not in run


def test_a_dropped_background_stream_can_be_read_to_its_end(
    client: httpx2.Client, scripts: Scripts
) -> None:
    gate = Gate()
    text = "One two three four."
    body = asking(scripts.prompt(slow(text, gate, after=2)), stream=True, background=True)
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        run_id = response.headers["x-windlass-run-id"]
        seen = ""
        for payload in payloads(response):
            seen += json.loads(payload)["choices"][0]["delta"].get("content") or ""
            if seen == "One two ":
                break
    with client.stream("GET", f"/v1/runs/{run_id}/events") as response:
        had = [next(reader) for reader in [sent_events(response)] for _ in range(4)]
    assert text_of(had) == seen
    gate.open()
    rest = events(client, run_id, last=had[-1].id)
    assert text_of(had + rest) == text
    assert all(later.id == earlier.id + 1 for earlier, later in pairwise(had + rest))
    assert had + rest == events(client, run_id)


def test_the_client_s_own_calls_are_in_the_response_of_a_run(
    client: httpx2.Client, scripts: Scripts
) -> None:
    prompt = scripts.prompt(
        calls(call("lookup", city="Rome"), call("ring", bell=1)), say("Sunny, and it rang.")
    )
    run = ended(client, start(client, prompt, tools=[function("ring")]))
    assert run["stop_reason"] == "calls"
    choice = run["response"]["choices"][0]
    [made] = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], made["function"]["name"]) == ("tool_calls", "ring")
    answer = {"role": "tool", "tool_call_id": made["id"], "content": "rang"}
    second = ended(client, start(client, prompt, choice["message"], answer))
    assert second["response"]["choices"][0]["message"]["content"] == "Sunny, and it rang."


def test_a_run_over_the_limit_is_refused_until_another_run_ends(
    client: httpx2.Client, scripts: Scripts
) -> None:
    gate = Gate()
    going = [start(client, scripts.prompt(slow("Done.", gate))) for _ in range(2)]
    prompt = scripts.prompt("At last.")
    full = client.post("/v1/runs", json=asking(prompt))
    assert (full.status_code, full.json()["error"]["code"]) == (503, "overloaded")
    assert int(full.headers["retry-after"]) >= 1
    gate.open()
    for run_id in going:
        ended(client, run_id)
    assert ended(client, start(client, prompt))["stop_reason"] == "answer"


def test_a_failed_run_shows_its_error_and_ends_its_events(
    client: httpx2.Client, scripts: Scripts
) -> None:
    run_id = start(client, scripts.prompt(refuse(400, "Not today.")))
    last = events(client, run_id)[-1]
    assert (last.name, last.data["reason"]) == ("run_ended", "error")
    run = client.get(f"/v1/runs/{run_id}").json()
    assert (run["status"], run["error"]["message"]) == ("failed", "Not today.")


def test_an_invalid_request_does_not_start_a_run(client: httpx2.Client) -> None:
    response = client.post("/v1/runs", json={"model": "m", "messages": []})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "messages")
    response = client.post("/v1/runs", json=asking("Hi", model="unknown"))
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_a_client_that_asks_sees_the_tools_of_the_gateway_in_its_stream(
    client: httpx2.Client, scripts: Scripts
) -> None:
    steps = (call("lookup", city="Rome"), "Sunny.")
    asked = asking(scripts.prompt(*steps), stream_options={"include_tool_events": True})
    shown = [chunk["windlass"]["type"] for chunk in streamed(client, asked) if "windlass" in chunk]
    assert shown == ["status", "tool_call", "tool_result"]
    plain = streamed(client, asking(scripts.prompt(*steps)))
    assert not any("windlass" in chunk for chunk in plain)
