"""Reads and validates the body of a Messages request. Pure.

Betas, fields and kinds of blocks and tools that Windlass does not know are never an error: they
change with every release of Anthropic's clients. The exception is `thread`, with which a client
sends only a part of its conversation: clients repeat a refused request without it.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.content import Message
from windlass.errors import ConfigError
from windlass.model import AUTO, NONE, Settings, ToolChoice
from windlass.request import ClientTools, PartKind, PartPlace, RequestLimits, RunRequest
from windlass.tool import Tool
from windlass.wires.body import Fields, fields_of
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
from windlass.wires.messages.messages import decode_messages
from windlass.wires.messages.write_events import NO_THREADS, Form, ShownThoughts
from windlass.wires.messages.write_request import BETAS, BUDGETS

log = logging.getLogger("windlass.wires")

WIRE = "messages"
EarlierText: TypeAlias = Literal["include", "omit"]
"""Whether an answer contains the text of earlier rounds."""
CONNECTOR_BETA = "mcp-client-"
"""The start of the beta of clients that understand `mcp_tool_use` blocks."""
_KNOWN_FIELDS = frozenset(
    {
        "model",
        "messages",
        "system",
        "max_tokens",
        "tools",
        "tool_choice",
        "stop_sequences",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "output_format",
        "mcp_servers",
    }
)
"""`thinking` and `output_config` are settings, too, but a model of this wire gets them unchanged.
`mcp_servers` are not ours to call."""
_EMPTY_LIST = re.compile(rb"\s*\[\s*\]\s*")


def betas_of(headers: Iterable[str]) -> tuple[str, ...]:
    """The betas in the values of the `anthropic-beta` headers."""
    names = (name.strip() for value in headers for name in value.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def read_request(
    body: bytes,
    limits: RequestLimits,
    earlier_text: EarlierText = "include",
    betas: Sequence[str] = (),
    *,
    counting: bool = False,
) -> RunRequest:
    """Reads a request. Raises `InvalidRequest`, which names the field.

    `earlier_text` is the gateway's setting. A JSON answer never contains text of earlier rounds,
    since that would make it invalid JSON. `counting`: the request only counts tokens, so that
    `max_tokens` may be missing.
    """
    fields = fields_of(body, limits.max_json_depth)
    model = fields.value("model", str)
    if not model:
        raise InvalidRequest("model: Field required; name a model", "model", "missing_field")
    if fields.any("thread") is not None:
        raise InvalidRequest(
            "thread: not supported by this gateway; send the whole conversation without it",
            "thread",
            NO_THREADS,
        )
    messages, parts = _messages(fields, limits)
    tools = fields.raw("tools")
    has_tools = bool(tools) and _EMPTY_LIST.fullmatch(tools) is None
    choice, parallel = _tool_choice(fields) if has_tools else (AUTO, None)
    extra = {name: fields.any(name) for name in fields.names - _KNOWN_FIELDS}
    if betas:
        extra[BETAS] = list(betas)
    return RunRequest(
        wire=WIRE,
        model=model,
        messages=messages,
        tools=ClientTools(tools, read_tools) if has_tools else ClientTools(),
        tool_choice=choice,
        parallel_tool_calls=parallel,
        settings=_settings(fields, counting),
        extra={name: value for name, value in extra.items() if value is not None},
        live=fields.value("stream", bool) or False,
        parts=parts,
        answer=msgspec.to_builtins(_form(fields, betas, earlier_text)),
        size=len(body),
    )


def _form(fields: Fields, betas: Sequence[str], earlier_text: EarlierText) -> Form:
    thoughts: ShownThoughts = "full"
    match fields.any("thinking"):
        case {"type": "disabled"}:
            thoughts = "none"
        case {"display": "omitted"}:
            thoughts = "signature"
        case _:
            pass
    return Form(
        server_tools=any(each.startswith(CONNECTOR_BETA) for each in betas),
        thoughts=thoughts,
        all_text=earlier_text == "include" and _schema(fields) is None,
    )


def _messages(
    fields: Fields, limits: RequestLimits
) -> tuple[tuple[Message, ...], tuple[PartPlace, ...]]:
    messages = as_list(fields.any("messages"))
    if not messages:
        raise InvalidRequest("messages: at least one message is required", "messages")
    if len(messages) > limits.max_messages:
        raise InvalidRequest(
            f"messages: {len(messages)} messages exceed the limit of {limits.max_messages}",
            "messages",
        )
    try:
        # A result may answer a call of a hidden turn, which the gateway restores.
        decoded = decode_messages(messages, fields.any("system"), whole=False)
    except ConfigError as error:
        place = re.match(r"[\w.\[\]]+", str(error))
        raise InvalidRequest(str(error), place[0] if place else "messages") from None
    return decoded, tuple(_part_places(messages))


def _part_places(messages: Sequence[Any]) -> Iterable[PartPlace]:
    """The media in the client's messages."""
    for index, value in enumerate(messages):
        content = as_list((as_object(value) or {}).get("content")) or ()
        for number, item in enumerate(content):
            place, block = f"messages[{index}].content[{number}]", as_object(item) or {}
            if block.get("type") == "tool_result":
                for position, inner in enumerate(as_list(block.get("content")) or ()):
                    yield from _part_place(inner, f"{place}.content[{position}]", in_result=True)
            else:
                yield from _part_place(block, place, in_result=False)


