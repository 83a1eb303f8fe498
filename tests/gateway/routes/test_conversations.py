"""`/v1/conversations`: their items, with and without runs, and the same chats elsewhere."""

from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from tests.support.asgi import Answer, post, request
from tests.support.responding import is_stored, posted, respond, run_count, stream
from tests.support.restarting import SERVED, Place, Places
from tests.support.serving import Serving, config_of
from tests.support.talking import Body

from windlass.gateway.config import ModelConfig, RunsConfig
from windlass.testing import Gate, ScriptedModel, call, refuse, say, slow

PATH = "/v1/conversations"
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def user(text: str) -> Body:
    return {"type": "message", "role": "user", "content": text}


async def created(place: Place, *items: Body, **fields: Any) -> str:
    answer = await post(place.app, {"items": list(items), **fields}, PATH)
    assert answer.status == 200, answer
    return answer.json["id"]


async def listed(place: Place, conversation: str, query: str = "?order=asc") -> list[Body]:
    answer = await place.get(f"{PATH}/{conversation}/items{query}")
    assert answer.status == 200, answer
    return answer.json["data"]


async def removed(place: Place, path: str) -> Answer:
    return await request(place.app, "DELETE", f"{PATH}/{path}")


def words(items: list[Body]) -> list[str]:
    """What each item says, or its type."""
    return [
        item["content"][0]["text"] if item["type"] == "message" else item["type"] for item in items
    ]


def said(place: Place) -> list[str]:
    return [message.text for message in place.model.requests[-1].messages]


async def test_a_conversation_is_created_shown_changed_and_deleted(
    places: Places, file: Path
) -> None:
    place = places.open([])
    answer = await post(place.app, {"metadata": {"topic": "demo"}}, PATH)
    conversation = answer.json
    assert conversation["object"] == "conversation"
    assert conversation["metadata"] == {"topic": "demo"}
    path = f"{PATH}/{conversation['id']}"
    assert (await place.get(path)).json == conversation
    changed = await post(place.app, {"metadata": {"topic": "other"}}, path)
    assert changed.json == {**conversation, "metadata": {"topic": "other"}}
    assert (await place.get(path)).json == changed.json
    assert await listed(place, conversation["id"]) == []
    assert (await removed(place, conversation["id"])).json == {
        "id": conversation["id"],
        "object": "conversation.deleted",
        "deleted": True,
    }
    assert ((await place.get(path)).status, run_count(file)) == (404, 0)


async def test_its_items_contain_the_input_and_the_output_of_its_responses(places: Places) -> None:
    place = places.open(["One.", call("lookup", city="Rome"), "Sunny."])
    conversation = await created(place, user("Earlier."))
    first = await respond(place, "First?", conversation=conversation, instructions="Be brief.")
    assert first["conversation"] == {"id": conversation}
    assert said(place) == ["Be brief.", "Earlier.", "First?"]
    sent = await stream(place, [user("Second?")], conversation={"id": conversation})
    assert b"Sunny." in sent
    items = await listed(place, conversation)
    assert words(items) == ["Earlier.", "First?", "One.", "Second?", "mcp_call", "Sunny."]
    assert items[2] == first["output"][0]
    assert len({item["id"] for item in items}) == len(items)
    for item in items:
        assert (await place.get(f"{PATH}/{conversation}/items/{item['id']}")).json == item
    assert await listed(place, conversation, "") == items[::-1]
    page = await listed(place, conversation, f"?order=asc&limit=2&after={items[0]['id']}")
    assert page == items[1:3]


async def test_items_are_added_without_asking_the_model(places: Places) -> None:
    place = places.open(["Blue."])
    conversation = await created(place)
    told: Any = [user("The sky is blue."), {"role": "assistant", "content": "I see."}]
    answer = await post(place.app, {"items": told}, f"{PATH}/{conversation}/items")
    assert answer.status == 200, answer
    assert words(answer.json["data"]) == ["The sky is blue.", "I see."]
    assert await listed(place, conversation) == answer.json["data"]
    await respond(place, "Which colour?", conversation=conversation)
    assert said(place) == ["The sky is blue.", "I see.", "Which colour?"]


async def test_the_result_of_a_client_tool_continues_the_conversation(places: Places) -> None:
    place = places.open([call("get_weather", city="Oslo"), "It rains.", "Bye."])
    conversation = await created(place)
    first = await respond(place, "Weather?", conversation=conversation, tools=[WEATHER])
    [made] = first["output"]
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "rain"}
    await respond(place, [result], conversation=conversation, tools=[WEATHER])
    shown = ["Weather?", "function_call", "function_call_output", "It rains."]
    items = await listed(place, conversation)
    assert words(items) == shown
    deleted = await removed(place, f"{conversation}/items/{made['id']}")
    assert deleted.json["id"] == conversation
    assert words(await listed(place, conversation)) == ["Weather?", "It rains."]
    await respond(place, "Thanks.", conversation=conversation)
    assert said(place) == ["Weather?", "It rains.", "Thanks."]
    assert words(await listed(place, conversation)) == ["Weather?", "It rains.", "Thanks.", "Bye."]


async def test_the_other_items_keep_their_ids_when_one_is_deleted(places: Places) -> None:
    place = places.open([])
    conversation = await created(place, user("A"), user("B"), user("C"))
    first, second, third = await listed(place, conversation)
    await removed(place, f"{conversation}/items/{second['id']}")
    assert await listed(place, conversation) == [first, third]
    await post(place.app, {"items": [user("D")]}, f"{PATH}/{conversation}/items")
    assert words(await listed(place, conversation)) == ["A", "C", "D"]
    missing = await removed(place, f"{conversation}/items/{second['id']}")
    assert (missing.status, missing.error["code"]) == (404, "item_not_found")


