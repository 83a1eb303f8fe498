"""`windlass tools`: lists tools, shows their schemas, and calls them manually."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from windlass.cli.arguments import completes_files
from windlass.cli.model_selection import find_tools
from windlass.cli.output import Output, own_stdout, table
from windlass.content import FunctionCall, FunctionDeclaration, new_call_id
from windlass.errors import ConfigError
from windlass.gateway.config.problems import nearest
from windlass.loop.executor import ToolExecutor
from windlass.loop.outside import outside_a_run
from windlass.loop.policy import Policy
from windlass.loop.round import answers_to
from windlass.reply import ToolAnswer
from windlass.tool import Tool
from windlass.wires.chat import write_request as openai_wire
from windlass.wires.gemini import write_request as gemini_wire

DESCRIPTION = """\
Works with the tools of files and modules. Without any named, they are those of the windlass.toml
here, else those of WINDLASS_TOOLS. No model is called."""

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
  windlass tools schema --format openai > tools.json    # of all, for windlass parse --tools

formats:
  json     the JSON Schema of the parameters (default)
  openai   {"type": "function", "function": {"name", "description", "parameters"}}
  gemini   {"name", "description", "parametersJsonSchema"}"""

CALL_EPILOG = """\
examples:
  windlass tools call get_weather '{"city": "Paris"}'
  windlass tools call get_weather --arg city=Paris --arg unit=f
  windlass tools call report --arg 'rows=[1, 2, 3]' --json

The arguments are checked as a model's are, and the tool's own timeout holds. Its result goes to
stdout: a text as it is, other values as JSON. After an error, which goes to stderr, the exit code
is 1. A tool that asks for an approval has it: you are calling it."""

SchemaFormat = Literal["json", "openai", "gemini"]
FORMATS: tuple[SchemaFormat, ...] = ("json", "openai", "gemini")
Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    listing = _action(actions, "list", "say what there is", LIST_EPILOG)
    completes_files(
        listing.add_argument("files", nargs="*", metavar="FILE", help="tools.py, or acme.tools")
    )
    listing.add_argument("--json", action="store_true", help="write a JSON list")

    schema = _action(actions, "schema", "write what a model is told", SCHEMA_EPILOG)
    schema.add_argument("name", nargs="?", metavar="NAME", help="the tool (default: a list of all)")
    schema.add_argument("--format", choices=FORMATS, default="json", help="default: json")

    call = _action(actions, "call", "call one", CALL_EPILOG)
    call.add_argument("name", metavar="NAME", help="the tool")
    call.add_argument("arguments", nargs="?", metavar="JSON", help="an object with the arguments")
    call.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="pairs",
        metavar="NAME=VALUE",
        help="one argument; may be given again",
    )
    call.add_argument("--json", action="store_true", help="write texts as JSON too")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for files, names and arguments that are none."""
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


def _action(actions: Any, name: str, said: str, epilog: str) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(
        name,
        help=said,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completes_files(
        action.add_argument(
            "--tools",
            action="append",
            default=[],
            metavar="FILE",
            help="a file or module with tools; may be given again",
        )
    )
    return action


def _list(tools: dict[str, Tool], output: Output, *, as_json: bool) -> int:
    declared = [_declaration(tool) for tool in tools.values()]
    if as_json:
        output.json(declared)
        return 0
    rows = [(each.name, each.description, _parameters(each.parameters)) for each in declared]
    output.text(table(("NAME", "DESCRIPTION", "PARAMETERS"), rows))
    return 0


def _schema(tools: dict[str, Tool], name: str | None, format: SchemaFormat, output: Output) -> int:
    if name is None:
        output.json([_in_format(tool, format) for tool in tools.values()])
    else:
        output.json(_in_format(_named(name, tools), format))
    return 0


def _call(tool: Tool, json: str, output: Output, *, as_json: bool) -> int:
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
        raise ConfigError(f"there is no tool {name!r}{nearest(name, tools)}")
    return tools[name]


def _declaration(tool: Tool) -> FunctionDeclaration:
    if isinstance(tool.declaration, FunctionDeclaration):
        return tool.declaration
    return FunctionDeclaration(tool.name, "The provider's own search.")


def _in_format(tool: Tool, format: SchemaFormat) -> Json:
    match format:
        case "json":
            return _declaration(tool).parameters
        case "openai":
            encoded = openai_wire.encode_tools((tool.declaration,))
            if encoded is None:
                raise ConfigError(f"{tool.name} is the provider's own: OpenAI has no form for it")
            return msgspec.json.decode(encoded, type=list[Json])[0]
        case "gemini":
            (made,) = msgspec.json.decode(
                gemini_wire.encode_tools((tool.declaration,), "json"), type=list[Json]
            )
            return made.get("functionDeclarations", [made])[0]


def _parameters(schema: Json) -> str:
    """`city, unit?`: a parameter that may be left out has a question mark."""
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
    """The arguments: the JSON text as it is, with each `name=value` put into it.

    A value is a text where the tool takes one, else JSON if it can be read as such. Raises
    `ConfigError` for a pair that is none, and for pairs beside a text that is no JSON object.
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
        raise ConfigError(f"beside --arg the arguments must be a JSON object: {error}") from error


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