_KINDS: dict[str, PartKind] = {"image": "image", "document": "file"}


def _part_place(value: object, place: str, *, in_result: bool) -> Iterable[PartPlace]:
    block = as_object(value) or {}
    kind = _KINDS.get(as_text(block.get("type")) or "")
    if kind is None:
        return
    source = as_text((as_object(block.get("source")) or {}).get("type")) or ""
    if source in ("text", "content"):
        return  # a document as text
    yield PartPlace(place, block["type"], "other" if source == "file" else kind, in_result)


def _tool_choice(fields: Fields) -> tuple[ToolChoice, bool | None]:
    """The choice, and whether several calls in one turn are allowed."""
    value = fields.any("tool_choice")
    choice = as_object(value)
    if value is None:
        return AUTO, None
    parallel = False if (choice or {}).get("disable_parallel_tool_use") is True else None
    match choice:
        case {"type": "auto"}:
            return AUTO, parallel
        case {"type": "none"}:
            return NONE, parallel
        case {"type": "any"}:
            return ToolChoice("required"), parallel
        case {"type": "tool", "name": str(name)} if name:
            return ToolChoice("required", (name,)), parallel
        case _:
            raise InvalidRequest(
                "tool_choice: must be of type 'auto', 'any', 'none', or 'tool' with a name",
                "tool_choice",
            )


def _settings(fields: Fields, counting: bool) -> Settings:
    return Settings(
        temperature=fields.value("temperature", float),
        top_p=fields.value("top_p", float),
        top_k=fields.value("top_k", int),
        max_tokens=_max_tokens(fields, counting),
        stop=_stop(fields),
        reasoning_effort=_effort(fields),
        response_schema=_schema(fields),
    )


def _max_tokens(fields: Fields, counting: bool) -> int | None:
    limit = fields.value("max_tokens", int)
    if limit is None and not counting:
        raise InvalidRequest("max_tokens: Field required", "max_tokens", "missing_field")
    if limit is not None and limit < 0:
        raise InvalidRequest("max_tokens: must be at least 1", "max_tokens")
    return 1 if limit == 0 else limit  # 0 only fills Anthropic's cache


def _stop(fields: Fields) -> tuple[str, ...] | None:
    value = fields.any("stop_sequences")
    if value is None:
        return None
    texts = as_list(value)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InvalidRequest("stop_sequences: must be a list of strings", "stop_sequences")
    return tuple(texts) or None


def _effort(fields: Fields) -> str | None:
    """How much the model should think, in the terms of `Settings`."""
    effort = as_text((as_object(fields.any("output_config")) or {}).get("effort"))
    match fields.any("thinking"):
        case {"type": "disabled"}:
            return "none"
        case {"type": "enabled", "budget_tokens": int(budget)} if effort is None:
            return next((word for word, most in BUDGETS.items() if budget <= most), "high")
        case _:
            return effort


def _schema(fields: Fields) -> JsonObject | None:
    output = as_object(fields.any("output_config")) or {}
    for value in (output.get("format"), fields.any("output_format")):
        match value:
            case {"type": "json_schema", "schema": schema} if (
                found := as_object(schema)
            ) is not None:
                return found
            case _:
                pass
    return None


def read_tools(data: bytes, limits: RequestLimits) -> list[Tool]:
    """The client's tools. Raises `InvalidRequest`, which names the field.

    Tools that Anthropic runs or defines itself (`web_search_20250305`) are skipped and logged.
    """
    tools: dict[str, Tool] = {}
    hosted: list[str] = []
    for index, item in enumerate(tool_entries(data, limits)):
        place = f"tools[{index}]"
        fields = as_object(item)
        if fields is None:
            raise invalid_tool(place, "must be an object")
        kind = fields.get("type")
        if kind not in (None, "custom"):
            hosted.append(str(kind))
            continue
        add_tool(tools, _tool(fields, place), place)
    check_number_of_tools(tools, limits)
    if hosted:
        log.info("skipping hosted tools of the request: %s", ", ".join(sorted(set(hosted))))
    return list(tools.values())


def _tool(fields: JsonObject, place: str) -> Tool:
    check_tool_texts(fields, place)
    schema = as_object(fields.get("input_schema"))
    if schema is None:
        raise invalid_tool(f"{place}.input_schema", "must be a JSON Schema")
    declared: JsonObject = {
        "name": fields["name"],
        "description": fields.get("description") or "",
        "parameters": schema,
    }
    if isinstance(fields.get("strict"), bool):
        declared["strict"] = fields["strict"]
    return declared_tool(declared, place, "input_schema")