async def test_a_failed_response_does_not_change_the_conversation(places: Places) -> None:
    place = places.open([refuse(400, "No."), "Yes."])
    conversation = await created(place, user("Hello."))
    assert (await posted(place, "Fails.", conversation=conversation)).status == 400
    assert words(await listed(place, conversation)) == ["Hello."]
    await respond(place, "Works.", conversation=conversation)
    assert said(place) == ["Hello.", "Works."]


async def test_a_conversation_is_also_listed_as_a_chat(places: Places) -> None:
    place = places.open(["One.", "Two."])
    conversation = await created(place, user("Hello."))
    await respond(place, "First?", conversation=conversation)
    await place.ask("Second?", chat_id=conversation)
    assert said(place) == ["Hello.", "First?", "One.", "Second?"]
    items = await listed(place, conversation)
    assert words(items) == ["Hello.", "First?", "One.", "Second?", "Two."]
    chat = (await place.get(f"/v1/chats/{conversation}")).json
    assert [message["content"] for message in chat["messages"]] == words(items)
    for run in chat["run_ids"]:
        assert (await place.show(run))["status"] == "ended"
        assert (await place.get(f"/v1/runs/{run}/events")).status == 200
    [shown] = (await place.get("/v1/chats")).json["data"]
    assert shown["id"] == conversation
    assert len((await place.get("/v1/runs")).json["data"]) == 3


async def test_a_conversation_waits_for_its_active_response(places: Places) -> None:
    gate = Gate()
    place = places.open([slow(say("One two."), gate, after=1)])
    conversation = await created(place, user("Hello."))
    response = await respond(place, "Go.", conversation=conversation, background=True)
    await gate.reached.wait()
    path = f"{PATH}/{conversation}/items"
    busy = await post(place.app, {"items": [user("Now?")]}, path)
    assert (busy.status, busy.error["code"]) == (409, "chat_busy")
    assert (await removed(place, conversation)).status == 409
    assert words(await listed(place, conversation)) == ["Hello.", "Go."]
    gate.open()
    await place.ended(f"run_{response['id'].removeprefix('resp_')}")
    assert words(await listed(place, conversation)) == ["Hello.", "Go.", "One two."]


BAD: dict[str, tuple[Any, str]] = {
    "unknown item type": ({"items": [{"type": "telepathy"}]}, "items[0].type"),
    "no list": ({"items": "Hi"}, "items"),
    "too many": ({"items": [user("Hi")] * 21}, "items"),
    "metadata": ({"metadata": {"a": 1}}, "metadata"),
    "metadata of another type": ({"metadata": []}, "metadata"),
    "a result without its call": (
        {"items": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
        "messages",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_refused_and_nothing_is_stored(
    places: Places, file: Path, case: str
) -> None:
    body, param = BAD[case]
    answer = await post(places.open([]).app, body, PATH)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert run_count(file) == 0


async def test_unknown_conversations_do_not_exist(places: Places, file: Path) -> None:
    place = places.open([])
    for path in ("conv_1", "conv_1/items", "conv_1/items/msg_1"):
        answer = await place.get(f"{PATH}/{path}")
        assert (answer.status, answer.error["code"]) == (404, "conversation_not_found")
    answer = await posted(place, "Secret.", conversation="conv_1")
    assert (answer.status, answer.error["code"]) == (404, "conversation_not_found")
    assert not is_stored(file, "Secret")


async def test_without_a_log_there_are_no_conversations() -> None:
    place = Place(None, [], config=SERVED)
    for answer in (
        await post(place.app, {}, PATH),
        await place.get(f"{PATH}/conv_1"),
        await posted(place, "Hi", conversation="conv_1"),
    ):
        assert (answer.status, answer.error["code"]) == (404, "no_conversations")
    await place.gateway.aclose()


async def test_the_official_sdk_keeps_a_conversation(tmp_path: Path) -> None:
    config = config_of(
        ModelConfig(name="m", target="scripted/m"), runs=RunsConfig(path=str(tmp_path / "runs.db"))
    )
    async with (
        Serving(config, models={"m": ScriptedModel(["Hi.", "Bye."])}) as serving,
        AsyncOpenAI(base_url=serving.base_url, api_key="none", max_retries=0) as client,
    ):
        greeting: Any = user("Hello.")
        conversation = await client.conversations.create(items=[greeting], metadata={"a": "b"})
        assert conversation.metadata == {"a": "b"}
        response = await client.responses.create(
            model="m", input="How are you?", conversation=conversation.id
        )
        assert response.output_text == "Hi."
        shown = [item async for item in client.conversations.items.list(conversation.id)]
        assert [item.type for item in shown] == ["message"] * 3
        assert [each.content[0].text for each in shown] == ["Hi.", "How are you?", "Hello."]  # type: ignore[union-attr]
        item: Any = await client.conversations.items.retrieve(
            shown[0].id,  # type: ignore[arg-type]
            conversation_id=conversation.id,
        )
        assert item == shown[0]
        await client.conversations.items.delete(shown[0].id, conversation_id=conversation.id)  # type: ignore[arg-type]
        updated = await client.conversations.update(conversation.id, metadata={"c": "d"})
        assert updated.metadata == {"c": "d"}
        left = await client.conversations.items.list(conversation.id, order="asc")
        assert len(left.data) == 2
        assert (await client.conversations.delete(conversation.id)).deleted
