"""Chats over HTTP: a conversation has an id and continues by it, also after a restart."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asgi import Answer, bearer, post, request
from tests.support.restarting import SERVED, Place, Places, content, places_on
from tests.support.serving import config_of
from tests.support.talking import Body, asking, function

from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.routes import chats
from windlass.runs.records import RunRecord
from windlass.testing import Gate, call, calls, refuse, slow

WEB, WEB_HASH = new_key()
OTHER, OTHER_HASH = new_key()
KEYS = (KeyConfig(name="web", hash=WEB_HASH), KeyConfig(name="other", hash=OTHER_HASH))

restarting = pytest.mark.parametrize("restarted", [False, True], ids=["beside", "restarted"])


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[Places]:
    async with asyncio.timeout(30), places_on(tmp_path / "runs.db") as places:
        yield places


async def again(places: Places, place: Place, script: Any, restarted: bool) -> Place:
    """The gateway that continues: beside the first one, or after its restart."""
    if restarted:
        await place.gateway.aclose()
    return places.open(script)


def asked(place: Place) -> list[tuple[str, str]]:
    """The roles and texts of the model's last request."""
    return [(said.role, said.text) for said in place.model.requests[-1].messages]


async def delete(place: Place, path: str) -> Answer:
    return await request(place.app, "DELETE", path)


@restarting
async def test_a_chat_id_continues_the_chat_in_runs_and_completions(
    places: Places, restarted: bool
) -> None:
    place = places.open([call("lookup", city="Rome"), "Sunny."])
    run = await place.ended(await place.start("Rome?", chat_id="trip"))
    assert run["chat_id"] == "trip"
    place = await again(places, place, ["In Rome.", "Yes."], restarted)
    assert (await place.ask("Where?", chat_id="trip"))["content"] == "In Rome."
    assert asked(place) == [
        ("user", "Rome?"),
        ("assistant", ""),
        ("tool", ""),
        ("assistant", "Sunny."),
        ("user", "Where?"),
    ]
    assert place.model.requests[-1].messages[2].responses[0].text == "sunny in Rome"
    assert content(await place.ended(await place.start("Sure?", chat_id="trip"))) == "Yes."
    assert asked(place)[-3:] == [
        ("user", "Where?"),
        ("assistant", "In Rome."),
        ("user", "Sure?"),
    ]


async def test_chats_are_separate_and_a_request_without_one_belongs_to_none(places: Places) -> None:
    place = places.open(["One.", "Two.", "Three."])
    await place.ask("First", chat_id="a")
    await place.ask("Second", chat_id="b")
    await place.ask("Third")
    assert asked(place) == [("user", "Third")]
    listed = (await place.get("/v1/chats")).json["data"]
    assert [chat["id"] for chat in listed] == ["b", "a"]


async def test_a_list_of_chats_has_pages(places: Places) -> None:
    place = places.open(["Hi."] * 4)
    for name in ("a", "b", "c", "a"):
        await place.ask("Hello", chat_id=name)

    async def ids(query: str) -> list[str]:
        return [chat["id"] for chat in (await place.get(f"/v1/chats?{query}")).json["data"]]

    assert await ids("") == ["a", "c", "b"]
    assert await ids("limit=2") == ["a", "c"]
    assert await ids("limit=2&before=c") == ["b"]
    for query, name in (("limit=x", "limit"), ("before=unknown", "before")):
        refused = await place.get(f"/v1/chats?{query}")
        assert (refused.status, refused.error["param"]) == (400, name)


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_a_list_of_chats_reads_only_the_newest_runs(
    places: Places, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats, "CHATS_PAGE", page)
    monkeypatch.setattr(chats, "MAX_LISTED", page)
    place = places.open(["Hi."] * 9)
    for name in ("a", "b", "a", "", "c", "b", "", "d", "a"):
        await place.ask("Hello", **({"chat_id": name} if name else {}))
    log, read = place.gateway.service.log, set[str]()
    assert log is not None
    plainly = log.list

    async def noted(**wanted: Any) -> Sequence[RunRecord]:
        found = await plainly(**wanted)
        read.update(record.chat for record in found)
        return found

    monkeypatch.setattr(log, "list", noted)
    every = ["a", "d", "b", "c"]
    for start in range(4):
        for limit in range(1, 5):
            before = f"&before={every[start - 1]}" if start else ""
            listed = (await place.get(f"/v1/chats?limit={limit}{before}")).json["data"]
            assert [chat["id"] for chat in listed] == every[start : start + limit]
    assert [chat["runs"] for chat in (await place.get("/v1/chats")).json["data"]] == [3, 1, 2, 1]
    assert "" not in read, "runs without a chat"
    read.clear()
    await place.get("/v1/chats?limit=1")
    assert (read == {"a"}) is (page == 1)


