"""Fields of an answer that Windlass does not know, collected over its deltas. Pure."""

from typing import Any

from windlass.models.fields import JsonObject, as_list, as_object

__all__ = ["UnknownFields"]

_SAID_ONCE = frozenset({"type", "id", "format", "index", "name"})
"""Fields of a streamed item that are repeated, not continued."""


class UnknownFields:
    """Texts go on where they stopped, lists grow, anything else is replaced."""

    __slots__ = ("_items", "_texts", "_values")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._items: dict[str, list[Any]] = {}
        self._values: JsonObject = {}

    def add(self, fields: JsonObject, *, is_whole: bool) -> None:
        """`is_whole`: the fields come from a body and not from a delta."""
        if is_whole:
            self._values |= fields
            return
        for key, value in fields.items():
            if isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif (items := as_list(value)) is not None:
                self._items.setdefault(key, []).extend(items)
            elif (known := as_object(self._values.get(key))) and (more := as_object(value)):
                self._values[key] = _continued([known, more])
            else:
                self._values[key] = value

    def fields(self) -> JsonObject:
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        items = {key: _items_joined(items) for key, items in self._items.items()}
        return {**texts, **items, **self._values}


def _items_joined(items: list[Any]) -> list[Any]:
    """Streamed items with the same index and type are pieces of one (`reasoning_details`)."""
    groups: dict[tuple[Any, ...], list[JsonObject]] = {}
    for number, item in enumerate(items):
        fields = as_object(item)
        if fields is None:
            return items
        index = fields.get("index")
        key = (number,) if index is None else (str(index), str(fields.get("type")))
        groups.setdefault(key, []).append(fields)
    return [_continued(pieces) for pieces in groups.values()]


def _continued(pieces: list[JsonObject]) -> JsonObject:
    """One object of its pieces, in time linear in their size."""
    texts: dict[str, list[str]] = {}
    joined: JsonObject = {}
    for piece in pieces:
        for key, value in piece.items():
            if isinstance(value, str) and key not in _SAID_ONCE:
                texts.setdefault(key, []).append(value)
                joined.setdefault(key, "")
            elif value is not None or key not in joined:
                joined[key] = value
    return joined | {key: "".join(values) for key, values in texts.items()}
