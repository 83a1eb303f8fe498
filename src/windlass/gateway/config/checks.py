"""Checks of a configuration's values, and the conversion of its tables to structs.

The functions `..._problem` return an error message or None. The others add every problem that they
find, not just the first. A message never repeats a value that may be a secret.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from windlass.gateway.config.problems import ConfigProblems, Place, nearest
from windlass.models import PROVIDERS

S = TypeVar("S", bound=Struct)
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SESSION_PATTERN = re.compile(r"[A-Za-z0-9_*?\[\]!-]+")
_USUAL_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_SECRET_FIELDS = frozenset(
    {"api_key_env", "base_url", "command", "env", "hash", "headers", "nats", "token_env", "url"}
)
"""Fields whose values are not shown in messages: they may be or contain a secret."""
_KIND_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def target_problem(target: str) -> str | None:
    provider, slash, model = target.partition("/")
    if not (provider and slash and model) or not target.isprintable():
        return f"must be provider/model, such as 'openai/gpt-5-mini', not {target!r}"
    if provider not in PROVIDERS:
        return f"unknown provider {provider!r}{nearest(provider, PROVIDERS)}"
    return None


def host_problem(host: str) -> str | None:
    if _address(host) or _HOST_NAME.fullmatch(host):
        return None
    return f"must be an IP address or a host name, without scheme, port or brackets, not {host!r}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    address = _address(host)
    return address.is_loopback if address else host.lower() == "localhost"


def origin_problem(origin: str) -> str | None:
    if origin == "*":
        return None
    parts = _split(origin)
    if parts is None or f"{parts[0]}://{parts[1]}" != origin or "@" in origin:
        return "must be '*' or scheme://host without a path, such as 'https://chat.example.com'"
    return None


def url_problem(url: str) -> str | None:
    parts = _split(url)
    if parts is None or parts[0] not in ("http", "https"):
        return "must be a URL that starts with http:// or https://"
    return None


def header_problem(name: str, value: str) -> str | None:
    if not _HEADER_NAME.fullmatch(name):
        return "not a valid header name"
    if not (value.isascii() and value.isprintable()):
        return "the value of a header must be printable ASCII"
    return None


def variable_problem(name: str, environ: Mapping[str, str]) -> str | None:
    """Does not repeat an unusual name: it may be the key itself, in the wrong place."""
    if environ.get(name):
        return None
    if _USUAL_VARIABLE.fullmatch(name):
        return f"the environment variable {name} is not set"
    return (
        "must be the name of an environment variable that is set, such as OPENAI_API_KEY;"
        " never write the key itself here"
    )


def session_problem(pattern: str) -> str | None:
    """Rejects a pattern that cannot match the name of any session."""
    if _SESSION_PATTERN.fullmatch(pattern):
        return None
    return (
        f"{pattern!r} matches no session: names have letters, digits, `-` and `_`,"
        " and patterns may also use `*`, `?` and `[...]`"
    )


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, each once."""
    seen: set[str] = set()
    duplicates: dict[str, None] = {}
    for name in names:
        if name in seen:
            duplicates[name] = None
        seen.add(name)
    return list(duplicates)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _split(url: str) -> tuple[str, str] | None:
    """The scheme and the host with its port; None if the URL is invalid."""
    try:
        parts = urlsplit(url)
        complete = bool(parts.scheme and parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    printable = url.isprintable() and " " not in url
    return (parts.scheme, parts.netloc) if complete and printable else None


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
            shown = _kind(value) if name in _SECRET_FIELDS else _shown(value)
            problems.add((*place, name), f"must be {_description(fields[name].type)}, not {shown}")
    return values


def build_struct(kind: type[S], fields: Mapping[str, Any]) -> S | None:
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
    return _KIND_NAMES.get(type(value), "a date or a time")
