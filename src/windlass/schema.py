"""JSON Schema as a value: walking it, finding a place in it, and making it plain for a model.

Plain means: no titles, definitions only where they are recursive or stand for a shared object, and
an order of keys that never changes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from windlass.content import Schema

# The keywords whose values are schemas: one, a list of them, or one for each name.
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
# `discriminator` is OpenAPI's; its mapping points at definitions that are written out in place.
_NOISE = ("title", "discriminator")
_WORDS = ("title", "description", "default", "examples", "example", "$schema", "$id", "$comment")


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with each direct subschema changed. Values such as defaults are left alone."""
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
    """The schema that a local `$ref` points to, its own keys standing over it; otherwise itself."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**pointed_at(reference, root), **siblings}
    return schema


def pointed_at(reference: str, root: Schema) -> Schema:
    """The schema at a local reference such as `#/$defs/a`; empty if there is none."""
    place: Any = root if reference.startswith("#") else {}
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = cast("Schema", place).get(name) if isinstance(place, dict) else None
    return cast("Schema", place) if isinstance(place, dict) else {}


def in_place(schema: Schema, step: str | int, root: Schema) -> Schema:
    """What the schema says of one property or item; empty where it says nothing."""
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
    """What the schema says of the place that the path leads to, as far as it can be told."""
    place = schema
    for step in path:
        place = in_place(place, step, schema)
    return referenced(place, schema)


def options(schema: Schema) -> Iterator[Schema]:
    """The alternatives and the parts of a schema."""
    for key in ("anyOf", "oneOf", "allOf"):
        for option in cast("list[Any]", schema.get(key, ())):
            if isinstance(option, dict):
                yield cast("Schema", option)


def accepts_null(schema: Schema) -> bool:
    """Whether null fits: its type, its values or an alternative say so, or nothing rules it out."""
    if "enum" in schema:
        return None in schema["enum"]
    if "type" in schema:
        return "null" in schema["type"]
    if "$ref" in schema or "const" in schema:
        return False
    return not (inner := list(options(schema))) or any(accepts_null(option) for option in inner)


def same_arguments(one: Schema, other: Schema) -> bool:
    """Whether both describe the same arguments, in whatever words they describe them."""
    return _without_words(one) == _without_words(other)


def _without_words(schema: Schema) -> Schema:
    result = {key: value for key, value in schema.items() if key not in _WORDS}
    result = mapped(result, _without_words)
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]
    for key in ("required", "enum"):
        if isinstance(values := result.get(key), list):
            result[key] = sorted(cast("list[Any]", values), key=repr)
    if not result.get("required"):
        result.pop("required", None)
    return result


def plain(schema: Schema) -> Schema:
    """The same schema as a model should read it."""
    return _Plain(schema.get("$defs", {})).document(schema)


def expanded_size(schema: Schema, most: int) -> int:
    """The number of subschemas once local references are replaced by what they mean.

    A reference inside its own meaning counts once. Stops counting above `most`: a few definitions
    that refer to each other can stand for more schemas than there is memory.
    """
    size = 0
    pending: list[tuple[Schema, tuple[str, ...]]] = [(schema, ())]
    while pending and size <= most:
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
    """Writes definitions out in place, except those that must stay."""

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
        # Gemini reads nothing that stands beside a $ref.
        return _tidied({"anyOf": [reference], **siblings}) if siblings else reference

    def _with_required_tag(self, schema: Schema) -> Schema:
        """A tagged union goes by its tag, also where the tag has a default in its own class."""
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
    """The definitions that lead to themselves."""
    leads_to = {name: set(_references([each])) for name, each in definitions.items()}
    left = set(definitions)
    # What leads to nothing that is left is not recursive, and what nothing leads to is not either.
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
    if "const" in kept:  # an enum of one is understood by more providers
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
