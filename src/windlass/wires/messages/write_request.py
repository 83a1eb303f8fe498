"""Encodes a model request as the body of a Messages request, with schemas Anthropic reads. Pure."""

import logging
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from windlass.content import (
    AnyPart,
    Declaration,
    FunctionDeclaration,
    Message,
    ProviderTool,
    Role,
    Schema,
    Text,
    Thought,
    encoded_once,
    paired,
)
from windlass.errors import ConfigError
from windlass.jsontext import encode_json
from windlass.model import ModelRequest, Settings
from windlass.wires.encoding import IdentityCache, message_encoder
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, merged
from windlass.wires.messages.messages import PROVIDER, encode_blocks

log = logging.getLogger("windlass.models")

BETAS = "anthropic_beta"
"""The field of `ModelRequest.extra` with the names of betas; they are sent in a header."""
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}}'
_MARK_FIELD = b'"cache_control":'
_MARKED = "anthropic+marked"
"""The key in a message's cache if its blocks have a `cache_control`."""
JSON_ONLY = "Answer with one JSON object and nothing else."
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24_576}
"""The thinking tokens of each effort, for models that take a budget."""
MAX_BUDGET = 32_000
MIN_BUDGET = 1024
ANSWER_TOKENS = 8192
"""The tokens for the answer after the thoughts, if the caller sets no limit."""
_EFFORTS = {"minimal": "low"}
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")

Thinking: TypeAlias = Literal["adaptive", "budget", "none"]
"""How a model's thinking is controlled: by an effort, by a budget of tokens, or not at all."""


class ModelTraits(Struct, frozen=True):
    """What a model accepts in a request. A refusal of the server corrects these values."""

    max_tokens: int = ANSWER_TOKENS
    """The output limit of a request without one: this field is required."""
    thinking: Thinking = "none"
    sampling: bool = True
    """Whether it accepts `temperature`, `top_p` and `top_k`."""
    system_turns: bool = False
    """Whether it accepts the role `system` after a user's message."""
    structured_output: bool = False
    """Whether it accepts `output_config.format`."""


def traits_of(model: str) -> ModelTraits:
    """The traits of a Claude model by its name. Other models get the traits of any server."""
    version = _version(model)
    if version is None:
        return ModelTraits()
    if version < (3, 7):
        return ModelTraits(max_tokens=8192 if version >= (3, 5) else 4096)
    return ModelTraits(
        max_tokens=32_000,
        thinking="adaptive" if version >= (4, 6) else "budget",
        sampling=version < (4, 7),
        system_turns=version >= (4, 8),
        structured_output=version >= (4, 5),
    )


def _version(model: str) -> tuple[int, int] | None:
    found = _VERSION.search(model)
    if found is not None:
        return int(found[1]), int(found[2] or 0)
    return (5, 0) if re.search(r"claude-[a-z]+-(preview|latest)", model) else None


class RequestEncoder:
    """Encodes requests to one model. Caches the encoded messages and tools.

    With `caching`, Anthropic is asked to cache the tools, the system prompt and the conversation,
    unless the caller's content has its own `cache_control`.
    """

    def __init__(self, model: str, *, caching: bool = True) -> None:
        self._model, self._caching = model, caching
        self._tools: IdentityCache[tuple[Declaration, ...], list[bytes]] = IdentityCache(
            encode_tools
        )
        self.traits = traits_of(model)
        """What the model accepts. The upstream changes it after a refusal."""

    def body(self, request: ModelRequest) -> bytes:
        """Raises `ConfigError` for a part that this wire does not support."""
        traits = self.traits
        conversation = _Conversation(request.messages, traits.system_turns)
        own_marks = conversation.is_marked or "cache_control" in request.extra
        marks = self._caching and not own_marks
        fields: JsonObject = {"model": self._model, **_settings(request, traits)}
        system = list(conversation.system)
        if request.settings.response_schema == {}:
            system.append(encode_json({"type": "text", "text": JSON_ONLY}))
        if system:
            fields["system"] = _array(system, marks)
        if tools := self._encoded_tools(request):
            fields["tools"] = _array(tools, marks)
            if (choice := _tool_choice(request)) is not None:
                fields["tool_choice"] = choice
        if request.live:
            fields["stream"] = True
        if request.extra:
            fields = merged(
                fields, {key: request.extra[key] for key in request.extra if key != BETAS}
            )
        if "messages" in fields:
            return msgspec.json.encode(fields, enc_hook=str)
        before = msgspec.json.encode(fields, enc_hook=str)[:-1] + b',"messages":['
        return b"".join((before, b",".join(conversation.messages(marks)), b"]}"))

    def _encoded_tools(self, request: ModelRequest) -> list[bytes]:
        offered, names = request.tools, request.tool_choice.names
        if not offered:
            return []
        if names and request.tool_choice.mode != "none":
            # This wire cannot restrict the choice to some tools, so only those are offered.
            kept = tuple(tool for tool in offered if getattr(tool, "name", None) in names)
            if len(kept) < len(offered):
                return encode_tools(kept)
        return self._tools.get(offered)


