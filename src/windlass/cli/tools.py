"""`windlass tools`: lists tools, shows their schemas, and calls them manually."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from windlass.cli.arguments import add_action, add_tools_option, completes_files
from windlass.cli.model_selection import find_tools
from windlass.cli.output import CommandOutput, own_stdout, table
from windlass.content import FunctionCall, FunctionDeclaration, new_call_id
from windlass.errors import ConfigError
from windlass.gateway.config.problems import nearest
from windlass.loop.executor import ToolExecutor, outside_a_run
from windlass.loop.policy import Policy
from windlass.loop.round import answers_to
from windlass.reply import ToolAnswer
from windlass.tool import Tool
from windlass.wires.chat import write_request as openai_wire
from windlass.wires.gemini import write_request as gemini_wire

DESCRIPTION = """\
Lists, shows and calls the tools of files and modules. Without files, the tools are those of
windlass.toml in this directory, otherwise those of WINDLASS_TOOLS. No model is called."""

EPILOG = """\
examples:
  windlass tools list tools.py
  windlass tools schema get_weather --format openai
  windlass tools call get_weather '{"city": "Paris"}'
  windlass tools call get_weather --arg city=Paris --tools tools.py"""

LIST_EPILOG = """\
examples:
  windlass tools list
  windlass tools list tools.py acme.tools --json"""

SCHEMA_EPILOG = """\
examples:
  windlass tools schema get_weather
  windlass tools schema --format openai > tools.json    # all tools, for windlass parse --tools

formats:
  json     the JSON Schema of the parameters (default)
  openai   {"type": "function", "function": {"name", "description", "parameters"}}
  gemini   {"name", "description", "parametersJsonSchema"}"""

CALL_EPILOG = """\
examples:
  windlass tools call get_weather '{"city": "Paris"}'
  windlass tools call get_weather --arg city=Paris --arg unit=f
  windlass tools call report --arg 'rows=[1, 2, 3]' --json

The arguments are validated like those of a model, and the timeout of the tool applies. The result
goes to stdout: strings unchanged, other values as JSON. An error goes to stderr, and the exit code
is 1. A tool that needs approval runs without a question."""

SchemaFormat = Literal["json", "openai", "gemini"]
FORMATS: tuple[SchemaFormat, ...] = ("json", "openai", "gemini")
Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    listing = _action(actions, "list", "list tools", LIST_EPILOG)
    completes_files(
        listing.add_argument("files", nargs="*", metavar="FILE", help="tools.py, or acme.tools")
    )
    listing.add_argument("--json", action="store_true", help="print a JSON list")

    schema = _action(
        actions, "schema", "print the declaration that a model receives", SCHEMA_EPILOG
    )
    schema.add_argument("name", nargs="?", metavar="NAME", help="the tool (default: all tools)")
    schema.add_argument("--format", choices=FORMATS, default="json", help="default: json")

    call = _action(actions, "call", "call a tool", CALL_EPILOG)
    call.add_argument("name", metavar="NAME", help="the tool")
    call.add_argument("arguments", nargs="?", metavar="JSON", help="an object with the arguments")
    call.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="pairs",
        metavar="NAME=VALUE",
        help="one argument; can be repeated",
    )
    call.add_argument("--json", action="store_true", help="print strings as JSON, too")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for unknown files and tools, and for invalid arguments."""
    with own_stdout() as output:
        tools = find_tools([*options.tools, *getattr(options, "files", ())])
        match options.action:
            case "list":
                return _list(tools, output, as_json=options.json)
            case "schema":
                return _schema(tools, options.name, options.format, output)
            case _:
                tool = _named(options.name, tools)
                json = arguments_json(tool, options.arguments, options.pairs)
                return _call(tool, json, output, as_json=options.json)


