"""render"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from xml.sax.saxutils import escape

from windlass.emulation.parser.formats import DEFAULT_FORMAT
from windlass.errors import ConfigError
from windlass.jsontext import compact_json

# ruff: noqa: RUF001 - the bars are DeepSeek's own


Values = Literal["json", "encoded", "text", "xml", "python", "gemma", "escape"]


@dataclass(frozen=True, slots=True)
class Written:
    call: str
    before: str = ""
    after: str = ""
    between: str = "\n"
    values: Values = "json"
    parameter: str = ""


_OBJECT = '{"name": $quoted, "arguments": $arguments}'
_PARAMETERS = '{"name": $quoted, "parameters": $arguments}'
_HERMES = Written(f"<tool_call>\n{_OBJECT}\n</tool_call>")
_FUNCTION = "<function=$name>\n$arguments</function>"
_PARAMETER = "<parameter=$key>\n$value\n</parameter>\n"
_INVOKE = '<invoke name="$name">\n$arguments</invoke>'
_NAMED = '<parameter name="$key">$value</parameter>\n'
_PYTHON = Written("$name($arguments)", "[", "]", ", ", "python")
_FUNCTOOLS = Written(_OBJECT, " functools[", "]", ", ")
_LIST = Written(_OBJECT, "[", "]", ", ")
_TAGGED_LIST = Written(_OBJECT, "<tool_calls>[", "]</tool_calls>", ", ")
_MISTRAL_LIST = Written(_OBJECT, "[TOOL_CALLS][", "]", ", ")

WRITTEN: dict[str, Written] = {
    "windlass": _HERMES,
    "hermes-json": _HERMES,
    "granite4": _HERMES,
    "qwen3-coder-xml": Written(
        f"<tool_call>\n{_FUNCTION}\n</tool_call>", values="text", parameter=_PARAMETER
    ),
    "openhands-function": Written(_FUNCTION, values="text", parameter=_PARAMETER),
    "seed-oss": Written(
        f"<seed:tool_call>\n{_FUNCTION}\n</seed:tool_call>", values="text", parameter=_PARAMETER
    ),
    "glm45": Written(
        "<tool_call>$name\n$arguments</tool_call>",
        values="text",
        parameter="<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
    ),
    "anthropic-invoke": Written(
        _INVOKE, "<function_calls>\n", "\n</function_calls>", values="text", parameter=_NAMED
    ),
    "minimax-m2": Written(
        _INVOKE, "<minimax:tool_call>\n", "\n</minimax:tool_call>", values="text", parameter=_NAMED
    ),
    "deepseek-dsml": Written(
        '<｜DSML｜invoke name="$name">\n$arguments</｜DSML｜invoke>',
        "<｜DSML｜function_calls>\n",
        "\n</｜DSML｜function_calls>",
        values="text",
        parameter='<｜DSML｜parameter name="$key" string="$text">$value</｜DSML｜parameter>\n',
    ),
    "deepseek-v3": Written(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "deepseek-v31": Written(
        "<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "",
    ),
    "kimi-k2": Written(
        "<|tool_call_begin|>functions.$name:$index"
        "<|tool_call_argument_begin|>$arguments<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "",
    ),
    "gemma4": Written("<|tool_call>call:$name{$arguments}<tool_call|>", between="", values="gemma"),
    "functiongemma": Written(
        "<start_function_call>call:$name{$arguments}<end_function_call>",
        between="",
        values="escape",
    ),
    "harmony": Written(
        "<|start|>assistant<|channel|>commentary to=functions.$name "
        "<|constrain|>json<|message|>$arguments<|call|>",
        between="",
    ),
    "cohere": Written(
        '{"tool_call_id": "$index", "tool_name": $quoted, "parameters": $arguments}',
        "<|START_ACTION|>[\n",
        "\n]<|END_ACTION|>",
        ",\n",
    ),
    "lfm2": Written(
        "$name($arguments)", "<|tool_call_start|>[", "]<|tool_call_end|>", ", ", "python"
    ),
    "llama4-pythonic": Written(
        "$name($arguments)", "<|python_start|>[", "]<|python_end|>", ", ", "python"
    ),
    "pythonic": _PYTHON,
    "olmo3": Written("$name($arguments)", "<function_calls>", "</function_calls>", "\n", "python"),
    "tool_code": Written("$name($arguments)", "```tool_code\n", "\n```", "\n", "python"),
    "llama3-json": Written(_PARAMETERS, "<|python_tag|>", between="; "),
    "mistral": _MISTRAL_LIST,
    "mistral-json": _MISTRAL_LIST,
    "mistral-name-args": Written("[TOOL_CALLS]$name[ARGS]$arguments", between=""),
    "bare-json": Written(_OBJECT),
    "generic-json": Written(_OBJECT),
    "json-array": _LIST,
    "xlam": _LIST,
    "json-fence": Written(f"```json\n{_OBJECT}\n```"),
    "json-fence-action": Written('```json\n{"action": $quoted, "action_input": $arguments}\n```'),
    "json-tool_calls": Written(
        '{"id": "call_$index", "type": "function",'
        ' "function": {"name": $quoted, "arguments": $arguments}}',
        '{"tool_calls": [',
        "]}",
        ", ",
        "encoded",
    ),
    "granite": Written(_OBJECT, "<|tool_call|> [", "]", ", "),
    "granite-20b": Written(f"<function_call> {_OBJECT}"),
    "hunyuan-a13b": _TAGGED_LIST,
    "jamba": _TAGGED_LIST,
    "internlm2": Written(f"<|action_start|><|plugin|>{_PARAMETERS}<|action_end|>", between=""),
    "phi4mini": _FUNCTOOLS,
    "firefunction": _FUNCTOOLS,
    "nemotron": Written(_OBJECT, "<TOOLCALL>[", "]</TOOLCALL>", ", "),
    "functionary": Written(">>>$name\n$arguments"),
    "functionary-v3.1": Written("<function=$name>$arguments</function>", between=""),
    "xml-tool-tag": Written(
        "<$name>\n$arguments</$name>", values="xml", parameter="<$key>$value</$key>\n"
    ),
    "react": Written("Action: $name\nAction Input: $arguments"),
    "request-function-call": Written("Request function call: $name\nParameters:\n$arguments"),
    "langchain-xml": Written("<tool>$name</tool><tool_input>$arguments</tool_input>"),
}


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
