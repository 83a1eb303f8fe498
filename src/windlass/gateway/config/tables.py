"""Tables become values, and what does not fit becomes a problem: all of them, not the first."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from windlass.gateway.config.problems import Place, Problems, nearest

__all__ = ["as_table", "built", "fields_from", "named_tables", "unknown_names"]

S = TypeVar("S", bound=Struct)

_SECRET = frozenset(
    {"api_key_env", "base_url", "command", "env", "hash", "headers", "nats", "token_env", "url"}
)
"""Fields whose value is not shown: it is a secret, may hold one, or stands where one was put."""

_KINDS: dict[type, str] = {
    bool: "true or false",
    str: "a text",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def as_table(value: object, place: Place, form: str, problems: Problems) -> dict[str, Any]:
    """The table, or an empty one and a problem that says how it is written."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    problems.add(place, f"must be a table, written {form}, not {_kind(value)}")
    return {}


def named_tables(
    value: object, section: str, problems: Problems
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables `[section.NAME]` by their names. Names that cannot be used are problems."""
    form = f"[{section}.NAME]"
    for name, table in as_table(value, (section,), form, problems).items():
        if not isinstance(table, dict):
            problems.add((section, name), f"must be a table, written {form}, not {_kind(table)}")
        elif not name or not name.isprintable():
            problems.add((section, name), "a name must not be empty or have control characters")
        else:
            yield name, cast("dict[str, Any]", table)


def fields_from(
    kind: type[Struct], table: Mapping[str, Any], place: Place, problems: Problems, **given: Any
) -> dict[str, Any]:
    """The fields of a struct that a table gives and that fit; the others are problems.

    `given` are fields that are not the table's to say. A needed field that is missing is a problem
    too.
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
            problems.add((*place, name), f"must be {_words(fields[name].type)}, not {shown}")
    return values


def built(kind: type[S], fields: Mapping[str, Any]) -> S | None:
    """The struct, or None if it lacks a field that it needs."""
    needed = (field.name for field in msgspec.structs.fields(kind) if field.required)
    return kind(**fields) if all(name in fields for name in needed) else None


def unknown_names(
    table: Mapping[str, Any], known: Collection[str], place: Place, problems: Problems
) -> None:
    """Adds a problem for each name that means nothing."""
    for name in table:
        if name not in known:
            problems.add((*place, name), f"there is no such setting{nearest(name, known)}")


def _words(kind: Any) -> str:
    """The description of a field's type, which may be inside of `... | None`."""
    if get_origin(kind) is Annotated:
        return next(each.description or "" for each in get_args(kind) if isinstance(each, Meta))
    return next(filter(None, (_words(each) for each in get_args(kind))), "")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"the text {value!r:.60}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value!r:.60}" if isinstance(value, int | float | list) else _kind(value)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date or a time")
