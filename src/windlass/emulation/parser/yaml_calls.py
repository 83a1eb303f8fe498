"""Readers of calls with YAML arguments.

The YAML reader supports what models write: mappings, lists, block strings, quoted strings and flow
collections. It raises `NotYaml` for anchors, aliases, tags, several documents and keys that are not
strings.
"""

import math
import re
from dataclasses import dataclass
from re import Match
from typing import TypeAlias

from windlass.content import Schema
from windlass.emulation.parser.call import CallReading, NotACall
from windlass.emulation.parser.json_text import json_string, printable
from windlass.emulation.parser.parameters import (
    ArgumentWriter,
    items_of,
    json_value,
    properties_of,
    types_of,
)
from windlass.emulation.parser.pattern import WS, Pattern, ahead, chars, seq
from windlass.emulation.parser.source import Step
from windlass.jsontext import compact_json


class NotYaml(Exception):
    """The text is not YAML, or uses an unsupported feature."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """A scalar without quotes: the schema decides its type, or else YAML's rules."""

    text: str


Node: TypeAlias = "PlainText | str | list[Node] | dict[str, Node]"

_MAX_DEPTH = 100
_BLOCK = re.compile(r"([|>])(?:([+-])?([1-9])?|([1-9])([+-]))[ \t]*(?:#.*)?$")
_KEY_END = re.compile(r":(?=[ \t]|$)")
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#.*$")
_NOT_PLAIN = tuple("&*!|>%@`,]}")
_DOUBLE = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_SINGLE = re.compile(r"'([^']*(?:''[^']*)*)'(?!')", re.DOTALL)
_ENDS = {
    '"': re.compile(r'[^"\\]*(?:\\(?:.|$)[^"\\]*)*"'),
    "'": re.compile(r"[^']*(?:''[^']*)*'(?!')"),
}
"""Matches a line in which a quoted string ends."""
_FOLD = re.compile(r"\n[ \t\n]*")
_IN_DOUBLE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^\n]))"
    r"|\\?\n[ \t\n]*"
)
_ESCAPES = dict(
    zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True)
)
_COLON = r":(?=[^ \t\n,\[\]{}])"
_FLOW_PLAIN = re.compile(
    rf"(?:[^,\[\]{{}}:#\n\"'&*!|>%@` \t]|{_COLON})(?:[^,\[\]{{}}:#\n]|{_COLON}|(?<=\S)#)*"
)
_FLOW_SPACE = re.compile(r"(?:[ \t\n]+|(?<=\s)#[^\n]*)*")


def yaml_mapping(text: str) -> dict[str, Node]:
    """Returns the mapping in the text. Raises `NotYaml`."""
    reader = _Blocks(text.replace("\r\n", "\n").split("\n"))
    node = reader.node(-1, 0)
    if reader.next_line() is not None or not isinstance(node, dict):
        raise NotYaml
    return node


def _indent(line: str) -> int:
    indent = len(line) - len(line.lstrip(" "))
    if line[indent : indent + 1] == "\t" and line.strip():
        raise NotYaml  # the width of a tab is undefined
    return indent


