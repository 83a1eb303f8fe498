"""Reads the sections of `windlass.toml`, and checks the rules between several settings."""

import re
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from windlass.gateway.config.checks import variable_problem
from windlass.gateway.config.problems import ConfigPath, ConfigProblems, Severity, nearest
from windlass.gateway.config.tables import Report, kind_name, read_fields, report_unknown
from windlass.gateway.config.values import ConfigFile, KeyConfig, McpConfig, ModelConfig, RunsConfig

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
        """A table, tables by name, or a list of tables, as the section's type says."""
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
        """The struct of a table; None if it is no table, or a required setting is missing."""
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
