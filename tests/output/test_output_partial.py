"""Values of incomplete answers."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.support.typed_answers import (
    GOOD,
    INVOICE,
    Cat,
    Colour,
    Dog,
    Invoice,
    Point,
    Task,
    Weather,
)

from windlass.events import RoundStarted, TextDelta
from windlass.output.partial import NOTHING, PartialReader, filled, partial_json
from windlass.output.value import output_type

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def is_part_of(part: Any, whole: Any) -> bool:
    """Whether every part is at its place in the whole, with strings cut at their end."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and is_part_of(value, whole[name]) for name, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(part) <= len(whole)
            and all(map(is_part_of, part, whole))
        )
    if isinstance(part, str):
        return isinstance(whole, str) and whole.startswith(part)
    return part == whole and type(part) is type(whole)


@given(
    st.dictionaries(st.text(max_size=4), JSON, max_size=4) | st.lists(JSON, max_size=4),
    st.booleans(),
)
def test_every_prefix_of_a_document_is_a_part_of_its_value(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    whole = json.loads(text)
    for end in range(1, len(text)):
        assert is_part_of(partial_json(text[:end]), whole), text[:end]
    assert partial_json(text) == whole


@given(JSON)
def test_no_prefix_fails_whatever_the_root(value: Any) -> None:
    text = json.dumps(value)
    for end in range(len(text)):
        partial_json(text[:end])
    assert partial_json(text) == json.loads(text)


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    partial_json(text)


@pytest.mark.parametrize("text", ["", " ", "-", "tr", "Sure"])
def test_there_is_no_partial_value_before_the_json_begins(text: str) -> None:
    assert partial_json(text) is NOTHING


def test_a_number_waits_until_it_is_complete() -> None:
    assert partial_json('{"a": 1') == {}
    assert partial_json('{"a": 12,') == {"a": 12}
    assert partial_json("[1, -2.5e") == [1]


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        (Invoice, {}, Invoice.model_construct(number=None, total=None, lines=[])),
        (Point, {"y": 2}, {"x": None, "y": 2}),
        (Task, {}, {"title": None, "done": False}),
        (Weather, {"city": "Os"}, {"city": "Os"}),
        (Colour, "re", NOTHING),
        (Colour, "red", Colour.RED),
        (list[Colour], ["red", "bl"], [Colour.RED]),
        (tuple[int, str], [1], (1,)),
        (set[int], [1, 2], {1, 2}),
        (Sequence[int], [1], [1]),
        (dict[str, Colour], {"a": "red", "b": "b"}, {"a": Colour.RED}),
        (Literal["yes", "no"], "n", NOTHING),
        (int | None, None, None),
        (Cat | Dog, {"kind": "dog"}, Dog.model_construct(kind="dog", name=None)),
        (Any, {"a": 1}, {"a": 1}),
        (int, "x", NOTHING),
        (Invoice, [1], NOTHING),
        (list[int], {"a": 1}, NOTHING),
    ],
    ids=str,
)
def test_missing_fields_are_none_or_their_default(kind: Any, value: Any, made: Any) -> None:
    found = filled(kind, value)
    if kind in (Point, Task):
        assert isinstance(found, kind)
        names = ("title", "done") if kind is Task else ("x", "y")
        fields = {name: getattr(found, name) for name in names}
        assert fields == made
    else:
        assert found == made


def test_a_default_factory_fills_a_missing_field_anew_each_time() -> None:
    class Model(BaseModel):
        tags: list[str] = Field(default_factory=list)

    class Record(msgspec.Struct):
        tags: list[str] = msgspec.field(default_factory=list)

    row = dataclasses.make_dataclass(
        "Row", [("tags", list[str], dataclasses.field(default_factory=list))]
    )
    for kind in (Model, Record, row):
        first, second = filled(kind, {}), filled(kind, {})
        assert first.tags == []
        assert first.tags is not second.tags


def test_aliases_are_the_names_in_the_json() -> None:
    class Renamed(msgspec.Struct, rename="camel"):
        first_name: str

    assert filled(Renamed, {"firstName": "Ada"}) == Renamed("Ada")


def values_of(kind: Any, *pieces: str) -> list[Any]:
    reader = PartialReader(output_type(kind))
    return [value for piece in pieces for value in reader.read(TextDelta(piece))]


def test_values_grow_with_the_text() -> None:
    values = values_of(Invoice, *GOOD)
    numbers = list(dict.fromkeys(value.number for value in values))
    assert numbers == [None, "", "A", "A7"]
    assert values[-1] == INVOICE


def test_equal_values_are_not_repeated() -> None:
    assert len(values_of(int, '{"value": ', "7", "}", " ", "\n")) == 1


def test_a_new_round_starts_again() -> None:
    reader = PartialReader(output_type(list[int]))
    assert list(reader.read(TextDelta("[1, 2]"))) == [[1, 2]]
    assert list(reader.read(RoundStarted(2, "awaiting_model_call"))) == []
    assert list(reader.read(TextDelta("[3"))) == [[]]
    assert list(reader.read(TextDelta("]"))) == [[3]]


def test_a_long_answer_is_read_a_limited_number_of_times() -> None:
    text = json.dumps(["word"] * 20_000)
    values = values_of({"type": "array"}, *(text[i : i + 8] for i in range(0, len(text), 8)))
    assert len(values[-1]) > 19_000
    assert len(values) < 1_000
