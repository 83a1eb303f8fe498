"""Reads and validates the body of a generateContent request. Pure.

Like Google's service, accepts every name in camel case and in snake case. A client returns what it
has received, so the same turn arrives in several forms: one content for each chunk of a stream,
results without the ids of their calls, or calls without ids.
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    ProviderTool,
    Text,
    Thought,
    paired,
)
from windlass.errors import ConfigError
from windlass.jsontext import compact_json
from windlass.model import AUTO, NONE, Settings, ToolChoice
from windlass.request import ClientTools, PartKind, PartPlace, RequestLimits, RunRequest
from windlass.tool import InvalidSchema, Tool
from windlass.tool.declarations import normalised_parameters
from windlass.wires.body import Fields, fields_of
from windlass.wires.calls import in_call_order
from windlass.wires.client_tools import (
    add_tool,
    check_number_of_tools,
    check_tool_texts,
    declared_tool,
    invalid_tool,
    tool_entries,
)
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest
from windlass.wires.gemini.messages import (
    PROVIDER,
    ROLES,
    Token,
    as_items,
    camel_key,
    camel_keys,
    decode_part,
    decode_token,
)
from windlass.wires.gemini.write_events import Form
from windlass.wires.gemini.write_request import THINKING_BUDGETS

log = logging.getLogger("windlass.wires")

WIRE = "gemini"
EarlierText: TypeAlias = Literal["include", "omit"]
"""Whether an answer contains the text of earlier rounds."""
_KNOWN_FIELDS = frozenset(
    {"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
)
_CONFIG = "generationConfig"
_SETTINGS = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "maxOutputTokens",
        "stopSequences",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "responseLogprobs",
        "logprobs",
        "candidateCount",
    }
)
_FORMAT = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema"})
_JSON_TYPE = "application/json"
_LEVELS = frozenset({"minimal", "low", "medium", "high"})
_NO_SETTINGS = Settings()
T = TypeVar("T")


class _Section:
    """The fields of an object by their camel-case names. Errors name the whole path."""

    def __init__(self, fields: Fields, place: str = "") -> None:
        self._fields, self._place = fields, place
        self._spelled = {camel_key(name): name for name in fields.names}
        self.names = self._spelled.keys()

    def value(self, name: str, kind: type[T]) -> T | None:
        try:
            return self._fields.value(self._spelled.get(name, name), kind)
        except InvalidRequest as error:
            if not self._place:
                raise
            place = f"{self._place}.{error.param}"
            raise InvalidRequest(f"{self._place}.{error.message}", place, error.code) from None

    def any(self, name: str) -> Any:
        return self._fields.any(self._spelled.get(name, name))

    def raw(self, name: str) -> bytes:
        return self._fields.raw(self._spelled.get(name, name))


def read_request(
    body: bytes,
    limits: RequestLimits,
    model: str,
    earlier_text: EarlierText = "include",
    *,
    live: bool = False,
) -> RunRequest:
    """Reads a request to a model, which is in its path. Raises `InvalidRequest`.

    `earlier_text` is the gateway's setting. A JSON answer never contains text of earlier rounds,
    since that would make it invalid JSON.
    """
    fields = _Section(fields_of(body, limits.max_json_depth))
    conversation = read_contents(_contents(fields, limits))
    config = _config(fields, limits)
    settings = _settings(config) if config else _NO_SETTINGS
    thinking = _thinking(config)
    tools = fields.raw("tools")
    form = Form(
        thoughts=thinking.get("includeThoughts") is True,
        all_text=earlier_text == "include" and settings.response_schema is None,
    )
    return RunRequest(
        wire=WIRE,
        model=model,
        messages=(*read_instruction(fields.any("systemInstruction")), *conversation.messages),
        tools=ClientTools(tools, read_tools) if tools else ClientTools(),
        tool_choice=read_tool_choice(fields.any("toolConfig")),
        settings=settings,
        extra=_extra(fields, config),
        live=live,
        parts=conversation.parts,
        answer=msgspec.to_builtins(form),
        size=len(body),
    )


def counted_body(body: bytes, limits: RequestLimits) -> bytes:
    """The request in a `countTokens` body: the body itself, or its inner request."""
    fields = _Section(fields_of(body, limits.max_json_depth))
    return fields.raw("generateContentRequest") or body


def _contents(fields: _Section, limits: RequestLimits) -> list[Any]:
    contents = as_items(fields.any("contents"))
    if not contents:
        raise InvalidRequest("contents: must be a list with at least one content", "contents")
    if len(contents) > limits.max_messages:
        raise InvalidRequest(
            f"contents: {len(contents)} contents exceed the limit of {limits.max_messages}",
            "contents",
        )
    return contents


def _config(fields: _Section, limits: RequestLimits) -> _Section | None:
    raw = fields.raw(_CONFIG)
    if not raw:
        return None
    if as_object(fields.any(_CONFIG)) is None:
        raise InvalidRequest(f"{_CONFIG}: must be an object", _CONFIG)
    return _Section(fields_of(raw, limits.max_json_depth), _CONFIG)


def _settings(config: _Section) -> Settings:
    if config.value("candidateCount", int) not in (None, 1):
        place = f"{_CONFIG}.candidateCount"
        raise InvalidRequest(f"{place}: only 1 is supported", place)
    return Settings(
        temperature=config.value("temperature", float),
        top_p=config.value("topP", float),
        top_k=config.value("topK", int),
        max_tokens=_max_tokens(config),
        stop=_stop(config),
        seed=config.value("seed", int),
        presence_penalty=config.value("presencePenalty", float),
        frequency_penalty=config.value("frequencyPenalty", float),
        logprobs=config.value("responseLogprobs", bool),
        top_logprobs=config.value("logprobs", int),
        reasoning_effort=_effort(_thinking(config)),
        response_schema=_schema(config),
    )


def _max_tokens(config: _Section) -> int | None:
    limit = config.value("maxOutputTokens", int)
    if limit is not None and limit < 1:
        place = f"{_CONFIG}.maxOutputTokens"
        raise InvalidRequest(f"{place}: must be at least 1", place)
    return limit


def _stop(config: _Section) -> tuple[str, ...] | None:
    value = config.any("stopSequences")
    if value is None:
        return None
    texts = as_list(value)
    if texts is None or not all(isinstance(text, str) for text in texts):
        place = f"{_CONFIG}.stopSequences"
        raise InvalidRequest(f"{place}: must be a list of strings", place)
    return tuple(texts) or None


def _schema(config: _Section) -> JsonObject | None:
    """The schema of the answer; `{}` for any JSON, None for text."""
    kind = config.value("responseMimeType", str)
    if kind not in (None, _JSON_TYPE):
        return None
    for name in ("responseJsonSchema", "responseSchema"):
        value = config.any(name)
        if value is None:
            continue
        place, schema = f"{_CONFIG}.{name}", as_object(value)
        if schema is None:
            raise InvalidRequest(f"{place}: must be an object", place)
        try:
            return normalised_parameters(name, schema) if schema else {}
        except InvalidSchema as error:
            at = f"{place}{error.place.removeprefix('parameters')}"
            raise InvalidRequest(f"{at}: not a schema: {error.reason}", at) from None
    return {} if kind else None


def _thinking(config: _Section | None) -> JsonObject:
    value = config.any("thinkingConfig") if config else None
    thinking = as_object(value)
    if thinking is None:
        if value is None:
            return {}
        place = f"{_CONFIG}.thinkingConfig"
        raise InvalidRequest(f"{place}: must be an object", place)
    return camel_keys(thinking)


def _effort(thinking: JsonObject) -> str | None:
    """How much the model should think, in the terms of `Settings`."""
    level = (as_text(thinking.get("thinkingLevel")) or "").lower()
    if level in _LEVELS:
        return level
    budget = thinking.get("thinkingBudget")
    if type(budget) is not int or budget < 0:  # -1: as much as the model wants
        return None
    return next((word for word, most in THINKING_BUDGETS.items() if budget <= most), "high")


def _extra(fields: _Section, config: _Section | None) -> JsonObject:
    """The fields that only a model on the same wire receives, with camel-case names."""
    extra = {name: fields.any(name) for name in fields.names - _KNOWN_FIELDS}
    if tool_config := _other_tool_config(fields):
        extra["toolConfig"] = tool_config
    if config is not None and (other := _other_config(config)):
        extra[_CONFIG] = other
    return rest(extra)


def _other_tool_config(fields: _Section) -> JsonObject:
    config = as_object(fields.any("toolConfig")) or {}
    return rest(camel_keys(config), "functionCallingConfig")


def _other_config(config: _Section) -> JsonObject:
    known = _SETTINGS if _is_plain_format(config) else _SETTINGS | _FORMAT
    other = rest({name: config.any(name) for name in config.names - known})
    if thinking := _thinking(config):
        # The encoder writes a budget; a level must replace it, because both are an error.
        level = "thinkingLevel" in thinking and _effort(thinking) is not None
        other["thinkingConfig"] = {"thinkingBudget": None, **thinking} if level else thinking
    return other


def _is_plain_format(config: _Section) -> bool:
    """Whether the format is not JSON, such as `text/x.enum`, which only Google's service knows."""
    return config.any("responseMimeType") not in (None, _JSON_TYPE)


