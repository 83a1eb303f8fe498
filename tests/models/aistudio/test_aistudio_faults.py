"""Every known fault of the page, and its effect for a user."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.models.aistudio.test_aistudio_calling import (
    PARIS,
    WEATHER,
    asking,
    calls_in,
    events_of,
    text_in,
)
from tests.support.browsing import IN_ONE_BROWSER, Chromium, MakeModel, replica

from windlass import AsyncClient, Message, NativeModeUnavailable
from windlass.content import FunctionResponse
from windlass.errors import ModelError, StreamCut
from windlass.events import TextDelta, ThoughtDelta, TurnEnded
from windlass.model import ModelRequest
from windlass.models.aistudio.page import ChatPage, TurnWatch
from windlass.models.aistudio.turn import Grown, Patience, Snapshot
from windlass.testing import Gate, call, calls, cut, hang, raw_call, say, slow, think
from windlass.testing.aistudio import (
    FakeAIStudio,
    filled_late,
    late_calls,
    model_error,
    quota_callout,
    rendered_twice,
    toast,
)

pytestmark = IN_ONE_BROWSER

PATIENT = Patience(quiet=0.05, late_call=30)
"""Waits until the test continues."""


@pytest.mark.parametrize("variant", ["older", "newer"])
async def test_every_known_markup_of_the_page_is_understood(
    model_on: MakeModel, variant: Any
) -> None:
    script = [think("Hm.", PARIS), "Sunny.", "Again."]
    with FakeAIStudio(script, variant=variant, tools_collapsed=True) as fake:
        model = model_on(fake.url)
        asked = asking(WEATHER)
        events = await events_of(model, asked)
        assert [event.text for event in events if isinstance(event, ThoughtDelta)] == ["Hm."]
        assert calls_in(events) == [("get_weather", {"city": "Paris"})]
        called = Message.assistant(next(e.call for e in events if hasattr(e, "call")))
        answered = [*asked.messages, called, _answer(called)]
        events = await events_of(model, ModelRequest(answered, asked.tools))
        assert text_in(events) == "Sunny."
        assert fake.requests[1].body["prompt"] is None
        assert text_in(await events_of(model, asking())) == "Again."
        assert len(fake.requests[2].body["contents"]) == 1


def _answer(called: Message) -> Message:
    return Message.tool(
        [FunctionResponse(each.name, {"output": "sunny"}, each.id) for each in called.calls]
    )


@pytest.mark.parametrize(
    "options",
    [
        {
            "visual_tab_first": True,
            "overlay": "closable",
            "switched_on": ["google_search", "url_context", "code_execution"],
            "late": {"page": 0.05, "switch": 0.05, "dialog": 0.05, "save": 0.05},
        },
        {"visible_turns": 1},
        {"broken": {"function_calling_row", "call_chunk", "response_send", "turn_role"}},
    ],
)
async def test_a_page_in_any_state_is_brought_to_work(
    model_on: MakeModel, options: dict[str, Any]
) -> None:
    with FakeAIStudio([PARIS, "Sunny."], **options) as fake:
        model = model_on(fake.url)
        asked = asking(WEATHER)
        events = await events_of(model, asked)
        assert calls_in(events) == [("get_weather", {"city": "Paris"})]
        called = Message.assistant(next(e.call for e in events if hasattr(e, "call")))
        answered = ModelRequest([*asked.messages, called, _answer(called)], asked.tools)
        assert text_in(await events_of(model, answered)) == "Sunny."
        assert fake.requests[1].body["prompt"] is None


async def test_a_dialog_that_cannot_be_closed_is_named(model_on: MakeModel) -> None:
    with FakeAIStudio(["never"], overlay="stuck") as fake:
        model = model_on(fake.url, settings={"ui_timeout_ms": 2000})
        with pytest.raises(ModelError, match="a dialog covers the page") as caught:
            await events_of(model, asking())
        assert caught.value.status == 503


async def test_an_editor_that_is_late_is_tried_again(model_on: MakeModel) -> None:
    """The first try reaches its time limit; the second one finds the dialog in time."""
    gate = Gate()
    with FakeAIStudio([PARIS], late={"dialog": gate}) as fake:
        model = model_on(fake.url, settings={"ui_timeout_ms": 1500, "native_retry_count": 20})
        asked = asyncio.create_task(events_of(model, asking(WEATHER)))
        await gate.reached.wait()
        gate.open()
        assert len(calls_in(await asked)) == 1


async def test_text_is_streamed_while_the_page_writes(model_on: MakeModel) -> None:
    gate = Gate()
    with replica([slow(say("One two three."), gate, after=2)]) as fake:
        said: list[str] = []
        async with model_on(fake.url).stream(asking()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    said.append(event.text)
                if "".join(said) == "One two ":
                    gate.open()
        assert "".join(said) == "One two three."


async def test_a_late_first_token_is_waited_for(model_on: MakeModel) -> None:
    gate = Gate()
    with replica([slow("Hello.", gate)]) as fake:
        asked = asyncio.create_task(events_of(model_on(fake.url), asking()))
        await gate.reached.wait()
        gate.open()
        assert text_in(await asked) == "Hello."


@pytest.mark.parametrize(
    ("late", "text"),
    [
        (late_calls, ""),
        (filled_late, "Let me see."),
        pytest.param(late_calls, "Let me see.", marks=pytest.mark.whole("the two above")),
        pytest.param(filled_late, "", marks=pytest.mark.whole("the two above")),
    ],
)
async def test_a_call_that_arrives_when_the_page_is_idle_is_not_missed(
    model_on: MakeModel, late: Any, text: str
) -> None:
    gate = Gate()
    with FakeAIStudio([late(calls(PARIS, text=text), gate)]) as fake:
        model = model_on(fake.url, patience=PATIENT)
        asked = asyncio.create_task(events_of(model, asking(WEATHER)))
        await gate.reached.wait()
        gate.open()
        events = await asked
        assert calls_in(events) == [("get_weather", {"city": "Paris"})]
        assert text_in(events) == text


async def test_a_call_that_is_drawn_twice_is_one_call(model_on: MakeModel) -> None:
    with replica([rendered_twice(calls(PARIS, PARIS))]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        assert len(calls_in(events)) == 2


NESTED = """
() => {
  const add = (tag, parent, text = "") => {
    const node = parent.appendChild(document.createElement(tag));
    node.append(text);
    return node;
  };
  const turn = add("ms-chat-turn", document.body);
  turn.dataset.turnRole = "Model";
  const paragraph = add("ms-cmark-node", add("ms-prompt-chunk", turn), "One ");
  add("ms-cmark-node", paragraph, "two ");
  add("ms-cmark-node", paragraph, "three.");
  const call = add("ms-function-call-chunk", add("ms-prompt-chunk", turn));
  const widget = add("ms-code-block", call);
  widget.setAttribute("icon", "function");
  add("span", add("mat-panel-title", widget), "get_weather");
  add("code", add("pre", widget), "{}");
}
"""


async def test_elements_inside_elements_of_their_kind_are_read_once(chromium: Chromium) -> None:
    page = await chromium.lend()
    chat = ChatPage(page, "about:blank", 1000)
    await chat.prepare()
    async with chat.watch(known=("get_weather",)) as watch:
        await watch.next(5)
        await page.evaluate(NESTED)
        seen = await watch.next(5)
    await chromium.take_back(page)
    assert seen is not None
    assert seen.text == Grown(0, "One two three.")
    assert [(call.name, call.arguments) for call in seen.calls] == [("get_weather", "{}")]


async def test_the_pages_own_names_and_quotes_are_read_correctly(
    model_on: MakeModel,
) -> None:
    step = raw_call("default_api:get_weather", "{<ctrl46>city<ctrl46>: <ctrl46>Paris<ctrl46>}")
    with replica([calls(step, call("get_wea…", city="Rome"))]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        assert calls_in(events) == [
            ("get_weather", {"city": "Paris"}),
            ("get_weather", {"city": "Rome"}),
        ]


async def test_arguments_that_cannot_be_read_reach_the_loop_as_they_are(
    model_on: MakeModel,
) -> None:
    with replica([raw_call("get_weather", '{"city": ')]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        assert calls_in(events) == [("get_weather", '{"city":')]


@pytest.mark.parametrize(
    ("step", "status", "words"),
    [
        (quota_callout("No quota left."), 429, "No quota left."),
        (model_error("Something broke."), 503, "Something broke."),
        (toast("Failed to generate.", "error"), 503, "Failed to generate."),
    ],
)
async def test_an_error_that_the_page_shows_is_raised_with_its_words(
    model_on: MakeModel, step: Any, status: int, words: str
) -> None:
    with replica([step, step, step]) as fake:
        with pytest.raises(ModelError) as caught:
            await events_of(model_on(fake.url), asking())
        assert (caught.value.status, caught.value.message) == (status, words)


async def test_an_error_that_the_page_still_shows_is_reported_again(model_on: MakeModel) -> None:
    """It is not an empty answer. If the page answers in spite of it, the answer counts."""
    step = quota_callout("No quota left.")
    with FakeAIStudio([step, step, "Hello."], notices_stay=True) as fake:
        model = model_on(fake.url)
        for _ in range(2):
            with pytest.raises(ModelError, match="No quota left"):
                await events_of(model, asking())
        assert text_in(await events_of(model, asking())) == "Hello."


async def test_a_temporary_error_is_retried(model_on: MakeModel) -> None:
    with replica([model_error(), "Hello."]) as fake:
        assert text_in(await events_of(model_on(fake.url), asking())) == "Hello."
        assert [len(request.body["contents"]) for request in fake.requests] == [1, 1]


async def test_a_warning_is_no_error(model_on: MakeModel) -> None:
    with replica([toast("Slow today.", "warning", turn="Hello.")]) as fake:
        assert text_in(await events_of(model_on(fake.url), asking())) == "Hello."


async def test_an_interrupted_answer_is_an_error(model_on: MakeModel) -> None:
    with replica([cut("One two three.", 2)] * 2) as fake:
        model, said = model_on(fake.url), []
        with pytest.raises(ModelError, match="Failed to generate"):
            async with model.stream(asking()) as events:
                async for event in events:
                    said.append(event)
        assert "One two three.".startswith(text_in(said))
        assert not any(isinstance(event, TurnEnded) for event in said)


async def test_a_spinner_that_never_ends_is_stopped(
    model_on: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request gets a clean page."""
    with replica([hang(), "Hello."]) as fake, monkeypatch.context() as patched:
        patched.setattr(TurnWatch, "next", out_of_patience_once_asked(fake))
        model = model_on(fake.url)
        with pytest.raises(ModelError, match="has not shown anything new") as caught:
            await events_of(model, asking())
        assert caught.value.status == 504
        await fake.stopped.wait()
        patched.undo()
        assert text_in(await events_of(model, asking())) == "Hello."


