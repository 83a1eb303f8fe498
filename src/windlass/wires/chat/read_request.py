"""Reads and validates the body of a chat completion request. Pure."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from windlass.content import (
    AnyPart,
    FunctionCall,
    FunctionResponse,
    Message,
    ProviderTool,
)
from windlass.errors import ConfigError
from windlass.model import AUTO, Settings, ToolChoice, tool_choice_from
from windlass.request import ClientTools, PartKind, PartPlace, RequestLimits, RunRequest
from windlass.tool import Tool, as_tools
from windlass.wires.body import Fields, fields_of
from windlass.wires.calls import in_call_order
from windlass.wires.chat.messages import PROVIDER, decode_messages
from windlass.wires.chat.write_events import Form
from windlass.wires.chat.write_request import LimitName
from windlass.wires.client_tools import (
    add_tool,
    check_number_of_tools,
    check_tool_texts,
    declared_tool,
    invalid_tool,
    tool_entries,
)
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

EarlierText = Literal["include", "omit"]
"""Whether an answer contains the text of earlier rounds."""

WIRE = "chat"
_PART_KINDS: dict[str, PartKind] = {"image_url": "image", "input_audio": "audio", "file": "file"}


def part_places(messages: Sequence[Any]) -> tuple[PartPlace, ...]:
    """All parts that are not text, in the client's messages."""
    found: list[PartPlace] = []
    for index, value in enumerate(messages):
        message = as_object(value) or {}
        in_result = message.get("role") in ("tool", "function")
        for number, item in enumerate(as_list(message.get("content")) or ()):
            part = as_object(item) or {}
            name = as_text(part.get("type")) or ""
            if name == "file" and "file_data" not in (as_object(part.get("file")) or {}):
                name = "file_id"
            if name not in ("text", "refusal"):
                place, kind = f"messages[{index}].content[{number}]", _PART_KINDS.get(name, "other")
                found.append(PartPlace(place, name, kind, in_result))
    return tuple(found)


