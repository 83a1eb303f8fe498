"""Large JSON, decoded and encoded in steps: the same as in one call."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import jsontext as large
from windlass.jsontext import (
    TooDeep,
    TooManyValues,
    encode_any_json,
    encode_json,
    from_base64,
    is_larger,
    outline,
    to_base64,
    with_whole_pairs,
)

STEP = 64
letters = st.text(st.sampled_from('aé漢😀"\\\n\x01[]{},:ud8'), max_size=200)
values = st.recursive(
    letters | st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(letters, inner, max_size=8),
    max_leaves=30,
)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes steps small, so that the examples have many."""
    monkeypatch.setattr(large, "STEP", STEP)


def read(data: bytes) -> Any:
    return outline(data, max_depth=100, max_values=100_000, step=STEP).value()


@given(values, st.booleans(), st.sampled_from([None, 1, 40]))
def test_json_decoded_in_steps_is_the_same(value: Any, ascii: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert read(data) == value
    fields = outline(data, max_depth=100, max_values=100_000, step=0).fields()
    if isinstance(value, dict):
        assert fields is not None
        assert {name: node.value() for name, node in fields.items()} == value
    else:
        assert fields is None


@given(values)
def test_json_encoded_in_steps_is_the_same(value: Any) -> None:
    assert msgspec.json.decode(encode_any_json(value)) == msgspec.json.decode(encode_json(value))


@given(values, st.integers(0), st.sampled_from([b"", b",", b":", b'"', b"[", b"}", b"\\", b"1"]))
def test_json_that_one_call_refuses_is_refused_in_steps(
    value: Any, place: int, inserted: bytes
) -> None:
    data = json.dumps(value).encode()
    at = place % (len(data) + 1)
    broken = data[:at] + inserted + data[at + (not inserted) :]
    try:
        expected: Any = msgspec.json.decode(with_whole_pairs(broken))
    except msgspec.DecodeError:
        with pytest.raises((ValueError, msgspec.DecodeError)):
            read(broken)
    else:
        assert read(broken) == expected


@pytest.mark.parametrize("text", ['"', '{"a": [1', "[1}", "1,2", "", "[" + "x" * 400 + "]"])
def test_a_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError)):
        read(text.encode())


def test_levels_and_values_are_counted_and_their_field_is_named() -> None:
    with pytest.raises(TooDeep) as deep:
        outline(b'{"a": 1, "b": [[[[', max_depth=3, max_values=100)
    assert deep.value.field == "b"
    assert outline(b'{"b": [[[1]]]}', max_depth=3, max_values=100).value() == {"b": [[[1]]]}
    with pytest.raises(TooManyValues) as many:
        outline(b'{"a": 1, "c": [1,2,3,4,5', max_depth=3, max_values=5)
    assert many.value.field == "c"
    with pytest.raises(TooManyValues):
        outline(b'"a"' * 100, max_depth=3, max_values=5)


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        (rb"\ud83d", rb"\ufffd"),
        (rb"\ud83d\ude00", rb"\ud83d\ude00"),
        (rb"\ude00\ud83d", rb"\ufffd\ufffd"),
        (rb"\ud83d\ud83d\ude00\ude00", rb"\ufffd\ud83d\ude00\ufffd"),
        (rb"\\ud83d", rb"\\ud83d"),
        (rb"\\\ud83d", rb"\\\ufffd"),
        (rb"\uD83Dx", rb"\ufffdx"),
    ],
)
def test_half_of_a_surrogate_pair_becomes_a_replacement_character(
    written: bytes, mended: bytes
) -> None:
    assert with_whole_pairs(b'"%b"' % written) == b'"%b"' % mended
    for around in ("", "x" * 100):
        data = b'"%b%b"' % (around.encode(), written)
        assert read(data) == around + json.loads(b'"%b"' % mended)


@given(st.binary(max_size=400))
def test_base64_in_steps_is_the_same(data: bytes) -> None:
    text = to_base64(data)
    assert text == base64.b64encode(data).decode()
    assert from_base64(f"data:,{text}", 6) == data


@pytest.mark.parametrize("text", ["QQ==" + "QUJD" * 40, "QUJ" * 41, "Q*JD" * 40, "=" * 100])
def test_text_that_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_base64(text)


@given(values)
def test_a_value_is_larger_than_its_text_is_long(value: Any) -> None:
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    assert is_larger(value, size // 8) or size < 400
    assert not is_larger(value, 40 * size + 100)
