"""Function calling on the page, in a real browser: its guarantees, and mistakes of other tools."""

import logging
from typing import Any

import pytest
from tests.support.browsing import IN_ONE_BROWSER, MakeModel, replica

from windlass import AsyncClient, Message, NativeModeUnavailable, Text, TextDelta, tool
from windlass.content import FunctionDeclaration
from windlass.errors import ModelError
from windlass.events import ThoughtDelta, ToolCallDelta, ToolCallEnded, ToolCallStarted, TurnEnded
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.models.aistudio.turn import Patience
from windlass.testing import call, calls, say, think, tool_results
from windlass.testing.aistudio import FakeAIStudio, written_call

pytestmark = IN_ONE_BROWSER

WEATHER = FunctionDeclaration(
    "get_weather",
    "The weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
TIME = FunctionDeclaration("get_time", "The time.")
PARIS = call("get_weather", city="Paris")


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def asking(*tools: FunctionDeclaration, **options: Any) -> ModelRequest:
    return ModelRequest([Message.user("Weather in Paris?")], tools, **options)


async def events_of(model: Any, request: ModelRequest) -> list[Any]:
    async with model.stream(request) as events:
        return [event async for event in events]


def calls_in(events: list[Any]) -> list[tuple[str, Any]]:
    return [
        (event.call.name, event.call.arguments)
        for event in events
        if isinstance(event, ToolCallEnded)
    ]


def text_in(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


# The scenarios.


async def test_one_function_that_the_model_calls_is_one_call(model_on: MakeModel) -> None:
    with replica([PARIS]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        assert calls_in(events) == [("get_weather", {"city": "Paris"})]
        assert events[-1].finish == "tool_calls"
        assert fake.requests[0].body["declarations"][0]["name"] == "get_weather"
        assert fake.requests[0].body["prompt"] == "Weather in Paris?"


async def test_one_function_that_the_model_declines_is_an_answer(model_on: MakeModel) -> None:
    """No tool runs unless the model calls it, also if there is only one tool."""
    ran: list[str] = []

    def only_tool(city: str) -> str:
        ran.append(city)
        return city

    with replica(["I know it: sunny."]) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        reply = await client.generate("Weather in Paris?", tools=[only_tool], tool_choice="auto")
        assert (reply.text, reply.calls, ran) == ("I know it: sunny.", (), [])
        assert len(fake.requests) == 1


async def test_of_several_functions_the_model_picks_one(model_on: MakeModel) -> None:
    with replica([call("get_time")]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER, TIME))
        assert calls_in(events) == [("get_time", {})]
        assert [each["name"] for each in fake.saves[0]] == ["get_weather", "get_time"]


async def test_parallel_calls_are_all_there_and_identical_ones_too(model_on: MakeModel) -> None:
    with replica([calls(PARIS, PARIS, call("get_weather", city="Rome"))]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        assert [found[1]["city"] for found in calls_in(events)] == ["Paris", "Paris", "Rome"]


@pytest.mark.parametrize(("resume", "answered"), [("all", "disabled"), ("each", "kept")])
async def test_results_are_given_in_the_page_s_own_fields(
    model_on: MakeModel, resume: Any, answered: Any
) -> None:
    """The live chat continues: no message is sent again."""
    script = [PARIS, PARIS, "Both sunny."]
    with FakeAIStudio(script, resume=resume, answered=answered) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        reply = await client.generate("Weather?", tools=[get_weather])
        assert reply.text == "Both sunny."
        assert [request.body["prompt"] for request in fake.requests] == ["Weather?", None, None]
        assert [
            [answer["response"] for answer in request.body["answers"]] for request in fake.requests
        ] == [[], ['{"output":"sunny in Paris"}'], ['{"output":"sunny in Paris"}']]


async def test_answers_of_parallel_calls_reach_their_own_calls(model_on: MakeModel) -> None:
    script = [calls(PARIS, call("get_weather", city="Rome")), "Sunny in both."]
    with replica(script) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        reply = await client.generate("Weather?", tools=[get_weather])
        assert reply.text == "Sunny in both."
        assert [result.output for result in tool_results(fake.requests[1].body)] == [
            "sunny in Paris",
            "sunny in Rome",
        ]


async def test_a_page_that_continues_after_each_answer_gets_all_of_them(
    model_on: MakeModel,
) -> None:
    script = [calls(PARIS, call("get_weather", city="Rome")), "One. ", "Two."]
    with FakeAIStudio(script, resume="each") as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        reply = await client.generate("Weather?", tools=[get_weather])
        assert "Two." in reply.text
        answers = [len(request.body["answers"]) for request in fake.requests]
        assert answers == [0, 1, 1]


async def test_a_definition_that_cannot_be_declared_is_refused_before_the_page_is_touched(
    model_on: MakeModel,
) -> None:
    with replica([PARIS]) as fake:
        with pytest.raises(ModelError, match="'2fast'") as caught:
            await events_of(model_on(fake.url), asking(FunctionDeclaration("2fast")))
        assert caught.value.status == 400
        assert fake.requests == []


async def test_a_definition_that_the_editor_refuses_is_refused_with_its_words(
    model_on: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion should prevent it; if the editor becomes stricter, its error is the user's."""
    from windlass.models.aistudio.schema import SchemaConverter

    monkeypatch.setattr(
        SchemaConverter, "to_json_string", lambda *_: '[{"name": "f", "title": "F"}]'
    )
    with replica([PARIS]) as fake:
        with pytest.raises(ModelError, match='editor reports: Unknown key "title"') as e:
            await events_of(model_on(fake.url), asking(WEATHER))
        assert (e.value.status, fake.saves, fake.requests) == (400, [], [])


async def test_auto_continues_emulated_on_the_same_page_when_the_controls_fail(
    model_on: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    with FakeAIStudio([written, "Sunny."], broken={"edit_button"}) as fake:
        model = model_on(fake.url, settings={"ui_timeout_ms": 3000, "native_retry_count": 1})
        client = AsyncClient(model, mode="auto")
        with caplog.at_level(logging.WARNING):
            reply = await client.generate("Weather?", tools=[get_weather])
        assert (reply.text, reply.results[0].output) == ("Sunny.", "sunny in Paris")
        assert "falling back to emulated" in caplog.text
        assert len(model.own.pages) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "broken",
    [
        "function_calling_toggle",
        pytest.param("edit_button", marks=pytest.mark.whole("test_aistudio_gateway")),
        "save_button",
    ],
)
async def test_native_fails_with_its_error_when_the_controls_fail(
    model_on: MakeModel, broken: str
) -> None:
    """It never falls back to emulation silently."""
    with FakeAIStudio(["never said"], broken={broken, "function_calling_row"}) as fake:
        model = model_on(fake.url, settings={"ui_timeout_ms": 2000, "native_retry_count": 1})
        with pytest.raises(NativeModeUnavailable, match="Native function calling failed") as e:
            await AsyncClient(model, mode="native").generate("Weather?", tools=[get_weather])
        assert (e.value.status, e.value.code) == (500, "native_mode_unavailable")
        assert fake.requests == []


async def test_a_model_without_function_calling_fails_at_once_in_native_mode(
    model_on: MakeModel,
) -> None:
    options: Any = {"without_function_calling": ["gemini-2.5-flash"]}
    with FakeAIStudio([], **options) as fake:
        model = model_on(fake.url, settings={"ui_timeout_ms": 2000, "native_retry_count": 1})
        with pytest.raises(NativeModeUnavailable, match="no function calling for this model"):
            await events_of(model, asking(WEATHER))


async def test_a_streamed_call_comes_in_the_order_of_every_other_model(
    model_on: MakeModel,
) -> None:
    with replica([think("Hm.", calls(PARIS, text="Let me see."))]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        kinds = list(dict.fromkeys(type(event) for event in events))
        assert kinds == [
            *(ThoughtDelta, TextDelta, ToolCallStarted, ToolCallDelta, ToolCallEnded, TurnEnded)
        ]
        assert text_in(events) == "Let me see."


# Mistakes of other tools.


async def test_a_call_as_text_is_a_call_and_no_text(model_on: MakeModel) -> None:
    """Also with arguments in arguments, where a search for the first brace leaks the rest."""
    step = written_call("get_weather", city="Paris", options={"units": {"t": "}"}})
    with replica([step]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        arguments = {"city": "Paris", "options": {"units": {"t": "}"}}}
        assert calls_in(events) == [("get_weather", arguments)]
        assert text_in(events) == ""


async def test_a_call_as_text_is_answered_in_a_new_chat(model_on: MakeModel) -> None:
    """The page has no field for its answer."""
    with replica([written_call("get_weather", city="Paris"), "Sunny."]) as fake:
        client = AsyncClient(model_on(fake.url), mode="native")
        reply = await client.generate("Weather?", tools=[get_weather])
        assert reply.text == "Sunny."
        assert "sunny in Paris" in fake.requests[1].body["prompt"]
        assert len(fake.requests[1].body["contents"]) == 1


async def test_function_calling_is_switched_off_for_a_request_without_tools(
    model_on: MakeModel,
) -> None:
    with FakeAIStudio([PARIS, "Hello."], switched_on=["google_search"]) as fake:
        model = model_on(fake.url)
        await events_of(model, asking(WEATHER))
        await events_of(model, asking())
        switches = [request.body["switches"] for request in fake.requests]
        assert [each["function_calling"] for each in switches] == [True, False]
        assert [each["google_search"] for each in switches] == [False, False]


async def test_a_turn_with_nothing_but_a_call_does_not_wait_for_text(model_on: MakeModel) -> None:
    """Otherwise the test would reach its time limit."""
    patient = Patience(quiet=0.05, late_call=600)
    with replica([PARIS]) as fake:
        events = await events_of(model_on(fake.url, patience=patient), asking(WEATHER))
        assert len(calls_in(events)) == 1


async def test_a_collapsed_panel_is_opened_before_it_is_needed(model_on: MakeModel) -> None:
    with FakeAIStudio([PARIS], tools_collapsed=True, switched_on=["code_execution"]) as fake:
        events = await events_of(model_on(fake.url), asking(WEATHER))
        assert len(calls_in(events)) == 1
        assert fake.requests[0].body["switches"]["code_execution"] is False


async def test_tool_choice_none_switches_function_calling_off(model_on: MakeModel) -> None:
    with replica(["Words."]) as fake:
        request = asking(WEATHER, tool_choice=ToolChoice("none"))
        assert text_in(await events_of(model_on(fake.url), request)) == "Words."
        assert fake.requests[0].body["switches"]["function_calling"] is False


async def test_a_required_call_is_requested_again_after_text(model_on: MakeModel) -> None:
    with replica(["I would rather talk.", PARIS]) as fake:
        request = asking(WEATHER, TIME, tool_choice=ToolChoice("required", ("get_weather",)))
        events = await events_of(model_on(fake.url), request)
        assert (calls_in(events), text_in(events)) == ([("get_weather", {"city": "Paris"})], "")
        assert [each["name"] for each in fake.saves[0]] == ["get_weather"]
        assert "call get_weather" in fake.requests[1].body["prompt"]


async def test_settings_reach_the_page_and_leave_it_as_it_was(model_on: MakeModel) -> None:
    with replica(["One", "Two"]) as fake:
        model = model_on(fake.url)
        settings = Settings(max_tokens=100, temperature=0.5, top_p=0.25)
        await events_of(model, asking(settings=settings))
        await events_of(model, asking())
        given = [request.body["settings"] for request in fake.requests]
        assert given[0] == {"stop": [], "max_output_tokens": 100, "temperature": 0.5, "top_p": 0.25}
        assert given[1] == {"stop": []}


@pytest.mark.parametrize("shown", [True, False])
async def test_usage_is_what_the_page_shows_or_nothing(model_on: MakeModel, shown: bool) -> None:
    with FakeAIStudio([say("Hello.")], token_counts=shown) as fake:
        events = await events_of(model_on(fake.url), asking())
        assert events[-1].usage.total_tokens == (15 if shown else 0)


async def test_a_chat_that_the_page_holds_is_not_sent_again(model_on: MakeModel) -> None:
    with replica(["Hello.", "Fine."]) as fake:
        client = AsyncClient(model_on(fake.url), mode="native", system="Be brief.")
        chat = client.chat()
        await chat.send("Hi")
        await chat.send("How are you?")
        assert [request.body["prompt"] for request in fake.requests] == ["Hi", "How are you?"]
        assert [request.body["system"] for request in fake.requests] == ["Be brief."] * 2
        assert len(fake.requests[1].body["contents"]) == 3


async def test_a_history_that_the_page_does_not_hold_is_reported_in_a_new_chat(
    model_on: MakeModel,
) -> None:
    with replica(["Hello.", "Later."]) as fake:
        model = model_on(fake.url)
        await events_of(model, ModelRequest([Message.user("Hi")]))
        other = [Message.user("Ho"), Message.assistant(Text("Yes?")), Message.user("When?")]
        assert text_in(await events_of(model, ModelRequest(other))) == "Later."
        body = fake.requests[1].body
        assert [len(body["contents"]), "Yes?" in body["prompt"]] == [1, True]
        assert body["prompt"].endswith("When?")


async def test_the_system_text_goes_before_the_prompt_if_the_page_has_no_field_for_it(
    model_on: MakeModel,
) -> None:
    with FakeAIStudio(["Hello."], broken={"system_instructions"}) as fake:
        messages = [Message.system("Be brief."), Message.user("Hi")]
        await events_of(model_on(fake.url), ModelRequest(messages))
        assert fake.requests[0].body["prompt"] == "Be brief.\n\nHi"
