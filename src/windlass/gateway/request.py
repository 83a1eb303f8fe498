"""A chat completion's request body, read into the values that a run takes. Pure."""

import re
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from windlass.content import Message
from windlass.gateway.problems import bad_request
from windlass.jsontext import decode_json
from windlass.model import AUTO, Settings, ToolChoice, tool_choice_from
from windlass.models.fields import JsonObject, as_list, as_object
from windlass.models.openai import wire

__all__ = ["ChatRequest", "Limits", "decoded", "read_request"]

T = TypeVar("T")


class Limits(Struct, frozen=True, kw_only=True):
    """How much one request may hold."""

    max_json_depth: int = 64
    max_messages: int = 10_000
    max_tools: int = 128


class ChatRequest(Struct, frozen=True, kw_only=True):
    """What a client asks for. `extra` are the fields that we have no word for."""

    model: str
    messages: tuple[Message, ...]
    tools: bytes = b""
    """The client's tools as they came: lists that come again are not read again."""
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    settings: Settings = Settings()
    extra: JsonObject = {}
    stream: bool = False
    include_usage: bool = False
    include_tool_events: bool = False
    background: bool = False
    chat: str = ""
    """The stored conversation that the messages go on with."""
    size: int = 0
    """Bytes of the body."""


_SETTINGS = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "response_format",
    }
)
_OURS = _SETTINGS | {
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
    "n",
}
_NO_SETTINGS = Settings()
_CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_split = msgspec.json.Decoder(dict[str, Raw]).decode


def read_request(body: bytes, limits: Limits) -> ChatRequest:
    """The request. Raises `Refused`, which names the field, for what cannot be one."""
    fields = _fields(body, limits)
    model = fields.value("model", str)
    if not model:
        raise bad_request("model: missing; say which model is asked", "model", "missing_field")
    if fields.value("n", int) not in (None, 1):
        raise bad_request("n: one answer a request is served; leave n out", "n")
    options = cast("JsonObject", fields.value("stream_options", dict) or {})
    return ChatRequest(
        model=model,
        messages=_messages(fields, limits),
        tools=fields.tools(),
        tool_choice=_tool_choice(fields),
        parallel_tool_calls=fields.value("parallel_tool_calls", bool),
        settings=_settings(fields),
        extra=fields.others(),
        stream=fields.value("stream", bool) or False,
        include_usage=options.get("include_usage") is True,
        include_tool_events=options.get("include_tool_events") is True,
        background=fields.value("background", bool) or False,
        chat=_chat(fields),
        size=len(body),
    )


class _Fields:
    """The top-level fields of a body, each decoded when it is asked for."""

    def __init__(self, raw: Mapping[str, Raw], max_depth: int) -> None:
        self._raw, self._max_depth = raw, max_depth
        self.names = raw.keys()

    def value(self, name: str, kind: type[T]) -> T | None:
        """The field's value; None if it is absent or null. Raises `Refused` for another type."""
        value = self.any(name)
        if kind is float and type(value) in (int, float):
            value = _finite(value, name)
        elif kind is int and type(value) is float and value.is_integer():
            value = int(value)  # JSON makes no difference between 1 and 1.0
        if value is None or type(value) is kind:
            return value
        raise bad_request(f"{name}: must be {_WORDS[kind]}, not {_word(value)}", name)

    def any(self, name: str) -> Any:
        raw = self._raw.get(name)
        return None if raw is None else self._decoded(raw, name)

    def tools(self) -> bytes:
        """`functions` is the older form of `tools`; both are read in one place."""
        for name in ("tools", "functions"):
            raw = bytes(self._raw.get(name, b""))
            if raw and raw != b"null":
                return raw
        return b""

    def others(self) -> JsonObject:
        return {name: self.any(name) for name in self.names - _OURS}

    def _decoded(self, raw: Raw, name: str) -> Any:
        return decoded(bytes(raw), name, self._max_depth)


def decoded(data: bytes, name: str, max_depth: int) -> Any:
    """The value of a field. Raises `Refused`, which names it."""
    try:
        value = decode_json(data)
    except ValueError as error:
        raise bad_request(f"{name}: not valid JSON: {error}", name, "invalid_json") from None
    if type(value) in (dict, list) and _deeper(value, max_depth):
        raise bad_request(f"{name}: nested more than {max_depth} levels deep", name, "too_deep")
    return value


_WORDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def _finite(value: float, name: str) -> float:
    """JSON has no infinity and no NaN, but some writers have."""
    most = sys.float_info.max
    if not -most <= value <= most:
        raise bad_request(f"{name}: must be a number that is not infinite", name)
    return float(value)


def _word(value: object) -> str:
    return _WORDS.get(type(value), "null")


def _fields(body: bytes, limits: Limits) -> _Fields:
    try:
        return _Fields(_split(body), limits.max_json_depth)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            value = decode_json(body)
        except ValueError:
            raise bad_request(f"The body is not valid JSON: {error}", code="invalid_json") from None
    # A writer that breaks the rules in a way that can be put right: half a surrogate pair.
    if not isinstance(value, dict):
        raise bad_request(f"The body must be a JSON object, not {_word(value)}.")
    mended = cast("JsonObject", value)
    return _Fields(
        {name: Raw(msgspec.json.encode(field)) for name, field in mended.items()},
        limits.max_json_depth,
    )


def _deeper(value: object, levels: int) -> bool:
    """Whether containers stand in each other more than `levels` deep. Not by recursion."""
    layer: list[Any] = [value]
    for _ in range(levels):
        inside: list[Any] = []
        for outer in layer:
            if type(outer) is dict:
                inside += cast("JsonObject", outer).values()
            elif type(outer) is list:
                inside += cast("list[Any]", outer)
        if not inside:
            return False
        layer = inside
    return any(type(each) in (dict, list) for each in layer)


def _chat(fields: _Fields) -> str:
    chat = fields.value("chat_id", str) or ""
    if chat and not _CHAT_ID.fullmatch(chat):
        raise bad_request("chat_id: must be 1 to 64 letters, digits, `-` and `_`", "chat_id")
    return chat


def _messages(fields: _Fields, limits: Limits) -> tuple[Message, ...]:
    messages = as_list(fields.any("messages"))
    if not messages:
        raise bad_request("messages: must be a list with at least one message", "messages")
    if len(messages) > limits.max_messages:
        raise bad_request(f"messages: more than {limits.max_messages}", "messages")
    # What a chat goes on with may answer calls that stand in the chat.
    return _in_call_order(wire.decode_messages(messages, whole=not _chat(fields)))


def _in_call_order(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A client may send its results in any order; some services match them by position."""
    ordered = list(messages)
    for place, (turn, results) in enumerate(pairwise(messages), start=1):
        if results.role == "tool" and len(results.parts) > 1:
            places = {call.id: number for number, call in enumerate(turn.calls)}
            parts = sorted(results.responses, key=lambda result: places.get(result.id, len(places)))
            ordered[place] = Message("tool", tuple(parts), results.extra)
    return tuple(ordered)


def _tool_choice(fields: _Fields) -> ToolChoice:
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
            return ToolChoice(mode, _allowed(allowed))
        case _:
            raise bad_request(
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
                raise bad_request(f"{place}: must name a function", place)
    return tuple(names)


def _settings(fields: _Fields) -> Settings:
    if fields.names.isdisjoint(_SETTINGS):
        return _NO_SETTINGS
    schema, name, strict = _response_format(fields)
    return Settings(
        temperature=fields.value("temperature", float),
        top_p=fields.value("top_p", float),
        top_k=fields.value("top_k", int),
        max_tokens=_max_tokens(fields),
        stop=_stop(fields),
        seed=fields.value("seed", int),
        response_schema=schema,
        response_name=name,
        response_strict=strict,
    )


def _max_tokens(fields: _Fields) -> int | None:
    """`max_tokens` is the older name."""
    for name in ("max_completion_tokens", "max_tokens"):
        limit = fields.value(name, int)
        if limit is not None and limit < 1:
            raise bad_request(f"{name}: must be at least 1", name)
        if limit is not None:
            return limit
    return None


def _stop(fields: _Fields) -> tuple[str, ...] | None:
    stop = fields.any("stop")
    if stop is None:
        return None
    texts: list[Any] = as_list(stop) or [stop]
    if not all(isinstance(text, str) for text in texts):
        raise bad_request("stop: must be a text or a list of texts", "stop")
    return tuple(texts)


def _response_format(fields: _Fields) -> tuple[JsonObject | None, str | None, bool | None]:
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
            raise bad_request(
                "response_format: must be of type 'text', 'json_object',"
                " or 'json_schema' with a json_schema.schema",
                "response_format",
            )