CALLING = "toolConfig.functionCallingConfig"
_NOT_TOOLS = frozenset({"mcpServers"})
"""Entries with servers that Google's service connects to, and that the gateway ignores."""


def read_tools(data: bytes, limits: RequestLimits) -> list[Tool]:
    """The client's functions, and tools of Google's service. Raises `InvalidRequest`."""
    tools: dict[str, Tool] = {}
    for place, tool in _tools(tool_entries(data, limits)):
        add_tool(tools, tool, place)
    check_number_of_tools(tools, limits)
    return list(tools.values())


def _tools(items: Iterable[Any]) -> Iterator[tuple[str, Tool]]:
    hosted: set[str] = set()
    for index, item in enumerate(items):
        place, entry = f"tools[{index}]", as_object(item)
        if entry is None:
            raise invalid_tool(place, "must be an object")
        for key, value in camel_keys(entry).items():
            if key == "functionDeclarations":
                yield from _functions(value, f"{place}.{key}")
            elif key in _NOT_TOOLS:
                log.warning("Ignoring %s of a request: the gateway does not support it", key)
            elif value is not None:
                tool = Tool(_hosted(key, value))
                if tool.name not in hosted:
                    hosted.add(tool.name)
                    yield place, tool


def _hosted(key: str, value: Any) -> GoogleSearch | ProviderTool:
    """A tool that Google runs. Models of other services do not receive it."""
    if key in ("googleSearch", "googleSearchRetrieval") and not value:
        return GoogleSearch()
    return ProviderTool(PROVIDER, {key: value})


