"""Tool declarations from other libraries, converted to plain JSON Schema. Pure.

Declarations may be dictionaries of OpenAI, of Gemini or with a name. Parameters may be JSON Schema,
Gemini's dialect (types in capitals, `nullable`, counts as text), keys in snake case, objects of
google-genai and other pydantic models, a pydantic class, or a worker's list of parameters.
"""

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from windlass.content import (
    Declaration,
    FunctionDeclaration,
    GoogleSearch,
    ProviderTool,
    Schema,
    no_parameters,
)
from windlass.errors import ConfigError
from windlass.schema import NAMED_SCHEMAS, SCHEMA_LISTS, SINGLE_SCHEMAS

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_HAS_SCHEMAS = frozenset((*SINGLE_SCHEMAS, *SCHEMA_LISTS, *NAMED_SCHEMAS, "defs"))
_UNSPECIFIED = "type_unspecified"
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_LISTED_KEYS = ("name", "type", "description", "required", "default", "default_value")
_LISTED_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
}
"""Names of types in a worker's list of parameters, and their names in JSON Schema."""
_SNAKE_KEYS = {
    "additional_properties": "additionalProperties",
    "all_of": "allOf",
    "any_of": "anyOf",
    "exclusive_maximum": "exclusiveMaximum",
    "exclusive_minimum": "exclusiveMinimum",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "min_length": "minLength",
    "min_properties": "minProperties",
    "multiple_of": "multipleOf",
    "one_of": "oneOf",
    "pattern_properties": "patternProperties",
    "prefix_items": "prefixItems",
    "property_names": "propertyNames",
    "property_ordering": "propertyOrdering",
    "unique_items": "uniqueItems",
}


class InvalidSchema(ConfigError):
    """A tool's parameters are not a JSON Schema. `place` is the wrong field, `reason` is why."""

    def __init__(self, tool: str, place: str, reason: str) -> None:
        super().__init__(f"{tool}: the parameters are not a JSON Schema: {place}: {reason}")
        self.place, self.reason = place, reason


def normalised_parameters(tool: str, given: Any) -> Schema:
    """Returns the parameters as plain JSON Schema; the given object if it is plain already.

    Raises `InvalidSchema`, which names the wrong field, if it is not a schema in any form.
    """
    if given is None:
        return no_parameters()
    if _is_sequence(given):
        return _from_list(tool, given)
    if isinstance(given, bool):
        raise InvalidSchema(tool, "parameters", f"expected an object, got {given!r}")
    try:
        schema = _Normaliser(tool).schema(given, "parameters")
        assert isinstance(schema, dict)
        if type(given) is dict and schema == given:
            return cast("Schema", given)
    except RecursionError:
        raise InvalidSchema(tool, "parameters", "nested too deeply") from None
    return schema or no_parameters()


def plain_fields(value: Any) -> Mapping[str, Any] | None:
    """Returns the value as a mapping, if it is one or a pydantic object; otherwise None."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    if not callable(dump):
        return None
    return cast("Mapping[str, Any]", dump(mode="json", by_alias=True, exclude_none=True))


class _Normaliser:
    """Normalises one tool's schema."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def schema(self, value: Any, place: str) -> Schema | bool:
        if isinstance(value, bool):
            return value
        result = self._fields(value, place)
        for key in SINGLE_SCHEMAS:
            if key in result and not (key == "items" and isinstance(result[key], list)):
                result[key] = self.schema(result[key], f"{place}.{key}")
        for key in SCHEMA_LISTS:
            if _is_sequence(result.get(key)):
                result[key] = [
                    self.schema(item, f"{place}.{key}[{index}]")
                    for index, item in enumerate(result[key])
                ]
        for key in NAMED_SCHEMAS:
            if isinstance(result.get(key), Mapping):
                result[key] = {
                    name: self.schema(item, f"{place}.{key}.{name}")
                    for name, item in result[key].items()
                }
        return _nullable(_bounds(result))

    def _fields(self, value: Any, place: str) -> Schema:
        """Returns a schema's own keys in the usual spelling, with JSON values."""
        fields = _fields_of(value)
        if fields is None:
            raise InvalidSchema(self._tool, place, f"expected a schema, got {repr(value)[:80]}")
        result: Schema = {}
        for key, item in fields.items():
            key = _SNAKE_KEYS.get(key, key)
            result.setdefault(key, item if key in _HAS_SCHEMAS else self._json(item, place, key))
        if isinstance(result.get("ref"), str):
            result["$ref"] = result.pop("ref").replace("#/defs/", "#/$defs/")
        if isinstance(result.get("defs"), Mapping):
            result["$defs"] = result.pop("defs")
        if "type" in result:
            kind = _type(result["type"])
            if kind == _UNSPECIFIED:
                del result["type"]
            else:
                result["type"] = kind
        return result

    def _json(self, value: Any, place: str, key: str) -> Any:
        """Converts enum members to values, and tuples to lists; refuses what is not JSON."""
        if isinstance(value, enum.Enum):
            return value.value
        if isinstance(value, tuple | list):
            return [self._json(item, place, key) for item in cast("Sequence[Any]", value)]
        if isinstance(value, dict):
            fields = cast("dict[Any, Any]", value)
            return {name: self._json(item, place, key) for name, item in fields.items()}
        if value is None or isinstance(value, str | int | float):
            return value
        raise InvalidSchema(self._tool, f"{place}.{key}", f"not a JSON value: {value!r:.80}")


