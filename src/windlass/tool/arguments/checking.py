"""Whether a declared schema is one that arguments can be checked by."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import jsonschema_rs

from windlass.content import Schema
from windlass.jsontext.large import is_larger
from windlass.jsontext.offload import LARGE
from windlass.schema import (
    NAMED_SCHEMAS,
    SCHEMA_LISTS,
    SINGLE_SCHEMAS,
    mapped,
    options,
    pointed_at,
)
from windlass.tool.parameters import TYPES, InvalidSchema

__all__ = ["check_parameters", "validator_of"]

_MEMBERS_AT_ONCE = 2_000
T = TypeVar("T")


def check_parameters(tool: str, schema: Schema, *, runs: bool) -> None:
    """Raises `InvalidSchema` unless arguments can be checked by the schema.

    With `runs` the tool has a function: then each reference and pattern has to work as well.
    """
    if schema.get("type", "object") != "object":
        raise InvalidSchema(tool, "parameters.type", f"it must be 'object', not {schema['type']!r}")
    if runs:
        validator_of(tool, schema)
    else:
        with _telling(tool):
            _validate(schema)
    if runs and (circle := _endless(schema)) is not None:
        raise InvalidSchema(tool, circle, "it refers to itself without an end")


def validator_of(tool: str, schema: Schema) -> jsonschema_rs.Validator:
    """Raises `InvalidSchema`, also for a reference that leads out of the schema."""
    with _telling(tool):
        return jsonschema_rs.validator_for(schema, retriever=_refuse)


def _validate(schema: Schema) -> None:
    """Checks the schema, a large one level by level: no call into the validator is long."""
    if not is_larger(schema, LARGE):
        jsonschema_rs.meta.validate(schema)
        return
    inside: list[Schema] = []

    def set_aside(inner: Schema) -> Schema:
        inside.append(inner)
        return {}

    for level in _in_parts(mapped(schema, set_aside)):
        jsonschema_rs.meta.validate(level)
    for inner in inside:
        _validate(inner)


def _in_parts(schema: Schema) -> Iterator[Schema]:
    """Schemas that are valid if this one is, each without very many members in one place."""
    rest = dict(schema)
    for key, value in schema.items():
        if isinstance(value, dict):
            members = list(cast("Schema", value).items())
            parts: list[Any] = [dict(some) for some in _batches(members)]
        elif key in SCHEMA_LISTS and isinstance(value, list):
            parts = list(_batches(cast("list[Any]", value)))
        else:
            continue
        if len(parts) > 1:
            del rest[key]
            yield from ({key: part} for part in parts)
    yield rest


def _batches(items: list[T]) -> Iterator[list[T]]:
    for place in range(0, len(items), _MEMBERS_AT_ONCE):
        yield items[place : place + _MEMBERS_AT_ONCE]


@contextmanager
def _telling(tool: str) -> Generator[None]:
    try:
        yield
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema(tool, _place(error.instance_path), _reason(error)) from None
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(tool, "parameters", str(error).partition("\n")[0]) from None


def _refuse(address: str) -> Any:
    """A declaration may come from outside: it must not make us fetch addresses."""
    raise ValueError(f"the schema refers to {address}; only references within it are followed")


def _place(path: Sequence[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "parameters" + "".join(steps)


def _reason(error: Any) -> str:
    path = error.instance_path
    is_type = bool(path) and path[-1] == "type" and path[-2:-1] != ["properties"]
    if is_type and isinstance(error.instance, str):
        return f"{error.instance!r} is no type; the types are {', '.join(TYPES)}"
    return str(error.message).partition("\n")[0][:300]


def _endless(root: Schema) -> str | None:
    """The place of a schema whose alternatives lead back to it before a value is looked at."""
    done: set[int] = set()

    def leads_back(schema: Schema, path: tuple[int, ...]) -> bool:
        if id(schema) in path:
            return True
        if id(schema) in done:
            return False
        found = any(leads_back(each, (*path, id(schema))) for each in _alternatives(schema, root))
        done.add(id(schema))
        return found

    for place, schema in _places(root, "parameters"):
        if leads_back(schema, ()):
            return place
    return None


def _alternatives(schema: Schema, root: Schema) -> Iterator[Schema]:
    """The alternatives of the schema and of what it refers to."""
    seen: set[int] = set()
    while id(schema) not in seen:
        seen.add(id(schema))
        yield from options(schema)
        if isinstance(reference := schema.get("$ref"), str):
            schema = pointed_at(reference, root)


def _places(schema: Any, place: str) -> Iterator[tuple[str, Schema]]:
    if not isinstance(schema, dict):
        return
    fields = cast("Schema", schema)
    yield place, fields
    for key in SINGLE_SCHEMAS:
        yield from _places(fields.get(key), f"{place}.{key}")
    for key in SCHEMA_LISTS:
        for index, item in enumerate(fields.get(key) or ()):
            yield from _places(item, f"{place}.{key}[{index}]")
    for key in NAMED_SCHEMAS:
        for name, item in cast("Schema", fields.get(key) or {}).items():
            yield from _places(item, f"{place}.{key}.{name}")
