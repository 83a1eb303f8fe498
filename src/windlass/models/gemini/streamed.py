"""Arguments that Vertex streams as values at JSON paths, put together to an object. Pure."""

import re
from typing import Any, TypeAlias

from windlass.content import compact_json
from windlass.errors import StreamCut
from windlass.models.fields import JsonObject, as_list, as_object, as_text

__all__ = ["StreamedArguments", "path_steps"]

Path: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.?([^.\[\]'"]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_LARGEST_GAP = 1000


def path_steps(path: str) -> Path:
    """The steps of a JSON path such as `$.guests[0].name`. Raises `StreamCut` for anything else."""
    steps: list[str | int] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise StreamCut(f"the model's stream has an argument at {path!r}, which is no path")
        name, index, *quoted = step.groups()
        text = next(filter(None, quoted), "")
        steps.append(int(index) if index is not None else name or re.sub(r"\\(.)", r"\1", text))
        position = step.end()
    return tuple(steps)


class StreamedArguments:
    """The pieces of a text come one after the other; every other value comes whole."""

    def __init__(self) -> None:
        self._values: dict[Path, Any] = {}
        self._texts: dict[Path, list[str]] = {}

    def add(self, piece: JsonObject) -> None:
        path = path_steps(as_text(piece.get("jsonPath")) or "")
        text = as_text(piece.get("stringValue"))
        if text is not None:
            pieces = self._texts.setdefault(path, [])
            pieces.append(text)
            self._values[path] = pieces
            return
        for kind in ("numberValue", "boolValue"):
            if piece.get(kind) is not None:
                value = piece[kind]
                whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
                self._values[path] = int(value) if whole else value
                return
        if "nullValue" in piece:
            self._values[path] = None
        elif path and path not in self._values:
            self._texts[path] = self._values[path] = []  # a text that has yet to begin

    def json(self) -> str:
        root: JsonObject = {}
        for path, value in self._values.items():
            if path:
                _put(root, path, "".join(value) if path in self._texts else value)
        return compact_json(root)


def _put(root: JsonObject, path: Path, value: Any) -> None:
    place: Any = root
    for step, following in zip(path, (*path[1:], None), strict=True):
        default: Any = value if following is None else ([] if isinstance(following, int) else {})
        place = _entered(place, step, default, replace=following is None)


def _entered(place: Any, step: str | int, default: Any, *, replace: bool) -> Any:
    fields = as_object(place)
    if isinstance(step, str) and fields is not None:
        if replace or step not in fields:
            fields[step] = default
        return fields[step]
    items = as_list(place)
    if isinstance(step, int) and items is not None and step < len(items) + _LARGEST_GAP:
        items += [None] * (step + 1 - len(items))
        if replace or items[step] is None:
            items[step] = default
        return items[step]
    raise StreamCut("the model's stream has arguments that contradict each other")
