"""Which providers can be used from here, and what the others lack. No key's value is ever told."""

import ctypes
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from msgspec import Struct

from windlass.errors import ConfigError
from windlass.models.local.catalog import QWEN, SMOL, Weights
from windlass.models.local.weights import installed_pieces

__all__ = [
    "EMBEDDED",
    "LIBGOMP_COMMAND",
    "RUNTIME_MODULE",
    "SERVICES",
    "Readiness",
    "Service",
    "default_target",
    "embedded_readiness",
    "is_installed",
    "libgomp_is_missing",
    "remedies",
    "service_readiness",
]

RUNTIME_MODULE = "xllamacpp"
LIBGOMP_COMMAND = "apt-get install libgomp1"


class Service(Struct, frozen=True):
    """A provider that is reached over the network."""

    name: str
    keys: tuple[str, ...]
    """The variables that may hold its key."""
    model: str
    """What is asked when nobody says which model."""
    needs: tuple[str, ...] = ()
    """Variables that must be set besides."""
    address: str | None = None
    """The variable with the address of a server of one's own, which may need no key."""

    @property
    def target(self) -> str:
        return f"{self.name}/{self.model}"


class Readiness(Struct, frozen=True):
    """Whether something can be used, why or why not, and the command that changes it."""

    ready: bool
    because: str
    remedy: str | None = None


SERVICES = (
    Service("openai", ("OPENAI_API_KEY",), "gpt-5-mini", address="OPENAI_BASE_URL"),
    Service("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-2.5-flash"),
    Service(
        "vertex",
        ("VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"),
        "gemini-2.5-flash",
        needs=("GOOGLE_CLOUD_PROJECT",),
    ),
)
"""In the order in which they are preferred."""

EMBEDDED = (QWEN, SMOL)
"""The weights that run in this process, the better ones first."""


def service_readiness(service: Service, environ: Mapping[str, str]) -> Readiness:
    """Reads names alone: whether the key is a good one is known to the service."""
    key = next((name for name in service.keys if environ.get(name)), None)
    missing = [name for name in service.needs if not environ.get(name)]
    has_address = bool(service.address and environ.get(service.address))
    if key is None and not has_address:
        unset = " and ".join(service.keys)
        are = "are" if len(service.keys) > 1 else "is"
        wanted = [*service.keys[:1], *missing]
        return Readiness(False, f"{unset} {are} not set", _export(wanted))
    if missing:
        return Readiness(False, f"{', '.join(missing)} is not set", _export(missing))
    names = [name for name in (key, service.address if has_address else None) if name]
    return Readiness(True, f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} set")


def embedded_readiness(weights: Weights) -> Readiness:
    if not is_installed(RUNTIME_MODULE):
        return Readiness(False, f"its runtime, {RUNTIME_MODULE}, is not installed", weights.command)
    if libgomp_is_missing():
        return Readiness(False, "the system's library libgomp is not installed", LIBGOMP_COMMAND)
    try:
        installed_pieces(weights)
    except ConfigError:
        return Readiness(
            False, f"the weights of {weights.title} are not installed", weights.command
        )
    return Readiness(True, f"{weights.title} is installed")


def default_target(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The model that is used when nobody names one, and why it: a key that is set, else weights."""
    for service in SERVICES:
        readiness = service_readiness(service, environ)
        # A server of one's own has models that nobody here knows the names of.
        if readiness.ready and any(environ.get(name) for name in service.keys):
            return service.target, readiness.because
    for weights in EMBEDDED:
        readiness = embedded_readiness(weights)
        if readiness.ready:
            return f"local/{weights.name}", readiness.because
    return None


def remedies() -> list[str]:
    """Ways to come to a model, each a command with what it is for."""
    keys = [
        f"{_export([service.keys[0], *service.needs])}  # {service.name}/" for service in SERVICES
    ]
    return [*keys, f"{QWEN.command}  # local/qwen: on this machine, without a key"]


def is_installed(module: str) -> bool:
    """Whether it could be imported. It is not imported, though a package around it may be."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def libgomp_is_missing() -> bool:
    if sys.platform != "linux":
        return False
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        return True
    return False


def _export(names: list[str]) -> str:
    return f"export {' '.join(f'{name}=...' for name in names)}"
