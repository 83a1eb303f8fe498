"""Pages over many requests: what is set up once, which page is used, and which requests wait."""

import asyncio
import logging
from typing import Any

import pytest
from tests.models.aistudio.test_aistudio_calling import (
    PARIS,
    WEATHER,
    asking,
    events_of,
    get_weather,
    text_in,
)
from tests.support.browsing import IN_ONE_BROWSER, MakeModel
from tests.support.thoroughness import WHOLE

from windlass import AsyncClient, GoogleSearch, Message, NativeModeUnavailable
from windlass.events import TurnEnded
from windlass.model import ModelRequest
from windlass.testing import Gate, call, last_prompt, say, slow
from windlass.testing.aistudio import FakeAIStudio

pytestmark = IN_ONE_BROWSER

CALLS = 19 if WHOLE else 4


async def test_an_agent_s_run_of_many_turns_sets_its_tools_up_once(model_on: MakeModel) -> None:
    script = [call("get_weather", city=f"City {number}") for number in range(CALLS)]
    with FakeAIStudio([*script, "All sunny."]) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        reply = await client.generate("Weather?", tools=[get_weather], max_rounds=30)
        assert (reply.text, len(reply.results)) == ("All sunny.", CALLS)
        assert (len(fake.requests), len(fake.saves)) == (CALLS + 1, 1)
        assert [request.body["prompt"] for request in fake.requests[1:]] == [None] * CALLS


async def test_a_switch_that_was_changed_manually_is_noticed(model_on: MakeModel) -> None:
    """A remembered state is used only after the page was checked again."""
    with FakeAIStudio(["One", "Two"]) as fake:
        model = model_on(fake.url)
        first = [Message.user("Hi")]
        await events_of(model, ModelRequest(first, (WEATHER,)))
        page = model.own.pages[0]  # type: ignore[attr-defined]
        await page.locator('button[aria-label="Function calling"]').click()
        again = [*first, Message.assistant("One"), Message.user("And?")]
        await events_of(model, ModelRequest(again, (WEATHER,)))
        assert fake.requests[1].body["switches"]["function_calling"] is True
        assert len(fake.saves) == 2


async def _saves_of_two_turns(model: Any, fake: FakeAIStudio) -> int:
    first = [Message.user("Hi")]
    await events_of(model, ModelRequest(first, (WEATHER,)))
    again = [*first, Message.assistant("One"), Message.user("And?")]
    await events_of(model, ModelRequest(again, (WEATHER,)))
    assert [request.body["declarations"][0]["name"] for request in fake.requests] == [
        "get_weather"
    ] * 2
    return sum(1 for saved in fake.saves if saved)


async def test_without_the_cache_the_page_is_cleared_after_each_answer(
    model_on: MakeModel,
) -> None:
    with FakeAIStudio(["One", "Two"]) as fake:
        model = model_on(fake.url, settings={"cache_enabled": False})
        assert await _saves_of_two_turns(model, fake) == 2
        assert fake.saves[1] == []
        toggle = model.own.pages[0].locator(  # type: ignore[attr-defined]
            'button[aria-label="Function calling"]'
        )
        assert await toggle.get_attribute("aria-checked") == "false"


async def test_a_page_is_not_cleared_while_its_calls_wait_for_answers(
    model_on: MakeModel,
) -> None:
    with FakeAIStudio([PARIS, "Sunny."]) as fake:
        client = AsyncClient(model_on(fake.url, settings={"cache_enabled": False}), mode="native")
        reply = await client.generate("Weather?", tools=[get_weather])
        assert reply.text == "Sunny."
        assert fake.requests[1].body["prompt"] is None


async def test_a_new_chat_sets_the_tools_up_again(model_on: MakeModel) -> None:
    with FakeAIStudio(["One", "Two"], new_chat_resets=True) as fake:
        model = model_on(fake.url)
        await events_of(model, asking(WEATHER))
        await events_of(model, asking(WEATHER))
        assert len(fake.saves) == 2
        assert fake.requests[1].body["switches"]["function_calling"] is True