def without_legacy_form(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with older `function_call`s and their results in the current form.

    A `function_call` has no id. It gets a hash of its position and text, so that the id is the same
    in every request.
    """
    if not any(_legacy_marks(part) for message in messages for part in message.parts):
        return messages
    ids: dict[str, str] = {}
    modern: list[Message] = []
    for place, message in enumerate(messages):
        parts = tuple(_modern(part, place, ids) for part in message.parts)
        modern.append(Message(message.role, parts, message.extra))
    return tuple(modern)


def _legacy_marks(part: AnyPart) -> set[str]:
    """The fields that mark a part for the older form."""
    fields: JsonObject = part.extra.get(PROVIDER, {})
    if isinstance(part, FunctionCall):
        return fields.keys() & {"function_call"}
    if isinstance(part, FunctionResponse) and fields.get("role") == "function" and part.id:
        return {"role"}
    return set()


def _modern(part: AnyPart, place: int, ids: dict[str, str]) -> AnyPart:
    """The part in the current form. Adds the new ids of calls to `ids`."""
    marks = _legacy_marks(part)
    if not marks or not isinstance(part, FunctionCall | FunctionResponse):
        return part
    if isinstance(part, FunctionCall):
        written = f"{place} {part.name} {part.json}".encode(errors="replace")
        ids[part.id] = f"call_{hashlib.sha256(written).hexdigest()[:24]}"
    fields: JsonObject = part.extra.get(PROVIDER, {})
    kept = {name: value for name, value in fields.items() if name not in marks}
    extra = {name: value for name, value in part.extra.items() if name != PROVIDER}
    call_id = ids.get(part.id, part.id)
    return replace(part, id=call_id, extra={**extra, **({PROVIDER: kept} if kept else {})})


_SETTINGS = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "response_format",
    }
)
_KNOWN_FIELDS = _SETTINGS | {
    "model",
    "messages",
    "tools",
    "functions",
    "tool_choice",
    "function_call",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "background",
    "chat_id",
    "replaces",
    "n",
}
_NO_SETTINGS = Settings()
_CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_request(
    body: bytes, limits: RequestLimits, earlier_text: EarlierText = "include"
) -> RunRequest:
    """Reads a request. Raises `InvalidRequest`, which names the field.

    `earlier_text` is the gateway's setting. A JSON answer (`response_format`) never contains text
    of earlier rounds, since that would make it invalid JSON.
    """
    fields = fields_of(body, limits.max_json_depth)
    model = fields.value("model", str)
    if not model:
        raise InvalidRequest("model: missing; name a model", "model", "missing_field")
    if fields.value("n", int) not in (None, 1):
        raise InvalidRequest("n: only 1 is supported; omit n", "n")
    tools, functions = fields.raw("tools"), fields.raw("functions")
    settings = _settings(fields)
    messages, parts = _messages(fields, limits)
    options = cast("JsonObject", fields.value("stream_options", dict) or {})
    form = Form(
        legacy_functions=bool(functions and not tools),
        all_text=earlier_text == "include" and settings.response_schema is None,
        include_usage=options.get("include_usage") is True,
        tool_events=options.get("include_tool_events") is True,
    )
    return RunRequest(
        wire=WIRE,
        model=model,
        messages=messages,
        tools=ClientTools(tools or functions, read_tools),
        tool_choice=_tool_choice(fields),
        parallel_tool_calls=fields.value("parallel_tool_calls", bool),
        settings=settings,
        extra={name: fields.any(name) for name in fields.names - _KNOWN_FIELDS},
        live=fields.value("stream", bool) or False,
        background=fields.value("background", bool) or False,
        chat=_chat(fields),
        replaces=_replaces(fields),
        parts=parts,
        answer=msgspec.to_builtins(form),
        size=len(body),
    )


def _chat(fields: Fields) -> str:
    chat = fields.value("chat_id", str) or ""
    if chat and not _CHAT_ID.fullmatch(chat):
        raise InvalidRequest("chat_id: must be 1 to 64 letters, digits, `-` and `_`", "chat_id")
    return chat


def _replaces(fields: Fields) -> str:
    replaces = fields.value("replaces", str) or ""
    if replaces and not _chat(fields):
        raise InvalidRequest("replaces: needs chat_id; it names a run of that chat", "replaces")
    return replaces


def _messages(
    fields: Fields, limits: RequestLimits
) -> tuple[tuple[Message, ...], tuple[PartPlace, ...]]:
    messages = as_list(fields.any("messages"))
    if not messages:
        raise InvalidRequest("messages: must be a list with at least one message", "messages")
    if len(messages) > limits.max_messages:
        raise InvalidRequest(
            f"messages: {len(messages)} messages exceed the limit of {limits.max_messages}",
            "messages",
        )
    # New messages of a chat may contain results for calls of the stored chat.
    decoded = decode_messages(messages, whole=not _chat(fields))
    return in_call_order(without_legacy_form(decoded)), part_places(messages)


def _tool_choice(fields: Fields) -> ToolChoice:
    name = "tool_choice"
    value = fields.any(name)
    if value is None:
        name = "function_call"
        value = fields.any(name)
        if as_object(value):
            value = {"function": value}
    match value:
        case None | "auto":
            return AUTO
        case "none" | "required" | {"function": {"name": str()}}:
            return tool_choice_from(value)
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": tools},
        } if allowed := as_list(tools):
            return ToolChoice(mode, _allowed(allowed), only=mode == "required")
        case _:
            raise InvalidRequest(
                f"{name}: must be 'auto', 'none', 'required' or name a function", name
            )


def _allowed(tools: list[Any]) -> tuple[str, ...]:
    names: list[str] = []
    for index, tool in enumerate(tools):
        match tool:
            case {"function": {"name": str(name)}} | {"name": str(name)}:
                names.append(name)
            case _:
                place = f"tool_choice.allowed_tools.tools[{index}]"
                raise InvalidRequest(f"{place}: must name a function", place)
    return tuple(names)


def _settings(fields: Fields) -> Settings:
    if fields.names.isdisjoint(_SETTINGS):
        return _NO_SETTINGS
    schema, name, strict = _response_format(fields)
    max_tokens, max_tokens_name = _max_tokens(fields)
    return Settings(
        temperature=fields.value("temperature", float),
        top_p=fields.value("top_p", float),
        top_k=fields.value("top_k", int),
        max_tokens=max_tokens,
        max_tokens_name=max_tokens_name,
        stop=_stop(fields),
        seed=fields.value("seed", int),
        presence_penalty=fields.value("presence_penalty", float),
        frequency_penalty=fields.value("frequency_penalty", float),
        logprobs=fields.value("logprobs", bool),
        top_logprobs=fields.value("top_logprobs", int),
        reasoning_effort=fields.value("reasoning_effort", str),
        response_schema=schema,
        response_name=name,
        response_strict=strict,
    )


def _max_tokens(fields: Fields) -> tuple[int | None, LimitName | None]:
    """The limit, and the field that the client used: `max_tokens` is the older name."""
    names: tuple[LimitName, ...] = ("max_completion_tokens", "max_tokens")
    for name in names:
        limit = fields.value(name, int)
        if limit is not None and limit < 1:
            raise InvalidRequest(f"{name}: must be at least 1", name)
        if limit is not None:
            return limit, name
    return None, None


def _stop(fields: Fields) -> tuple[str, ...] | None:
    stop = fields.any("stop")
    if stop is None:
        return None
    listed = as_list(stop)
    texts: list[Any] = [stop] if listed is None else listed
    if not all(isinstance(text, str) for text in texts):
        raise InvalidRequest("stop: must be a string or a list of strings", "stop")
    return tuple(texts) or None


def _response_format(fields: Fields) -> tuple[JsonObject | None, str | None, bool | None]:
    match fields.any("response_format"):
        case None | {"type": "text"}:
            return None, None, None
        case {"type": "json_object"}:
            return {}, None, None
        case {"type": "json_schema", "json_schema": {"schema": value, **rest}} if (
            schema := as_object(value)
        ) is not None:
            name, strict = rest.get("name"), rest.get("strict")
            return (
                schema,
                name if isinstance(name, str) else None,
                strict if isinstance(strict, bool) else None,
            )
        case _:
            raise InvalidRequest(
                "response_format: must be of type 'text', 'json_object',"
                " or 'json_schema' with a json_schema.schema",
                "response_format",
            )


def read_tools(data: bytes, limits: RequestLimits) -> list[Tool]:
    """The client's tools. Raises `InvalidRequest`, which names the field."""
    entries = tool_entries(data, limits)
    check_number_of_tools(entries, limits)
    tools: dict[str, Tool] = {}
    for index, entry in enumerate(entries):
        add_tool(tools, _tool(entry, f"tools[{index}]"), f"tools[{index}].function")
    return list(tools.values())


def _tool(item: Any, place: str) -> Tool:
    fields = as_object(item)
    if fields is None:
        raise invalid_tool(place, "must be an object")
    kind = fields.get("type", "function")
    if "function" in fields or ("name" not in fields and kind == "function" and "type" in fields):
        return _function(fields.get("function"), f"{place}.function")
    if "name" in fields and kind == "function":  # the older `functions`
        return _function(fields, place)
    try:
        (tool,) = as_tools([fields])
    except (ConfigError, ValueError):
        tool = None
    if tool is None or isinstance(tool.declaration, ProviderTool):
        raise invalid_tool(f"{place}.type", f"must be 'function'; {kind!r} is not supported")
    return tool


def _function(value: Any, place: str) -> Tool:
    function = as_object(value)
    if function is None:
        raise invalid_tool(place, "must be an object with a name")
    check_tool_texts(function, place)
    return declared_tool(_without_nulls(function), place)


def _without_nulls(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
