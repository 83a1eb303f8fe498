"""Reads and validates the body of a Responses request. Pure."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec import Struct

from windlass.content import Message
from windlass.jsontext import compact_json
from windlass.model import Settings
from windlass.request import ONE_REQUEST, ClientTools, RequestLimits, RunRequest
from windlass.wires.body import Fields, fields_of
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list, as_object, as_text
from windlass.wires.responses.messages import (
    DecodedInput,
    McpApproval,
    decode_input,
    referenced_ids,
)
from windlass.wires.responses.tools import ToolNames, client_tools, read_tool_choice, read_tools

WIRE = "responses"
MAX_METADATA = 16
ServerTools = Literal["mcp_call", "function_call", "hidden"]
"""How the client sees the calls of server tools."""
_KNOWN_FIELDS = frozenset(
    {
        "background",
        "context_management",
        "conversation",
        "frequency_penalty",
        "generate",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "server_tools",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "type",
        "client_metadata",
        "user",
    }
)
_PASSED_ON = ("prompt_cache_key", "safety_identifier", "service_tier", "truncation", "user")
"""Known fields that a model on the same wire receives, too."""


_LOGPROBS = "message.output_text.logprobs"
_ENCRYPTED = "reasoning.encrypted_content"
_OWN_INCLUDES = (_LOGPROBS, _ENCRYPTED)
"""What this wire handles itself."""


class ResponseOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only a Responses request has. It is stored with the run, in `RunRequest.answer`."""

    echo: JsonObject = {}
    """The fields that the response repeats."""
    previous_response_id: str | None = None
    conversation: str | None = None
    """The id of the stored conversation that the request continues."""
    store: bool = True
    include: tuple[str, ...] = ()
    approvals: tuple[McpApproval, ...] = ()
    """Decisions on calls of an earlier response that wait for approval."""
    server_tools: ServerTools | None = None
    """How the client wants to see server tools; None means the setting of the model."""
    max_tool_calls: int | None = None
    generate: bool = True
    """False in a WebSocket request that only warms up."""
    compact_threshold: int | None = None
    """The number of tokens above which the conversation is compacted."""
    obfuscation: bool = False

    @property
    def encrypted_reasoning(self) -> bool:
        """Whether reasoning items contain the provider's encrypted reasoning."""
        return _ENCRYPTED in self.include


def options_of(answer: JsonObject) -> ResponseOptions:
    """Reads the `answer` of a request that this wire has read."""
    return msgspec.convert(answer, ResponseOptions)


def item_references(body: bytes, limits: RequestLimits) -> tuple[str, ...]:
    """The ids of stored items that the request refers to, to be passed to `read_request`."""
    if b'"item_reference"' not in body:
        return ()
    items = as_list(fields_of(body, limits.max_json_depth).any("input"))
    return referenced_ids(items) if items else ()


def read_request(
    body: bytes, limits: RequestLimits, stored: Mapping[str, JsonObject] | None = None
) -> RunRequest:
    """Reads a request. Raises `InvalidRequest`, which names the field.

    `stored` has the items that the input refers to. `options_of` returns what only this wire has.
    """
    fields = fields_of(body, limits.max_json_depth)
    model = fields.value("model", str)
    if not model:
        raise InvalidRequest("model: missing; name a model", "model", "missing_field")
    previous, conversation = _continued(fields)
    source = _tool_source(fields, body)
    tools = read_tools(source, limits)
    is_whole = not previous and not conversation
    given = _input(fields, limits, tools.names, stored, is_whole=is_whole)
    instructions = _instructions(fields)
    echo = _echo(fields, list(tools.echo))
    if conversation:
        echo["conversation"] = {"id": conversation}
    options = ResponseOptions(
        previous_response_id=previous,
        conversation=conversation,
        store=echo["store"],
        include=_include(fields),
        approvals=given.approvals,
        server_tools=_server_tools(fields),
        max_tool_calls=echo["max_tool_calls"],
        generate=fields.value("generate", bool) is not False,
        compact_threshold=_compact_threshold(fields),
    )
    return RunRequest(
        wire=WIRE,
        model=model,
        messages=(*instructions, *given.messages),
        tools=ClientTools(source, client_tools) if source else ClientTools(),
        tool_choice=read_tool_choice(fields.any("tool_choice"), tools.names),
        parallel_tool_calls=fields.value("parallel_tool_calls", bool),
        settings=_settings(fields),
        extra=_extra(fields),
        live=fields.value("stream", bool) or False,
        background=echo["background"],
        store=options.store,
        approvable=options.store,
        parts=given.parts,
        answer={"echo": echo, **msgspec.to_builtins(options)},
        size=len(body),
    )


