"""Arguments in YAML, as far as models write it: keys and values, block texts, simple lists."""

import re
from dataclasses import dataclass
from re import Match

import msgspec

from windlass.emulation.parser.arguments import strict_json
from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.escapes import json_string
from windlass.emulation.parser.parameters import ArgumentWriter
from windlass.emulation.parser.pattern import WS, Pattern, ahead, chars, seq
from windlass.emulation.parser.source import Step

__all__ = ["YamlBody"]

_FIRST = Pattern(ahead(chars(r"[\w-]", 1, 99, "key"), ":"))
_KEY = re.compile(r"([\w-]+):(?:[ \t]+|$)(.*)")


@dataclass(frozen=True, slots=True)
class YamlBody:
    """Everything up to the closing tag of the function's name."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        source, name = reading.source, reading.meant(marker["name"])
        first = yield from source.match(_FIRST)
        if not first or first["key"] not in reading.declared.properties(name):
            raise NotACall
        reading.start(name)
        writer = ArgumentWriter(reading)
        body, closed = yield from source.until(Pattern(seq("</", WS, marker["name"], WS, ">")))
        rest, slash, part = body.rpartition("</")
        if not closed and slash and marker["name"].startswith(part):
            body = rest
        for key, text in _entries(body):
            writer.add(key, text)
        if closed or not source.truncated:
            writer.finish()
        else:
            writer.cut()
        reading.end()


def _entries(body: str) -> list[tuple[str, str]]:
    """The keys at the left edge, each with what belongs to it."""
    found: list[tuple[str, list[str]]] = []
    for line in body.expandtabs().split("\n"):
        if key := _KEY.match(line):
            found.append((key[1], [key[2]]))
        elif found:
            found[-1][1].append(line)
    return [(key, _scalar(lines)) for key, lines in found]


def _scalar(lines: list[str]) -> str:
    first, rest = lines[0].strip(), lines[1:]
    while rest and not rest[-1].strip():
        rest = rest[:-1]
    if first[:1] in ("|", ">"):
        indent = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
        joint = "\n" if first[0] == "|" else " "
        text = joint.join(line[indent:] for line in rest)
        return text if first.endswith("-") else text + "\n"
    if rest and all(line.strip().startswith("- ") for line in rest) and not first:
        items = (
            strict_json(item) or json_string(item) for item in (line.strip()[2:] for line in rest)
        )
        return f"[{','.join(items)}]"
    text = " ".join([first, *(line.strip() for line in rest)]).strip()
    if text[:1] in ('"', "'") and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1].replace("''", "'") if text[0] == "'" else _unquoted(text)
    return text


def _unquoted(text: str) -> str:
    try:
        return msgspec.json.decode(strict_json(text) or text, type=str)
    except msgspec.DecodeError:
        return text