class _Conversation:
    """The messages of a request: the system prompt, and turns of adjacent messages."""

    __slots__ = ("_turns", "is_marked", "system")

    def __init__(self, messages: Sequence[Message], system_turns: bool) -> None:
        self.system: list[bytes] = []
        self.is_marked = False
        """Whether the caller has placed `cache_control` itself."""
        self._turns: list[tuple[bytes, list[bytes], bytes]] = []
        """The role on the wire, the blocks of adjacent messages, and fields beside them."""
        before = b""
        for index, message in enumerate(paired(messages)):
            blocks = vars(message).get(PROVIDER)
            if blocks is None:
                blocks = _encoded(message, index)
            if not blocks:
                continue
            if _MARKED in vars(message):
                self.is_marked = True
            role = WIRE_ROLES[message.role]
            if role == b"system" and not (system_turns and before in (b"user", b"system")):
                self.system.append(blocks)
                continue
            beside = _beside(message) if message.extra else b""
            if role != before or beside or self._turns[-1][2]:
                self._turns.append((role, [blocks], beside))
                before = role
            elif message.role == "tool":
                self._turns[-1][1].insert(0, blocks)  # results come before any text
            else:
                self._turns[-1][1].append(blocks)

    def messages(self, marks: bool) -> list[bytes]:
        """The turns as JSON; with `marks`, the last two turns of the user are cached."""
        left = 2 if marks else 0
        encoded: list[bytes] = []
        for role, blocks, beside in reversed(self._turns):
            content = b",".join(blocks)
            if left and role == b"user":
                left -= 1
                content = content[:-1] + CACHE_MARK
            encoded.append(b'{"role":"%s","content":[%s]%s}' % (role, content, beside))
        encoded.reverse()
        return encoded


WIRE_ROLES: dict[Role, bytes] = {
    "system": b"system",
    "user": b"user",
    "assistant": b"assistant",
    "tool": b"user",
}


def _beside(message: Message) -> bytes:
    """Fields of the message beside its role and content, such as `clear_at`."""
    fields: JsonObject = message.extra.get(PROVIDER, {})
    return b"," + encode_json(fields)[1:-1] if fields else b""


def _array(items: list[bytes], marked: bool) -> Raw:
    content = b",".join(items)
    return Raw(b"[" + (content[:-1] + CACHE_MARK if marked else content) + b"]")


def _encoded(message: Message, index: int) -> bytes:
    """The blocks of a message, cached. Remembers whether they have a `cache_control`."""
    try:
        blocks = encoded_once(message, PROVIDER, _encode)
    except ConfigError as error:
        raise ConfigError(f"messages[{index}].{error}") from None
    if _MARK_FIELD in blocks:
        vars(message)[_MARKED] = blocks
    return blocks


def _encode(message: Message) -> bytes:
    return b",".join(map(message_encoder(message), encode_blocks(message)))


def encode_tools(tools: tuple[Declaration, ...]) -> list[bytes]:
    """The declarations as JSON, without those that this wire does not support."""
    encoded: list[bytes] = []
    for tool in tools:
        match tool:
            case FunctionDeclaration():
                encoded.append(encode_json(_function(tool)))
            case ProviderTool(provider=provider, data=data) if provider == PROVIDER:
                encoded.append(encode_json(data))
            case _:
                name = getattr(tool, "name", type(tool).__name__)
                log.warning("The Anthropic wire does not support %s; omitting it", name)
    return encoded


def _function(tool: FunctionDeclaration) -> JsonObject:
    fields: JsonObject = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    fields["input_schema"] = {"type": "object", **tool.parameters}
    return {**fields, "strict": True} if tool.strict else fields


def _tool_choice(request: ModelRequest) -> JsonObject | None:
    choice = request.tool_choice
    if choice.mode == "none":
        return {"type": "none"}
    kind: JsonObject = {"type": "auto"}
    if choice.mode == "required":
        names = choice.names
        kind = {"type": "tool", "name": names[0]} if len(names) == 1 else {"type": "any"}
    if request.parallel_tool_calls is False:
        return {**kind, "disable_parallel_tool_use": True}
    return None if kind == {"type": "auto"} else kind


_NO_SETTINGS = Settings()