def _continued(fields: Fields) -> tuple[str | None, str | None]:
    previous = fields.value("previous_response_id", str) or None
    value = fields.any("conversation")
    conversation = as_text(value) or as_text((as_object(value) or {}).get("id"))
    if value is not None and not conversation:
        raise InvalidRequest("conversation: must be an id, or an object with an id", "conversation")
    if previous and conversation:
        raise InvalidRequest(
            "previous_response_id: Mutually exclusive parameters: 'conversation' and"
            " 'previous_response_id'; send only one of them",
            "previous_response_id",
            "mutually_exclusive_parameters",
        )
    return previous, conversation


def _tool_source(fields: Fields, body: bytes) -> bytes:
    """The JSON text of the tools, with those that the input adds, of which the latest count."""
    source = fields.raw("tools")
    listed = as_list(fields.any("tools") or [])
    if b'"additional_tools"' not in body or listed is None:
        return source
    added: dict[tuple[Any, Any], object] = {}
    for index, item in enumerate(as_list(fields.any("input")) or ()):
        fields_of_item = as_object(item) or {}
        if fields_of_item.get("type") != "additional_tools":
            continue
        place = f"input[{index}].tools"
        tools = as_list(fields_of_item.get("tools"))
        if tools is None:
            raise InvalidRequest(f"{place}: must be a list", place, "invalid_tool")
        for tool in tools:
            named = as_object(tool) or {}
            added[as_text(named.get("type")), as_text(named.get("name"))] = tool
    return compact_json([*listed, *added.values()]).encode() if added else source


def _input(
    fields: Fields,
    limits: RequestLimits,
    names: ToolNames,
    stored: Mapping[str, JsonObject] | None,
    *,
    is_whole: bool,
) -> DecodedInput:
    value = fields.any("input")
    if value is None and not is_whole:
        return DecodedInput(())
    if value is None or value == []:
        raise InvalidRequest(
            "input: must be a string or a list with at least one item", "input", "missing_field"
        )
    items = as_list(value)
    if items is not None and len(items) > limits.max_messages:
        raise InvalidRequest(
            f"input: {len(items)} items exceed the limit of {limits.max_messages}", "input"
        )
    return decode_input(value, names=names, whole=is_whole, stored=stored)


def _instructions(fields: Fields) -> tuple[Message, ...]:
    text = fields.value("instructions", str)
    if not text:
        return ()
    return (Message("system", Message.system(text).parts, ONE_REQUEST),)


def _include(fields: Fields) -> tuple[str, ...]:
    include = cast("list[Any]", fields.value("include", list) or [])
    if not all(isinstance(each, str) for each in include):
        raise InvalidRequest("include: must be a list of strings", "include")
    return tuple(include)


def _server_tools(fields: Fields) -> ServerTools | None:
    value = fields.value("server_tools", str)
    for known in get_args(ServerTools):
        if value == known:
            return known
    if value is None:
        return None
    words = ", ".join(get_args(ServerTools))
    raise InvalidRequest(f"server_tools: must be one of {words}", "server_tools")


def _compact_threshold(fields: Fields) -> int | None:
    for entry in as_list(fields.any("context_management")) or ():
        match entry:
            case {"type": "compaction", "compact_threshold": int(threshold)}:
                return threshold
            case _:
                pass
    return None


def _extra(fields: Fields) -> JsonObject:
    unknown = fields.names - _KNOWN_FIELDS
    extra: JsonObject = {name: fields.any(name) for name in sorted(unknown)}
    extra |= {name: fields.any(name) for name in _PASSED_ON if name in fields.names}
    if include := [each for each in _include(fields) if each not in _OWN_INCLUDES]:
        extra["include"] = include
    if verbosity := (as_object(fields.any("text")) or {}).get("verbosity"):
        extra["text"] = {"verbosity": verbosity}
    if summary := (as_object(fields.any("reasoning")) or {}).get("summary"):
        extra["reasoning"] = {"summary": summary}
    return extra