class _Blocks:
    """Reads block style, line by line."""

    def __init__(self, lines: list[str]) -> None:
        self._lines, self._place = lines, 0
        self._last_line_ends = not lines[-1].strip(" ")
        if self._last_line_ends:
            lines.pop()

    def next_line(self) -> str | None:
        """Returns the next line that is neither empty nor a comment, without reading it."""
        while self._place < len(self._lines):
            line = self._lines[self._place]
            if line.strip() and not line.lstrip().startswith("#"):
                return line
            self._place += 1
        return None

    def node(self, parent: int, depth: int, *, listed: bool = False) -> Node:
        """Reads what is indented deeper than its parent; with `listed`, a list may be equal."""
        line = self.next_line()
        if depth > _MAX_DEPTH:
            raise NotYaml
        if line is None:
            return PlainText("")
        indent, bare = _indent(line), line.strip()
        is_item = bare == "-" or bare.startswith("- ")
        if indent < parent or (indent == parent and not (listed and is_item)):
            return PlainText("")
        if is_item:
            return self._list(indent, depth)
        if _key_of(bare) is not None:
            return self._mapping(indent, depth)
        self._place += 1
        return self._value(bare, parent, depth)

    def _mapping(self, indent: int, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while (line := self.next_line()) is not None and _indent(line) >= indent:
            member = _key_of(line.strip())
            if _indent(line) > indent or member is None or member[0] in found:
                raise NotYaml
            self._place += 1
            found[member[0]] = self._value(member[1], indent, depth, listed=True)
        return found

    def _list(self, indent: int, depth: int) -> list[Node]:
        found: list[Node] = []
        while (line := self.next_line()) is not None and _indent(line) == indent:
            bare = line.strip()
            if bare != "-" and not bare.startswith("- "):
                break
            rest = bare[1:].lstrip()
            if rest.startswith("- ") or rest == "-" or _key_of(rest) is not None:
                # A list or a mapping that starts on the item's own line.
                self._lines[self._place] = " " * (len(line.rstrip()) - len(rest)) + rest
                found.append(self.node(indent, depth + 1))
            else:
                self._place += 1
                found.append(self._value(rest, indent, depth))
        if line is not None and _indent(line) > indent:
            raise NotYaml
        return found

    def _value(self, text: str, indent: int, depth: int, *, listed: bool = False) -> Node:
        """Reads a value from its first line, and the following lines that belong to it."""
        if header := _BLOCK.match(text):
            return self._block_text(header, indent)
        if text[:1] in ('"', "'"):
            return self._quoted(text, indent)
        if text[:1] in ("[", "{"):
            return self._flow(text, indent)
        text = _COMMENT.sub("", text).rstrip()
        if not text:
            return self.node(indent, depth + 1, listed=listed)
        if text.startswith((*_NOT_PLAIN, "? ", "- ")) or text in ("---", "..."):
            raise NotYaml
        return PlainText(_folded("\n".join((text, *self._deeper(indent)))))

    def _deeper(self, indent: int) -> list[str]:
        """Reads the lines that continue a plain string."""
        found: list[str] = []
        while self._place < len(self._lines):
            line = self._lines[self._place]
            bare = line.strip()
            if bare and (_indent(line) <= indent or bare.startswith("#")):
                break
            if bare and _key_of(bare) is not None:
                raise NotYaml
            found.append(_COMMENT.sub("", bare).rstrip())
            self._place += 1
        while found and not found[-1]:
            found.pop()
        return found

    def _block_text(self, header: re.Match[str], indent: int) -> str:
        style, chomp, width = header[1], header[2] or header[5], header[3] or header[4]
        lines: list[str] = []
        least = max(indent, 0) + int(width) if width else 0
        while self._place < len(self._lines):
            line = self._lines[self._place]
            if line.strip(" "):
                spaces = len(line) - len(line.lstrip(" "))
                if not least and spaces > indent:
                    least = max(spaces, 1) if indent >= 0 else spaces
                if spaces <= indent or spaces < least:
                    break
            lines.append(line)
            self._place += 1
        lines = [line[least:] if line.strip(" ") or len(line) > least else "" for line in lines]
        ends = self._last_line_ends or self._place < len(self._lines)
        return _chomped(lines, style == ">", chomp or "", ends=ends)

    def _quoted(self, text: str, indent: int) -> str:
        quote, lines, last = text[0], [text], text[1:]
        while not _ENDS[quote].match(last):
            if self._place == len(self._lines):
                raise NotYaml
            last = self._lines[self._place]
            if last.strip() and _indent(last) <= indent:
                raise NotYaml
            lines.append(last)
            self._place += 1
        text = "\n".join(lines)
        found = (_DOUBLE if quote == '"' else _SINGLE).match(text)
        if not found or _COMMENT.sub("", text[found.end() :]).strip():
            raise NotYaml
        return _unquoted(found)

    def _flow(self, text: str, indent: int) -> Node:
        lines = [text]
        while self._place < len(self._lines):
            line = self._lines[self._place]
            closing = line.strip()[:1] in ("]", "}")
            if (
                line.strip()
                and _indent(line) <= indent
                and not (closing and _indent(line) == indent)
            ):
                break
            lines.append(line)
            self._place += 1
        flow = _Flow("\n".join(lines))
        node = flow.node(0)
        flow.end()
        return node


def _key_of(text: str) -> tuple[str, str] | None:
    """Returns the key at the start of the line, and the rest; None if there is no key."""
    if text[:1] in ('"', "'"):
        quoted = (_DOUBLE if text[0] == '"' else _SINGLE).match(text)
        if not quoted:
            return None
        end = _KEY_END.match(text[quoted.end() :].lstrip())
        if not end:
            return None
        return _unquoted(quoted), text[quoted.end() :].lstrip()[1:].strip()
    if not text or text[0] in "[{|>#":
        return None
    if not (end := _KEY_END.search(text)):
        return None
    key = text[: end.start()].rstrip()
    if not key or key.startswith((*_NOT_PLAIN, "? ", "- ")) or key == "<<" or " #" in key:
        raise NotYaml
    return key, text[end.end() :].strip()


def _folded(text: str) -> str:
    """Replaces one newline with a space, and removes one of several newlines."""
    return _FOLD.sub(_break, _without_space_before_breaks(text))


def _break(found: re.Match[str]) -> str:
    return "\n" * (found.group().count("\n") - 1) or " "


def _without_space_before_breaks(text: str) -> str:
    *lines, last = text.split("\n")
    return "\n".join([*(_right_stripped(line) for line in lines), last])


def _right_stripped(line: str) -> str:
    """Removes the space at the end of the line, except an escaped one."""
    bare = line.rstrip(" \t")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2
    return line[: len(bare) + escaped]


def _unquoted(found: re.Match[str]) -> str:
    if found.re is _SINGLE:
        return _folded(found[1]).replace("''", "'")
    return _IN_DOUBLE.sub(_unescaped, _without_space_before_breaks(found[1]))


def _unescaped(found: re.Match[str]) -> str:
    """Returns the meaning of an escape or a line break inside double quotes."""
    if code := found[1] or found[2] or found[3]:
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise NotYaml
        return chr(number)
    if found[4] is None:
        breaks = "\n" * (found.group().count("\n") - 1)
        return breaks or ("" if found.group().startswith("\\") else " ")
    if found[4] not in _ESCAPES:
        raise NotYaml
    return _ESCAPES[found[4]]


def _chomped(lines: list[str], folded: bool, chomp: str, *, ends: bool) -> str:
    """Joins a block's lines, with the final newlines that the header demands."""
    count = len(lines)
    while lines and not lines[-1].strip(" "):
        lines.pop()
    text = _folded_block(lines) if folded else "\n".join(lines)
    if chomp == "+":
        return text + "\n" * (count - len(lines) + bool(lines) - (not ends))
    ends = ends or len(lines) < count
    return text + ("\n" if lines and ends and chomp != "-" else "")


def _folded_block(lines: list[str]) -> str:
    """Joins the lines of a `>` block with spaces, except empty and indented lines."""
    parts: list[str] = []
    before, blank = "", 0
    for line in lines:
        if not line:
            blank += 1
            continue
        if not before:
            parts.append("\n" * blank)
        elif line[0] in " \t" or before[0] in " \t":
            parts.append("\n" * (blank + 1))
        else:
            parts.append("\n" * blank or " ")
        parts.append(line)
        before, blank = line, 0
    return "".join(parts)


class _Flow:
    """Reads flow style: `[a, {b: c}]`."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0

    def _peek(self) -> str:
        found = _FLOW_SPACE.match(self._text, self._place)
        self._place = found.end() if found else self._place
        return self._text[self._place : self._place + 1]

    def end(self) -> None:
        if self._peek():
            raise NotYaml

    def node(self, depth: int) -> Node:
        letter = self._peek()
        if depth > _MAX_DEPTH:
            raise NotYaml
        if letter == "[":
            return self._items(depth)
        if letter == "{":
            return self._members(depth)
        return self._scalar()

    def _scalar(self) -> PlainText | str:
        letter = self._peek()
        pattern = {'"': _DOUBLE, "'": _SINGLE}.get(letter, _FLOW_PLAIN)
        if not (found := pattern.match(self._text, self._place)):
            raise NotYaml
        self._place = found.end()
        if pattern is not _FLOW_PLAIN:
            return _unquoted(found)
        if found.group().startswith(("? ", "- ")):
            raise NotYaml
        return PlainText(found.group().rstrip())

    def _next(self, closing: str) -> bool:
        """Reads a comma or the closing bracket, and returns whether an item follows."""
        letter = self._peek()
        if letter not in (",", closing) or not letter:
            raise NotYaml
        self._place += 1
        if letter == ",":
            if self._peek() != closing:
                return True
            self._place += 1
        return False

    def _opens(self, closing: str) -> bool:
        """Reads the opening bracket, and returns whether an item follows."""
        self._place += 1
        if self._peek() != closing:
            return True
        self._place += 1
        return False

    def _items(self, depth: int) -> list[Node]:
        found: list[Node] = []
        more = self._opens("]")
        while more:
            node = self.node(depth + 1)
            if self._peek() == ":":
                raise NotYaml  # a mapping without brackets
            found.append(node)
            more = self._next("]")
        return found

    def _members(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        more = self._opens("}")
        while more:
            key = self._scalar()
            name = key.text if isinstance(key, PlainText) else key
            if self._peek() == ":":
                self._place += 1
                empty = self._peek() in (",", "}")
                node = PlainText("") if empty else self.node(depth + 1)
            else:
                node = PlainText("")
            if name in found:
                raise NotYaml
            found[name] = node
            more = self._next("}")
        return found


_FIRST = Pattern(ahead(chars(r"[\w-]", 1, 99, "key"), ":"))
_MAX_INDENT = 200
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {word: word.lower() for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class YamlBody:
    """Reads YAML up to the closing tag with the function's name."""

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        source, name = reading.source, reading.resolve(marker["name"])
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
            reading.invalidate()
        reading.end()

    def _body(self, reading: CallReading, name: str, indent: str) -> Step[tuple[str, bool]]:
        """Returns the text up to the closing tag, and whether there is one.

        A tag on a line that is indented deeper than the first line belongs to a string.
        """
        source, parts, line = reading.source, [indent], indent
        closing = Pattern(seq("</", WS, name, WS, ">"))
        while True:
            text, found = yield from source.until(closing)
            parts.append(text)
            _, newline, last = text.rpartition("\n")
            line = (last if newline else line + last)[:_MAX_INDENT]
            if not found:
                break
            if len(line) - len(line.lstrip()) <= len(indent):
                return "".join(parts), True
            parts.append(found.group())
        body = "".join(parts)
        rest, slash, part = body.rpartition("</")
        return (rest if slash and name.startswith(part) else body), False


def _write(reading: CallReading, members: dict[str, Node]) -> None:
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
    """Returns the node as JSON. The schema decides the type of a scalar, if it has one."""
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
    """Returns a scalar without quotes and without a schema, by the rules of YAML 1.2."""
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