def _action(actions: Any, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    action = add_action(actions, name, text, epilog)
    add_tools_option(action)
    return action


def _list(tools: dict[str, Tool], output: CommandOutput, *, as_json: bool) -> int:
    declared = [_declaration(tool) for tool in tools.values()]
    if as_json:
        output.json(declared)
        return 0
    rows = [(each.name, each.description, _parameters(each.parameters)) for each in declared]
    output.text(table(("NAME", "DESCRIPTION", "PARAMETERS"), rows))
    return 0


def _schema(
    tools: dict[str, Tool], name: str | None, format: SchemaFormat, output: CommandOutput
) -> int:
    if name is None:
        output.json([_in_format(tool, format) for tool in tools.values()])
    else:
        output.json(_in_format(_named(name, tools), format))
    return 0


def _call(tool: Tool, json: str, output: CommandOutput, *, as_json: bool) -> int:
    if not tool.runnable:
        raise ConfigError(f"{tool.name} is only declared: there is no function to call")
    answer = asyncio.run(_executed(tool, json))
    response = answer.response
    if response.error is not None:
        where = " See the traceback above." if answer.crashed else ""
        sys.stderr.write(f"windlass: {tool.name}: {response.error}{where}\n")
        return 1
    if as_json:
        output.json(response.output)
    else:
        output.text(f"{response.text}\n")
    return 0


async def _executed(tool: Tool, json: str) -> ToolAnswer:
    call = FunctionCall(tool.name, json, new_call_id())
    tools = {tool.name: tool}
    async with outside_a_run("manual", tools, Policy(), approve=lambda _: True) as context:
        (answer,) = await answers_to([call], ToolExecutor(), context)
    return answer


def _named(name: str, tools: dict[str, Tool]) -> Tool:
    if name not in tools:
        raise ConfigError(f"unknown tool {name!r}{nearest(name, tools)}")
    return tools[name]


def _declaration(tool: Tool) -> FunctionDeclaration:
    if isinstance(tool.declaration, FunctionDeclaration):
        return tool.declaration
    return FunctionDeclaration(tool.name, "The search of the provider.")


def _in_format(tool: Tool, format: SchemaFormat) -> Json:
    match format:
        case "json":
            return _declaration(tool).parameters
        case "openai":
            encoded = openai_wire.encode_tools((tool.declaration,))
            if encoded is None:
                raise ConfigError(
                    f"{tool.name} is a tool of the provider: OpenAI has no format for it"
                )
            return msgspec.json.decode(encoded, type=list[Json])[0]
        case "gemini":
            (made,) = msgspec.json.decode(
                gemini_wire.encode_tools((tool.declaration,), "json"), type=list[Json]
            )
            return made.get("functionDeclarations", [made])[0]


def _parameters(schema: Json) -> str:
    """`city, unit?`: an optional parameter has a question mark."""
    required = schema.get("required", ())
    names = (
        f"{name}: {_type_name(each)}" if name in required else f"{name}?: {_type_name(each)}"
        for name, each in schema.get("properties", {}).items()
    )
    return ", ".join(names)


def _type_name(schema: Any) -> str:
    match schema:
        case {"enum": [*values]}:
            return "|".join(map(str, values))
        case {"const": value}:
            return str(value)
        case {"anyOf": [*choices]}:
            return "|".join(map(_type_name, choices))
        case {"type": "array", "items": items}:
            return f"{_type_name(items)}[]"
        case {"type": str(name)}:
            return name
        case {"type": [*names]}:
            return "|".join(map(str, names))
        case _:
            return "any"


def arguments_json(tool: Tool, text: str | None, pairs: Sequence[str]) -> str:
    """The JSON text of the arguments, with each `name=value` added.

    A value is text if the tool takes text, otherwise JSON if it is valid JSON. Raises
    `ConfigError` for an invalid pair, and for pairs with a text that is not a JSON object.
    """
    if not pairs:
        return text or "{}"
    values = _object(text) if text else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ConfigError(f"--arg must be name=value, such as city=Paris, not {pair!r}")
        values[name] = value if _takes_text(tool, name) else _read(value)
    return msgspec.json.encode(values).decode()


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"with --arg, the arguments must be a JSON object: {error}") from error


def _takes_text(tool: Tool, name: str) -> bool:
    declaration = tool.declaration
    if not isinstance(declaration, FunctionDeclaration):
        return True
    schema: Any = declaration.parameters.get("properties", {}).get(name, {})
    match schema:
        case {"type": "string"}:
            return True
        case {"enum": [*values]} if values:
            return all(isinstance(value, str) for value in values)
        case _:
            return False


def _read(value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
