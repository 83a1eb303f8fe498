"""Reading a turn gives the same result for every split into pieces."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.asking import PARIS, TOOLS, written

from windlass.content import Usage
from windlass.emulation.parser import Parser
from windlass.emulation.turn_reader import (
    InventedResults,
    NativeReader,
    TurnReader,
    begins_like_call,
)
from windlass.events import ModelEvent, TextDelta, ToolCallEnded, TurnEnded

fragments = st.lists(
    st.sampled_from(
        [
            PARIS,
            written("get_time"),
            written("rm_rf"),
            "<tool_response 1234>",
            "<tool_res",
            "\nObservation: ",
            "Observation: ",
            "[TOOL_RESULTS]",
            "<function_results>",
            "\n",
            " ",
            "words",
            "<",
        ]
    )
    | st.text(max_size=5),
    max_size=8,
)
texts = fragments.map("".join)
cuts = st.lists(st.integers(1, 9), max_size=60)


def pieces_of(text: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [piece for piece in (*pieces, text) if piece]


def read(reader: TurnReader, pieces: list[str]) -> tuple[str, list[tuple[str, str]]]:
    events: list[ModelEvent] = []
    for event in (*map(TextDelta, pieces), TurnEnded("stop")):
        events += reader.feed(event)
    events += reader.last_events(Usage())
    assert isinstance(events[-1], TurnEnded)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    calls = [(e.call.name, e.call.json) for e in events if isinstance(e, ToolCallEnded)]
    assert (events[-1].finish == "tool_calls") == bool(calls)
    return text, calls


@given(texts, cuts)
def test_an_emulated_turn_reads_the_same_in_any_pieces(text: str, sizes: list[int]) -> None:
    whole = read(TurnReader(Parser(TOOLS)), [text] if text else [])
    assert read(TurnReader(Parser(TOOLS)), pieces_of(text, sizes)) == whole


@given(texts, cuts)
def test_a_native_turn_reads_the_same_in_any_pieces(text: str, sizes: list[int]) -> None:
    whole = read(NativeReader(lambda: Parser(TOOLS)), [text] if text else [])
    assert read(NativeReader(lambda: Parser(TOOLS)), pieces_of(text, sizes)) == whole


@given(texts, cuts)
def test_text_after_a_call_is_dropped_only_from_an_invented_result_on(
    text: str, sizes: list[int]
) -> None:
    invented = InventedResults()
    passed = ""
    for piece in pieces_of(text, sizes):
        said, began = invented.feed(piece)
        passed += said
        if began:
            break
    else:
        passed += invented.finish()
        assert passed == text
    assert text.startswith(passed)


def test_openings_are_recognised_as_soon_as_they_can_be() -> None:
    for opening in ("<", " {", "\n[", "```", "Action:", "Request function call:", ">>>"):
        assert begins_like_call(opening) is True
    for open_yet in ("", "  ", "`", "Acti", "Request function", ">"):
        assert begins_like_call(open_yet) is None
    for prose in ("Hello", "Activate", "`x`", "Requests", "> quoted", " " * 101):
        assert begins_like_call(prose) is False
