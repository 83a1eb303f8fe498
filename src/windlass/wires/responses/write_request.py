"""Encodes a model request as the body of a Responses request. Pure."""

import logging
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from windlass.content import (
    Declaration,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    Message,
    ProviderTool,
    encoded_once,
    paired,
)
from windlass.errors import ConfigError
from windlass.jsontext import encode_json
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.wires.encoding import IdentityCache, message_encoder
from windlass.wires.fields import JsonObject, as_list, merged
from windlass.wires.responses.media import PROVIDER
from windlass.wires.responses.messages import NO_CALLS, encode_message, is_custom_call

log = logging.getLogger("windlass.models")

WIRE = "responses"
ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
PREVIOUS = "previous_response_id"
AUTOMATIC = "auto"
"""The value of `previous_response_id` that continues the service's stored response."""
RESPONSE_ID = "response_id"
"""Where a turn keeps the id of its stored response."""


def continues_stored(request: ModelRequest) -> bool:
    """Whether the request asks to continue stored responses instead of sending the history."""
    return bool(request.extra) and request.extra.get(PREVIOUS) == AUTOMATIC


class RequestEncoder:
    """Encodes requests to one model. Caches the encoded messages and tools.

    `official` hosts (OpenAI's own) do not support `stop`, `seed` and `top_k`; others may. By
    default nothing is stored and every request has the whole history, with the encrypted reasoning
    of earlier turns.
    """

    def __init__(self, model: str, *, official: bool) -> None:
        self._model, self._official = model, official
        self._tools: IdentityCache[tuple[Declaration, ...], Raw | None] = IdentityCache(
            encode_tools
        )
        self.encrypted_reasoning = True
        """Whether the model supports it. Set to False after a refusal."""

    def body(self, request: ModelRequest, *, continued: bool = True) -> bytes:
        """The body. Raises `ConfigError` for a part that this wire does not support.

        With `continued=False`, the whole history is sent, even if the request asks to continue a
        stored response.
        """
        extra, stores = request.extra, continues_stored(request)
        messages: Sequence[Message] = request.messages
        fields: JsonObject = {"model": self._model, "store": stores}
        if stores:
            extra = {name: value for name, value in extra.items() if name != PREVIOUS}
            previous, messages = _after_stored(messages) if continued else (None, messages)
            if previous is not None:
                fields[PREVIOUS] = previous
        if request.tools and (tools := self._tools.get(request.tools)) is not None:
            fields["tools"] = tools
            if (choice := _tool_choice(request.tool_choice, request.tools)) is not None:
                fields["tool_choice"] = choice
            if request.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = request.parallel_tool_calls
        if request.settings != _NO_SETTINGS:
            fields |= self._settings(request.settings)
        if include := self._include(request):
            fields["include"] = include
            extra = {name: value for name, value in extra.items() if name != "include"}
        if request.live:
            fields["stream"] = True
        if extra:
            fields = merged(fields, extra)
        if "input" in fields:
            return msgspec.json.encode(fields, enc_hook=str)
        encoded = encode_conversation(messages, request.messages)
        pieces = [piece for items in encoded if items for piece in (b",", items)]
        before = msgspec.json.encode(fields, enc_hook=str)[:-1] + b',"input":['
        return b"".join((before, *pieces[1:], b"]}"))  # releases the GIL for a long body

    def _include(self, request: ModelRequest) -> list[str]:
        include: list[Any] = list(as_list(request.extra.get("include")) or ())
        if request.settings.logprobs and LOGPROBS not in include:
            include.append(LOGPROBS)
        if self.encrypted_reasoning and ENCRYPTED_REASONING not in include:
            include.append(ENCRYPTED_REASONING)
        return include

    def _settings(self, settings: Settings) -> JsonObject:
        fields: JsonObject = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_output_tokens": settings.max_tokens,
            "presence_penalty": settings.presence_penalty,
            "frequency_penalty": settings.frequency_penalty,
            "top_logprobs": settings.top_logprobs,
            "reasoning": {"effort": settings.reasoning_effort}
            if settings.reasoning_effort
            else None,
            "text": _text_format(settings),
        }
        unofficial = {"top_k": settings.top_k, "stop": settings.stop, "seed": settings.seed}
        if not self._official:
            fields |= unofficial
        elif omitted := [name for name, value in unofficial.items() if value is not None]:
            log.debug("The Responses API does not support %s; omitting it", ", ".join(omitted))
        return {key: value for key, value in fields.items() if value is not None}