def _fields_of(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, type) and callable(getattr(value, "model_json_schema", None)):
        return cast("Any", value).model_json_schema()
    if (fields := plain_fields(value)) is not None:
        return fields
    adapter = None if isinstance(value, type) else getattr(value, "json_schema", None)
    # pydantic's TypeAdapter
    return cast("Mapping[str, Any]", adapter()) if callable(adapter) else None


def _type(value: Any) -> Any:
    if isinstance(value, list):
        return [_type(item) for item in cast("list[Any]", value)]
    if isinstance(value, str) and value.lower() in (*TYPES, _UNSPECIFIED):
        return value.lower()
    return value


def _bounds(schema: Schema) -> Schema:
    """Converts counts that are strings, and OpenAPI's `exclusiveMinimum: true`."""
    for key in _COUNTS:
        if isinstance(count := schema.get(key), str) and count.isdecimal():
            schema[key] = int(count)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool):
            applies = schema.pop(exclusive) and bound in schema
            if applies:
                schema[exclusive] = schema.pop(bound)
    return schema


def _nullable(schema: Schema) -> Schema:
    if schema.pop("nullable", False) is not True:
        return schema
    outer = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    return {"anyOf": [schema, {"type": "null"}], **outer}


def _from_list(tool: str, given: Sequence[Any]) -> Schema:
    """Reads a worker's list of parameters: `name`, `type`, `required` and keys of a schema."""
    properties: Schema = {}
    required: list[str] = []
    for index, item in enumerate(given):
        place = f"parameters[{index}]"
        fields = attributes_of(item, _LISTED_KEYS)
        if fields is None or not isinstance(name := fields.get("name"), str) or not name:
            raise InvalidSchema(tool, place, f"expected a parameter with a name, got {item!r:.80}")
        if name in properties:
            raise InvalidSchema(tool, place, f"duplicate parameter {name!r}")
        if not isinstance(needed := fields.get("required", False), bool):
            wrong = f"required must be true or false, not {needed!r:.80}"
            raise InvalidSchema(tool, place, wrong)
        properties[name] = _Normaliser(tool).schema(_listed_schema(tool, place, fields), place)
        if needed:
            required.append(name)
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _listed_schema(tool: str, place: str, fields: Mapping[str, Any]) -> Schema:
    """Returns the schema of one parameter of a list, whose type may be named as in Python."""
    own = {key: value for key, value in fields.items() if key not in ("name", "required")}
    if "default_value" in own:
        own.setdefault("default", own.pop("default_value"))
    kind = own.get("type")
    if not isinstance(kind, str):
        return own
    known = _LISTED_TYPES.get(kind.lower(), kind.lower())
    if known in ("any", _UNSPECIFIED):
        del own["type"]
    elif known in TYPES:
        own["type"] = known
    else:
        reason = f"unknown type {kind[:80]!r} (known: {', '.join((*TYPES, *_LISTED_TYPES))}, any)"
        raise InvalidSchema(tool, f"{place}.type", reason)
    return own


