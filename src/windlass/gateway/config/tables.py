"""Converts a table of settings to the fields of its struct, and reports every problem.

msgspec validates a setting by its type. It stops at the first mistake, so that each setting is
converted by itself.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Protocol, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from windlass.errors import ConfigError
from windlass.gateway.config.problems import ConfigPath, Severity, nearest
from windlass.gateway.config.values import SECRET, Parse, Rule

_KIND_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


class Report(Protocol):
    """Receives a problem and its place within a table."""

    def __call__(
        self, place: ConfigPath, message: str, severity: Severity = "error", /
    ) -> None: ...


def read_fields(
    kind: type[Struct], table: Mapping[str, Any], report: Report, **given: Any
) -> dict[str, Any]:
    """The fields of a struct that the table sets, and `given` ones, which it cannot set.

    Unknown, missing and invalid settings are reported. A value of a wrong type is left out.
    """
    settings = {f.name: f for f in msgspec.structs.fields(kind) if f.name not in given}
    report_unknown(table, settings, report)
    fields = dict(given)
    for name, setting in settings.items():
        if name in table:
            try:
                fields[name] = _converted(table[name], setting.type)
            except ConfigError as error:
                report((name,), str(error))
            else:
                for place, message in _broken_rules(fields[name], annotations(setting.type)):
                    report((name, *place), message)
        elif setting.required:
            report((), f"{name} is missing")
    return fields


def report_unknown(table: Iterable[str], known: Collection[str], report: Report) -> None:
    """Reports each unknown name, with the most similar known one."""
    for name in table:
        if name not in known:
            report((name,), f"unknown setting{nearest(name, known)}")


def description(kind: Any) -> str:
    """What a setting of this type must be."""
    for note in annotations(kind):
        if isinstance(note, Meta) and note.description:
            return note.description
    if get_origin(kind) is Literal:
        *first, last = map(repr, get_args(kind))
        return f"{', '.join(first)} or {last}" if first else last
    inner: list[str] = [description(each) for each in get_args(kind)]
    return next(filter(None, inner), "")


def annotations(kind: Any) -> tuple[Any, ...]:
    """The annotations of a setting's type, which may be `... | None`."""
    if get_origin(kind) is Annotated:
        return kind.__metadata__
    inner: list[tuple[Any, ...]] = [annotations(each) for each in get_args(kind)]
    return next(filter(None, inner), ())


def kind_name(value: object) -> str:
    """The type of a TOML value in words."""
    return _KIND_NAMES.get(type(value), "a date or a time")


def _converted(value: Any, kind: Any) -> Any:
    """The value of a setting. Raises `ConfigError`, which does not show a secret."""
    notes = annotations(kind)
    for note in notes:
        if isinstance(note, Parse):
            return note.parse(value)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        shown = kind_name(value) if SECRET in notes else _shown(value)
        raise ConfigError(f"must be {description(kind)}, not {shown}") from None


def _broken_rules(value: Any, notes: tuple[Any, ...]) -> Iterator[tuple[ConfigPath, str]]:
    for rule in notes:
        if isinstance(rule, Rule):
            for place, inner in _entries(value) if rule.each else [((), value)]:
                if message := rule.problem(inner):
                    yield place, message


def _entries(value: Any) -> list[tuple[ConfigPath, Any]]:
    """The items of a list, or the names with the values of a table."""
    if isinstance(value, dict):
        return [((entry[0],), entry) for entry in cast("dict[str, Any]", value).items()]
    return [((position,), item) for position, item in enumerate(cast("tuple[Any, ...]", value))]


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"the string {value!r:.60}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value!r:.60}" if isinstance(value, int | float | list) else kind_name(value)