def _functions(value: Any, place: str) -> Iterator[tuple[str, Tool]]:
    items = as_list(value)
    if items is None:
        if value is None:
            return
        raise invalid_tool(place, "must be a list")
    for index, item in enumerate(items):
        at = f"{place}[{index}]"
        yield at, _function(item, at)


def _function(value: Any, place: str) -> Tool:
    function = as_object(value)
    if function is None:
        raise invalid_tool(place, "must be an object with a name")
    function = camel_keys(function)
    check_tool_texts(function, place)
    key = "parameters" if function.get("parameters") is not None else "parametersJsonSchema"
    known = {"name": function["name"], "description": function.get("description") or ""}
    if function.get(key) is not None:
        known["parameters"] = function[key]
    return declared_tool(known, place, key, "schema")


def read_tool_choice(tool_config: Any) -> ToolChoice:
    """The choice of `toolConfig`. Raises `InvalidRequest`."""
    if tool_config is None:
        return AUTO
    outer = as_object(tool_config)
    if outer is None:
        raise InvalidRequest("toolConfig: must be an object", "toolConfig")
    value = camel_keys(outer).get("functionCallingConfig")
    if value is None:
        return AUTO
    config = as_object(value)
    if config is None:
        raise InvalidRequest(f"{CALLING}: must be an object", CALLING)
    config = camel_keys(config)
    names = _names(config.get("allowedFunctionNames"))
    mode = config.get("mode") or "AUTO"
    match (as_text(mode) or "").upper():
        case "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED":
            return ToolChoice("auto", names) if names else AUTO
        case "ANY":
            return ToolChoice("required", names, only=bool(names))
        case "NONE":
            return NONE
        case _:
            place = f"{CALLING}.mode"
            raise InvalidRequest(f"{place}: must be AUTO, ANY, NONE or VALIDATED", place)


