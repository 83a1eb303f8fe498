"""A call whose arguments Vertex streams: values at JSON paths, texts in pieces."""

import re
from collections.abc import Iterator
from typing import Any, cast

from windlass.content import FunctionCall
from windlass.testing.pieces import split
from windlass.testing.script import Pieces

__all__ = ["partial_call_parts"]

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def partial_call_parts(made: FunctionCall, pieces: Pieces) -> list[dict[str, Any]] | None:
    """The call's parts, one to a piece; None if it must come whole.

    An empty list or object inside the arguments has no path that could bring it.
    """
    try:
        values = list(_partial_args(made.arguments, "$", pieces))
    except _NoPath:
        return None
    identity = {"id": made.id} if made.id else {}
    signed = {"thoughtSignature": made.signature} if made.signature is not None else {}
    head = {"functionCall": {**identity, "name": made.name, "willContinue": True}, **signed}
    more = [{"functionCall": {"partialArgs": [v], "willContinue": True}} for v in values]
    return [head, *more, {"functionCall": {}}]


class _NoPath(Exception):
    pass


def _partial_args(value: object, path: str, pieces: Pieces) -> Iterator[dict[str, Any]]:
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            if not fields and path != "$":
                raise _NoPath
            for name, field in fields.items():
                yield from _partial_args(field, path + _step(name), pieces)
        case list():
            items = cast("list[Any]", value)
            if not items:
                raise _NoPath
            for place, item in enumerate(items):
                yield from _partial_args(item, f"{path}[{place}]", pieces)
        case str():
            *others, last = split(value, pieces, words=False) or [""]
            for piece in others:
                yield {"jsonPath": path, "stringValue": piece, "willContinue": True}
            yield {"jsonPath": path, "stringValue": last}
        case bool():
            yield {"jsonPath": path, "boolValue": value}
        case None:
            yield {"jsonPath": path, "nullValue": "NULL_VALUE"}
        case _:
            yield {"jsonPath": path, "numberValue": value}


def _step(name: str) -> str:
    if _NAME.fullmatch(name):
        return f".{name}"
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"
