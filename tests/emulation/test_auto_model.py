"""`AutoModel`: native if that works, otherwise emulated, and never both in one turn."""

import logging
from typing import Any

import pytest
from tests.support.asking import (
    PARIS,
    TOOLS,
    asked,
    calls_of,
    end_of,
    events_of,
    names_of,
    text_of,
    written,
)

from windlass import GoogleSearch, Message, ModelError, StreamCut
from windlass.content import FunctionCall, FunctionResponse, Text
from windlass.emulation.mode import AutoModel, ModeMemory, Modes, with_mode
from windlass.emulation.model import EmulatedModel
from windlass.errors import NativeModeUnavailable
from windlass.events import TextDelta, ToolCallEnded, TurnEnded
from windlass.settings import FunctionCallingSettings
from windlass.testing import ScriptedModel, Turn, call, calls, cut, interrupt, refuse, say

UNSUPPORTED = refuse(400, "this model does not support tools")
MALFORMED = say("", finish="malformed_call")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def auto(
    script: Any, *, clock: Clock | None = None, **settings: Any
) -> tuple[AutoModel, ScriptedModel]:
    """Returns the model under test, and the model that both modes wrap."""
    inner = ScriptedModel(script)
    emulated = EmulatedModel(inner)
    memory = ModeMemory(60.0, clock or Clock())
    options = FunctionCallingSettings(**settings)
    return AutoModel(inner, lambda: emulated, options, memory=memory), inner


def modes_of(inner: ScriptedModel) -> list[str]:
    return ["native" if request.tools else "emulated" for request in inner.requests]


async def test_native_calls_pass_as_they_are() -> None:
    turn = calls(call("get_weather", city="Oslo", id="c1"), call("get_time"), text="I look.")
    model, inner = auto([turn])
    plain = await events_of(ScriptedModel([turn]), asked())
    events = await events_of(model, asked())
    assert [type(event) for event in events] == [type(event) for event in plain]
    assert (text_of(events), names_of(events)) == ("I look.", ["get_weather", "get_time"])
    assert calls_of(events)[0].id == "c1"
    assert end_of(events).finish == "tool_calls"
    assert end_of(events).message_extra == {"windlass": {"mode": "native"}}
    assert inner.requests[0] == asked()


async def test_an_unsupported_model_is_emulated_and_that_is_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, inner = auto([UNSUPPORTED, PARIS, PARIS])
    for _ in range(2):
        events = await events_of(model, asked())
        assert names_of(events) == ["get_weather"]
        assert end_of(events).message_extra == {"windlass": {"mode": "emulated"}}
    assert modes_of(inner) == ["native", "emulated", "emulated"]
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "does not support tools; falling back to emulated" in record.getMessage()


async def test_a_remembered_mode_expires() -> None:
    clock = Clock()
    model, inner = auto([UNSUPPORTED, PARIS, PARIS, call("get_time")], clock=clock)
    await events_of(model, asked())
    clock.now += 59
    await events_of(model, asked())
    clock.now += 2
    assert names_of(await events_of(model, asked())) == ["get_time"]
    assert modes_of(inner) == ["native", "emulated", "emulated", "native"]


async def test_an_unsupported_tool_choice_does_not_change_the_next_request() -> None:
    script = [refuse(400, "tool_choice 'required' is not supported"), PARIS, call("get_time")]
    model, inner = auto(script)
    assert names_of(await events_of(model, asked(choice="required"))) == ["get_weather"]
    assert names_of(await events_of(model, asked())) == ["get_time"]
    assert modes_of(inner) == ["native", "emulated", "native"]


async def test_a_server_that_ignores_a_forced_choice_is_emulated() -> None:
    model, inner = auto(["It is sunny.", PARIS])
    events = await events_of(model, asked(choice="required"))
    assert (names_of(events), text_of(events)) == (["get_weather"], "")
    assert end_of(events).usage.total_tokens == 30
    assert modes_of(inner) == ["native", "emulated"]


async def test_malformed_calls_are_retried_and_then_emulated() -> None:
    model, inner = auto([MALFORMED, MALFORMED, PARIS])
    events = await events_of(model, asked())
    assert names_of(events) == ["get_weather"]
    assert modes_of(inner) == ["native", "native", "emulated"]
    assert end_of(events).usage.total_tokens == 45


async def test_one_malformed_call_does_not_end_native_mode() -> None:
    model, inner = auto([MALFORMED, call("get_time")])
    assert names_of(await events_of(model, asked())) == ["get_time"]
    assert modes_of(inner) == ["native", "native"]