_SETTINGS = frozenset(
    {
        "frequency_penalty",
        "include",
        "max_output_tokens",
        "presence_penalty",
        "reasoning",
        "temperature",
        "text",
        "top_logprobs",
        "top_p",
    }
)
_NO_SETTINGS = Settings()


def _settings(fields: Fields) -> Settings:
    if fields.names.isdisjoint(_SETTINGS):
        return _NO_SETTINGS
    schema, name, strict = _text_format(fields)
    wants_logprobs = _LOGPROBS in _include(fields)
    return Settings(
        temperature=fields.value("temperature", float),
        top_p=fields.value("top_p", float),
        max_tokens=fields.value("max_output_tokens", int),
        presence_penalty=fields.value("presence_penalty", float),
        frequency_penalty=fields.value("frequency_penalty", float),
        logprobs=True if wants_logprobs else None,
        top_logprobs=fields.value("top_logprobs", int),
        reasoning_effort=as_text(_object(fields, "reasoning").get("effort")),
        response_schema=schema,
        response_name=name,
        response_strict=strict,
    )


def _text_format(fields: Fields) -> tuple[JsonObject | None, str | None, bool | None]:
    text = _object(fields, "text")
    match text.get("format"):
        case None | {"type": "text"}:
            return None, None, None
        case {"type": "json_object"}:
            return {}, None, None
        case {"type": "json_schema", "schema": value, **others} if (
            schema := as_object(value)
        ) is not None:
            strict = others.get("strict")
            return schema, as_text(others.get("name")), strict if type(strict) is bool else None
        case _:
            raise InvalidRequest(
                "text.format: must be of type 'text', 'json_object' or 'json_schema' with a schema",
                "text.format",
            )


_ECHOED: dict[str, tuple[type, Any]] = {
    "background": (bool, False),
    "frequency_penalty": (float, 0.0),
    "instructions": (str, None),
    "max_output_tokens": (int, None),
    "max_tool_calls": (int, None),
    "metadata": (dict, {}),
    "parallel_tool_calls": (bool, True),
    "presence_penalty": (float, 0.0),
    "previous_response_id": (str, None),
    "prompt_cache_key": (str, None),
    "reasoning": (dict, {"effort": None, "summary": None}),
    "safety_identifier": (str, None),
    "service_tier": (str, "default"),
    "store": (bool, True),
    "temperature": (float, 1.0),
    "text": (dict, {"format": {"type": "text"}}),
    "top_logprobs": (int, 0),
    "top_p": (float, 1.0),
    "truncation": (str, "disabled"),
    "user": (str, None),
}
"""The fields of a request that its response repeats: their types, and the defaults of the API."""
DEFAULT_ECHO: JsonObject = {
    **{name: default for name, (_, default) in _ECHOED.items()},
    "tool_choice": "auto",
    "tools": [],
}
"""The fields that the response of a request without any options repeats."""


def _echo(fields: Fields, tools: list[JsonObject]) -> JsonObject:
    """The fields that the response repeats."""
    echo = dict(DEFAULT_ECHO)
    for name in fields.names & _ECHOED.keys():
        kind, default = _ECHOED[name]
        value: Any = fields.value(name, cast("type[Any]", kind))
        if kind is dict and value is not None:
            echo[name] = {**default, **value}
        elif value is not None:
            echo[name] = value
    if "tool_choice" in fields.names:
        echo["tool_choice"] = fields.any("tool_choice") or "auto"
    if tools:
        echo["tools"] = tools
    _check_at_least_one(echo, "max_output_tokens")
    _check_at_least_one(echo, "max_tool_calls")
    check_metadata(echo["metadata"])
    return echo


def _check_at_least_one(echo: JsonObject, name: str) -> None:
    if echo[name] is not None and echo[name] < 1:
        raise InvalidRequest(f"{name}: must be at least 1", name)


def check_metadata(metadata: JsonObject) -> None:
    """Raises `InvalidRequest` unless it is a small object of strings."""
    if len(metadata) > MAX_METADATA:
        raise InvalidRequest(f"metadata: more than {MAX_METADATA} pairs", "metadata")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidRequest("metadata: all values must be strings", "metadata")


def _object(fields: Fields, name: str) -> JsonObject:
    return cast("JsonObject", fields.value(name, dict) or {})