@restarting
async def test_a_chat_is_listed_and_shown_with_its_messages(
    places: Places, restarted: bool
) -> None:
    place = places.open([call("lookup", city="Rome"), "Sunny.", "You are welcome."])
    await place.ask("Rome?", chat_id="trip")
    await place.ask("Thanks!", chat_id="trip")
    place = await again(places, place, [], restarted)
    [listed] = (await place.get("/v1/chats")).json["data"]
    shown = (await place.get("/v1/chats/trip")).json
    run_ids, messages = shown.pop("run_ids"), shown.pop("messages")
    assert shown == listed
    runs = (await place.get("/v1/runs")).json["data"]
    assert run_ids == [run["id"] for run in reversed(runs)]
    assert listed == {
        "id": "trip",
        "object": "chat",
        "created": runs[1]["created"],
        "updated": listed["updated"],
        "title": "Rome?",
        "model": "m",
        "status": "ended",
        "running": None,
        "runs": 2,
    }
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert messages[1]["tool_calls"][0]["function"]["name"] == "lookup"
    assert messages[2]["content"] == "sunny in Rome"
    assert messages[-1]["content"] == "You are welcome."


@restarting
async def test_deleting_a_chat_deletes_its_runs_and_frees_its_id(
    places: Places, restarted: bool
) -> None:
    place = places.open(["A secret."])
    await place.ask("Tell me.", chat_id="c")
    place = await again(places, place, ["What secret?"], restarted)
    deleted = await delete(place, "/v1/chats/c")
    assert deleted.json == {"id": "c", "object": "chat.deleted", "deleted": True}
    for path in ("/v1/chats", "/v1/runs"):
        assert (await place.get(path)).json["data"] == []
    assert (await place.get("/v1/chats/c")).status == 404
    assert (await delete(place, "/v1/chats/c")).status == 404
    for each in places.file.parent.iterdir():
        assert b"secret" not in each.read_bytes()
    await place.ask("Again?", chat_id="c")
    assert asked(place) == [("user", "Again?")]


@restarting
@pytest.mark.parametrize("sent", ["result", "turn and result"])
async def test_client_tools_are_answered_inside_a_chat(
    places: Places, restarted: bool, sent: str
) -> None:
    mixed = calls(
        call("lookup", city="Oslo", signature="c2ln"), call("ring", times=1), text="Let me see. "
    )
    place = places.open([mixed])
    tools = [function("ring")]
    message = await place.ask("Ring!", chat_id="c", tools=tools)
    [made] = message["tool_calls"]
    shown = (await place.get("/v1/chats/c")).json["messages"]
    assert [said["role"] for said in shown] == ["user", "assistant"]
    assert [each["id"] for each in shown[1]["tool_calls"]] == [made["id"]]
    place = await again(places, place, ["It rang.", "Bye."], restarted)
    rang = {"role": "tool", "tool_call_id": made["id"], "content": "rang"}
    messages = [rang] if sent == "result" else [message, rang]
    body = {"model": "m", "messages": messages, "tools": tools, "chat_id": "c"}
    answer = (await post(place.app, body)).json
    assert answer["choices"][0]["message"]["content"] == "It rang."
    _, turn, answers = place.model.requests[-1].messages
    assert [(each.name, each.signature) for each in turn.calls] == [
        ("lookup", "c2ln"),
        ("ring", None),
    ]
    assert [each.text for each in answers.responses] == ["sunny in Oslo", "rang"]
    await place.ask("Thanks.", chat_id="c", tools=tools)
    assert asked(place)[-2:] == [("assistant", "It rang."), ("user", "Thanks.")]


async def test_a_result_without_a_call_in_the_chat_is_refused(places: Places) -> None:
    place = places.open(["Hi."])
    await place.ask("Hello", chat_id="c")
    result = {"role": "tool", "tool_call_id": "call_0", "content": "rang"}
    body = {"model": "m", "messages": [result], "chat_id": "c"}
    answer = await post(place.app, body)
    assert (answer.status, answer.error["param"]) == (400, "messages")
    assert "'call_0'" in answer.error["message"]


