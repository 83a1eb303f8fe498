"""Converts TOML tables to structs and collects every problem, not just the first."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from windlass.gateway.config.problems import ConfigProblems, Place, nearest

S = TypeVar("S", bound=Struct)

_SECRET = frozenset(
    {"api_key_env", "base_url", "command", "env", "hash", "headers", "nats", "token_env", "url"}
)
"""Fields whose values are not shown in messages: they may be or contain a secret."""

_KINDS: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def as_table(value: object, place: Place, form: str, problems: ConfigProblems) -> dict[str, Any]:
    """The table; if it is none, an empty one and a problem that shows the right `form`."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    problems.add(place, f"must be a table {form}, not {_kind(value)}")
    return {}


def named_tables(
    value: object, section: str, problems: ConfigProblems
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables `[section.NAME]` with their names; an invalid name is a problem."""
    form = f"[{section}.NAME]"
    for name, table in as_table(value, (section,), form, problems).items():
        if not isinstance(table, dict):
            problems.add((section, name), f"must be a table {form}, not {_kind(table)}")
        elif not name or not name.isprintable():
            problems.add((section, name), "a name must not be empty or contain control characters")
        else:
            yield name, cast("dict[str, Any]", table)


def fields_from(
    kind: type[Struct],
    table: Mapping[str, Any],
    place: Place,
    problems: ConfigProblems,
    **given: Any,
) -> dict[str, Any]:
    """The valid fields of a table for a struct.

    Unknown, invalid and missing fields are problems. `given` are fields that the table cannot set.
    """
    fields = {f.name: f for f in msgspec.structs.fields(kind) if f.name not in given}
    unknown_names(table, fields, place, problems)
    for name, field in fields.items():
        if field.required and name not in table:
            problems.add(place, f"{name} is missing")
    values: dict[str, Any] = dict(given)
    for name, value in table.items():
        if name not in fields:
            continue
        try:
            values[name] = msgspec.convert(value, fields[name].type)
        except msgspec.ValidationError:
            shown = _kind(value) if name in _SECRET else _shown(value)
            problems.add((*place, name), f"must be {_description(fields[name].type)}, not {shown}")
    return values


def built(kind: type[S], fields: Mapping[str, Any]) -> S | None:
    """The struct, or None if a required field is missing."""
    required = (field.name for field in msgspec.structs.fields(kind) if field.required)
    return kind(**fields) if all(name in fields for name in required) else None


def unknown_names(
    table: Mapping[str, Any], known: Collection[str], place: Place, problems: ConfigProblems
) -> None:
    """Adds a problem for each unknown name."""
    for name in table:
        if name not in known:
            problems.add((*place, name), f"unknown setting{nearest(name, known)}")


def _description(kind: Any) -> str:
    """The description of a field's type, which may be a part of `... | None`."""
    if get_origin(kind) is Annotated:
        return next(meta.description or "" for meta in get_args(kind) if isinstance(meta, Meta))
    return next(filter(None, (_description(inner) for inner in get_args(kind))), "")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"the string {value!r:.60}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value!r:.60}" if isinstance(value, int | float | list) else _kind(value)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date or a time")
