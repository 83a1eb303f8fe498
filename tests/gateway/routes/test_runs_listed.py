"""Runs over HTTP: filters, summaries and export."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.support.asgi import Answer, post, request
from tests.support.restarting import Place, places_on
from tests.support.serving import config_of

from windlass.events import Outcome, StopReason, ToolRunEnded
from windlass.gateway.config import ModelConfig
from windlass.gateway.routes import runs as listing
from windlass.gateway.runs.lookup import RunStatus
from windlass.gateway.runs.run_json import RunState, run_fields, stored_problem
from windlass.gateway.runs.summaries import Summaries, summary_of
from windlass.gateway.tools.calls import CallSummary
from windlass.jsontext import encode_json
from windlass.runs.export import read_export
from windlass.runs.records import RunRecord
from windlass.testing import Gate, Script, call, calls, refuse, slow


@pytest.fixture(params=["in memory", "kept", "kept, restarted"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator["Listed"]:
    """A gateway that has had some runs."""
    script: Script[Any] = [
        calls(call("lookup", city="Rome"), call("ghost")),
        "Sunny in Rome.",
        "Hello.",
        refuse(400, "Not today."),
        call("lookup", city="Oslo"),
        "Sunny in Oslo.",
    ]
    async with asyncio.timeout(10), places_on(tmp_path / "runs.db") as places:
        place = Place(None, script) if request.param == "in memory" else places.open(script)
        prompts = ["Weather in ROME?", "Hi", "Fail.", "Weather in Oslo?"]
        ids = [(await place.ended(await place.start(prompt)))["id"] for prompt in prompts]
        if request.param == "kept, restarted":
            await place.gateway.aclose()
            place = places.open()
        yield Listed(place, *ids)
        await place.gateway.aclose()


class Listed:
    """The runs that the gateway has had, oldest first."""

    def __init__(self, place: Place, rome: str, hi: str, failed: str, oslo: str) -> None:
        self.place = place
        self.rome, self.hi, self.failed, self.oslo = rome, hi, failed, oslo

    async def get(self, query: str) -> Answer:
        return await self.place.get(f"/v1/runs?{query}")

    async def ids(self, query: str = "") -> list[str]:
        return [run["id"] for run in (await self.get(query)).json["data"]]


async def test_runs_are_filtered_by_status_and_reason(place: Listed) -> None:
    assert await place.ids() == [place.oslo, place.failed, place.hi, place.rome]
    assert await place.ids("status=failed") == [place.failed]
    assert await place.ids("status=ended") == [place.oslo, place.hi, place.rome]
    assert await place.ids("status=running") == []
    assert await place.ids("reason=error") == [place.failed]
    assert await place.ids("reason=answer&status=ended&limit=1") == [place.oslo]
    assert await place.ids("reason=stopped") == []


@pytest.mark.parametrize("reason", get_args(StopReason))
def test_a_stored_run_has_the_status_under_which_it_is_listed(reason: StopReason) -> None:
    record = RunRecord(id="run_1", model="m", created=1.0, ended=2.0, reason=reason)
    problem = stored_problem(record)
    state = RunState(record=record, phase="ended", done=True, problem=problem)
    status = run_fields(state)["status"]
    assert [each for each in get_args(RunStatus) if reason in listing.REASONS[each]] == [status]
    assert reason in (listing.RunQuery(status=status).reasons or ())
    assert listing.RunQuery(status=status, reason=reason).reasons == {reason}


async def test_a_filtered_list_does_not_read_the_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    script: Script[Any] = ["One.", refuse(400, "Not today."), "Three."]
    async with asyncio.timeout(10), places_on(tmp_path / "runs.db") as places:
        place = places.open(script)
        for prompt in ("First", "Second", "Third"):
            await place.ended(await place.start(prompt))
        fields = listing._matching_fields

        async def noted(gateway: Any, run: Any, query: Any) -> Any:
            found = await fields(gateway, run, query)
            read.append(found["title"] if found else "other")
            return found

        monkeypatch.setattr(listing, "_matching_fields", noted)
        queries = ("status=failed", "reason=answer", "q=FIR", "status=ended&q=i", "model=x")
        for query in queries:
            await place.get(f"/v1/runs?{query}")
            read.append(query)
        await place.gateway.aclose()
    assert read == [
        *("Second", "status=failed", "Third", "First", "reason=answer"),
        *("First", "q=FIR", "Third", "First", "status=ended&q=i", "model=x"),
    ]


async def test_a_stop_that_is_not_stored_yet_is_in_the_list_of_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of a failed log is open there, but the gateway reports it as stopped."""
    async with asyncio.timeout(10), places_on(tmp_path / "runs.db") as places:
        place = places.open([slow("Hello.", Gate())])
        run_id = await place.start("Hi")
        control = place.gateway.service.control
        assert control is not None
        record = await control.log.status(run_id)
        control.log.health.failed("disk full")
        control._stops[run_id] = 1.0
        monkeypatch.setattr(place.gateway.service.active, "all", list)
        assert control.with_pending_stop(record).reason == "stopped"
        for query, found in (("reason=stopped", 1), ("status=ended", 1), ("status=running", 0)):
            answer = await place.get(f"/v1/runs?{query}")
            assert len(answer.json["data"]) == found, query
        del control._stops[run_id]
        control.log.health.recovered()
        await place.gateway.aclose()


