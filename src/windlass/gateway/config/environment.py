"""What the environment and the command line say about a gateway."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from windlass.errors import ConfigError
from windlass.gateway.config.checks import host_problem, target_problem
from windlass.gateway.config.problems import Problems
from windlass.gateway.config.tables import fields_from
from windlass.gateway.config.values import ModelConfig, ServerConfig
from windlass.settings import function_calling_settings

__all__ = [
    "HOST",
    "MODEL",
    "PORT",
    "TOOLS",
    "check_function_calling",
    "models_in",
    "modules_in",
    "server_fields_in",
    "server_overrides",
]

HOST = "WINDLASS_HOST"
PORT = "WINDLASS_PORT"
MODEL = "WINDLASS_MODEL"
TOOLS = "WINDLASS_TOOLS"


def server_fields_in(
    environ: Mapping[str, str], known: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """The fields of `ServerConfig` that the environment gives, beyond those that are known.

    An empty value is none.
    """
    given: dict[str, Any] = {}
    if "host" not in known and (host := environ.get(HOST, "").strip()):
        given["host"] = host
    if "port" not in known and (port := environ.get(PORT, "").strip()):
        given["port"] = int(port) if re.fullmatch("[0-9]{1,9}", port) else port
    return _fields(given, {"host": HOST, "port": PORT}, problems)


def server_overrides(given: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """The fields of `ServerConfig` that the command line gives. None is not given."""
    said = {name: value for name, value in given.items() if value is not None}
    return _fields(said, {name: f"--{name.replace('_', '-')}" for name in said}, problems)


def modules_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The tool modules that the environment names."""
    separators = f"[,{re.escape(os.pathsep)}]"
    return tuple(_filled(re.split(separators, environ.get(TOOLS, ""))))


def models_in(
    environ: Mapping[str, str], tools: Iterable[str], problems: Problems
) -> dict[str, ModelConfig]:
    """The models that the environment names, `provider/model` or `name=provider/model`."""
    models: dict[str, ModelConfig] = {}
    for entry in _filled(environ.get(MODEL, "").split(",")):
        name, target = _name_and_target(entry)
        if said := target_problem(target):
            problems.add_outside(MODEL, said)
        elif not name or not name.isprintable():
            problems.add_outside(MODEL, "a name must not be empty or have control characters")
        elif name in models:
            problems.add_outside(MODEL, f"two models are named {name!r}")
        else:
            models[name] = ModelConfig(name=name, target=target, tools=tuple(tools))
    return models


def check_function_calling(environ: Mapping[str, str], problems: Problems) -> None:
    """Adds a problem for each setting of function calling that cannot be read."""
    for name, value in environ.items():
        try:
            function_calling_settings({name: value})
        except ConfigError as error:
            problems.add_outside("environment", str(error))


def _fields(
    given: Mapping[str, Any], sources: Mapping[str, str], problems: Problems
) -> dict[str, Any]:
    """The fields that fit; a problem has the place that the value came from."""
    here = Problems(None, lambda place: None)
    fields = fields_from(ServerConfig, given, (), here)
    for problem in here.found:
        problems.add_outside(sources[problem.place], problem.message)
    if said := host_problem(fields.get("host", "localhost")):
        problems.add_outside(sources["host"], said)
    return fields


def _name_and_target(entry: str) -> tuple[str, str]:
    """A model's own name may have an equals sign too, behind its provider."""
    name, equals, target = entry.partition("=")
    if not equals or "/" in name:
        return entry, entry
    return name.strip(), target.strip()


def _filled(items: Iterable[str]) -> list[str]:
    return [item.strip() for item in items if item.strip()]
