"""Reads the sections of `windlass.toml`, and checks the rules between several settings.

msgspec validates a setting by its type. It stops at the first mistake, so each setting is converted
separately, and every problem is reported.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from windlass.errors import ConfigError
from windlass.gateway.config.checks import variable_problem
from windlass.gateway.config.problems import ConfigPath, ConfigProblems, Severity, nearest
from windlass.gateway.config.values import (
    SECRET,
    ConfigFile,
    KeyConfig,
    McpConfig,
    ModelConfig,
    Parse,
    Rule,
    RunsConfig,
)

_KIND_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


class Report(Protocol):
    """A function that receives a problem and its place in a table."""

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
    """What a setting of this type must be, for messages."""
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


S = TypeVar("S", bound=Struct)
Fields: TypeAlias = Mapping[str, Any]
MCP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


class FileReader:
    """Reads the content of a file. Defaults replace invalid settings."""

    def __init__(
        self, content: Mapping[str, Any], environ: Mapping[str, str], problems: ConfigProblems
    ) -> None:
        self._content, self._environ, self._problems = content, environ, problems
        self._seen: set[tuple[str, str]] = set()
        """The names and hashes of the keys so far."""

    def read(self) -> ConfigFile:
        sections = {field.name: field.type for field in msgspec.structs.fields(ConfigFile)}
        report_unknown(self._content, sections, self._problems.add)
        if not self._content.get("models"):
            message = 'no models are configured: add [models.NAME] with target = "provider/model"'
            self._problems.add((), message)
        given = {
            name: self._section(kind, self._content[name], name)
            for name, kind in sections.items()
            if name in self._content
        }
        return ConfigFile(**{name: value for name, value in given.items() if value is not None})

    def _section(self, kind: Any, value: object, name: str) -> Any:
        """A table, tables by name, or a list of tables, depending on the section's type."""
        structs = (kind, *get_args(kind))
        struct = next(s for s in structs if isinstance(s, type) and issubclass(s, Struct))
        if get_origin(kind) is tuple:
            if not isinstance(value, list):
                self._problems.add((name,), f"must be a list of tables [[{name}]]")
                return None
            tables = enumerate(cast("list[object]", value))
            read = [self._table(struct, each, (name, n), f"[[{name}]]") for n, each in tables]
            return tuple(each for each in read if each is not None)
        if get_origin(kind) is not dict:
            return self._table(struct, value, (name,), f"[{name}]")
        form, named = f"[{name}.NAME]", dict[str, Struct]()
        for key, table in (self._as_table(value, (name,), form) or {}).items():
            if not key or not key.isprintable():
                message = "a name must not be empty or contain control characters"
                self._problems.add((name, key), message)
            elif (read := self._table(struct, table, (name, key), form, name=key)) is not None:
                named[key] = read
        return named

    def _table(
        self, kind: type[S], value: object, place: ConfigPath, form: str, **given: Any
    ) -> S | None:
        """The struct of a table; None if the value is not a table or lacks a required setting."""
        table = self._as_table(value, place, form)
        if table is None:
            return None

        def report(inner: ConfigPath, message: str, severity: Severity = "error", /) -> None:
            self._problems.add((*place, *inner), message, severity)

        fields = read_fields(kind, table, report, **given)
        if kind in _RELATIONS:
            _RELATIONS[kind](self, fields, table.keys(), report)
        required = (field.name for field in msgspec.structs.fields(kind) if field.required)
        return kind(**fields) if all(name in fields for name in required) else None

    def _as_table(self, value: object, place: ConfigPath, form: str) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        self._problems.add(place, f"must be a table {form}, not {kind_name(value)}")
        return None

    # Rules between settings get the valid fields and the names of all that the table sets.

    def check_model(self, fields: Fields, names: Set[str], report: Report) -> None:
        self._warn_unset(fields, "api_key_env", report)
        if fields.get("tools") and not fields.get("function_calling", True):
            message = "the model gets none of these tools, because function_calling is false"
            report(("tools",), message, "warning")
        if "max_cost" in fields and "prices" not in names:
            report(
                ("max_cost",),
                "needs the model's prices: set prices = { input = ..., output = ... }",
            )

    def check_mcp(self, fields: Fields, names: Set[str], report: Report) -> None:
        if not MCP_NAME.fullmatch(fields["name"]):
            report((), "a name must be a letter, then up to 31 letters, digits, _ and -")
        if ("command" in names) == ("url" in names):
            report((), "set either command or url")
        for field, kind in (
            ("env", "command"),
            ("cwd", "command"),
            ("headers", "url"),
            ("token_env", "url"),
            ("auth", "url"),
            ("client_id", "auth"),
            ("client_secret_env", "client_id"),
            ("scope", "auth"),
        ):
            if field in fields and kind not in names:
                report((field,), f"works only with {kind}")
        models = self._content.get("models")
        known = cast("dict[str, Any]", models) if isinstance(models, dict) else {}
        if (model := fields.get("sampling")) is not None and model not in known:
            report(("sampling",), f"unknown model {model!r}{nearest(model, known)}")
        if {"auth", "token_env"} <= names:
            report(("token_env",), "set either auth or token_env, not both")
        self._warn_unset(fields, "token_env", report)
        self._warn_unset(fields, "client_secret_env", report)

    def check_key(self, fields: Fields, names: Set[str], report: Report) -> None:
        models = self._content.get("models")
        known = cast("dict[str, Any]", models) if isinstance(models, dict) else {}
        for entry, name in enumerate(fields.get("models", ())):
            if name not in known:
                report(("models", entry), f"unknown model {name!r}{nearest(name, known)}")
        if limit := next((name for name in names if name.startswith("max_cost_per_")), None):
            for name in fields.get("models", known):
                if isinstance(table := known.get(name), dict) and "prices" not in table:
                    report(
                        (limit,),
                        f"needs the prices of every model of the key: set models.{name}.prices",
                    )
        for field in ("name", "hash"):
            if (field, fields.get(field)) in self._seen:
                report((field,), f"another key has this {field}")
            if field in fields:
                self._seen.add((field, fields[field]))

    def check_runs(self, fields: Fields, names: Set[str], report: Report) -> None:
        if {"path", "nats"} <= names:
            report(("nats",), "set either path or nats, not both")

    def _warn_unset(self, fields: Fields, name: str, report: Report) -> None:
        """Warns if the environment variable that the setting names is not set."""
        if name in fields and (message := variable_problem(fields[name], self._environ)):
            report((name,), message, "warning")


_RELATIONS: dict[type[Struct], Callable[[FileReader, Fields, Set[str], Report], None]] = {
    ModelConfig: FileReader.check_model,
    McpConfig: FileReader.check_mcp,
    KeyConfig: FileReader.check_key,
    RunsConfig: FileReader.check_runs,
}
