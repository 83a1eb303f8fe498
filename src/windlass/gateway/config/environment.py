"""Settings of a gateway from the environment and the command line."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from windlass.errors import ConfigError
from windlass.gateway.config.checks import target_problem
from windlass.gateway.config.problems import ConfigPath, ConfigProblems, Severity
from windlass.gateway.config.sections import read_fields
from windlass.gateway.config.values import ModelConfig, ServerConfig
from windlass.settings import function_calling_settings

HOST = "WINDLASS_HOST"
PORT = "WINDLASS_PORT"
MODEL = "WINDLASS_MODEL"
TOOLS = "WINDLASS_TOOLS"
SERVER_VARIABLES = {"host": HOST, "port": PORT}


def server_fields_in(
    environ: Mapping[str, str], known: Collection[str], problems: ConfigProblems
) -> dict[str, Any]:
    """The fields of `ServerConfig` in the environment, except those in `known`.

    An empty variable counts as not set.
    """
    values: dict[str, Any] = {}
    for field, variable in SERVER_VARIABLES.items():
        if field not in known and (text := environ.get(variable, "").strip()):
            is_number = field == "port" and re.fullmatch("[0-9]{1,9}", text)
            values[field] = int(text) if is_number else text
    return _fields(values, SERVER_VARIABLES, problems)


def server_overrides(options: Mapping[str, Any], problems: ConfigProblems) -> dict[str, Any]:
    """The fields of `ServerConfig` on the command line; None means not set."""
    values = {name: value for name, value in options.items() if value is not None}
    return _fields(values, {name: f"--{name.replace('_', '-')}" for name in values}, problems)


def modules_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The tool modules in `WINDLASS_TOOLS`."""
    separators = f"[,{re.escape(os.pathsep)}]"
    return tuple(_non_empty(re.split(separators, environ.get(TOOLS, ""))))


def models_in(
    environ: Mapping[str, str], tools: Iterable[str], problems: ConfigProblems
) -> dict[str, ModelConfig]:
    """The models in `WINDLASS_MODEL`, each `provider/model` or `name=provider/model`."""
    models: dict[str, ModelConfig] = {}
    for entry in _non_empty(environ.get(MODEL, "").split(",")):
        name, target = _name_and_target(entry)
        if message := target_problem(target):
            problems.add_outside(MODEL, message)
        elif not name or not name.isprintable():
            problems.add_outside(MODEL, "a name must not be empty or contain control characters")
        elif name in models:
            problems.add_outside(MODEL, f"two models are named {name!r}")
        else:
            models[name] = ModelConfig(name=name, target=target, tools=tuple(tools))
    return models


def check_function_calling(environ: Mapping[str, str], problems: ConfigProblems) -> None:
    """Adds a problem for each invalid variable of function calling."""
    for name, value in environ.items():
        try:
            function_calling_settings({name: value})
        except ConfigError as error:
            problems.add_outside("environment", str(error))


def _fields(
    values: Mapping[str, Any], sources: Mapping[str, str], problems: ConfigProblems
) -> dict[str, Any]:
    """The valid fields. A problem names the variable or option that it concerns."""

    def report(place: ConfigPath, message: str, severity: Severity = "error", /) -> None:
        problems.add_outside(sources[str(place[0])], message, severity)

    return read_fields(ServerConfig, values, report)


def _name_and_target(entry: str) -> tuple[str, str]:
    """Splits `name=target`. The target itself may contain an equals sign after its slash."""
    name, equals, target = entry.partition("=")
    if not equals or "/" in name:
        return entry, entry
    return name.strip(), target.strip()


def _non_empty(items: Iterable[str]) -> list[str]:
    return [item.strip() for item in items if item.strip()]