def out_of_patience_once_asked(fake: FakeAIStudio) -> Any:
    """Replaces minutes: the time limit expires as soon as the page has been read."""
    wait = TurnWatch.next

    async def next_report(watch: TurnWatch, seconds: float) -> Snapshot | None:
        while not fake.requests:
            if (report := await wait(watch, min(seconds, 0.05))) is not None:
                return report
        return None

    return next_report


async def test_a_disconnect_presses_stop_and_the_page_serves_the_next_request(
    model_on: MakeModel,
) -> None:
    gate = Gate()
    with replica([slow(say("One two three."), gate, after=2), "Hello."]) as fake:
        model = model_on(fake.url)
        async with model.stream(asking()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await fake.stopped.wait()
        assert text_in(await events_of(model, asking())) == "Hello."


async def test_a_cancelled_request_presses_stop(model_on: MakeModel) -> None:
    gate = Gate()
    with replica([slow("Never.", gate)]) as fake:
        asked = asyncio.create_task(events_of(model_on(fake.url), asking()))
        await gate.reached.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await fake.stopped.wait()


async def test_a_page_that_is_closed_in_the_middle_cuts_the_stream(model_on: MakeModel) -> None:
    gate = Gate()
    with FakeAIStudio([slow(say("One two three."), gate, after=2), "Hello."]) as fake:
        model = model_on(fake.url)
        with pytest.raises(StreamCut, match="page of AI Studio was closed"):
            async with model.stream(asking()) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        await model.own.pages[0].close()  # type: ignore[attr-defined]
        assert text_in(await events_of(model, asking())) == "Hello."


async def test_a_profile_that_is_signed_out_says_how_to_sign_in(model_on: MakeModel) -> None:
    with FakeAIStudio([], signed_in=False) as fake:
        with pytest.raises(ModelError, match="windlass aistudio login") as caught:
            await events_of(model_on(fake.url), asking())
        assert caught.value.status == 401


async def test_a_model_that_the_page_does_not_have_is_named(model_on: MakeModel) -> None:
    with replica(["never"]) as fake:
        with pytest.raises(ModelError, match=r"'gemini-9'.*'gemini-2\.5-flash'") as caught:
            await events_of(model_on(fake.url, "gemini-9"), asking())
        assert caught.value.status == 404


async def test_the_model_that_is_named_is_the_one_that_answers(model_on: MakeModel) -> None:
    with replica(["Hello.", "Ho."]) as fake:
        await events_of(model_on(fake.url, "gemini-2.5-pro"), asking())
        await events_of(model_on(fake.url, "default"), asking())
        models = [request.body["model"] for request in fake.requests]
        assert models == ["gemini-2.5-pro", "gemini-2.5-flash"]


async def test_a_page_that_cannot_be_reached_reports_it(model_on: MakeModel) -> None:
    with FakeAIStudio([]) as fake:
        url = fake.url
    with pytest.raises(ModelError, match="cannot open the page") as caught:
        await events_of(model_on(url), asking())
    assert caught.value.status == 503


async def test_a_failure_leaves_the_page_in_the_folder_for_it(
    model_on: MakeModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "snapshots"
    with FakeAIStudio([], broken={"edit_button"}) as fake:
        options: Any = {"ui_timeout_ms": 2000, "native_retry_count": 1}
        model = model_on(fake.url, settings=options, snapshots=folder)
        with caplog.at_level(logging.INFO), pytest.raises(NativeModeUnavailable):
            await events_of(model, asking(WEATHER))
        html, picture = sorted(folder.iterdir())
        assert "Function calling" in html.read_text()
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert html.stat().st_mode & 0o077 == 0
        assert str(html) in caplog.text


async def test_google_search_is_the_page_s_own(model_on: MakeModel) -> None:
    from windlass import GoogleSearch

    with replica(["Found.", "Not asked."]) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        await client.generate("News?", tools=[GoogleSearch()])
        await client.generate("News?")
        searched = [request.body["switches"]["google_search"] for request in fake.requests]
        assert searched == [True, False]
