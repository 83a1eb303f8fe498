"""What `windlass doctor` looks at. Each check is a line; none of them shows a key's value."""

import os
import platform
import shutil
import socket
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Literal

from msgspec import Struct

from windlass import __version__
from windlass.cli.aistudio_ready import aistudio_readiness
from windlass.cli.providers import (
    EMBEDDED,
    LIBGOMP_COMMAND,
    RUNTIME_MODULE,
    SERVICES,
    Readiness,
    is_installed,
    libgomp_is_missing,
    service_readiness,
)
from windlass.errors import ConfigError
from windlass.gateway.config import CONFIG_NAME, ServerConfig, examine_config, find_config
from windlass.models.local.weights import QWEN, Weights, cache_folder, installed_pieces

__all__ = ["EXTRAS", "Check", "checkup"]

EXTRAS: dict[str, tuple[str, ...]] = {
    "aistudio": ("playwright",),
    "cli": ("prompt_toolkit", "rich", "shtab"),
    "fleet": ("nats",),
    "gateway": ("httptools", "prometheus_client", "starlette", "uvicorn"),
    "mcp": ("mcp",),
    "otel": (
        "opentelemetry",
        "opentelemetry.sdk",
        "opentelemetry.exporter.otlp.proto.http",
    ),
}
"""The modules that each extra of Windlass brings. The embedded model has lines of its own."""

USES = {
    "aistudio": "models behind a page of the browser",
    "cli": "windlass chat, bars and completion",
    "fleet": "workers on other machines",
    "gateway": "windlass serve",
    "mcp": "tools of MCP servers, and ours as one",
    "otel": "traces",
}
_SPARE_BYTES = 64 * 1024 * 1024


class Check(Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at, and the command that puts it right if it is not."""

    state: Literal["ok", "missing", "problem"]
    name: str
    detail: str
    fix: str | None = None


def checkup() -> Iterator[Check]:
    yield Check("ok", "python", platform.python_version())
    yield Check("ok", "windlass", __version__)
    for extra in EXTRAS:
        yield _extra(extra)
    for service in SERVICES:
        yield _provider(service.name, service_readiness(service))
    yield _provider("aistudio", aistudio_readiness())
    yield from _embedded_model()
    yield from _configuration()


def _extra(extra: str) -> Check:
    name = f"windlass[{extra}]"
    missing = [module for module in EXTRAS[extra] if not is_installed(module)]
    if not missing:
        return Check("ok", name, f"installed, for {USES[extra]}")
    detail = f"{', '.join(missing)} not installed; needed for {USES[extra]}"
    return Check("missing", name, detail, f"pip install 'windlass[{extra}]'")


def _provider(name: str, ready: Readiness) -> Check:
    state = "ok" if ready.ready else "problem" if ready.wrong else "missing"
    return Check(state, f"{name}/", ready.because, ready.remedy)


def _embedded_model() -> Iterator[Check]:
    if not is_installed(RUNTIME_MODULE):
        yield Check("missing", "local runtime", f"{RUNTIME_MODULE} not installed", QWEN.command)
    elif libgomp_is_missing():
        detail = f"{RUNTIME_MODULE} is installed, and cannot be loaded without libgomp"
        yield Check("problem", "local runtime", detail, LIBGOMP_COMMAND)
    else:
        yield _loaded_runtime()
    if libgomp_is_missing():
        yield Check("missing", "libgomp", "the system's library is not there", LIBGOMP_COMMAND)
    else:
        yield Check("ok", "libgomp", "found, or not needed on this system")
    for weights in EMBEDDED:
        yield _weights(weights)
    yield _cache()


def _loaded_runtime() -> Check:
    try:
        module = import_module(RUNTIME_MODULE)
    except ImportError as error:
        again = f"pip install --force-reinstall --no-deps {RUNTIME_MODULE}"
        return Check("problem", "local runtime", f"it cannot be loaded: {error}", again)
    version = getattr(module, "__version__", "of an unknown version")
    return Check("ok", "local runtime", f"{RUNTIME_MODULE} {version}")


def _weights(weights: Weights) -> Check:
    name = f"local/{weights.name}"
    try:
        installed_pieces(weights)
    except ConfigError:
        return Check("missing", name, f"{weights.title}: weights not installed", weights.command)
    return Check("ok", name, f"{weights.title}, {_size(weights.size)}")


def _cache() -> Check:
    """Whether the default model's pieces are joined already, or could be."""
    folder = cache_folder()
    try:
        joined = any(folder.glob(f"{QWEN.name}-*.gguf"))
        ground = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
        free = shutil.disk_usage(ground).free
    except OSError as error:
        detail = f"{folder} cannot be read: {error.strerror}"
        return Check("problem", "cache folder", detail, "export WINDLASS_CACHE=/another/folder")
    said = f"{folder}, {_size(free)} free"
    if joined:
        return Check("ok", "cache folder", f"{said}; local/{QWEN.name} is joined there")
    if not os.access(ground, os.W_OK) or (folder.exists() and not folder.is_dir()):
        detail = f"{folder} cannot be written to"
        return Check("problem", "cache folder", detail, "export WINDLASS_CACHE=/another/folder")
    needed = QWEN.size + _SPARE_BYTES
    if free < needed:
        detail = f"{said}; local/{QWEN.name} needs {_size(needed)}"
        return Check("problem", "cache folder", detail, "export WINDLASS_CACHE=/a/larger/disk")
    return Check("ok", "cache folder", said)


def _configuration() -> Iterator[Check]:
    path = find_config(Path())
    config, problems = examine_config(path, os.environ)
    if path is None:
        detail = "none here; the environment alone says what is served"
        yield Check("missing", CONFIG_NAME, detail, "windlass init")
    elif not problems:
        count = len(config.models)
        yield Check("ok", CONFIG_NAME, f"{count} {'model' if count == 1 else 'models'}")
    for problem in problems:
        name = CONFIG_NAME if problem.file else "environment"
        yield Check("problem", name, str(problem), "windlass check-config")
    yield _port(config.server)


def _port(server: ServerConfig) -> Check:
    """Whether `windlass serve` could listen there now."""
    where = f"{server.host}:{server.port}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as listener:
            if os.name == "posix":  # elsewhere it lets two listen at once
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        detail = f"{where} cannot be listened on: {error.strerror}"
        return Check("problem", "port", detail, "windlass serve --port 0")
    return Check("ok", "port", f"{where} is free")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