def _settings(request: ModelRequest, traits: ModelTraits) -> JsonObject:
    settings = request.settings
    if settings == _NO_SETTINGS:
        return {"max_tokens": traits.max_tokens}
    thinking = {} if "thinking" in request.extra else _thinking(request, traits)
    fields: JsonObject = {
        "max_tokens": settings.max_tokens or _usual_limit(thinking, traits),
        "stop_sequences": settings.stop,
        **thinking,
    }
    if traits.sampling and fields.get("thinking", _OFF) == _OFF:
        fields["temperature"] = settings.temperature
        fields["top_p"] = settings.top_p
        fields["top_k"] = settings.top_k
    elif (settings.temperature, settings.top_p, settings.top_k) != (None, None, None):
        log.debug("The model does not support temperature, top_p and top_k here; omitting them")
    if settings.response_schema:
        schema = enforced_schema(settings.response_schema)
        output: JsonObject = {
            "output_config": {"format": {"type": "json_schema", "schema": schema}}
        }
        fields = merged(fields, output)
    return {key: value for key, value in fields.items() if value is not None}


_OFF: JsonObject = {"type": "disabled"}


def usual_limit(request: ModelRequest, traits: ModelTraits) -> int:
    """The `max_tokens` of a request that sets none: this field is required."""
    if request.settings.reasoning_effort is None:
        return traits.max_tokens
    return _usual_limit(_thinking(request, traits), traits)


def _usual_limit(thinking: JsonObject, traits: ModelTraits) -> int:
    budget: int = thinking.get("thinking", {}).get("budget_tokens", 0)
    return max(traits.max_tokens, budget + ANSWER_TOKENS if budget else 0)


def _thinking(request: ModelRequest, traits: ModelTraits) -> JsonObject:
    """The fields for the requested effort."""
    effort = request.settings.reasoning_effort
    if effort is None or traits.thinking == "none":
        return {}
    # A forced call and thinking exclude each other.
    is_forced = bool(request.tools) and request.tool_choice.mode == "required"
    if traits.thinking == "adaptive":
        if effort == "none":
            return {"thinking": _OFF}
        config = {} if is_forced else {"thinking": {"type": "adaptive"}}
        return {**config, "output_config": {"effort": _EFFORTS.get(effort, effort)}}
    if effort == "none" or is_forced or not _may_think(request.messages):
        return {}
    budget = BUDGETS.get(effort, MAX_BUDGET)
    if request.settings.max_tokens is not None:
        budget = min(budget, request.settings.max_tokens - MIN_BUDGET)
    if budget < MIN_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _may_think(messages: Sequence[Message]) -> bool:
    """Whether thinking may be on. While calls are answered, their turn must have thoughts."""
    for message in reversed(messages):
        if message.role == "assistant":
            return not message.calls or any(map(_is_signed, message.parts))
        if message.role == "user" and any(isinstance(part, Text) for part in message.parts):
            return True
    return True


def _is_signed(part: AnyPart) -> bool:
    fields: JsonObject = part.extra.get(PROVIDER, {})
    return isinstance(part, Thought) and bool(fields.get("signature"))


_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
_KEPT = ("$ref", "const", "default", "description", "enum", "required", "title", "type")
_MAX_MIN_ITEMS = 1


def enforced_schema(schema: Schema) -> Schema:
    """The schema with closed objects. Limits that Anthropic does not enforce are in descriptions.

    Anthropic requires `additionalProperties: false` and refuses bounds, patterns and most formats.
    """
    result: JsonObject = {name: schema[name] for name in _KEPT if name in schema}
    for name in ("$defs", "definitions", "properties"):
        if (members := as_object(schema.get(name))) is not None:
            result[name] = {key: _inner(value) for key, value in members.items()}
    for name, target in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if (variants := as_list(schema.get(name))) is not None:
            result[target] = list(map(_inner, variants))
    if "items" in schema:
        result["items"] = _inner(schema["items"])
    if schema.get("type") == "object" or "properties" in schema:
        result["additionalProperties"] = False
    if as_text(schema.get("format")) in _FORMATS:
        result["format"] = schema["format"]
    minimum = schema.get("minItems")
    if type(minimum) is int and minimum <= _MAX_MIN_ITEMS:
        result["minItems"] = minimum
    return _with_limits(result, schema)


def _inner(value: Any) -> Any:
    fields = as_object(value)
    return value if fields is None else enforced_schema(fields)


_REPLACED = frozenset({"oneOf", "additionalProperties", "$schema", "$id"})


def _with_limits(result: JsonObject, schema: Schema) -> JsonObject:
    """Describes the keywords that are left out, so that the model still reads them."""
    limits = [
        f"{name}: {value}"
        for name, value in schema.items()
        if name not in result and name not in _REPLACED
    ]
    if not limits:
        return result
    described = as_text(result.get("description"))
    note = f"{{{', '.join(limits)}}}"
    return {**result, "description": f"{described}\n\n{note}" if described else note}