def _names(value: Any) -> tuple[str, ...]:
    items = as_list(value)
    place = f"{CALLING}.allowedFunctionNames"
    if items is None:
        if value is None:
            return ()
        raise InvalidRequest(f"{place}: must be a list", place)
    if not all(isinstance(item, str) for item in items):
        raise InvalidRequest(f"{place}: must be a list of names", place)
    return tuple(items)


_ABOUT_A_PART = frozenset({"thought", "thoughtSignature"})
"""The fields of a part that are not its content."""


class Conversation(NamedTuple):
    messages: tuple[Message, ...]
    parts: tuple[PartPlace, ...]
    """The media in the client's contents."""


def read_contents(contents: Sequence[Any]) -> Conversation:
    """The messages of `contents`. Raises `InvalidRequest`, which names the field."""
    reader = _ContentReader()
    decoded: list[Message] = []
    for place, value in enumerate(contents):
        try:
            decoded.append(reader.message(value, place))
        except ConfigError as error:
            # The error begins with the path below the content.
            at = f"contents[{place}]{str(error).partition(': ')[0]}"
            raise InvalidRequest(f"contents[{place}]{error}", at) from None
    messages = paired(decoded)
    _check_results(messages)
    joined = _joined(part for message in messages for part in _by_role(message))
    if not joined:
        raise InvalidRequest("contents: must have at least one part", "contents")
    return Conversation(in_call_order(joined), tuple(reader.media))


def read_instruction(value: Any) -> tuple[Message, ...]:
    """The message of `systemInstruction`: a content, its parts, or a text."""
    if value is None:
        return ()
    fields = as_object(value) or {}
    given = fields.get("parts", [fields] if "text" in fields else value)
    parts: list[Any] | None = as_list(given)
    if parts is None and (isinstance(given, str) or "text" in (as_object(given) or ())):
        parts = [given]
    if parts is None:
        place = "systemInstruction"
        raise InvalidRequest(f"{place}: must be an object with parts", place)
    texts: list[str] = []
    for index, part in enumerate(parts):
        text = as_text(part) or as_text((as_object(part) or {}).get("text"))
        if text is None:
            place = f"systemInstruction.parts[{index}]"
            raise InvalidRequest(f"{place}: must be a text", place)
        texts.append(text)
    return (Message.system(*texts),) if any(texts) else ()


class _ContentReader:
    """Reads contents one after another. Errors are `ConfigError`s with the path in the content."""

    def __init__(self) -> None:
        self.media: list[PartPlace] = []
        self._renamed: dict[str, str] = {}
        """The ids that a client has given to calls, and those that the gateway knows."""

    def message(self, value: object, place: int) -> Message:
        content = as_object(value)
        if content is None:
            raise ConfigError(": must be an object")
        content = camel_keys(content)
        role = ROLES.get(as_text(content.get("role")) or "user")
        if role is None:
            raise ConfigError(f".role: must be one of {', '.join(ROLES)}")
        items = as_items(content.get("parts"))
        if items is None:
            raise ConfigError(".parts: must be a list")
        parts = tuple([self._part(item, place, index) for index, item in enumerate(items)])
        for index, part in enumerate(parts):
            if type(part) is FunctionCall and role != "assistant":
                reason = "must be in a content of the role 'model'"
                raise ConfigError(f".parts[{index}].functionCall: {reason}")
            if type(part) is FunctionResponse and role != "tool":
                if role != "user":
                    reason = "must be in a content of the role 'user'"
                    raise ConfigError(f".parts[{index}].functionResponse: {reason}")
                role = "tool"
        extra = rest(content, "role", "parts") if len(content) > 2 else {}
        return Message(role, parts, {PROVIDER: extra} if extra else {})

    def _part(self, value: object, place: int, index: int) -> AnyPart:
        fields = as_object(value)
        if fields is None:
            raise ConfigError(f".parts[{index}]: must be an object")
        if len(fields) == 1 and type(text := fields.get("text")) is str:
            return Text(text)  # nearly all parts
        fields = camel_keys(fields)
        if "text" not in fields and fields.keys() <= _ABOUT_A_PART:
            if not fields.get("thoughtSignature"):
                raise ConfigError(f".parts[{index}]: must have content, such as text")
            fields = {**fields, "text": ""}
        token = decode_token(as_text(fields.get("thoughtSignature")))
        call = as_object(fields.get("functionCall"))
        if call is not None:
            call_id = self._call_id(call, token, place, index)
            fields = {**fields, "functionCall": {**call, "id": call_id}}
        try:
            part = decode_part(fields, "")
        except ConfigError as error:
            raise ConfigError(f".parts[{index}]{error}") from None
        return self._finished(part, token, place, index)

    def _call_id(self, call: JsonObject, token: Token, place: int, index: int) -> str:
        """The id that the gateway knows.

        A call that never had an id gets a hash of its position and text, so that the id is the same
        in every request.
        """
        given = as_text(call.get("id"))
        if not token.id and given:
            return given
        if token.id:
            if given and given != token.id:
                self._renamed[given] = token.id
            return token.id
        written = f"{place} {index} {compact_json(call)}".encode(errors="replace")
        return f"call_{hashlib.sha256(written).hexdigest()[:24]}"

    def _finished(self, part: AnyPart, token: Token, place: int, index: int) -> AnyPart:
        """The part with the model's own signature, and with the ids that the gateway knows."""
        match part:
            case InlineData(mime_type=kind) | FileData(mime_type=kind):
                at = f"contents[{place}].parts[{index}]"
                self.media.append(PartPlace(at, kind or "", _kind(kind or "")))
            case Text(signature=str()) | Thought(signature=str()) | FunctionCall(signature=str()):
                extra = {**part.extra, **token.extra} if token.extra else part.extra
                return replace(part, signature=token.signature, extra=extra)
            case FunctionResponse(id=given) if given in self._renamed:
                return replace(part, id=self._renamed[given])
            case _:
                pass
        return part


