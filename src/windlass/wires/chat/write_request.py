"""Encodes a model request as the body of a chat completion request. Pure."""

import logging
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw

from windlass.content import (
    Declaration,
    FunctionDeclaration,
    FunctionResponse,
    Message,
    encoded_once,
    paired,
)
from windlass.errors import ConfigError
from windlass.jsontext import encode_json
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.wires.chat.messages import (
    encode_message_json,
)
from windlass.wires.encoding import IdentityCache
from windlass.wires.fields import JsonObject, merged

log = logging.getLogger("windlass.models")

WIRE = "openai"

LimitName: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
OTHER_LIMIT: dict[LimitName, LimitName] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}


class RequestEncoder:
    """Encodes requests to one model. Caches the encoded messages and tools.

    `official` hosts (OpenAI's own) do not support `top_k`; other servers may. The token limit has
    the name that the request uses, or else `max_completion_tokens` for official hosts and
    `max_tokens` for others. If the server refuses a name, the other one is used.
    """

    def __init__(self, model: str, *, official: bool) -> None:
        self._model, self._official = model, official
        self._tools: IdentityCache[tuple[Declaration, ...], Raw | None] = IdentityCache(
            encode_tools
        )
        self.stream_options = True
        """Whether the server supports them. The model sets this after a refusal."""
        self.refused_limit: LimitName | None = None
        """The limit name that the server does not support. The model sets this after a refusal."""

    def limit_name(self, settings: Settings) -> LimitName:
        """The name of the token limit on the wire."""
        usual: LimitName = "max_completion_tokens" if self._official else "max_tokens"
        name = settings.max_tokens_name or usual
        return OTHER_LIMIT[name] if name == self.refused_limit else name

    def body(self, request: ModelRequest) -> bytes:
        """Raises `ConfigError` for a part that this wire does not support."""
        messages = encode_conversation(request.messages)
        fields: JsonObject = {"model": self._model}
        if request.tools and (tools := self._tools.get(request.tools)) is not None:
            fields["tools"] = tools
            if (choice := _tool_choice(request.tool_choice, request.tools)) is not None:
                fields["tool_choice"] = choice
            if request.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = request.parallel_tool_calls
        if request.settings != _NO_SETTINGS:
            fields |= self._settings(request.settings)
        if request.live:
            fields["stream"] = True
            if self.stream_options:
                fields["stream_options"] = {"include_usage": True}
        if request.extra:
            fields = merged(fields, request.extra)
        if "messages" in fields:
            return msgspec.json.encode(fields, enc_hook=str)
        pieces = [piece for message in messages if message for piece in (b",", message)]
        before = msgspec.json.encode(fields, enc_hook=str)[:-1] + b',"messages":['
        return b"".join((before, *pieces[1:], b"]}"))  # releases the GIL for a long body

    def _settings(self, settings: Settings) -> JsonObject:
        fields: JsonObject = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            self.limit_name(settings): settings.max_tokens,
            "stop": settings.stop,
            "seed": settings.seed,
            "presence_penalty": settings.presence_penalty,
            "frequency_penalty": settings.frequency_penalty,
            "logprobs": settings.logprobs,
            "top_logprobs": settings.top_logprobs,
            "reasoning_effort": settings.reasoning_effort,
            "response_format": _response_format(settings),
        }
        if settings.top_k is not None and self._official:
            log.debug("OpenAI does not support top_k; omitting it")
        elif settings.top_k is not None:
            fields["top_k"] = settings.top_k
        return {key: value for key, value in fields.items() if value is not None}


def encode_conversation(messages: Sequence[Message]) -> list[bytes]:
    """The messages as JSON. Raises `ConfigError`, which names the message and the part."""
    encoded: list[bytes] = []
    for index, message in enumerate(paired(messages)):
        if (known := vars(message).get(WIRE)) is not None:
            encoded.append(known)
            continue
        try:
            _check_ids(message)
            encoded.append(encoded_once(message, WIRE, encode_message_json))
        except ConfigError as error:
            place = "." if str(error).startswith("parts[") else ": "
            raise ConfigError(f"messages[{index}]{place}{error}") from None
    return encoded


def _check_ids(message: Message) -> None:
    for index, part in enumerate(message.parts):
        if not isinstance(part, FunctionResponse) or part.id:
            continue
        if part.extra.get(WIRE, {}).get("role") != "function":  # the older form uses the name
            raise ConfigError(
                f"parts[{index}]: the response of {part.name!r} answers no earlier call; on the"
                " OpenAI wire a response needs the id of its call"
            )


_NO_SETTINGS = Settings()


def encode_tools(tools: tuple[Declaration, ...]) -> Raw | None:
    """The declarations as JSON; None if this wire supports none of them."""
    functions: list[JsonObject] = []
    for tool in tools:
        if not isinstance(tool, FunctionDeclaration):
            log.warning("The OpenAI wire does not support %s; omitting it", type(tool).__name__)
            continue
        function: JsonObject = {"name": tool.name, "parameters": tool.parameters}
        if tool.description:
            function["description"] = tool.description
        if tool.strict is not None:
            function["strict"] = tool.strict
        functions.append({"type": "function", "function": function})
    return Raw(encode_json(functions)) if functions else None


def _tool_choice(choice: ToolChoice, tools: tuple[Declaration, ...]) -> str | JsonObject | None:
    if not choice.names:
        return None if choice.mode == "auto" else choice.mode
    named: list[JsonObject] = [
        {"type": "function", "function": {"name": name}} for name in choice.names
    ]
    if choice.mode == "required" and len(named) == 1:
        return named[0]
    functions = {tool.name for tool in tools if isinstance(tool, FunctionDeclaration)}
    # Few servers besides OpenAI's support allowed_tools: send it only if it restricts the choice.
    if choice.mode == "none" or functions <= set(choice.names):
        return None if choice.mode == "auto" else choice.mode
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}


def _response_format(settings: Settings) -> JsonObject | None:
    schema = settings.response_schema
    if schema is None:
        return None
    if not schema:
        return {"type": "json_object"}
    title: Any = settings.response_name or schema.get("title", "")
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(title))[:64] or "response"
    shape: JsonObject = {"name": name, "schema": schema}
    if settings.response_strict is not None:
        shape["strict"] = settings.response_strict
    return {"type": "json_schema", "json_schema": shape}
