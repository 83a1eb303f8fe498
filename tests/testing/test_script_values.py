"""Scripts are values: the results of their constructors."""

import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.testing.helpers import sizes, texts

from windlass.content import FunctionCall, FunctionResponse, Message, Text, Thought, Usage
from windlass.model import ModelRequest
from windlass.testing import (
    Gate,
    ScriptExhausted,
    Turn,
    call,
    calls,
    last_prompt,
    raw_call,
    say,
    slow,
    think,
    tool_results,
)
from windlass.testing.script import Stepper, split


def test_a_turn_says_thoughts_then_text_then_calls():
    turn = calls(call("a", x=1, id="1"), call("b", id="2"), text="Look.", thoughts="Hm.")
    assert turn.content == (
        Thought("Hm."),
        Text("Look."),
        FunctionCall("a", '{"x":1}', "1"),
        FunctionCall("b", "{}", "2"),
    )
    assert turn.finish_word == "tool_calls"


def test_a_turn_of_text_ends_with_stop_unless_it_says_otherwise():
    assert say("Hi").finish_word == "stop"
    assert say("Hi", finish="length").finish_word == "length"


def test_parts_say_a_turn_in_any_order():
    parts = (FunctionCall("a", "{}", "1"), Text("afterwards"))
    assert Turn(parts=parts).content == parts
    assert Turn(parts=parts).finish_word == "tool_calls"
    assert think("Hm.", Turn(parts=parts)).content == (Thought("Hm."), *parts)


def test_parts_are_not_beside_text():
    with pytest.raises(ValueError, match="either parts"):
        Turn(parts=(Text("a"),), text="b")


def test_a_piece_has_at_least_one_character():
    with pytest.raises(ValueError, match="at least 1 character"):
        say("Hi", pieces=0)


def test_arguments_named_like_our_own_go_into_a_mapping():
    [made] = call("find", {"id": 7, "signature": "s"}, deep=True, id="call_1").calls
    assert made.arguments == {"id": 7, "signature": "s", "deep": True}
    assert made.id == "call_1"


def test_a_raw_call_keeps_its_broken_arguments():
    [made] = raw_call("f", '{"broken').calls
    assert made.json == '{"broken'


def test_think_keeps_what_the_turn_has():
    assert think("Hm. ", say("Hi", usage=Usage(1, 2, 3))) == Turn(
        thoughts="Hm. ", text="Hi", usage=Usage(1, 2, 3)
    )
    assert think("Hm.").content == (Thought("Hm."),)


def test_slow_brings_its_own_gate_unless_it_has_seconds():
    assert slow("Hi").gate is not None
    assert slow("Hi", seconds=1).gate is None
    gate = Gate()
    assert slow("Hi", gate).gate is gate


@given(texts, sizes, st.booleans())
def test_pieces_join_to_the_text_again(text: str, pieces: int, words: bool):
    parts = split(text, pieces, words=words)
    assert "".join(parts) == text
    assert "" not in parts


def test_text_goes_by_words_and_arguments_by_characters():
    assert split("It is  sunny.\n", "words") == ["It ", "is ", " sunny.\n"]
    assert split('{"city":"Paris"}', "words", words=False) == ['{"city":', '"Paris"}']
    assert split("abcde", 2) == ["ab", "cd", "e"]
    assert split("", "whole") == []


def test_a_script_of_one_step_answers_every_request():
    stepper = Stepper[object]("Hi")
    assert [stepper.next(None), stepper.next(None)] == [say("Hi"), say("Hi")]


def test_a_script_that_is_over_says_how_long_it_was():
    stepper = Stepper[object](["Hi"])
    stepper.next(None)
    with pytest.raises(ScriptExhausted, match=r"has 1 step.* request 2"):
        stepper.next(None)


def test_a_step_of_another_kind_is_named():
    with pytest.raises(TypeError, match="not 7"):
        Stepper[object]([7]).next(None)  # pyright: ignore[reportArgumentType]


def test_steps_are_handed_out_once_to_many_threads():
    stepper = Stepper[object](str(number) for number in range(1000))
    taken: list[object] = []

    def take() -> None:
        taken.extend(stepper.next(None) for _ in range(100))

    threads = [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turn.text for turn in taken if isinstance(turn, Turn)) == sorted(
        map(str, range(1000))
    )


REQUESTS = {
    "windlass": ModelRequest(
        (
            Message.user("Hello"),
            Message.assistant(FunctionCall("f", "{}", "1")),
            Message.tool([FunctionResponse("f", {"output": "7"}, "1")]),
        )
    ),
    "openai": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "7"},
        ]
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "f"}}]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "1", "name": "f", "response": {"output": "7"}}}
                ],
            },
        ]
    },
}


@pytest.mark.parametrize("wire", REQUESTS)
def test_a_script_reads_results_and_prompt_on_every_wire(wire: str):
    assert tool_results(REQUESTS[wire]) == [FunctionResponse("f", {"output": "7"}, "1")]
    assert last_prompt(REQUESTS[wire]) == "Hello"


async def test_a_gate_says_when_it_is_reached_and_opens_from_any_thread():
    gate = Gate()
    opener = threading.Thread(target=lambda: (gate.reached.block(), gate.open()))
    opener.start()
    await gate.passed()
    await gate.passed()
    opener.join()
    assert gate.is_open


async def test_a_latch_that_is_not_set_in_time_reports_it():
    with pytest.raises(TimeoutError):
        Gate().reached.block(timeout=0.001)


@pytest.mark.process
def test_the_scripted_model_costs_no_server_import():
    code = (
        "import sys, windlass.testing.scripted, windlass.testing.fake_openai as f; f.FakeOpenAI();"
    )
    code += "sys.exit('aiohttp.web' in sys.modules or 'windlass.testing.server' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
