"""`windlass doctor`: checks the installation and prints the command that fixes each problem."""

import argparse
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
from windlass.cli.model_selection import choose_model
from windlass.cli.models import KnownModel, known_models
from windlass.cli.output import own_stdout
from windlass.cli.providers import (
    EMBEDDED,
    LIBGOMP_COMMAND,
    RUNTIME_MODULE,
    SERVICES,
    Readiness,
    is_installed,
    libgomp_is_missing,
    plug_in_readiness,
    service_readiness,
)
from windlass.errors import ConfigError
from windlass.gateway.config import CONFIG_NAME, ServerConfig, examine_config, find_config
from windlass.models import plug_in_names
from windlass.models.local.weights import QWEN, Weights, cache_folder, installed_pieces

EXTRAS: dict[str, tuple[str, ...]] = {
    "aistudio": ("playwright",),
    "cli": ("prompt_toolkit", "rich", "shtab"),
    "fleet": ("nats",),
    "gateway": ("httptools", "prometheus_client", "starlette", "uvicorn", "websockets"),
    "mcp": ("anyio", "cryptography", "httpx2", "mcp", "mcp_types"),
    "otel": (
        "opentelemetry",
        "opentelemetry.sdk",
        "opentelemetry.exporter.otlp.proto.http",
    ),
}
"""The modules that each extra installs. `gguf` and `local` are the embedded model's checks."""

USES = {
    "aistudio": "models of the AI Studio page",
    "cli": "windlass chat, progress bars and completion",
    "fleet": "workers on other machines, and several gateways",
    "gateway": "windlass serve and the console",
    "gguf": "any GGUF file on this machine",
    "local": "the embedded model with its weights, 1.2 GB",
    "mcp": "MCP servers, as a client and as a server",
    "otel": "traces",
    "all": "all of these except the weights of local",
}
"""What each extra gives."""
SPARE_BYTES = 64 * 1024 * 1024


class Check(Struct, frozen=True, omit_defaults=True):
    """The result of one check, with the command that fixes a problem."""

    state: Literal["ok", "missing", "problem"]
    name: str
    detail: str
    fix: str | None = None


def all_checks() -> Iterator[Check]:
    yield Check("ok", "python", platform.python_version())
    yield Check("ok", "windlass", __version__)
    for extra in EXTRAS:
        yield _extra(extra)
    yield from _embedded_extras()
    yield _all_extras()
    for service in SERVICES:
        yield _provider(service.name, service_readiness(service))
    for plug_in in plug_in_names():
        yield _provider(plug_in, plug_in_readiness(plug_in))
    yield from _embedded_model()
    yield from _configuration()


def _extra(extra: str) -> Check:
    missing = [module for module in EXTRAS[extra] if not is_installed(module)]
    return _described(extra, f"{', '.join(missing)} not installed" if missing else None)


def _described(extra: str, problem: str | None) -> Check:
    name = f"windlass[{extra}]"
    if problem is None:
        return Check("ok", name, f"installed, for {USES[extra]}")
    detail = f"{problem}; needed for {USES[extra]}"
    return Check("missing", name, detail, f"pip install 'windlass[{extra}]'")


def _embedded_extras() -> Iterator[Check]:
    has_runtime = is_installed(RUNTIME_MODULE)
    yield _described("gguf", None if has_runtime else f"{RUNTIME_MODULE} not installed")
    try:
        installed_pieces(QWEN)
    except ConfigError:
        yield _described("local", "weights not installed")
    else:
        yield _described("local", None if has_runtime else f"{RUNTIME_MODULE} not installed")


def _all_extras() -> Check:
    needed = [*((extra, EXTRAS[extra]) for extra in EXTRAS), ("gguf", (RUNTIME_MODULE,))]
    missing = [extra for extra, modules in needed if not all(map(is_installed, modules))]
    return _described("all", f"{', '.join(sorted(missing))} not installed" if missing else None)


def _provider(name: str, ready: Readiness) -> Check:
    state = "ok" if ready.ready else "problem" if ready.wrong else "missing"
    return Check(state, f"{name}/", ready.because, ready.remedy)


