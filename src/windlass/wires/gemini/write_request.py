"""Encodes a model request as the body of generateContent. Pure."""

import logging
import re
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Raw

from windlass.content import (
    Declaration,
    FunctionDeclaration,
    GoogleSearch,
    Message,
    ProviderTool,
    encoded_once,
)
from windlass.errors import ConfigError
from windlass.jsontext import encode_json
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.wires.encoding import IdentityCache, message_encoder
from windlass.wires.fields import JsonObject, merged
from windlass.wires.gemini.messages import encode_parts
from windlass.wires.gemini.schema import openapi_schema

log = logging.getLogger("windlass.models")

SchemaForm = Literal["json", "openapi"]
"""How schemas are written: unchanged (`parametersJsonSchema`), or in the older subset."""

THINKING_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
"""The tokens for thoughts by `reasoning_effort`."""
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def is_signed_model(model: str) -> bool:
    """Whether the model requires signatures on calls: Gemini 3 and later."""
    version = re.search(r"gemini-(\d+)", model)
    if version is None:
        return re.search(r"gemini-.*-latest$", model) is not None
    return int(version[1]) >= 3


class RequestEncoder:
    """Encodes requests to one model. Repeated messages and tools are encoded once."""

    def __init__(self, *, ids: bool, signed: bool, schema_form: SchemaForm = "json") -> None:
        self._ids, self._signed = ids, signed
        self._wire = f"gemini{'+ids' if ids else ''}{'+signed' if signed else ''}"
        self._tools: dict[SchemaForm, IdentityCache[tuple[Declaration, ...], Raw]] = {
            "json": IdentityCache(lambda tools: encode_tools(tools, "json")),
            "openapi": IdentityCache(lambda tools: encode_tools(tools, "openapi")),
        }
        self.schema_form: SchemaForm = schema_form
        """Changed when a service supports only the older form."""

    def body(self, request: ModelRequest) -> bytes:
        """The body. Raises `ConfigError`, which names the message and the unsupported part."""
        fields: JsonObject = {"contents": Raw(b"[" + b",".join(self._contents(request)) + b"]")}
        system = [
            self._parts(message, index)
            for index, message in enumerate(request.messages)
            if message.role == "system"
        ]
        if parts := b",".join(filter(None, system)):
            fields["systemInstruction"] = {"parts": Raw(b"[" + parts + b"]")}
        if request.tools:
            fields["tools"] = self._tools[self.schema_form].get(request.tools)
            if config := _function_calling(request):
                fields["toolConfig"] = {"functionCallingConfig": config}
        if generation := _generation_config(request.settings, self.schema_form):
            fields["generationConfig"] = generation
        if request.extra:
            fields = merged(fields, request.extra)
        return msgspec.json.encode(fields, enc_hook=str)

    def _contents(self, request: ModelRequest) -> Iterable[bytes]:
        """The contents. Adjacent tool messages are joined: Gemini needs all results in one turn."""
        before = None
        waiting: list[bytes] = []
        for index, message in enumerate(request.messages):
            parts = b"" if message.role == "system" else self._parts(message, index)
            if not parts:
                continue
            if waiting and not message.role == before == "tool":
                yield _content(before, waiting)
                waiting = []
            waiting.append(parts)
            before = message.role
        if waiting:
            yield _content(before, waiting)

    def _parts(self, message: Message, index: int) -> bytes:
        try:
            return encoded_once(message, self._wire, self._encode)
        except ConfigError as error:
            raise ConfigError(f"messages[{index}].{error}") from None

    def _encode(self, message: Message) -> bytes:
        signed = self._signed and message.role == "assistant"
        parts = encode_parts(message, ids=self._ids, signed=signed, nested=self._signed)
        return b",".join(map(message_encoder(message), parts))


def _content(role: str | None, parts: list[bytes]) -> bytes:
    wire_role = b"model" if role == "assistant" else b"user"
    return b'{"role":"%s","parts":[%s]}' % (wire_role, b",".join(parts))


def encode_tools(tools: tuple[Declaration, ...], form: SchemaForm) -> Raw:
    """The tools: all functions in one entry, and the service's own search."""
    functions: list[JsonObject] = []
    encoded: list[JsonObject] = []
    for tool in tools:
        match tool:
            case FunctionDeclaration():
                functions.append(_declaration(tool, form))
            case GoogleSearch():
                encoded.append({"googleSearch": {}})
            case ProviderTool(provider="gemini", data=data):
                encoded.append(data)
            case ProviderTool():
                log.warning("The Gemini wire does not support %s; omitting it", tool.name)
    if functions:
        encoded.insert(0, {"functionDeclarations": functions})
    return Raw(encode_json(encoded))


def _declaration(tool: FunctionDeclaration, form: SchemaForm) -> JsonObject:
    fields: JsonObject = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    if tool.parameters.get("properties") or form == "json":
        key = "parametersJsonSchema" if form == "json" else "parameters"
        fields[key] = tool.parameters if form == "json" else openapi_schema(tool.parameters)
    return fields


def _function_calling(request: ModelRequest) -> JsonObject | None:
    choice: ToolChoice = request.tool_choice
    if not any(isinstance(tool, FunctionDeclaration) for tool in request.tools):
        return None
    if choice.names and choice.mode != "none":
        # VALIDATED is AUTO among named functions.
        mode = "ANY" if choice.mode == "required" else "VALIDATED"
        return {"mode": mode, "allowedFunctionNames": choice.names}
    return None if choice.mode == "auto" else {"mode": _MODES[choice.mode]}


def _generation_config(settings: Settings, form: SchemaForm) -> JsonObject:
    fields: JsonObject = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "maxOutputTokens": settings.max_tokens,
        "stopSequences": settings.stop,
        "seed": settings.seed,
        "presencePenalty": settings.presence_penalty,
        "frequencyPenalty": settings.frequency_penalty,
        "responseLogprobs": settings.logprobs,
        "logprobs": settings.top_logprobs,
    }
    budget = THINKING_BUDGETS.get(settings.reasoning_effort or "")
    if budget is not None:
        fields["thinkingConfig"] = {"thinkingBudget": budget}
    schema = settings.response_schema
    if schema is not None:
        fields["responseMimeType"] = "application/json"
    if schema and form == "json":
        fields["responseJsonSchema"] = schema
    elif schema:
        fields["responseSchema"] = openapi_schema(schema)
    return {key: value for key, value in fields.items() if value is not None}
