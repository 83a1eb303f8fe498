"""JSON Schema: traversal, lookup by path, and a plain form for models. Pure.

A plain schema has no titles, has definitions only for recursion and shared objects, and has its
keys in a fixed order.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from windlass.content import Schema

# The keywords whose values are schemas: one schema, a list, or one for each name.
SINGLE_SCHEMAS = (
    "items",
    "additionalProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
)
SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_DEFINITIONS = ("$defs", "definitions")

_FIRST = ("$ref", "type", "description", "format", "enum", "anyOf", "oneOf", "items", "prefixItems")
_LAST = ("default", "properties", "required", "additionalProperties", "$defs")
_RANK = {
    **{key: rank for rank, key in enumerate(_FIRST)},
    **{key: rank for rank, key in enumerate(_LAST, start=1000)},
}
# `discriminator` is OpenAPI's; its mapping refers to definitions, which are inlined.
_NOISE = ("title", "discriminator")
_ANNOTATIONS = (
    "title",
    "description",
    "default",
    "examples",
    "example",
    "$schema",
    "$id",
    "$comment",
)


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Returns the schema with each direct subschema changed. Other values stay unchanged."""
    result = dict(schema)
    for key in SINGLE_SCHEMAS:
        if isinstance(schema.get(key), dict):
            result[key] = change(schema[key])
    for key in SCHEMA_LISTS:
        if isinstance(schema.get(key), list):
            result[key] = [_changed(item, change) for item in schema[key]]
    for key in NAMED_SCHEMAS:
        if isinstance(schema.get(key), dict):
            result[key] = {name: _changed(item, change) for name, item in schema[key].items()}
    return result


