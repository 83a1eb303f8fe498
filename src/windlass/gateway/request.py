"""A chat completion's request body, read into the values that a run takes. Pure."""

import re
from itertools import pairwise
from typing import Any, cast

from msgspec import Struct

from windlass.content import Message
from windlass.gateway.answer import Form
from windlass.gateway.config.values import EarlierText
from windlass.gateway.http.body import Fields, fields_of
from windlass.gateway.http.errors import bad_request
from windlass.gateway.parts import PartPlace, part_places, without_legacy_form
from windlass.model import AUTO, Settings, ToolChoice, tool_choice_from
from windlass.wires.chat.messages import decode_messages
from windlass.wires.chat.write_request import LimitName
from windlass.wires.fields import JsonObject, as_list, as_object

__all__ = ["ChatRequest", "Limits", "read_request"]


class Limits(Struct, frozen=True, kw_only=True):
    """How much one request may hold."""

    max_json_depth: int = 64
    max_messages: int = 10_000
    max_tools: int = 128


class ChatRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    replaces: str = ""
    """The run of that conversation whose place this one takes, and that of all after it."""
    legacy_functions: bool = False
    """Whether it has `functions` and not `tools`: its calls are answered in the older form."""
    all_text: bool = True
    """Whether the answer has the text of all rounds, or of the last one alone."""
    parts: tuple[PartPlace, ...] = ()
    """The parts of its messages that are not plain text."""
    size: int = 0
    """Bytes of the body."""

    @property
    def form(self) -> Form:
        """What its answer looks like."""
        return Form(self.legacy_functions, self.all_text)


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
    "replaces",
    "n",
}
_NO_SETTINGS = Settings()
_CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_request(body: bytes, limits: Limits, earlier_text: EarlierText = "include") -> ChatRequest:
    """The request. Raises `Refused`, which names the field, for what cannot be one.

    `earlier_text` is what the gateway does with the text of rounds before the last. An answer in
    JSON has none of it: it would not be JSON with a sentence before it.
    """
    fields = fields_of(body, limits.max_json_depth)
    model = fields.value("model", str)
    if not model:
        raise bad_request("model: missing; say which model is asked", "model", "missing_field")
    if fields.value("n", int) not in (None, 1):
        raise bad_request("n: one answer a request is served; leave n out", "n")
    options = cast("JsonObject", fields.value("stream_options", dict) or {})
    tools, functions = fields.raw("tools"), fields.raw("functions")
    settings = _settings(fields)
    messages, parts = _messages(fields, limits)
    return ChatRequest(
        model=model,
        messages=messages,
        tools=tools or functions,
        legacy_functions=bool(functions and not tools),
        all_text=earlier_text == "include" and settings.response_schema is None,
        parts=parts,
        tool_choice=_tool_choice(fields),
        parallel_tool_calls=fields.value("parallel_tool_calls", bool),
        settings=settings,
        extra={name: fields.any(name) for name in fields.names - _OURS},
        stream=fields.value("stream", bool) or False,
        include_usage=options.get("include_usage") is True,
        include_tool_events=options.get("include_tool_events") is True,
        background=fields.value("background", bool) or False,
        chat=_chat(fields),
        replaces=_replaces(fields),
        size=len(body),
    )


def _chat(fields: Fields) -> str:
    chat = fields.value("chat_id", str) or ""
    if chat and not _CHAT_ID.fullmatch(chat):
        raise bad_request("chat_id: must be 1 to 64 letters, digits, `-` and `_`", "chat_id")
    return chat


def _replaces(fields: Fields) -> str:
    replaces = fields.value("replaces", str) or ""
    if replaces and not _chat(fields):
        raise bad_request("replaces: goes with chat_id, and names a run of that chat", "replaces")
    return replaces


def _messages(fields: Fields, limits: Limits) -> tuple[tuple[Message, ...], tuple[PartPlace, ...]]:
    messages = as_list(fields.any("messages"))
    if not messages:
        raise bad_request("messages: must be a list with at least one message", "messages")
    if len(messages) > limits.max_messages:
        raise bad_request(f"messages: more than {limits.max_messages}", "messages")
    # What a chat goes on with may answer calls that stand in the chat.
    decoded = decode_messages(messages, whole=not _chat(fields))
    return _in_call_order(without_legacy_form(decoded)), part_places(messages)


def _in_call_order(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A client may send its results in any order; some services match them by position."""
    ordered = list(messages)
    for place, (turn, results) in enumerate(pairwise(messages), start=1):
        if results.role == "tool" and len(results.parts) > 1:
            places = {call.id: number for number, call in enumerate(turn.calls)}
            parts = sorted(results.responses, key=lambda result: places.get(result.id, len(places)))
            ordered[place] = Message("tool", tuple(parts), results.extra)
    return tuple(ordered)


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
        response_schema=schema,
        response_name=name,
        response_strict=strict,
    )


def _max_tokens(fields: Fields) -> tuple[int | None, LimitName | None]:
    """The limit, and what the client calls it: `max_tokens` is the older name."""
    names: tuple[LimitName, ...] = ("max_completion_tokens", "max_tokens")
    for name in names:
        limit = fields.value(name, int)
        if limit is not None and limit < 1:
            raise bad_request(f"{name}: must be at least 1", name)
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
        raise bad_request("stop: must be a text or a list of texts", "stop")
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
            raise bad_request(
                "response_format: must be of type 'text', 'json_object',"
                " or 'json_schema' with a json_schema.schema",
                "response_format",
            )