async def test_conversations_at_once_have_a_page_each_and_find_it_again(
    model_on: MakeModel,
) -> None:
    def answer(request: dict[str, Any]) -> Any:
        return say(f"You said {last_prompt(request)}.")

    with FakeAIStudio(answer) as fake:
        model = model_on(fake.url, pages=3)
        client = AsyncClient(model, mode="native")
        chats = [client.chat() for _ in range(3)]
        for question in ("one", "two"):
            replies = await asyncio.gather(
                *(chat.send(f"{question} {number}") for number, chat in enumerate(chats))
            )
            assert [reply.text for reply in replies] == [
                f"You said {question} {number}." for number in range(3)
            ]
        assert len(model.own.pages) == 3  # type: ignore[attr-defined]
        later = [request for request in fake.requests if "two" in request.body["prompt"]]
        assert all(len(request.body["contents"]) == 3 for request in later)


async def test_a_reader_that_leaves_at_the_turn_s_end_continues_in_the_same_chat(
    model_on: MakeModel,
) -> None:
    with FakeAIStudio(["One.", "Two."]) as fake:
        model = model_on(fake.url)
        first = [Message.user("Hi")]
        async with model.stream(ModelRequest(first)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    break
        again = [*first, Message.assistant("One."), Message.user("And?")]
        await events_of(model, ModelRequest(again))
        assert len(fake.requests[1].body["contents"]) == 3
        assert not fake.stopped.is_set()


async def test_a_request_waits_for_a_free_page(model_on: MakeModel) -> None:
    gate = Gate()
    with FakeAIStudio([slow("One.", gate), "Two.", "Three."]) as fake:
        model = model_on(fake.url, pages=1)
        asked = [asyncio.create_task(events_of(model, asking())) for _ in range(3)]
        await gate.reached.wait()
        assert len(fake.requests) == 1
        gate.open()
        assert [text_in(events) for events in await asyncio.gather(*asked)] == [
            "One.",
            "Two.",
            "Three.",
        ]
        assert len(model.own.pages) == 1  # type: ignore[attr-defined]


async def test_a_cache_that_is_cleared_makes_the_tools_declared_again(model_on: MakeModel) -> None:
    with FakeAIStudio(["One", "Two", "Three"]) as fake:
        model = model_on(fake.url)
        client = AsyncClient(model, mode="native")
        chat = client.chat(tools=[get_weather])
        await chat.send("Hi")
        await chat.send("And?")
        assert len(fake.saves) == 1
        assert (await client.clear_cache(), await client.clear_cache()) == (1, 0)
        await chat.send("And now?")
        assert len(fake.saves) == 2
        assert len(fake.requests[2].body["contents"]) == 5


async def test_debug_logs_show_the_switch_and_the_editor(
    model_on: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass.models.aistudio")
    with FakeAIStudio(["One"], tools_collapsed=True) as fake:
        model = model_on(fake.url, settings={"debug_logs": True})
        await events_of(model, asking(WEATHER))
    for words in ("opening the tools panel", "switching 'function_toggle' on", "editor: saving"):
        assert words in caplog.text


async def test_google_search_beside_a_function_falls_back_in_auto_mode(
    model_on: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    """The page's search stays on, and the function is described in the prompt."""
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    with FakeAIStudio([written, "Sunny.", PARIS, "Again."]) as fake:
        client = AsyncClient(model_on(fake.url), mode="auto")
        reply = await client.generate("Weather?", tools=[get_weather, GoogleSearch()])
        assert (reply.text, reply.mode) == ("Sunny.", "emulated")
        assert fake.requests[0].body["switches"]["google_search"] is True
        assert "cannot use Google Search and functions together" in caplog.text
        # Only that request needed it.
        assert (await client.generate("Weather?", tools=[get_weather])).mode == "native"


async def test_google_search_beside_a_function_is_refused_in_native_mode(
    model_on: MakeModel,
) -> None:
    with FakeAIStudio([]) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        with pytest.raises(NativeModeUnavailable, match="Google Search and functions") as caught:
            await client.generate("Weather?", tools=[get_weather, GoogleSearch()])
        assert caught.value.status == 400