async def test_a_chat_with_an_active_run_is_busy_for_every_process(places: Places) -> None:
    gate = Gate()
    there, here = places.open([slow("Done.", gate), "Now."]), places.open([])
    run_id = await there.start("Go.", chat_id="c")
    for place in (there, here):
        for path in ("/v1/runs", "/v1/chat/completions"):
            busy = await post(place.app, asking("And?", chat_id="c"), path)
            assert (busy.status, busy.error["code"]) == (409, "chat_busy")
            assert busy.error["param"] == "chat_id"
        refused = await delete(place, "/v1/chats/c")
        assert (refused.status, refused.error["code"]) == (409, "run_in_progress")
        shown = (await place.get("/v1/chats/c")).json
        assert (shown["status"], len(shown["messages"])) == ("running", 1)
        assert shown["running"] == run_id
    gate.open()
    await there.ended(run_id)
    assert (await there.ask("And?", chat_id="c"))["content"] == "Now."


async def test_of_two_concurrent_requests_a_chat_accepts_one(places: Places) -> None:
    gate = Gate()
    place = places.open([slow("Done.", gate)])
    both = [
        asyncio.create_task(post(place.app, asking(prompt, chat_id="c"), "/v1/runs"))
        for prompt in ("One", "Two")
    ]
    answers = [await answer for answer in both]
    assert sorted(answer.status for answer in answers) == [202, 409]
    gate.open()
    [started] = [answer.json["id"] for answer in answers if answer.status == 202]
    assert content(await place.ended(started)) == "Done."


async def test_a_chat_with_an_interrupted_run_continues_after_its_end(places: Places) -> None:
    gate = Gate()
    before = places.open([slow("Never said.", gate)])
    run_id = await before.start("Go.", chat_id="c")
    await gate.reached.wait()
    await before.crash()
    after = places.open(["Done.", "Now."])
    assert (await post(after.app, asking("And?", chat_id="c"))).status == 409
    await after.resume()
    await after.ended(run_id)
    assert (await after.ask("And?", chat_id="c"))["content"] == "Now."
    assert asked(after) == [("user", "Go."), ("assistant", "Done."), ("user", "And?")]


async def test_a_failed_run_does_not_change_the_conversation(places: Places) -> None:
    place = places.open(["Hi.", refuse(400, "Not today."), "Fine."])
    await place.ask("Hello", chat_id="c")
    failed = await post(place.app, asking("How are you?", chat_id="c"))
    assert failed.status == 400
    await place.ask("And you?", chat_id="c")
    assert asked(place) == [("user", "Hello"), ("assistant", "Hi."), ("user", "And you?")]


async def test_the_configured_system_text_comes_once_at_the_start(places: Places) -> None:
    config = config_of(ModelConfig(name="m", target="scripted/model", system="Be brief."))
    place = places.open(["Hi.", "Fine."], config=config)
    await place.ask("Hello", chat_id="c")
    await place.ask("How are you?", chat_id="c")
    assert [role for role, _ in asked(place)] == ["system", "user", "assistant", "user"]


async def test_new_system_messages_replace_those_at_the_start_of_a_chat(places: Places) -> None:
    place = places.open(["Hi.", "Ahoy.", "Aye."])
    for words, prompt in (("Be brief.", "Hello"), ("Be a pirate.", "Again")):
        instructions = {"role": "system", "content": words}
        said = [instructions, {"role": "user", "content": prompt}]
        await post(place.app, {"model": "m", "chat_id": "c", "messages": said})
    await place.ask("Well?", chat_id="c")
    assert asked(place) == [
        ("system", "Be a pirate."),
        ("user", "Hello"),
        ("assistant", "Hi."),
        ("user", "Again"),
        ("assistant", "Ahoy."),
        ("user", "Well?"),
    ]


async def test_each_key_has_its_own_chats_of_any_name(places: Places) -> None:
    place = places.open(["Mine.", "Theirs."], config=replace(SERVED, keys=KEYS))
    mine, theirs = [bearer(WEB)], [bearer(OTHER)]
    await post(place.app, asking("Me", chat_id="c"), headers=mine)
    assert (await request(place.app, "GET", "/v1/chats/c", headers=theirs)).status == 404
    assert (await request(place.app, "DELETE", "/v1/chats/c", headers=theirs)).status == 404
    await post(place.app, asking("You", chat_id="c"), headers=theirs)
    assert asked(place) == [("user", "You")]
    shown = await request(place.app, "GET", "/v1/chats/c", headers=mine)
    assert shown.json["messages"][-1]["content"] == "Mine."


BAD: list[Any] = ["with space", "a/b", "x" * 65, "ü", 7, ["c"], {}]


