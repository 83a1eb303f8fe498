"""Encodes a model request as the body of generateContent, with schemas in Gemini's form. Pure."""

import logging
import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Raw

from windlass.content import (
    Declaration,
    FunctionDeclaration,
    GoogleSearch,
    Message,
    ProviderTool,
    Schema,
    encoded_once,
)
from windlass.errors import ConfigError
from windlass.jsontext import encode_json
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.wires.encoding import IdentityCache, message_encoder
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, merged
from windlass.wires.gemini.messages import encode_parts

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


_KEPT = (
    "title",
    "description",
    "default",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "propertyOrdering",
)
FORMATS = {
    "string": ("date-time", "enum"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
"""The formats that Gemini accepts, by type."""
_ANYTHING: Schema = {"type": "STRING"}


def openapi_schema(schema: Schema) -> Schema:
    """The nearest schema in the subset. Unsupported parts are left out.

    References are resolved, recursive ones only once; null becomes `nullable`.
    """
    definitions: Schema = {**_definitions(schema, "$defs"), **_definitions(schema, "definitions")}
    return _converted(schema, definitions, ())


def _definitions(schema: Schema, key: str) -> Schema:
    found = as_object(schema.get(key)) or {}
    return {f"#/{key}/{name}": value for name, value in found.items()}


def _converted(value: object, definitions: Schema, inside: tuple[str, ...]) -> Schema:
    schema = as_object(value)
    if schema is None:
        return dict(_ANYTHING)  # `true`, or not a schema
    reference = as_text(schema.get("$ref"))
    if reference is not None:
        target = as_object(definitions.get(reference))
        if target is None or reference in inside:
            return {"type": "OBJECT"}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _converted({**target, **beside}, definitions, (*inside, reference))
    schema, nullable = _without_null(merged_all_of(schema))
    if isinstance(schema.get("$ref"), str):
        result = _converted(schema, definitions, inside)
    else:
        result = {key: schema[key] for key in _KEPT if key in schema}
        result |= _shape(schema, definitions, inside)
    return result | ({"nullable": True} if nullable else {})


def _shape(schema: Schema, definitions: Schema, inside: tuple[str, ...]) -> Schema:
    """The type and the fields that depend on it."""
    options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    if options:
        return {"anyOf": [_converted(option, definitions, inside) for option in options]}
    values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    if values:
        # Enums must be strings; the tool's validation reads "3" as 3 where 3 is expected.
        return {"type": "STRING", "enum": [enumerated(value) for value in values]}
    kind = as_text(schema.get("type")) or ("object" if "properties" in schema else "string")
    shape: Schema = {"type": kind.upper()}
    if schema.get("format") in FORMATS.get(kind, ()):
        shape["format"] = schema["format"]
    if kind == "array":
        shape["items"] = _converted(schema.get("items"), definitions, inside)
    properties = as_object(schema.get("properties"))
    if kind == "object" and properties:
        shape["properties"] = {
            name: _converted(value, definitions, inside) for name, value in properties.items()
        }
        named = map(as_text, as_list(schema.get("required")) or ())
        required = [name for name in named if name in properties]
        shape |= {"required": required} if required else {}
    return shape


def enumerated(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def merged_all_of(schema: Schema) -> Schema:
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in as_list(schema.get("allOf")) or ():
        for key, value in (as_object(part) or {}).items():
            old, new = as_object(merged.get(key)), as_object(value)
            if old is not None and new is not None:
                merged[key] = {**new, **old}
            elif key == "required":
                merged[key] = [*(as_list(merged.get(key)) or ()), *(as_list(value) or ())]
            else:
                merged.setdefault(key, value)
    return merged


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    """The schema without null, and whether it allowed null. A single option replaces the union."""
    result, nullable = dict(schema), schema.get("nullable") is True
    if (types := as_list(schema.get("type"))) is not None:
        kinds = [kind for kind in types if kind != "null"]
        nullable = nullable or len(kinds) < len(types)
        result["type"] = kinds[0] if len(kinds) == 1 else None
        if len(kinds) != 1:
            result["anyOf"] = [{**_bare(schema), "type": kind} for kind in kinds]
    for key in ("anyOf", "oneOf"):
        options = as_list(result.get(key))
        if options is None:
            continue
        kept = [option for option in options if (as_object(option) or {}).get("type") != "null"]
        nullable = nullable or len(kept) < len(options)
        result[key] = kept
        if len(kept) == 1 and (only := as_object(kept[0])) is not None:
            del result[key]
            result = {**only, **result}
    if (values := as_list(result.get("enum"))) is not None and None in values:
        nullable = True
        result["enum"] = [value for value in values if value is not None]
    return result, nullable


def _bare(schema: Schema) -> Schema:
    """The fields that describe each of several types, not their union."""
    return {key: schema[key] for key in ("items", "properties", "required") if key in schema}
