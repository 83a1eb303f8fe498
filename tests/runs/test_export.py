"""A run as one JSON file, and back."""

from typing import Any

import msgspec
import pytest

from windlass import AsyncClient, ConfigError, Message, ModelError, tool
from windlass.content import FunctionCall, FunctionResponse, InlineData, Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)
from windlass.jsontext import encode_json
from windlass.loop.approval import Approval
from windlass.loop.history import History
from windlass.runs.export import Export, exported, exported_rounds, read_export
from windlass.runs.memory import MemoryRunLog
from windlass.runs.records import RunRecord
from windlass.testing import ScriptedModel, call, calls, raw_call, say

RECORD = RunRecord(id="run_1", model="scripted/model", created=100.0, title="Hi")
PAY = FunctionCall("pay", '{"amount":5}', "call_1")


@tool
def get_weather(city: str) -> dict[str, str]:
    """The weather of a city."""
    return {"city": city, "sky": "sunny"}


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


async def kept(script: list[Any], **options: Any) -> tuple[RunRecord, list[RunEvent]]:
    """An ended run, read from its log."""
    log = MemoryRunLog()
    client = AsyncClient(
        ScriptedModel(script), log=log, tools=[get_weather, pay], mode="native", **options
    )
    run = await client.start("Weather?")
    await run.task
    return await log.status(run.id), await log.read(run.id)


def written(record: RunRecord, events: list[RunEvent]) -> bytes:
    return encode_json(exported(record, events, History(events).reply().messages))


def numbered(*events: RunEvent) -> list[RunEvent]:
    return [
        msgspec.structs.replace(event, seq=number, time=100.0 + number)
        for number, event in enumerate(events, 1)
    ]


async def test_an_export_is_read_back_completely() -> None:
    record, events = await kept([call("get_weather", city="Paris"), "Sunny."])
    export = read_export(written(record, events))
    assert export.run == msgspec.json.decode(msgspec.json.encode(record), type=RunRecord)
    assert export.events == events
    messages = [Message.from_dict(message) for message in export.messages]
    assert messages == list(History(events).reply().messages)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]


async def test_each_call_has_its_arguments_result_times_and_approval() -> None:
    record, events = await kept(
        [
            calls(
                call("get_weather", city="Paris", id="call_a"), call("pay", amount=1, id="call_b")
            ),
            "Done.",
        ],
        approve=lambda _: Approval(True, {"amount": 7}, "cheaper"),
    )
    weather, paid = read_export(written(record, events)).rounds[0].calls
    assert (weather.id, weather.name, weather.arguments) == (
        "call_a",
        "get_weather",
        {"city": "Paris"},
    )
    assert (weather.outcome, weather.approval) == ("ok", None)
    assert weather.response == {"output": {"city": "Paris", "sky": "sunny"}}
    times = {type(event): event.time for event in events if event_call(event) == "call_a"}
    assert (weather.started, weather.ended) == (times[ToolRunStarted], times[ToolRunEnded])
    assert paid.arguments == {"amount": 1}
    assert paid.response == {"output": "paid 7"}
    assert paid.approval is not None
    assert paid.approval.approved
    assert (paid.approval.arguments, paid.approval.reason) == ({"amount": 7}, "cheaper")
    [asked] = [event for event in events if isinstance(event, ApprovalRequested)]
    [answered] = [event for event in events if isinstance(event, ApprovalResolved)]
    assert (paid.approval.asked, paid.approval.answered) == (asked.time, answered.time)


def event_call(event: RunEvent) -> str | None:
    match event:
        case ToolRunStarted(call=each):
            return each.id
        case ToolRunEnded(response=response):
            return response.id
        case _:
            return None


async def test_each_round_has_its_text_finish_times_and_usage() -> None:
    one, two = Usage(10, 5, 15), Usage(20, 3, 23)
    record, events = await kept([call("get_weather", city="Paris"), say("Sunny.", usage=two)])
    export = read_export(written(record, events))
    assert [each.number for each in export.rounds] == [1, 2]
    assert [each.text for each in export.rounds] == ["", "Sunny."]
    assert [each.finish for each in export.rounds] == ["tool_calls", "stop"]
    assert [each.usage for each in export.rounds] == [one, two]
    assert export.usage == one + two
    begun = [event.time for event in events if isinstance(event, RoundStarted)]
    over = [event.time for event in events if isinstance(event, TurnEnded)]
    assert [each.started for each in export.rounds] == begun
    assert [each.ended for each in export.rounds] == over


async def test_usage_is_spelled_out_for_scripts() -> None:
    record, events = await kept([say("Hi.", usage=Usage(0, 3, 3))])
    fields = msgspec.json.decode(written(record, events))
    assert fields["usage"]["input_tokens"] == 0
    assert fields["rounds"][0]["usage"]["cached_tokens"] == 0
    assert [event["event"] for event in fields["events"]][-1] == "run_ended"


async def test_a_failed_run_is_exported_with_its_error() -> None:
    record, events = await kept([ModelError("the model is on fire")])
    export = read_export(written(record, events))
    assert (export.run.reason, export.run.error) == ("error", "the model is on fire")


