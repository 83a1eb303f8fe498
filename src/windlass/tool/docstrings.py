"""Docstrings: the description of a function, and of each parameter.

Google, NumPy and Sphinx styles are supported, also mixed. The description excludes the sections
about parameters, results and exceptions; it includes everything else, such as notes and examples.
"""

import inspect
import re
from typing import NamedTuple

_PARAMETER_SECTIONS = {
    "args",
    "arguments",
    "attributes",
    "keyword args",
    "keyword arguments",
    "other parameters",
    "parameters",
    "params",
}
_DROPPED_SECTIONS = {
    "raises",
    "receives",
    "return",
    "returns",
    "warns",
    "yield",
    "yields",
}
_KEPT_SECTIONS = {
    "example",
    "examples",
    "note",
    "notes",
    "references",
    "see also",
    "tip",
    "todo",
    "warning",
    "warnings",
}
_SECTIONS = _PARAMETER_SECTIONS | _DROPPED_SECTIONS | _KEPT_SECTIONS

_UNDERLINE = re.compile(r"(-{3,}|={3,})\s*")
_ENTRY_GOOGLE = re.compile(
    r"\*{0,2}(?P<names>\w+)\s*(\([^()]*(\([^()]*\)[^()]*)*\))?\s*:(?:\s+|$)(?P<text>.*)"
)
_ENTRY_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(\s*,\s*\*{0,2}\w+)*)\s*(:.*)?(?P<text>)")
_FIELD = re.compile(r"[:@](?P<key>\w+)(?P<argument>[^:]*):(?:\s+|$)(?P<text>.*)")
_FIELD_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword", "ivar", "var"}
_FIELD_DROPPED = {
    "type",
    "return",
    "returns",
    "rtype",
    "raise",
    "raises",
    "except",
    "exception",
    "yield",
    "yields",
    "ytype",
    "vartype",
}


class Docstring(NamedTuple):
    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Returns the parts of a docstring that a model sees."""
    lines = inspect.cleandoc(text or "").splitlines()
    described: list[str] = []
    parameters: dict[str, list[str]] = {}
    position = 0
    while position < len(lines):
        position = _read_block(lines, position, described, parameters)
    return Docstring(
        re.sub(r"\n{3,}", "\n\n", "\n".join(described)).strip(),
        {name: joined for name, text in parameters.items() if (joined := " ".join(text).strip())},
    )


def _read_block(
    lines: list[str], start: int, described: list[str], parameters: dict[str, list[str]]
) -> int:
    """Reads one line of description, one field or one section, and returns where it ends."""
    line = lines[start]
    if (field := _FIELD.match(line)) and field["key"] in _FIELD_PARAMETERS | _FIELD_DROPPED:
        end = _indented_until(lines, start + 1, over=0)
        if field["key"] in _FIELD_PARAMETERS and (words := field["argument"].split()):
            text = [field["text"], *(more.strip() for more in lines[start + 1 : end])]
            parameters.setdefault(words[-1].lstrip("*"), text)
        return end
    title = _section_title(lines, start)
    if title in _PARAMETER_SECTIONS | _DROPPED_SECTIONS:
        numpy = not line.rstrip().endswith(":")
        first = start + (2 if numpy else 1)
        end = _next_section(lines, first) if numpy else _indented_until(lines, first, over=0)
        if title in _PARAMETER_SECTIONS:
            _read_entries(lines[first:end], _ENTRY_NUMPY if numpy else _ENTRY_GOOGLE, parameters)
        return end
    described.append(line.rstrip())
    return start + 1


def _section_title(lines: list[str], index: int) -> str | None:
    """Returns the lower-case title of a section that starts here: `Args:` or an underlined one."""
    line = lines[index].rstrip()
    following = lines[index + 1] if index + 1 < len(lines) else ""
    if line[:1].isspace():
        return None
    if line.endswith(":"):
        title = line[:-1].lower()
        # "Returns:" at the end, or before an indented block or a blank line.
        return title if title in _SECTIONS and (not following or following[0].isspace()) else None
    return line.lower() if line.lower() in _SECTIONS and _UNDERLINE.fullmatch(following) else None


def _next_section(lines: list[str], start: int) -> int:
    index = start
    while index < len(lines) and _section_title(lines, index) is None:
        index += 1
    return index


def _indented_until(lines: list[str], start: int, *, over: int) -> int:
    """Returns the end of the block that is indented by more than `over`, with blank lines."""
    index = start
    while index < len(lines) and (not lines[index].strip() or _indent(lines[index]) > over):
        index += 1
    return index


def _read_entries(
    block: list[str], entry: re.Pattern[str], parameters: dict[str, list[str]]
) -> None:
    """Reads entries at the block's own indentation; deeper lines continue the entry above."""
    indent = min((_indent(line) for line in block if line.strip()), default=0)
    current: list[str] = []
    for line in block:
        if line.strip() and _indent(line) == indent:
            match = entry.fullmatch(line.strip())
            current = [match["text"]] if match else []
            for name in match["names"].split(",") if match else ():
                parameters.setdefault(name.strip().lstrip("*"), current)
        elif line.strip():
            current.append(line.strip())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
