"""Arguments in YAML, between the tags of a tool."""

import math
import re
from dataclasses import dataclass
from re import Match

from windlass.content import Schema
from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.escapes import json_string, printable
from windlass.emulation.parser.parameters import ArgumentWriter
from windlass.emulation.parser.pattern import WS, Pattern, ahead, chars, seq
from windlass.emulation.parser.source import Step
from windlass.emulation.parser.values import items_of, json_value, properties_of, types_of
from windlass.emulation.parser.yaml_text import Node, NotYaml, PlainText, yaml_mapping
from windlass.jsontext import compact_json

__all__ = ["YamlBody"]

_FIRST = Pattern(ahead(chars(r"[\w-]", 1, 99, "key"), ":"))
_LONGEST_INDENT = 200
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {word: word.lower() for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class YamlBody:
    """Everything up to the closing tag of the function's name."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        source, name = reading.source, reading.meant(marker["name"])
        first = yield from source.match(_FIRST)
        if not first or first["key"] not in reading.declared.properties(name):
            raise NotACall
        reading.start(name)
        indent = marker.group().rpartition("\n")[2] if "\n" in marker.group() else ""
        body, closed = yield from self._body(reading, marker["name"], indent)
        try:
            if not closed and source.truncated:
                raise NotYaml
            _write(reading, yaml_mapping(body))
        except NotYaml:
            reading.write(printable(body))
            reading.spoil()
        reading.end()

    def _body(self, reading: Reading, name: str, indent: str) -> Step[tuple[str, bool]]:
        """The text up to the closing tag, and whether there is one.

        A tag in a line that is indented deeper than the first is in the middle of a text.
        """
        source, parts, line = reading.source, [indent], indent
        closing = Pattern(seq("</", WS, name, WS, ">"))
        while True:
            text, found = yield from source.until(closing)
            parts.append(text)
            _, newline, last = text.rpartition("\n")
            line = (last if newline else line + last)[:_LONGEST_INDENT]
            if not found:
                break
            if len(line) - len(line.lstrip()) <= len(indent):
                return "".join(parts), True
            parts.append(found.group())
        body = "".join(parts)
        rest, slash, part = body.rpartition("</")
        return (rest if slash and name.startswith(part) else body), False


def _write(reading: Reading, members: dict[str, Node]) -> None:
    schema, properties = (
        reading.declared.schema(reading.name),
        reading.declared.properties(reading.name),
    )
    writer = ArgumentWriter(reading)
    written = {key: _json(node, properties.get(key), schema) for key, node in members.items()}
    for key, node in members.items():
        types = types_of(properties.get(key), schema)
        if isinstance(node, PlainText) and "array" in types:
            writer.add(key, node.text)
        else:
            writer.put(key, written[key])
    writer.finish()


def _json(node: Node, schema: object, root: Schema) -> str:
    """The node as JSON. A scalar has the type that the schema asks for, if it asks for one."""
    types = types_of(schema, root)
    match node:
        case PlainText(text=text):
            if "null" in types and text in _NULLS:
                return "null"
            return json_value(text, schema, root) if types else _core_json(text)
        case str():
            typed = types and "string" not in types
            return json_value(node, schema, root) if typed else json_string(node)
        case list():
            return f"[{','.join(_json(each, items_of(schema), root) for each in node)}]"
        case dict():
            properties = properties_of(schema, root)
            return (
                "{"
                + ",".join(
                    f"{json_string(key)}:{_json(each, properties.get(key), root)}"
                    for key, each in node.items()
                )
                + "}"
            )


def _core_json(text: str) -> str:
    """A scalar without quotes and without a schema, as YAML 1.2 reads it."""
    if text in _NULLS:
        return "null"
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    try:
        if _INTEGER.fullmatch(text):
            return str(int(text, 0 if text[:2] in ("0o", "0x") else 10))
        if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return compact_json(number)
    except ValueError:  # too many digits
        raise NotYaml from None
    if _FLOAT.fullmatch(text) or _NO_NUMBER.fullmatch(text):
        raise NotYaml
    return json_string(text)