async def test_runs_are_filtered_by_model_tool_and_title(place: Listed) -> None:
    assert await place.ids("q=weather%20in") == [place.oslo, place.rome]
    assert await place.ids("q=rome") == [place.rome]
    assert await place.ids("tool=lookup") == [place.oslo, place.rome]
    assert await place.ids("tool=ghost") == [place.rome]
    assert await place.ids("tool=lookup&q=oslo") == [place.oslo]
    assert await place.ids("tool=nothing") == []
    assert len(await place.ids("model=m")) == 4
    assert await place.ids("model=other") == []


async def test_a_list_continues_after_the_previous_one(place: Listed) -> None:
    assert await place.ids("limit=2") == [place.oslo, place.failed]
    assert await place.ids(f"limit=2&before={place.failed}") == [place.hi, place.rome]
    assert await place.ids(f"before={place.failed}&tool=lookup") == [place.rome]
    assert await place.ids(f"before={place.rome}") == []


async def test_a_list_is_read_in_pages_except_for_the_tool_filter(
    place: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_LISTED", 2)
    assert await place.ids("q=weather") == [place.oslo, place.rome]
    assert await place.ids("tool=lookup") == [place.oslo]
    assert await place.ids("model=other") == []


async def test_a_run_can_be_deleted_while_a_list_is_read(
    place: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_LISTED", 2)
    told = listing._matching_fields

    async def deleting(gateway: Any, run: Any, query: Any) -> Any:
        fields = await told(gateway, run, query)
        if run.id == place.failed:  # the last of its piece
            await gateway.forget(run.id)
        return fields

    monkeypatch.setattr(listing, "_matching_fields", deleting)
    assert await place.ids("q=weather") == [place.oslo, place.rome]


async def test_an_invalid_parameter_is_refused_by_name(place: Listed) -> None:
    for name, value in (
        ("status", "gone"),
        ("reason", "because"),
        ("summary", "maybe"),
        ("before", "run_unknown"),
        ("limit", "-1"),
    ):
        answer = await place.get(f"{name}={value}")
        assert (answer.status, answer.error["param"]) == (400, name)
        assert answer.error["message"].startswith(f"{name}: ")


async def test_a_run_has_its_end_time(place: Listed) -> None:
    for run in (await place.get("")).json["data"]:
        assert run["created"] <= run["ended"] <= run["created"] + 60
        assert (await place.place.show(run["id"]))["ended"] == run["ended"]
        assert "summary" not in run


async def test_a_summary_has_the_figures_of_a_run(place: Listed) -> None:
    told = {run["id"]: run["summary"] for run in (await place.get("summary=true")).json["data"]}
    rome = told[place.rome]
    assert (rome["rounds"], set(rome["tools"])) == (2, {"lookup", "ghost"})
    assert (rome["input_tokens"] > 0, rome["output_tokens"] > 0) == (True, True)
    assert rome["seconds"] > 0
    assert rome["tools"]["lookup"]["calls"] == 1
    assert rome["tools"]["lookup"]["failures"] == 0
    assert rome["tools"]["ghost"]["failures"] == 1
    assert told[place.hi]["tools"] == {}
    assert told[place.failed]["output_tokens"] == 0


async def test_a_run_is_exported_as_a_file(place: Listed) -> None:
    answer = await place.place.get(f"/v1/runs/{place.rome}/export")
    assert answer.headers["content-disposition"] == f'attachment; filename="{place.rome}.json"'
    export = read_export(answer.body)
    assert (export.run.id, export.run.reason, export.run.model) == (place.rome, "answer", "m")
    assert export.run.title == "Weather in ROME?"
    assert [said["role"] for said in export.messages] == ["user", "assistant", "tool", "assistant"]
    assert export.run.events == len(export.events)
    assert [made.name for made in export.rounds[0].calls] == ["lookup", "ghost"]
    assert (await place.place.get("/v1/runs/run_unknown/export")).status == 404


async def test_an_active_run_is_listed_and_exported() -> None:
    gate = Gate()
    place = Place(None, [call("lookup", city="Rome"), slow("Sunny.", gate)])
    run_id = await place.start("Rome?")
    await gate.reached.wait()
    [run] = (await place.get("/v1/runs?status=running&tool=lookup&summary=true")).json["data"]
    assert (run["id"], run["ended"], run["summary"]["rounds"]) == (run_id, None, 2)
    export = read_export((await place.get(f"/v1/runs/{run_id}/export")).body)
    assert export.run.ended is None
    gate.open()
    await place.ended(run_id)
    [run] = (await place.get("/v1/runs?summary=true")).json["data"]
    assert run["summary"]["seconds"] > 0
    await place.gateway.aclose()


async def test_a_run_that_took_too_long_has_failed_wherever_it_is_read(tmp_path: Path) -> None:
    config = config_of(ModelConfig(name="m", target="scripted/model", run_timeout=0.01))
    async with places_on(tmp_path / "runs.db") as places:
        place, later = places.open([slow("Late.", Gate())], config=config), places.open()
        run = await place.ended(await place.start("Hi"))
        for each in (place, later):
            [listed] = (await each.get("/v1/runs?status=failed&reason=deadline")).json["data"]
            assert (listed["id"], listed["error"]["code"]) == (run["id"], "run_timeout")
            assert (await each.get("/v1/runs?status=ended")).json["data"] == []


async def test_a_run_of_another_key_cannot_be_exported() -> None:
    place = Place(None, ["Hello."])
    run_id = await place.start("Hi")
    place.gateway.runs.get(run_id).owner = "other"
    assert (await request(place.app, "GET", f"/v1/runs/{run_id}/export")).status == 404
    await place.gateway.aclose()


class Told:
    """A run whose events can be read this often."""

    def __init__(self, id: str, events: Any) -> None:
        self.id, self.read, self._events = id, 0, events

    async def recorded(self) -> Any:
        self.read += 1
        return self._events


async def test_an_ended_run_is_read_once_and_the_summaries_are_bounded() -> None:
    place = Place(None, [call("lookup", city="Rome"), "Sunny."])
    run_id = await place.start("Rome?")
    await place.ended(run_id)
    events = await (await place.gateway.find(run_id, "")).recorded()
    runs: list[Any] = [Told(str(number), events) for number in range(3)]
    going: Any = Told("going", events[:-1])
    summaries = Summaries(max_bytes=2 * len(encode_json(summary_of("0", events))))
    for _ in range(2):
        await summaries.of(runs[0])
        await summaries.of(going)
    assert (runs[0].read, going.read) == (1, 2)
    for run in (*runs, runs[0], runs[2]):
        await summaries.of(run)
    assert [run.read for run in runs] == [2, 1, 1]
    await place.gateway.aclose()


async def test_fewer_summaries_of_runs_with_many_calls_are_kept() -> None:
    place = Place(None, [calls(*(call("lookup", city="x" * 1_000) for _ in range(50))), "Done."])
    run_id = await place.start("Many?")
    await place.ended(run_id)
    events = await (await place.gateway.find(run_id, "")).recorded()
    summaries = Summaries(max_bytes=300_000)
    for number in range(20):
        run: Any = Told(str(number), events)
        await summaries.of(run)
    assert 1 <= len(summaries._cache) <= 3
    await place.gateway.aclose()


async def test_a_call_that_did_not_succeed_counts_as_a_failure() -> None:
    place = Place(None, [call("lookup", town="Rome"), "Sorry."])
    run_id = await place.start("Rome?")
    await place.ended(run_id)
    events = await (await place.gateway.find(run_id, "")).recorded()
    [answered] = [event for event in events if isinstance(event, ToolRunEnded)]
    told = summary_of(run_id, events).fields()["tools"]["lookup"]
    assert (answered.outcome, told["failures"]) == ("invalid_arguments", 1)
    await place.gateway.aclose()


# Runs that are not stored are in the memory of their process, and in its lists.


class Mixed:
    """A gateway with a log, and with runs that it does not store among the stored ones."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def respond(self, prompt: str, *, store: bool) -> str:
        body = {"model": "m", "input": prompt, "store": store}
        answer = await post(self.place.app, body, "/v1/responses")
        assert answer.status == 200, answer
        return "run_" + answer.json["id"].removeprefix("resp_")

    async def ids(self, query: str = "") -> list[str]:
        answer = await self.place.get(f"/v1/runs?{query}")
        assert answer.status == 200, answer
        return [run["id"] for run in answer.json["data"]]

    async def paged(self, limit: int) -> list[str]:
        """All runs, page by page."""
        pages: list[str] = await self.ids(f"limit={limit}")
        while more := await self.ids(f"limit={limit}&before={pages[-1]}"):
            pages += more
        return pages


@pytest.fixture
async def mixed(tmp_path: Path) -> AsyncIterator[Mixed]:
    async with asyncio.timeout(10), places_on(tmp_path / "runs.db") as places:
        yield Mixed(places.open([*map(str, range(20))]))


@pytest.mark.parametrize("kinds", ["nssnnsn", "sssn", "nsss", "nnn", "sss"])
async def test_stored_and_other_runs_are_in_one_list_newest_first(mixed: Mixed, kinds: str) -> None:
    """`s` is a stored run, `n` one that is not."""
    made = [await mixed.respond(f"Run {n}", store=kind == "s") for n, kind in enumerate(kinds)]
    newest = made[::-1]
    assert await mixed.ids() == newest
    for limit in range(1, len(newest) + 1):
        assert await mixed.paged(limit) == newest, limit
    assert await mixed.ids("q=run 1") == [made[1]]
    assert await mixed.ids("q=run&limit=2") == newest[:2]


async def test_a_run_that_is_not_stored_opens_like_any_other(mixed: Mixed) -> None:
    run_id = await mixed.respond("Hello", store=False)
    [listed] = (await mixed.place.get("/v1/runs?summary=true")).json["data"]
    assert (listed["title"], listed["status"]) == ("Hello", "ended")
    assert listed["summary"]["rounds"] == 1
    shown = await mixed.place.show(run_id)
    assert shown["response"]["choices"][0]["message"]["content"] == "0"
    assert b"event: run_ended" in await mixed.place.events(run_id)


async def test_an_unknown_run_to_start_after_is_refused(mixed: Mixed) -> None:
    await mixed.respond("Hello", store=False)
    answer = await mixed.place.get("/v1/runs?before=run_unknown")
    assert (answer.status, answer.json["error"]["param"]) == (400, "before")


async def test_runs_are_searched_in_their_content(place: Listed) -> None:
    assert await place.ids("text=SUNNY") == [place.oslo, place.rome]
    assert await place.ids("text=weather%20in%20rome") == [place.rome]
    assert await place.ids("text=ghost") == [place.rome]
    assert await place.ids("text=oslo&tool=lookup") == [place.oslo]
    assert await place.ids("text=absent") == []


async def test_runs_are_filtered_by_the_time_of_their_start(place: Listed) -> None:
    created = [run["created"] for run in (await place.get("")).json["data"]]
    everything = await place.ids()
    assert await place.ids(f"since={min(created)}&until={max(created) + 1}") == everything
    assert await place.ids(f"since={max(created) + 1}") == []
    assert await place.ids(f"until={min(created)}") == []
    answer = await place.get("since=yesterday")
    assert (answer.status, answer.error["param"]) == (400, "since")


@pytest.mark.parametrize("outcome", ["denied", "stopped", "not_run"])
def test_a_call_that_a_person_denied_or_stopped_has_not_failed(outcome: Outcome) -> None:
    summary = CallSummary(
        run_id=None,
        call_id="c",
        name="f",
        time=1.0,
        seconds=0.0,
        outcome=outcome,
        arguments={},
        response=None,
    )
    assert not summary.failed
    assert msgspec.structs.replace(summary, outcome="timeout").failed