@pytest.mark.parametrize("chat", BAD, ids=str)
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/chat/completions"])
async def test_an_invalid_chat_id_is_refused(places: Places, path: str, chat: Any) -> None:
    place = places.open()
    answer = await post(place.app, asking("Hi", chat_id=chat), path)
    assert (answer.status, answer.error["param"]) == (400, "chat_id")


async def test_without_a_log_there_are_no_chats() -> None:
    place = Place(None)
    body: Body = asking("Hi", chat_id="c")
    for path in ("/v1/runs", "/v1/chat/completions"):
        answer = await post(place.app, body, path)
        assert (answer.status, answer.error["param"]) == (404, "chat_id")
        assert "[runs] path" in answer.error["message"]
    assert (await place.get("/v1/chats")).json == {"object": "list", "data": []}
    unknown = await place.get("/v1/chats/c")
    assert (unknown.status, unknown.error["code"]) == (404, "chat_not_found")
    await place.gateway.aclose()


@restarting
async def test_a_renamed_chat_keeps_its_title_and_its_conversation(
    places: Places, restarted: bool
) -> None:
    place = places.open(["Sunny.", "Warm."])
    first = (await place.ended(await place.start("Rome?", chat_id="trip")))["id"]
    renamed = await post(place.app, {"title": "  A trip\nto Rome "}, "/v1/chats/trip")
    assert (renamed.json["title"], renamed.json["runs"]) == ("A trip to Rome", 1)
    assert renamed.json["model"] == "m"
    assert [run["id"] for run in (await place.get("/v1/runs")).json["data"]] == [first]

    place = await again(places, place, ["Warm.", "Hot."], restarted)
    assert (await place.ask("Warm?", chat_id="trip"))["content"] == "Warm."
    assert asked(place)[:2] == [("user", "Rome?"), ("assistant", "Sunny.")]
    shown = (await place.get("/v1/chats/trip")).json
    assert (shown["title"], shown["runs"], shown["run_ids"][0]) == ("A trip to Rome", 2, first)

    # A run that replaces the first one does not lose the title.
    await place.ask("Oslo?", chat_id="trip", replaces=first)
    shown = (await place.get("/v1/chats/trip")).json
    assert (shown["title"], shown["runs"]) == ("A trip to Rome", 1)
    cleared = await post(place.app, {"title": ""}, "/v1/chats/trip")
    assert cleared.json["title"] == "Oslo?"
    assert (await delete(place, "/v1/chats/trip")).status == 200
    assert (await place.get("/v1/chats")).json["data"] == []


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"title": "x" * 81}, 400, "title: more than 80 characters"),
        ({"title": 5}, 400, "title"),
        ({}, 400, "title"),
        ({"title": "a", "name": "b"}, 400, "name"),
    ],
)
async def test_an_invalid_title_is_refused(
    places: Places, body: Body, status: int, message: str
) -> None:
    place = places.open(["Hello."])
    await place.ask("Hi", chat_id="trip")
    answer = await post(place.app, body, "/v1/chats/trip")
    assert (answer.status, message in answer.error["message"]) == (status, True)
    assert (await post(place.app, {"title": "a"}, "/v1/chats/other")).status == 404


async def test_a_chat_with_an_active_run_is_not_renamed(places: Places) -> None:
    gate = Gate()
    place = places.open([slow("Sunny.", gate)])
    run = await place.start("Rome?", chat_id="trip")
    await gate.reached.wait()
    answer = await post(place.app, {"title": "a"}, "/v1/chats/trip")
    assert (answer.status, answer.error["code"]) == (409, "chat_busy")
    gate.open()
    await place.ended(run)


async def test_chats_are_searched_in_titles_and_content(places: Places) -> None:
    place = places.open([call("lookup", city="Rome"), "It is SUNNY there.", "Hello.", "Nothing."])
    await place.ask("Weather in Rome?", chat_id="trip")
    await place.ask("Hi", chat_id="talk")
    await place.ask("Say nothing.", chat_id="quiet")

    async def found(text: str) -> list[tuple[str, str | None]]:
        listed = (await place.get(f"/v1/chats?q={text}")).json["data"]
        return [(chat["id"], chat.get("match")) for chat in listed]

    assert await found("WEATHER") == [("trip", None)]
    [(chat, match)] = await found("sunny")
    assert (chat, match) == ("trip", '…{"output":"sunny in Rome"} It is SUNNY there.')
    assert [chat for chat, _ in await found("lookup")] == ["trip"]
    assert await found("absent") == []
    assert [chat for chat, _ in await found("")] == ["quiet", "talk", "trip"]