def _kind(mime: str) -> PartKind:
    family = mime.partition("/")[0]
    return "image" if family == "image" else "audio" if family == "audio" else "file"


def _check_results(messages: Sequence[Message]) -> None:
    """Raises `InvalidRequest` for a result without a call."""
    known: set[str] = set()
    for place, message in enumerate(messages):
        if message.role == "assistant":
            known.update(call.id for call in message.calls)
        elif message.role == "tool":
            for index, part in enumerate(message.parts):
                if isinstance(part, FunctionResponse) and part.id not in known:
                    at = f"contents[{place}].parts[{index}].functionResponse"
                    raise InvalidRequest(f"{at}: there is no earlier call of {part.name!r}", at)


def _by_role(message: Message) -> Iterable[Message]:
    """A content as messages: none without parts, two if it has results and other parts."""
    if message.role != "tool":
        return (message,) if message.parts else ()
    others = tuple(part for part in message.parts if not isinstance(part, FunctionResponse))
    results = Message("tool", message.responses, message.extra)
    return (
        *((results,) if results.parts else ()),
        *((Message("user", others),) if others else ()),
    )


def _joined(messages: Iterable[Message]) -> list[Message]:
    """The messages with adjacent contents of the model, and adjacent results, as one message.

    Chats of google-genai store each chunk of a stream as a content.
    """
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before and before.role == message.role and message.role in ("assistant", "tool"):
            extra = {**before.extra, **message.extra}
            joined[-1] = Message(message.role, (*before.parts, *message.parts), extra)
        else:
            joined.append(message)
    return [_with_whole_texts(message) for message in joined]


def _with_whole_texts(message: Message) -> Message:
    """The message with adjacent plain texts as one part. Signed parts stay as they are."""
    if message.role != "assistant" or len(message.parts) == 1:
        return message
    parts: list[AnyPart] = []
    pieces: list[str] = []
    kind: type[Text | Thought] = Text
    for part in message.parts:
        plain = isinstance(part, Text | Thought) and part.signature is None and not part.extra
        if pieces and (not plain or type(part) is not kind):
            parts.append(kind("".join(pieces)))
            pieces = []
        if plain and isinstance(part, Text | Thought):
            kind = type(part)
            pieces += [part.text] if part.text else []
        else:
            parts.append(part)
    if pieces:
        parts.append(kind("".join(pieces)))
    return Message(message.role, tuple(parts), message.extra)
