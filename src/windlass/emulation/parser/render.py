# ruff: noqa: RUF001 - these characters are intended
"""Writes calls as text in any format, as the models of that format write them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from xml.sax.saxutils import escape

from windlass.emulation.parser.formats import DEFAULT_FORMAT
from windlass.errors import ConfigError
from windlass.jsontext import compact_json

ValueStyle = Literal["json", "encoded", "text", "xml", "python", "gemma", "escape"]


@dataclass(frozen=True, slots=True)
class Template:
    """The text of a format's calls.

    `call` has the slots `$name`, `$quoted` (the name as JSON), `$arguments` and `$index`.
    `parameter` has the slots `$key`, `$value` and `$text` (true if the value is a string).
    """

    call: str
    before: str = ""
    after: str = ""
    between: str = "\n"
    values: ValueStyle = "json"
    parameter: str = ""


_OBJECT = '{"name": $quoted, "arguments": $arguments}'
_PARAMETERS = '{"name": $quoted, "parameters": $arguments}'
_HERMES = Template(f"<tool_call>\n{_OBJECT}\n</tool_call>")
_FUNCTION = "<function=$name>\n$arguments</function>"
_PARAMETER = "<parameter=$key>\n$value\n</parameter>\n"
_INVOKE = '<invoke name="$name">\n$arguments</invoke>'
_NAMED = '<parameter name="$key">$value</parameter>\n'
_PYTHON = Template("$name($arguments)", "[", "]", ", ", "python")
_FUNCTOOLS = Template(_OBJECT, " functools[", "]", ", ")
_LIST = Template(_OBJECT, "[", "]", ", ")
_TAGGED_LIST = Template(_OBJECT, "<tool_calls>[", "]</tool_calls>", ", ")
_MISTRAL_LIST = Template(_OBJECT, "[TOOL_CALLS][", "]", ", ")

TEMPLATES: dict[str, Template] = {
    "windlass": _HERMES,
    "hermes-json": _HERMES,
    "granite4": _HERMES,
    "qwen3-coder-xml": Template(
        f"<tool_call>\n{_FUNCTION}\n</tool_call>", values="text", parameter=_PARAMETER
    ),
    "openhands-function": Template(_FUNCTION, values="text", parameter=_PARAMETER),
    "seed-oss": Template(
        f"<seed:tool_call>\n{_FUNCTION}\n</seed:tool_call>", values="text", parameter=_PARAMETER
    ),
    "glm45": Template(
        "<tool_call>$name\n$arguments</tool_call>",
        values="text",
        parameter="<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
    ),
    "anthropic-invoke": Template(
        _INVOKE, "<function_calls>\n", "\n</function_calls>", values="text", parameter=_NAMED
    ),
    "minimax-m2": Template(
        _INVOKE, "<minimax:tool_call>\n", "\n</minimax:tool_call>", values="text", parameter=_NAMED
    ),
    "deepseek-dsml": Template(
        '<｜DSML｜invoke name="$name">\n$arguments</｜DSML｜invoke>',
        "<｜DSML｜function_calls>\n",
        "\n</｜DSML｜function_calls>",
        values="text",
        parameter='<｜DSML｜parameter name="$key" string="$text">$value</｜DSML｜parameter>\n',
    ),
    "deepseek-v3": Template(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "deepseek-v31": Template(
        "<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "",
    ),
    "kimi-k2": Template(
        "<|tool_call_begin|>functions.$name:$index"
        "<|tool_call_argument_begin|>$arguments<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "",
    ),
    "gemma4": Template(
        "<|tool_call>call:$name{$arguments}<tool_call|>", between="", values="gemma"
    ),
    "functiongemma": Template(
        "<start_function_call>call:$name{$arguments}<end_function_call>",
        between="",
        values="escape",
    ),
    "harmony": Template(
        "<|start|>assistant<|channel|>commentary to=functions.$name "
        "<|constrain|>json<|message|>$arguments<|call|>",
        between="",
    ),
    "cohere": Template(
        '{"tool_call_id": "$index", "tool_name": $quoted, "parameters": $arguments}',
        "<|START_ACTION|>[\n",
        "\n]<|END_ACTION|>",
        ",\n",
    ),
    "lfm2": Template(
        "$name($arguments)", "<|tool_call_start|>[", "]<|tool_call_end|>", ", ", "python"
    ),
    "llama4-pythonic": Template(
        "$name($arguments)", "<|python_start|>[", "]<|python_end|>", ", ", "python"
    ),
    "pythonic": _PYTHON,
    "olmo3": Template("$name($arguments)", "<function_calls>", "</function_calls>", "\n", "python"),
    "tool_code": Template("$name($arguments)", "```tool_code\n", "\n```", "\n", "python"),
    "llama3-json": Template(_PARAMETERS, "<|python_tag|>", between="; "),
    "mistral": _MISTRAL_LIST,
    "mistral-json": _MISTRAL_LIST,
    "mistral-name-args": Template("[TOOL_CALLS]$name[ARGS]$arguments", between=""),
    "bare-json": Template(_OBJECT),
    "generic-json": Template(_OBJECT),
    "json-array": _LIST,
    "xlam": _LIST,
    "json-fence": Template(f"```json\n{_OBJECT}\n```"),
    "json-fence-action": Template('```json\n{"action": $quoted, "action_input": $arguments}\n```'),
    "json-tool_calls": Template(
        '{"id": "call_$index", "type": "function",'
        ' "function": {"name": $quoted, "arguments": $arguments}}',
        '{"tool_calls": [',
        "]}",
        ", ",
        "encoded",
    ),
    "granite": Template(_OBJECT, "<|tool_call|> [", "]", ", "),
    "granite-20b": Template(f"<function_call> {_OBJECT}"),
    "hunyuan-a13b": _TAGGED_LIST,
    "jamba": _TAGGED_LIST,
    "internlm2": Template(f"<|action_start|><|plugin|>{_PARAMETERS}<|action_end|>", between=""),
    "phi4mini": _FUNCTOOLS,
    "firefunction": _FUNCTOOLS,
    "nemotron": Template(_OBJECT, "<TOOLCALL>[", "]</TOOLCALL>", ", "),
    "functionary": Template(">>>$name\n$arguments"),
    "functionary-v3.1": Template("<function=$name>$arguments</function>", between=""),
    "xml-tool-tag": Template(
        "<$name>\n$arguments</$name>", values="xml", parameter="<$key>$value</$key>\n"
    ),
    "react": Template("Action: $name\nAction Input: $arguments"),
    "request-function-call": Template("Request function call: $name\nParameters:\n$arguments"),
    "langchain-xml": Template("<tool>$name</tool><tool_input>$arguments</tool_input>"),
}


_SLOT = re.compile(r"\$(\w+)")
_PLAIN_KEY = re.compile(r"[^\W\d][\w$.-]*")


def render_call(name: str, arguments: Mapping[str, Any], format: str = DEFAULT_FORMAT) -> str:
    """Returns the text of one call. Raises `ConfigError` for a format without a template."""
    return render_calls([(name, arguments)], format)


def render_calls(
    calls: Iterable[tuple[str, Mapping[str, Any]]], format: str = DEFAULT_FORMAT
) -> str:
    """Returns the text of several calls. Raises `ConfigError` for a format without a template."""
    if format not in TEMPLATES:
        raise ConfigError(
            f"cannot write calls in the format {format!r} (possible: {', '.join(TEMPLATES)})"
        )
    template = TEMPLATES[format]
    made = [_call(template, index, name, args) for index, (name, args) in enumerate(calls)]
    return f"{template.before}{template.between.join(made)}{template.after}" if made else ""


def _call(template: Template, index: int, name: str, arguments: Mapping[str, Any]) -> str:
    slots = {
        "name": name,
        "quoted": compact_json(name),
        "index": str(index),
        "arguments": _arguments(template, arguments),
    }
    return _filled(template.call, slots)


def _arguments(template: Template, arguments: Mapping[str, Any]) -> str:
    if template.parameter:
        return "".join(_parameter(template, key, value) for key, value in arguments.items())
    return _WHOLE[template.values](arguments)


def _parameter(template: Template, key: str, value: object) -> str:
    text = value if isinstance(value, str) else compact_json(value)
    if template.values == "xml":
        text = escape(text)
    slots = {"key": key, "value": text, "text": compact_json(isinstance(value, str))}
    return _filled(template.parameter, slots)


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


_WHOLE: dict[ValueStyle, Callable[[Mapping[str, Any]], str]] = {
    "json": compact_json,
    "encoded": lambda arguments: compact_json(compact_json(arguments)),
    "python": lambda arguments: ", ".join(
        f"{key}={_python(value)}" for key, value in arguments.items()
    ),
    "gemma": lambda arguments: _gemma_members(arguments, '<|"|>'),
    "escape": lambda arguments: _gemma_members(arguments, "<escape>"),
}
