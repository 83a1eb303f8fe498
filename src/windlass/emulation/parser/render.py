"""Calls as text, in any format: what the parser reads, written."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from xml.sax.saxutils import escape

from windlass.emulation.parser.formats import DEFAULT_FORMAT
from windlass.emulation.parser.written import WRITTEN, Values, Written
from windlass.errors import ConfigError
from windlass.jsontext import compact_json

__all__ = ["render_call", "render_calls"]

_SLOT = re.compile(r"\$(\w+)")
_PLAIN_KEY = re.compile(r"[^\W\d][\w$.-]*")


def render_call(name: str, arguments: Mapping[str, Any], format: str = DEFAULT_FORMAT) -> str:
    """One call as a model writes it. Raises `ConfigError` for a format that cannot be written."""
    return render_calls([(name, arguments)], format)


def render_calls(
    calls: Iterable[tuple[str, Mapping[str, Any]]], format: str = DEFAULT_FORMAT
) -> str:
    """The calls of one turn. Raises `ConfigError` for a format that cannot be written."""
    if format not in WRITTEN:
        raise ConfigError(f"calls cannot be written in {format!r}; only in {', '.join(WRITTEN)}")
    written = WRITTEN[format]
    made = [_call(written, index, name, args) for index, (name, args) in enumerate(calls)]
    return f"{written.before}{written.between.join(made)}{written.after}" if made else ""


def _call(written: Written, index: int, name: str, arguments: Mapping[str, Any]) -> str:
    slots = {
        "name": name,
        "quoted": compact_json(name),
        "index": str(index),
        "arguments": _arguments(written, arguments),
    }
    return _filled(written.call, slots)


def _arguments(written: Written, arguments: Mapping[str, Any]) -> str:
    if written.parameter:
        return "".join(_parameter(written, key, value) for key, value in arguments.items())
    return _WHOLE[written.values](arguments)


def _parameter(written: Written, key: str, value: object) -> str:
    text = value if isinstance(value, str) else compact_json(value)
    if written.values == "xml":
        text = escape(text)
    slots = {"key": key, "value": text, "text": compact_json(isinstance(value, str))}
    return _filled(written.parameter, slots)


def _filled(template: str, slots: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda slot: slots[slot[1]], template)


def _python(value: object) -> str:
    match value:
        case None | True | False:
            return str(value)
        case Mapping():
            members = cast("Mapping[str, Any]", value).items()
            return (
                "{"
                + ", ".join(f"{compact_json(key)}: {_python(each)}" for key, each in members)
                + "}"
            )
        case list() | tuple():
            return f"[{', '.join(map(_python, cast('list[Any]', value)))}]"
        case _:
            return compact_json(value)


def _gemma(value: object, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case Mapping():
            return "{" + _gemma_members(cast("Mapping[str, Any]", value), quote) + "}"
        case list() | tuple():
            return f"[{','.join(_gemma(each, quote) for each in cast('list[Any]', value))}]"
        case _:
            return compact_json(value)


def _gemma_members(members: Mapping[str, Any], quote: str) -> str:
    return ",".join(
        f"{key if _PLAIN_KEY.fullmatch(key) else quote + key + quote}:{_gemma(value, quote)}"
        for key, value in members.items()
    )


_WHOLE: dict[Values, Callable[[Mapping[str, Any]], str]] = {
    "json": compact_json,
    "encoded": lambda arguments: compact_json(compact_json(arguments)),
    "python": lambda arguments: ", ".join(
        f"{key}={_python(value)}" for key, value in arguments.items()
    ),
    "gemma": lambda arguments: _gemma_members(arguments, '<|"|>'),
    "escape": lambda arguments: _gemma_members(arguments, "<escape>"),
}