def _embedded_model() -> Iterator[Check]:
    if not is_installed(RUNTIME_MODULE):
        yield Check("missing", "local runtime", f"{RUNTIME_MODULE} not installed", QWEN.command)
    elif libgomp_is_missing():
        detail = f"{RUNTIME_MODULE} is installed, but needs libgomp"
        yield Check("problem", "local runtime", detail, LIBGOMP_COMMAND)
    else:
        yield _loaded_runtime()
    if libgomp_is_missing():
        yield Check("missing", "libgomp", "the system library is not installed", LIBGOMP_COMMAND)
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
        return Check("problem", "local runtime", f"cannot load it: {error}", again)
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
    """Whether the cache contains the joined weights of the default model, or has room for them."""
    folder = cache_folder()
    try:
        joined = any(folder.glob(f"{QWEN.name}-*.gguf"))
        parent = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
        free = shutil.disk_usage(parent).free
    except OSError as error:
        detail = f"cannot read {folder}: {error.strerror}"
        return Check("problem", "cache folder", detail, "export WINDLASS_CACHE=/another/folder")
    summary = f"{folder}, {_size(free)} free"
    if joined:
        return Check("ok", "cache folder", f"{summary}; local/{QWEN.name} is joined there")
    if not os.access(parent, os.W_OK) or (folder.exists() and not folder.is_dir()):
        detail = f"cannot write to {folder}"
        return Check("problem", "cache folder", detail, "export WINDLASS_CACHE=/another/folder")
    needed = QWEN.size + SPARE_BYTES
    if free < needed:
        detail = f"{summary}; local/{QWEN.name} needs {_size(needed)}"
        return Check("problem", "cache folder", detail, "export WINDLASS_CACHE=/a/larger/disk")
    return Check("ok", "cache folder", summary)


def _configuration() -> Iterator[Check]:
    path = find_config(Path())
    config, problems = examine_config(path, os.environ)
    if path is None:
        detail = "none here; only the environment configures the gateway"
        yield Check("missing", CONFIG_NAME, detail, "windlass init")
    elif not problems:
        count = len(config.models)
        yield Check("ok", CONFIG_NAME, f"{count} {'model' if count == 1 else 'models'}")
    for problem in problems:
        name = CONFIG_NAME if problem.file else "environment"
        yield Check("problem", name, str(problem), "windlass check-config")
    yield _port(config.server)


def _port(server: ServerConfig) -> Check:
    """Whether the port of `windlass serve` is free."""
    where = f"{server.host}:{server.port}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as listener:
            if os.name == "posix":  # on Windows, SO_REUSEADDR allows two listeners
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        detail = f"cannot listen on {where}: {error.strerror}"
        return Check("problem", "port", detail, "windlass serve --port 0")
    return Check("ok", "port", f"{where} is free")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


DESCRIPTION = """\
Checks what Windlass can use here: its extras, the providers' keys, the browser and profile for
aistudio/, the embedded model, and windlass.toml in this directory. Each line is ok, missing or
problem, followed by the command that fixes it. No model is called, no browser is started, and no
key is shown."""

EPILOG = """\
examples:
  windlass doctor
  windlass doctor --json | jq -r '.checks[] | select(.fix) | .fix'

You do not need everything that is missing: one usable model is enough. The exit code is 0 if there
is one, 1 if there is none."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    with own_stdout() as output:
        checks = list(all_checks())
        usable = [model for model in known_models() if model.usable]
        conclusion = _conclusion(usable)
    if options.json:
        names = [each.name for each in usable]
        output.json({"ready": bool(usable), "usable": names, "checks": checks})
    else:
        output.text(f"{''.join(map(_lines, checks))}\n{conclusion}\n")
    return 0 if usable else 1


def _lines(check: Check) -> str:
    line = f"{check.state:<8} {check.name}: {check.detail}\n"
    return line if check.fix is None else f"{line}{'':<8} fix: {check.fix}\n"


def _conclusion(usable: list[KnownModel]) -> str:
    if not usable:
        return "No model is usable yet: set one of the keys above, or install the embedded model."
    names = ", ".join(each.name for each in usable)
    try:
        chosen = choose_model(None)
    except ConfigError as error:
        return f"Usable: {names}. Without --model: {error}"
    if not any(chosen.config.name in (each.name, each.target) for each in usable):
        name = chosen.config.name
        return f"Usable: {names}. The default model, {name!r}, is not usable."
    return f"Ready: `windlass run` uses {chosen.config.target} ({chosen.because})."
