"""The nesting of a field is limited in the same way in small and in large bodies."""

import pytest

from windlass.jsontext import LARGE
from windlass.wires.body import decoded
from windlass.wires.errors import InvalidRequest

LEVELS = 5


def nested(levels: int, text: str) -> bytes:
    return ("[" * levels + f'"{text}"' + "]" * levels).encode()


@pytest.mark.parametrize("text", ["x", "x" * (LARGE + 1)], ids=["small", "large"])
def test_a_field_may_be_nested_to_the_limit_and_no_deeper(text: str) -> None:
    value = decoded(nested(LEVELS, text), "metadata", LEVELS)
    for _ in range(LEVELS):
        [value] = value
    assert value == text
    with pytest.raises(InvalidRequest, match="metadata"):
        decoded(nested(LEVELS + 1, text), "metadata", LEVELS)
