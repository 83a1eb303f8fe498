"""Reads the sections of `windlass.toml` and collects their problems."""

import re
from collections.abc import Mapping
from typing import Any, cast

from windlass.errors import ConfigError
from windlass.gateway.config.checks import (
    as_table,
    build_struct,
    fields_from,
    header_problem,
    host_problem,
    named_tables,
    origin_problem,
    repeated,
    session_problem,
    target_problem,
    unknown_names,
    url_problem,
    variable_problem,
)
from windlass.gateway.config.key_hashes import is_key_hash
from windlass.gateway.config.problems import ConfigProblems, nearest
from windlass.gateway.config.values import (
    KeyConfig,
    LimitsConfig,
    McpConfig,
    ModelConfig,
    RunsConfig,
    ServerConfig,
    ToolsSection,
    WorkersConfig,
)
from windlass.settings import mode_from

MCP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")

_SECTIONS = ("server", "models", "tools", "mcp", "keys", "limits", "runs", "workers")


class Document:
    """The content of a file by section."""

    def __init__(self, content: Mapping[str, Any], problems: ConfigProblems) -> None:
        self._content, self._problems = content, problems
        unknown_names(content, _SECTIONS, (), problems)

    @property
    def has_keys(self) -> bool:
        """Whether the file has any keys, valid or not."""
        return bool(self._content.get("keys"))

    def server(self) -> dict[str, Any]:
        """The fields of `ServerConfig` that the file sets."""
        fields = fields_from(ServerConfig, self._table("server"), ("server",), self._problems)
        if "host" in fields:
            self._error(host_problem(fields["host"]), "server", "host")
        for position, origin in enumerate(fields.get("cors_origins", ())):
            self._error(origin_problem(origin), "server", "cors_origins", position)
        return fields

    def limits(self) -> LimitsConfig:
        table = self._table("limits")
        return LimitsConfig(**fields_from(LimitsConfig, table, ("limits",), self._problems))

    def runs(self) -> RunsConfig:
        table = self._table("runs")
        if "path" in table and "nats" in table:
            self._error("set either path or nats, not both", "runs", "nats")
        return RunsConfig(**fields_from(RunsConfig, table, ("runs",), self._problems))

    def workers(self) -> WorkersConfig | None:
        if "workers" not in self._content:
            return None
        table = self._table("workers")
        return WorkersConfig(**fields_from(WorkersConfig, table, ("workers",), self._problems))

    def tools(self) -> ToolsSection:
        table = self._table("tools")
        return ToolsSection(**fields_from(ToolsSection, table, ("tools",), self._problems))

    def models(self, environ: Mapping[str, str]) -> dict[str, ModelConfig]:
        models: dict[str, ModelConfig] = {}
        for name, table in named_tables(self._content.get("models", {}), "models", self._problems):
            if (model := self._model(name, table, environ)) is not None:
                models[name] = model
        if not self._content.get("models"):
            self._error(
                'no models are configured: add [models.NAME] with target = "provider/model"'
            )
        return models

    def mcp(self, environ: Mapping[str, str]) -> dict[str, McpConfig]:
        servers: dict[str, McpConfig] = {}
        for name, table in named_tables(self._content.get("mcp", {}), "mcp", self._problems):
            servers[name] = self._mcp_server(name, table, environ)
        return servers

    def keys(self) -> tuple[KeyConfig, ...]:
        """The valid keys; an unknown model of a key is a problem."""
        value: Any = self._content.get("keys", [])
        if not isinstance(value, list):
            self._error("must be a list of tables [[keys]]", "keys")
            return ()
        tables = cast("list[Any]", value)
        keys = [self._key(table, position) for position, table in enumerate(tables)]
        self._check_unique(keys)
        complete = (build_struct(KeyConfig, fields) for fields in keys)
        return tuple(key for key in complete if key is not None)

    def _mcp_server(
        self, name: str, table: Mapping[str, Any], environ: Mapping[str, str]
    ) -> McpConfig:
        place = ("mcp", name)
        fields = fields_from(McpConfig, table, place, self._problems, name=name)
        if not MCP_NAME.fullmatch(name):
            message = "a name must be a letter, then up to 31 letters, digits, _ and -"
            self._error(message, *place)
        if ("command" in table) == ("url" in table):
            self._error("set either command or url", *place)
        if "url" in fields:
            self._error(url_problem(fields["url"]), *place, "url")
        for field, kind in (("env", "command"), ("headers", "url"), ("token_env", "url")):
            if field in fields and kind not in table:
                self._error(f"works only with {kind}", *place, field)
        for header, value in fields.get("headers", {}).items():
            self._error(header_problem(header, value), *place, "headers", header)
        if "token_env" in fields:
            self._warn(variable_problem(fields["token_env"], environ), *place, "token_env")
        return McpConfig(**fields)

    def _model(
        self, name: str, table: Mapping[str, Any], environ: Mapping[str, str]
    ) -> ModelConfig | None:
        place = ("models", name)
        settings = self._with_mode(table, name)
        fields = fields_from(ModelConfig, settings, place, self._problems, name=name)
        if "target" in fields:
            self._error(target_problem(fields["target"]), *place, "target")
        if "base_url" in fields:
            self._error(url_problem(fields["base_url"]), *place, "base_url")
        for header, value in fields.get("headers", {}).items():
            self._error(header_problem(header, value), *place, "headers", header)
        for tool in repeated(fields.get("tools", ())):
            self._error(f"lists {tool!r} twice", *place, "tools")
        if "api_key_env" in fields:
            message = variable_problem(fields["api_key_env"], environ)
            self._warn(message, *place, "api_key_env")
        if fields.get("tools") and not fields.get("function_calling", True):
            message = "the model gets none of these tools, because function_calling is false"
            self._warn(message, *place, "tools")
        return build_struct(ModelConfig, fields)

    def _with_mode(self, table: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The table with its mode in lower case; without it if the mode is invalid."""
        settings = dict(table)
        if "mode" in settings:
            try:
                settings["mode"] = mode_from(settings["mode"])
            except ConfigError as error:
                del settings["mode"]
                self._error(str(error), "models", name, "mode")
        return settings

    def _key(self, value: object, position: int) -> dict[str, Any]:
        place = ("keys", position)
        table = as_table(value, place, "[[keys]]", self._problems)
        fields = fields_from(KeyConfig, table, place, self._problems)
        if not fields.get("name", "").isprintable():
            self._error("a name must not contain control characters", *place, "name")
        if "hash" in fields and not is_key_hash(fields["hash"]):
            message = "must be 'sha256:' and 64 hexadecimal digits: `windlass keys new` prints one"
            self._error(message, *place, "hash")
        models = self._content.get("models")
        known = cast("dict[str, Any]", models) if isinstance(models, dict) else {}
        for entry, name in enumerate(fields.get("models", ())):
            if name not in known:
                message = f"unknown model {name!r}{nearest(name, known)}"
                self._error(message, *place, "models", entry)
        for entry, pattern in enumerate(fields.get("sessions", ())):
            self._error(session_problem(pattern), *place, "sessions", entry)
        return fields

    def _check_unique(self, keys: list[dict[str, Any]]) -> None:
        for field in ("name", "hash"):
            seen: set[str] = set()
            for position, fields in enumerate(keys):
                if (value := fields.get(field)) in seen:
                    self._error(f"another key has this {field}", "keys", position, field)
                seen.update([value] if value else [])

    def _table(self, section: str) -> dict[str, Any]:
        value = self._content.get(section, {})
        return as_table(value, (section,), f"[{section}]", self._problems)

    def _error(self, message: str | None, *place: str | int) -> None:
        if message:
            self._problems.add(place, message)

    def _warn(self, message: str | None, *place: str | int) -> None:
        if message:
            self._problems.add(place, message, "warning")