def _changed(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    return change(cast("Schema", schema)) if isinstance(schema, dict) else schema


def referenced(schema: Schema, root: Schema) -> Schema:
    """Resolves a local `$ref`; keys beside it override the target's. Otherwise returns `schema`."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**pointed_at(reference, root), **siblings}
    return schema


def pointed_at(reference: str, root: Schema) -> Schema:
    """Returns the schema at a local reference such as `#/$defs/a`; empty if there is none."""
    place: Any = root if reference.startswith("#") else {}
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = cast("Schema", place).get(name) if isinstance(place, dict) else None
    return cast("Schema", place) if isinstance(place, dict) else {}


def in_place(schema: Schema, step: str | int, root: Schema) -> Schema:
    """Returns the schema of one property or item; empty if there is none."""
    schema = referenced(schema, root)
    found: Any = None
    if isinstance(step, str):
        found = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    else:
        prefix: list[Any] = schema.get("prefixItems", [])
        found = prefix[step] if step < len(prefix) else schema.get("items")
    if isinstance(found, dict):
        return cast("Schema", found)
    for option in options(schema):
        if inner := in_place(option, step, root):
            return inner
    return {}


def schema_at(schema: Schema, path: Sequence[str | int]) -> Schema:
    """Returns the schema at the path; empty if there is none."""
    place = schema
    for step in path:
        place = in_place(place, step, schema)
    return referenced(place, schema)


def options(schema: Schema) -> Iterator[Schema]:
    """Yields the schemas in `anyOf`, `oneOf` and `allOf`."""
    for key in ("anyOf", "oneOf", "allOf"):
        for option in cast("list[Any]", schema.get(key, ())):
            if isinstance(option, dict):
                yield cast("Schema", option)


def accepts_null(schema: Schema) -> bool:
    """Whether null is valid: by type, enum or an alternative, or because nothing excludes it."""
    if "enum" in schema:
        return None in schema["enum"]
    if "type" in schema:
        return "null" in schema["type"]
    if "$ref" in schema or "const" in schema:
        return False
    return not (inner := list(options(schema))) or any(accepts_null(option) for option in inner)


def same_arguments(one: Schema, other: Schema) -> bool:
    """Whether both schemas accept the same arguments, apart from descriptions and defaults."""
    return _without_annotations(one) == _without_annotations(other)


def _without_annotations(schema: Schema) -> Schema:
    result = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    result = mapped(result, _without_annotations)
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]
    for key in ("required", "enum"):
        if isinstance(values := result.get(key), list):
            result[key] = sorted(cast("list[Any]", values), key=repr)
    if not result.get("required"):
        result.pop("required", None)
    return result


def plain(schema: Schema) -> Schema:
    """Returns the schema in the plain form for models."""
    return _Plain(schema.get("$defs", {})).document(schema)


def expanded_size(schema: Schema, limit: int) -> int:
    """Returns the number of subschemas after all local references are expanded.

    A recursive reference counts once. Stops counting above `limit`, because a few definitions that
    refer to each other can expand to more schemas than fit in memory.
    """
    size = 0
    pending: list[tuple[Schema, tuple[str, ...]]] = [(schema, ())]
    while pending and size <= limit:
        inner, inside = pending.pop()
        size += 1
        reference = inner.get("$ref")
        if isinstance(reference, str):
            if reference not in inside and (target := pointed_at(reference, schema)):
                pending.append((target, (*inside, reference)))
            continue

        def visit(each: Schema, inside: tuple[str, ...] = inside) -> Schema:
            pending.append((each, inside))
            return each

        mapped({key: inner[key] for key in inner if key not in _DEFINITIONS}, visit)
    return size


class _Plain:
    """Inlines definitions, except recursive and shared ones."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions
        self._recursive = _recursive(definitions)
        self._kept: set[str] = set(self._recursive)
        self._used: dict[str, None] = {}

    def document(self, schema: Schema) -> Schema:
        body = {key: value for key, value in schema.items() if key != "$defs"}
        uses = Counter(_references([body, *self._definitions.values()]))
        self._kept |= {
            name
            for name, definition in self._definitions.items()
            if uses[name] > 1 and "properties" in definition
        }
        document = self._written(body)
        definitions: dict[str, Schema] = {}
        while pending := [name for name in self._used if name not in definitions]:
            for name in pending:
                definitions[name] = self._written(self._definitions[name])
        return {**document, "$defs": definitions} if definitions else document

    def _written(self, schema: Schema) -> Schema:
        name = _definition_name(schema)
        if name not in self._definitions:
            return _tidied(mapped(self._with_required_tag(schema), self._written))
        siblings = {key: value for key, value in schema.items() if key not in ("$ref", *_NOISE)}
        if name not in self._kept or (siblings and name not in self._recursive):
            return self._written({**self._definitions[name], **siblings})
        self._used[name] = None
        reference = {"$ref": schema["$ref"]}
        # Gemini ignores keys beside a $ref.
        return _tidied({"anyOf": [reference], **siblings}) if siblings else reference

    def _with_required_tag(self, schema: Schema) -> Schema:
        """Makes the tag of a tagged union required, also if it has a default in its class."""
        tag = schema.get("discriminator", {}).get("propertyName")
        if tag is None:
            return schema

        def tagged(option: Schema) -> Schema:
            name = _definition_name(option)
            option = option if name in self._recursive else self._definitions.get(name, option)
            others = [each for each in option.get("required", []) if each != tag]
            return {**option, "required": [tag, *others]} if "properties" in option else option

        return {**schema, "oneOf": [tagged(option) for option in schema.get("oneOf", [])]}


def _recursive(definitions: dict[str, Schema]) -> set[str]:
    """Returns the names of definitions that refer to themselves."""
    leads_to = {name: set(_references([each])) for name, each in definitions.items()}
    left = set(definitions)
    # A definition that refers to no remaining one, or that none refers to, is not recursive.
    for _ in range(2):
        led_from: dict[str, set[str]] = {name: set() for name in left}
        for name in left:
            for other in leads_to[name] & left:
                led_from[other].add(name)
        counts = {name: len(leads_to[name] & left) for name in left}
        ends = [name for name, count in counts.items() if not count]
        while ends:
            end = ends.pop()
            left.discard(end)
            for name in led_from[end] & left:
                counts[name] -= 1
                if not counts[name]:
                    ends.append(name)
        leads_to = led_from
    return left


def _tidied(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key not in _NOISE}
    if "const" in kept:  # more providers understand an enum with one value
        kept["enum"] = [kept.pop("const")]
    keys = sorted(kept, key=lambda key: (_RANK.get(key, 500), key))
    return {key: kept[key] for key in keys}


def _references(schemas: Sequence[Schema]) -> Iterator[str]:
    pending = list(schemas)
    while pending:
        schema = pending.pop()
        if name := _definition_name(schema):
            yield name

        def visit(inner: Schema) -> Schema:
            pending.append(inner)
            return inner

        mapped(schema, visit)


def _definition_name(schema: Schema) -> str:
    reference = schema.get("$ref", "")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""
