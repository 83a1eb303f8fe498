"""`windlass parse`: reads the tool calls in the text of a model."""

import argparse
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from windlass.cli.arguments import suggestion
from windlass.content import FunctionDeclaration
from windlass.emulation.parse import parse
from windlass.emulation.parser import FORMATS
from windlass.errors import ConfigError
from windlass.tool.declarations import declarations_in, in_json_schema

DESCRIPTION = """\
Reads the text of a model from stdin and prints one JSON object:
  {"content": the text without calls, "calls": [{"name", "arguments"}, ...]}
and "errors" for calls that could not be read. Such a call is not in "calls"."""

EPILOG = """\
examples:
  windlass parse < answer.txt
  windlass parse --format mistral --tools tools.json < answer.txt
  echo '{"id": 1, "text": "<tool_call>{\\"name\\": \\"f\\", \\"arguments\\": {}}</tool_call>"}' \\
      | windlass parse --jsonl

With --jsonl, each input line is {"id"?, "text", "format"?, "tools"?}, and each output line is
{"id", "content", "calls", "errors"}. For an invalid line, the output contains the error, the next
lines are still read, and the exit code is 1.

Tools have OpenAI's form: [{"type": "function", "function": {"name", "parameters"}}]. With tools,
only their names count as calls, and unquoted values get the types of the parameters."""

_CHUNK = 65536


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--format", default="auto", metavar="NAME", help="the format of the calls (default: auto)"
    )
    parser.add_argument(
        "--tools",
        type=Path,
        metavar="FILE",
        help="a JSON file with the tools that the model can call",
    )
    parser.add_argument("--jsonl", action="store_true", help="read one JSON object per line")
    parser.add_argument("--list-formats", action="store_true", help="list all formats")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for an unknown format or an invalid file of tools."""
    if options.list_formats:
        sys.stdout.write("".join(f"{name}\n" for name in FORMATS))
        return 0
    known = _known_format(options.format)
    tools = _tools_in(options.tools) if options.tools else None
    if options.jsonl:
        return _parse_lines(known, tools)
    stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="")
    answer = _parsed(iter(lambda: stdin.read(_CHUNK), ""), tools, known)
    _write(answer if answer["errors"] else {key: answer[key] for key in ("content", "calls")})
    return 0


def _parse_lines(format: str, tools: list[FunctionDeclaration] | None) -> int:
    code = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        fields: dict[str, Any] = {}
        try:
            fields = _fields(line)
            answer = _parsed_line(fields, format, tools)
        except ConfigError as error:
            code = 1
            answer = {"content": "", "calls": [], "errors": [f"line {number}: {error}"]}
        _write({"id": fields.get("id"), **answer})
    return code


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigError("not a JSON object")
    return cast("dict[str, Any]", fields)


def _parsed_line(
    fields: dict[str, Any], format: str, tools: list[FunctionDeclaration] | None
) -> dict[str, Any]:
    text, own_format, own_tools = (fields.get(key) for key in ("text", "format", "tools"))
    if not isinstance(text, str):
        raise ConfigError("'text' is missing or not a string")
    known = format if own_format is None else _known_format(own_format)
    # An empty list means the same as no list: the tools are unknown.
    return _parsed(text, _declared(own_tools) if own_tools else tools, known)


def _parsed(
    text: str | Iterator[str], tools: list[FunctionDeclaration] | None, format: str
) -> dict[str, Any]:
    parsed = parse(text, tools, format)
    calls = [{"name": c.name, "arguments": c.arguments} for c in parsed.calls if not c.error]
    errors = [f"{call.name}: {call.error}" for call in parsed.calls if call.error]
    return {"content": parsed.content, "calls": calls, "errors": errors}


def _known_format(name: object) -> str:
    if isinstance(name, str) and (name == "auto" or name in FORMATS):
        return name
    hint = suggestion(str(name), ("auto", *FORMATS))
    raise ConfigError(
        f"unknown format {name!r}{hint}; `windlass parse --list-formats` lists all formats"
    )


def _tools_in(file: Path) -> list[FunctionDeclaration]:
    try:
        return _declared(msgspec.json.decode(file.read_bytes()))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file} is not valid JSON: {error}") from error


def _declared(value: Any) -> list[FunctionDeclaration]:
    """The functions of a list of tools, of one tool, or of a request with `tools`."""
    if isinstance(value, dict) and "tools" in value:
        value = cast("dict[str, Any]", value)["tools"]
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    if not all(isinstance(item, Mapping) for item in items):
        raise ConfigError("tools must be a list of objects")
    found = [in_json_schema(each) for item in items for each in declarations_in(item)]
    return [each for each in found if isinstance(each, FunctionDeclaration)]


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer, enc_hook=str) + b"\n")
    sys.stdout.buffer.flush()