@pytest.mark.parametrize(("count", "tries"), [(0, 1), (1, 1), (3, 3)])
async def test_the_retry_count_is_configurable(count: int, tries: int) -> None:
    model, inner = auto([*[MALFORMED] * tries, PARIS], native_retry_count=count)
    assert names_of(await events_of(model, asked())) == ["get_weather"]
    assert modes_of(inner) == ["native"] * tries + ["emulated"]


async def test_a_failing_page_is_emulated() -> None:
    failure = refuse(500, "toggle not found", code="native_mode_unavailable")
    model, inner = auto([failure, failure, PARIS])
    assert names_of(await events_of(model, asked())) == ["get_weather"]
    assert modes_of(inner) == ["native", "native", "emulated"]  # a 500 may pass by itself
    lasting = refuse(400, "no function calling here", code="native_mode_unavailable")
    model, inner = auto([lasting, PARIS])
    await events_of(model, asked())
    assert modes_of(inner) == ["native", "emulated"]


@pytest.mark.parametrize(
    "fault",
    [
        cut("Some words here", after=1),
        interrupt("Some words here", after=1, error=refuse(400, "does not support tools")),
        say("Some words", finish="malformed_call"),
    ],
)
async def test_nothing_changes_after_an_event_has_reached_the_caller(fault: Any) -> None:
    model, inner = auto([fault])
    events: list[Any] = []
    try:
        async with model.stream(asked()) as stream:
            async for event in stream:
                events.append(event)
    except (StreamCut, ModelError):
        assert not isinstance(fault, Turn)
    assert isinstance(events[0], TextDelta)
    assert modes_of(inner) == ["native"]


async def test_other_failures_are_raised() -> None:
    model, inner = auto([refuse(400, "Invalid schema for function 'get_weather'")])
    with pytest.raises(ModelError, match="Invalid schema"):
        await events_of(model, asked())
    assert modes_of(inner) == ["native"]


@pytest.mark.parametrize("fault", [UNSUPPORTED, MALFORMED])
async def test_without_a_fallback_the_failure_is_an_error(fault: Any) -> None:
    model, inner = auto([fault, fault], fallback_on_failure=False, native_retry_count=1)
    with pytest.raises(NativeModeUnavailable) as caught:
        await events_of(model, asked())
    assert caught.value.code == "native_mode_unavailable"
    assert len(inner.requests) == 1