_NO_SETTINGS = Settings()


def _after_stored(messages: Sequence[Message]) -> tuple[str | None, Sequence[Message]]:
    """The id of the latest stored response in the history, and the messages after it."""
    for place in range(len(messages) - 1, -1, -1):
        stored = messages[place].extra.get(PROVIDER, {}).get(RESPONSE_ID)
        if isinstance(stored, str):
            return stored, messages[place + 1 :]
    return None, messages


def encode_conversation(
    messages: Sequence[Message], history: Sequence[Message] | None = None
) -> list[bytes]:
    """The items of each message as JSON, with commas between them.

    `history` has all messages, if `messages` are only the last of them. Raises `ConfigError`, which
    names the message and the part.
    """
    whole = paired(messages if history is None else history)
    before = len(whole) - len(messages)
    encoded: list[bytes] = []
    custom: set[str] = set()
    for index, message in enumerate(whole):
        if message.role == "assistant":
            custom |= {call.id for call in message.calls if is_custom_call(call)}
        if index < before:
            continue
        try:
            if custom and message.role != "assistant":
                encoded.append(_encoded(message, frozenset(custom)))
                continue
            if WIRE not in vars(message):
                _check_ids(message)
            encoded.append(encoded_once(message, WIRE, _encoded))
        except ConfigError as error:
            place = "." if str(error).startswith("parts[") else ": "
            raise ConfigError(f"messages[{index}]{place}{error}") from None
    return encoded


def _encoded(message: Message, custom: frozenset[str] = NO_CALLS) -> bytes:
    return b",".join(map(message_encoder(message), encode_message(message, custom)))


def _check_ids(message: Message) -> None:
    for index, part in enumerate(message.parts):
        if isinstance(part, FunctionResponse) and not part.id:
            raise ConfigError(
                f"parts[{index}]: the response of {part.name!r} answers no earlier call; on the"
                " Responses wire a response needs the id of its call"
            )


def encode_tools(tools: tuple[Declaration, ...]) -> Raw | None:
    """The declarations as JSON; None if this wire supports none of them."""
    encoded: list[JsonObject] = []
    for tool in tools:
        match tool:
            case FunctionDeclaration():
                encoded.append(_function(tool))
            case ProviderTool(provider=provider, data=data) if provider == PROVIDER:
                encoded.append(data)
            case _:
                name = getattr(tool, "name", type(tool).__name__)
                log.warning("The Responses wire does not support %s; omitting it", name)
    return Raw(encode_json(encoded)) if encoded else None


def _function(tool: FunctionDeclaration) -> JsonObject:
    fields: JsonObject = {"type": "function", "name": tool.name, "parameters": tool.parameters}
    if tool.description:
        fields["description"] = tool.description
    # Without the field, the service may change the schema to a strict one.
    fields["strict"] = tool.strict is True
    return fields


def _tool_choice(choice: ToolChoice, tools: tuple[Declaration, ...]) -> str | JsonObject | None:
    kinds = {each.name: _choice_of(each) for each in tools if not isinstance(each, GoogleSearch)}
    named = [kinds.get(name) or {"type": "function", "name": name} for name in choice.names]
    if choice.mode == "required" and len(named) == 1:
        return named[0]
    if choice.mode == "none" or not named or kinds.keys() <= set(choice.names):
        return None if choice.mode == "auto" else choice.mode
    return {"type": "allowed_tools", "mode": choice.mode, "tools": named}


def _choice_of(tool: FunctionDeclaration | ProviderTool) -> JsonObject:
    if isinstance(tool, FunctionDeclaration):
        return {"type": "function", "name": tool.name}
    return {key: tool.data[key] for key in ("type", "server_label", "name") if key in tool.data}


def _text_format(settings: Settings) -> JsonObject | None:
    schema = settings.response_schema
    if schema is None:
        return None
    if not schema:
        return {"format": {"type": "json_object"}}
    title: Any = settings.response_name or schema.get("title", "")
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(title))[:64] or "response"
    shape: JsonObject = {"type": "json_schema", "name": name, "schema": schema}
    if settings.response_strict is not None:
        shape["strict"] = settings.response_strict
    return {"format": shape}
