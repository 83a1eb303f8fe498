"""The options and steps of the replica of the AI Studio page, as values."""

import re
from pathlib import Path
from typing import Any

import pytest

import windlass
import windlass.testing.aistudio
from windlass.content import InlineData
from windlass.testing import Turn, call, calls
from windlass.testing.aistudio import (
    PARTS,
    FakeAIStudio,
    filled_late,
    late_calls,
    rendered_twice,
    toast,
    written_call,
)
from windlass.testing.aistudio.fake import Page, PageOptions, page_events

STATIC = Path(windlass.testing.aistudio.__file__).parent / "static"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"variant": "oldest"},
            "variant: unknown value 'oldest'; supported: current, older, newer",
        ),
        ({"broken": {"edit"}}, "broken: unknown value 'edit'; supported:"),
        ({"broken": "turn"}, "broken: must be a collection of strings, not the string 'turn'"),
        ({"switched_on": ["search"]}, "switched_on: unknown value 'search'"),
        ({"stuck": ["search"]}, "stuck: unknown value 'search'"),
        (
            {"late": {"toggle": 1.0}},
            "late: unknown value 'toggle'; supported: page, switch, dialog",
        ),
        ({"without_function_calling": ["gpt"]}, "without_function_calling: unknown value 'gpt'"),
        ({"models": []}, "models: at least one model is required"),
    ],
)
def test_an_option_that_the_page_does_not_have_is_named(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        FakeAIStudio(**options)


def test_every_option_has_a_default() -> None:
    assert set(PageOptions.__annotations__) == set(Page.__struct_fields__)


def test_every_part_that_can_be_broken_is_in_the_page() -> None:
    code = "".join(path.read_text() for path in STATIC.glob("*.js"))
    plain = {part for part in PARTS if f'"{part}"' in code}
    of_rows = {part for part in PARTS if re.search(r"_(row|toggle)$", part)}
    numbers = {part for part in PARTS if re.search(rf"^  {part}: ", code, re.MULTILINE)}
    assert plain | of_rows | numbers == PARTS


def test_every_event_that_a_step_plays_is_known_to_the_page() -> None:
    turn = calls(call("f", x=1), text="Hm.", thoughts="So.")
    steps = [late_calls(turn).step, filled_late(turn).step, rendered_twice(turn), toast("Oh.")]
    played = {event["type"] for step in steps for event in page_events(turn_of(step))}
    code = (STATIC / "generation.js").read_text()
    known = re.findall(r"^  (\w+): \(", code.split("const PLAYED = {")[1], re.MULTILINE)
    assert played | {"error", "end"} == set(known)


def test_calls_that_come_late_wait_right_before_the_first_of_them() -> None:
    late = late_calls(calls(call("f"), call("g"), text="Hm."))
    events = page_events(turn_of(late.step))
    assert [event["type"] for event in events[late.after :]] == ["call", "call"]
    assert events[late.after - 1] == {"type": "idle"}


def test_a_written_call_is_text_that_the_parser_reads() -> None:
    turn = written_call("get_weather", city="Paris")
    assert turn.calls == ()
    (read,) = windlass.parse(turn.text).calls
    assert (read.name, read.arguments) == ("get_weather", {"city": "Paris"})


def test_parts_that_the_page_cannot_show_are_refused() -> None:
    with pytest.raises(ValueError, match="the page cannot show"):
        page_events(Turn(parts=(InlineData(b"", "image/png"),)))


def turn_of(step: object) -> Turn:
    assert isinstance(step, Turn)
    return step