async def test_an_inoperable_page_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the log line nor a wrapping error repeats the prefix of the message."""
    fault = NativeModeUnavailable("toggle not found", ModelError("toggle not found", status=500))
    model, _ = auto([fault, PARIS])
    await events_of(model, asked())
    assert "Native mode failed: toggle not found; falling back to emulated" in caplog.messages
    model, _ = auto([fault], fallback_on_failure=False)
    with pytest.raises(NativeModeUnavailable) as caught:
        await events_of(model, asked())
    assert str(caught.value) == "Native function calling failed: toggle not found"


async def test_without_a_fallback_a_forced_choice_is_left_as_it_is_answered() -> None:
    model, _ = auto(["No."], fallback_on_failure=False)
    assert text_of(await events_of(model, asked(choice="required"))) == "No."


async def test_a_request_without_tools_passes_unchanged() -> None:
    model, inner = auto([say("<tool_call>"), say("Hi.")])
    assert text_of(await events_of(model, asked(tools=()))) == "<tool_call>"
    events = await events_of(model, asked(tools=(GoogleSearch(),)))
    assert end_of(events).message_extra is None
    assert [request.tools for request in inner.requests] == [(), (GoogleSearch(),)]


async def test_the_last_answer_of_an_emulated_run_is_emulated_too() -> None:
    model, inner = auto([UNSUPPORTED, PARIS, "Sunny."])
    (made,) = calls_of(await events_of(model, asked()))
    history = (
        Message.user("?"),
        Message.assistant(made),
        Message.tool([FunctionResponse(made.name, {"output": 1}, made.id)]),
    )
    events = await events_of(model, asked(history, tools=(), choice="none"))
    assert text_of(events) == "Sunny."
    assert [m.role for m in inner.requests[-1].messages] == ["system", "user", "assistant", "user"]


# Servers that leave their model's calls in the text.


@pytest.mark.parametrize(
    "text",
    [
        PARIS,
        '{"name": "get_weather", "arguments": {"city": "Paris"}}',
        '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
        '\n\n[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]',
    ],
)
@pytest.mark.parametrize("pieces", [1, "whole"])
async def test_a_call_that_a_server_left_in_the_text_is_noticed(text: str, pieces: Any) -> None:
    model, inner = auto([say(text, pieces=pieces), "Emulated now."])
    events = await events_of(model, asked())
    assert [(c.name, c.arguments) for c in calls_of(events)] == [("get_weather", {"city": "Paris"})]
    assert end_of(events).finish == "tool_calls"
    assert end_of(events).message_extra == {"windlass": {"mode": "native"}}
    assert text_of(events).strip() == ""
    await events_of(model, asked())
    assert modes_of(inner) == ["native", "emulated"]


async def test_text_that_does_not_begin_like_a_call_passes_as_it_arrives() -> None:
    text = f"To call a function, write {PARIS}"
    model, inner = auto([say(text, pieces="words"), "x"])
    events = await events_of(model, asked())
    plain = await events_of(ScriptedModel([say(text, pieces="words")]), asked())
    assert events[:-1] == plain[:-1]
    await events_of(model, asked())
    assert modes_of(inner) == ["native", "native"]


@pytest.mark.parametrize(
    "text", ["<b>bold</b> words", "{not json", "[1] a note", "Actionable.", " "]
)
async def test_text_that_only_starts_like_a_call_passes_unchanged(text: str) -> None:
    model, _ = auto([say(text, pieces=1)])
    events = await events_of(model, asked())
    assert (text_of(events), names_of(events)) == (text, [])


async def test_undeclared_names_are_text_in_native_mode_too() -> None:
    text = written("rm_rf")
    model, _ = auto([text])
    events = await events_of(model, asked())
    assert (text_of(events), names_of(events)) == (text, [])


async def test_with_none_no_call_is_read_from_the_text() -> None:
    model, _ = auto([PARIS])
    events = await events_of(model, asked(choice="none"))
    assert (text_of(events), names_of(events)) == (PARIS, [])


async def test_native_calls_after_a_call_in_the_text_are_numbered_on() -> None:
    model, _ = auto([calls(call("get_time"), text=PARIS)])
    events = await events_of(model, asked())
    ended = [(e.index, e.call.name) for e in events if isinstance(e, ToolCallEnded)]
    assert sorted(ended) == [(0, "get_weather"), (1, "get_time")]


async def test_signed_text_is_passed_on_with_its_signature() -> None:
    parts = (Text("  "), Text("", "sig-1"), Text("Hello.", "sig-2"))
    model, _ = auto([Turn(parts=parts)])
    events = await events_of(model, asked())
    assert [e.signature for e in events if isinstance(e, TextDelta)] == [None, "sig-1", "sig-2"]


async def test_blank_space_before_a_native_call_keeps_its_place() -> None:
    model, _ = auto([Turn(parts=(Text("\n"), FunctionCall("get_time", "{}", "c1")))])
    events = await events_of(model, asked())
    assert isinstance(events[0], TextDelta)
    assert names_of(events) == ["get_time"]


async def test_long_blank_space_is_not_held_back() -> None:
    model, _ = auto([say(" " * 500, pieces=10)])
    assert text_of(await events_of(model, asked())) == " " * 500


# Modes.


async def test_modes_share_what_they_learn() -> None:
    inner = ScriptedModel([UNSUPPORTED, PARIS, PARIS, PARIS])
    modes = Modes(inner)
    assert modes.of("native") is inner
    for mode in ("auto", "auto", "emulated"):
        await events_of(modes.of(mode), asked())
    assert modes_of(inner) == ["native", "emulated", "emulated", "emulated"]


async def test_with_mode_uses_the_mode_of_the_settings() -> None:
    inner = ScriptedModel([PARIS])
    model = with_mode(inner, None, FunctionCallingSettings(mode="emulated"))
    assert names_of(await events_of(model, asked())) == ["get_weather"]
    assert with_mode(inner, "native") is inner
    assert repr(with_mode(inner)).startswith("AutoModel(")
    assert with_mode(inner).name == inner.name
    await with_mode(inner).aclose()


async def test_the_mode_of_a_wrapped_model_overrides_ours() -> None:
    model = with_mode(EmulatedModel(ScriptedModel([PARIS])), "auto")
    end = end_of(await events_of(model, asked()))
    assert isinstance(end, TurnEnded)
    assert end.message_extra == {"windlass": {"mode": "emulated"}}


async def test_debug_logs_say_which_mode_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model, _ = auto(["Hi."], debug_logs=True)
    await events_of(model, asked(tools=TOOLS))
    assert "answered in native mode" in caplog.text