async def test_arguments_that_are_no_json_stay_the_models_text() -> None:
    record, events = await kept([raw_call("get_weather", '{"city": '), "Sorry."])
    [told] = read_export(written(record, events)).rounds[0].calls
    assert told.arguments == '{"city": '
    assert told.outcome == "invalid_arguments"


def test_an_interrupted_round_is_shown_as_interrupted() -> None:
    events = numbered(
        RunStarted("run_1", "scripted/model", (Message.user("Pay."),)),
        RoundStarted(1, "awaiting_model_call"),
        TextDelta("Let me"),
        ToolCallEnded(0, PAY),
        ToolRunStarted(PAY, 1),
        RunResumed(1),
        ToolRunEnded(
            FunctionResponse("pay", {"error": "interrupted"}, "call_1"),
            "interrupted",
            effect_unknown=True,
        ),
        RoundRestarted(1, "awaiting_model_call"),
        TextDelta("All is "),
        TextDelta("well."),
        TurnEnded("stop"),
        RunEnded("answer", rounds=1),
    )
    export = read_export(written(RECORD, events))
    first, second = export.rounds
    assert (first.number, first.superseded, first.text) == (1, True, "Let me")
    assert [(each.outcome, each.effect_unknown) for each in first.calls] == [("interrupted", True)]
    assert (second.number, second.superseded, second.text) == (1, False, "All is well.")
    assert second.calls == []
    assert export.resumed == [106.0]


def test_a_call_without_an_answer_has_none_yet() -> None:
    events = numbered(
        RunStarted("run_1", "scripted/model", (Message.user("Pay."),)),
        RoundStarted(1, "awaiting_model_call"),
        ToolCallEnded(0, PAY),
        TurnEnded("tool_calls"),
        ApprovalRequested(PAY),
    )
    export = read_export(written(RECORD, events))
    [told] = export.rounds[0].calls
    assert (told.outcome, told.response, told.started) == (None, None, None)
    assert told.approval is not None
    assert (told.approval.asked, told.approval.answered) == (105.0, None)
    assert export.run.reason is None


def test_every_kind_of_event_survives() -> None:
    image = InlineData(b"\x00\xff", "image/png")
    events = numbered(
        RunStarted("run_1", "scripted/model", (Message.user(image, "What is it?"),)),
        RoundStarted(1, "awaiting_model_call"),
        ThoughtDelta("Hm.", "signed"),
        TextDelta("A cat."),
        PartReceived(image),
        ToolCallStarted(0, "call_1", "pay"),
        ToolCallDelta(0, '{"amount":5}'),
        ToolCallEnded(0, PAY),
        TurnEnded("tool_calls", Usage(1, 2, 3), "tool_use", {"id": "msg_1"}),
        Status("Executing pay..."),
        ApprovalRequested(PAY, "it costs"),
        ApprovalResolved("call_1", True, {"amount": 4}, "fine"),
        ToolRunStarted(PAY, 1),
        ToolRunProgress("call_1", "pay", 0.5, "half", {"rows": [1]}),
        ToolRunEnded(FunctionResponse("pay", {"output": "paid"}, "call_1"), "ok", 1.5, 2, True),
        RunResumed(1),
        RoundRestarted(2, "awaiting_final_response"),
        RunEnded("error", Usage(1, 2, 3), 2, "it broke"),
    )
    assert read_export(written(RECORD, events)).events == events
    [first, _] = exported_rounds(events)
    assert first.thoughts == "Hm."
    assert [(each.attempts, each.seconds, each.cached) for each in first.calls] == [(2, 1.5, True)]


def test_an_invalid_character_does_not_break_the_export() -> None:
    started = RunStarted("run_1", "scripted/model", (Message.user("Hi."),))
    events = numbered(started, RoundStarted(1, "awaiting_model_call"), TextDelta("\ud83d"))
    assert read_export(written(RECORD, events)).rounds[0].text == "\ufffd"


def changed(**fields: Any) -> bytes:
    events = numbered(RunStarted("run_1", "scripted/model", (Message.user("Hi."),)))
    return encode_json({**exported(RECORD, events, ()), **fields})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a run export: it is not JSON"),
        (b"SQLite format 3\x00", "not a run export: it is not JSON"),
        (b'{"format": "windlass.run", "version": 1', "not a run export: it is not JSON"),
        (b"\xff\xfe", "not a run export: it is not JSON"),
        (b"[" * 100_000, "not a run export"),
        (b"[]", '"format": "windlass.run"; `windlass runs export ID -o FILE` writes one'),
        (b'{"text": "Sunny."}', "not a run export: it has no"),
        (changed(format="another"), "not a run export: it has no"),
        (changed(version=2), "has version 2, but this Windlass reads up to 1: update Windlass"),
        (changed(events=None), "the run export is damaged: Expected `array`"),
        (changed(events=[{"event": "dance"}]), "damaged: Invalid value 'dance' - at `$.events[0]"),
        (changed(run={}), "damaged: Object missing required field `id` - at `$.run`"),
    ],
)
def test_a_file_that_is_no_export_is_reported(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_export(data)
    assert said in str(error.value)


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    assert isinstance(read_export(changed(colour="blue")), Export)