def attributes_of(value: Any, keys: Sequence[str]) -> Mapping[str, Any] | None:
    """Returns the value as a mapping, also if these keys are attributes of an object."""
    fields = plain_fields(value)
    if fields is None and hasattr(value, "name"):
        found = {key: getattr(value, key, None) for key in keys}
        return {key: item for key, item in found.items() if item is not None}
    return fields


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


SEARCH_NAME = "google_search"
_SEARCH_FUNCTIONS = ("googleSearch", "googleSearchRetrieval", "google_search_retrieval")
_SEARCH_KEYS = (SEARCH_NAME, *_SEARCH_FUNCTIONS)
_RESPONSES_TYPES = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "custom",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "namespace",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_preview",
    }
)
"""OpenAI's own tools in the Responses API; `custom` takes free text."""
_DECLARATIONS = ("functionDeclarations", "function_declarations")
_JSON_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "inputSchema", "input_schema")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MAX_NAME_CHARS = 64


def check_name(name: str) -> str:
    """Returns the name. Raises `ConfigError` if a provider would refuse it."""
    if len(name) > _MAX_NAME_CHARS:
        raise ConfigError(
            f"the tool name {name[:80]!r} has {len(name)} characters;"
            f" the maximum is {_MAX_NAME_CHARS}"
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"invalid tool name {name!r}: it must start with a letter or _, followed by"
            " letters, digits, _ and -"
        )
    return name


def one_declaration(value: Any) -> Declaration:
    """Returns the only declaration in the value. Raises `ConfigError` for none or several."""
    if isinstance(value, (FunctionDeclaration, GoogleSearch, ProviderTool)):
        return value
    fields = plain_fields(value)
    if fields is None:
        raise ConfigError(f"not a declaration: {_cut(value)} ({type(value).__name__})")
    found = list(declarations_in(fields))
    if len(found) != 1:
        raise ConfigError(f"expected one function declaration, got {len(found)}: {value!r}")
    return found[0]


def in_json_schema(declaration: Declaration) -> Declaration:
    """Returns the declaration with parameters in plain JSON Schema.

    Raises `ConfigError` for parameters that are not a schema in any form.
    """
    if not isinstance(declaration, FunctionDeclaration):
        return declaration
    parameters = normalised_parameters(declaration.name, declaration.parameters)
    if parameters is declaration.parameters:
        return declaration
    return msgspec.structs.replace(declaration, parameters=parameters)


def declarations_in(value: Mapping[str, Any]) -> Iterator[Declaration]:
    """Yields every declaration in the dictionary, with unchanged parameters.

    Raises `ConfigError` if there is none.
    """
    match value:
        case {"type": "function", "function": Mapping()}:
            yield _function(value["function"], value)
        case {"type": str(kind)} if kind in _RESPONSES_TYPES:
            yield ProviderTool("responses", dict(value))
        case {"name": str()}:
            yield _function(value, value)
        case _ if any(key in value for key in (*_DECLARATIONS, *_SEARCH_KEYS)):
            yield from _gemini_tool(value)
        case _:
            raise ConfigError(
                f"not a tool: {_cut(value)}; a dictionary needs the key 'name', 'function'"
                " (OpenAI) or 'functionDeclarations' (Gemini)"
            )


def _gemini_tool(value: Mapping[str, Any]) -> Iterator[Declaration]:
    for key in _DECLARATIONS:
        for function in value.get(key) or ():
            if isinstance(function, FunctionDeclaration):
                yield function
                continue
            fields = plain_fields(function)
            if fields is None:
                raise ConfigError(f"not a function declaration: {_cut(function)}")
            yield _function(fields, value)
    if any(key in value for key in _SEARCH_KEYS):
        yield GoogleSearch()


def _function(function: Mapping[str, Any], whole: Mapping[str, Any]) -> Declaration:
    name = function.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"not a tool: {_cut(whole)}; the function has no name")
    if name in _SEARCH_FUNCTIONS:  # how clients without a type for Gemini's search declare it
        return GoogleSearch()
    schemas = [function[key] for key in ("parameters", *_JSON_SCHEMAS) if function.get(key)]
    description = function.get("description") or ""
    strict = function.get("strict")
    return FunctionDeclaration(
        name,
        description,
        schemas[0] if schemas else no_parameters(),
        strict if isinstance(strict, bool) else None,
    )


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
