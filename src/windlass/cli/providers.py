"""Which providers and models are usable here, and what the others need. Never shows a key."""

import ctypes
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from windlass.errors import ConfigError
from windlass.models import Key, Readiness, create_model, plug_in, plug_in_origin
from windlass.models.local.weights import QWEN, SMOL, Weights, installed_pieces

RUNTIME_MODULE = "xllamacpp"
LIBGOMP_COMMAND = "apt-get install libgomp1"


class Service(Struct, frozen=True):
    """A provider that is used over the network."""

    name: str
    keys: tuple[str, ...]
    """The environment variables for its key."""
    model: str
    """The default model."""
    needs: tuple[str, ...] = ()
    """Other variables that must be set."""
    address: str | None = None
    """The variable with the address of another server, which may need no key."""

    @property
    def target(self) -> str:
        return f"{self.name}/{self.model}"


SERVICES = (
    Service("openai", ("OPENAI_API_KEY",), "gpt-5-mini", address="OPENAI_BASE_URL"),
    Service("responses", ("OPENAI_API_KEY",), "gpt-5-mini", address="OPENAI_BASE_URL"),
    Service(
        "anthropic",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        "claude-sonnet-5-5",
        address="ANTHROPIC_BASE_URL",
    ),
    Service("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-2.5-flash"),
    Service(
        "vertex",
        ("VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"),
        "gemini-2.5-flash",
        needs=("GOOGLE_CLOUD_PROJECT",),
    ),
)
"""In order of preference."""

EMBEDDED = (QWEN, SMOL)
"""The embedded models, best first."""


def service_readiness(service: Service) -> Readiness:
    """Checks only the environment; the service is not asked whether the key is valid."""
    keys = [name for name in service.keys if os.environ.get(name)][:1]
    missing = [name for name in service.needs if not os.environ.get(name)]
    addresses = [name for name in (service.address,) if name and os.environ.get(name)]
    if not keys and not addresses:
        wanted = [*service.keys[:1], *missing]
        return Readiness(False, f"{_names(service.keys)} not set", _export(wanted))
    if missing:
        return Readiness(False, f"{_names(missing)} not set", _export(missing))
    given = [*keys, *addresses]
    if problem := creation_problem(service.target):
        return Readiness(False, f"{_names(given)} set, but {problem}", _export(given), wrong=True)
    return Readiness(True, f"{_names(given)} set")


def creation_problem(
    target: str, *, base_url: str | None = None, api_key: Key | None = None, **options: Any
) -> str | None:
    """The error that a run of the model would fail with, or None."""
    try:
        create_model(target, base_url=base_url, api_key=api_key, **options)
    except ConfigError as error:
        # An address can contain a secret, or be a key in the wrong variable.
        variables = [service.address for service in SERVICES if service.address]
        addresses = [base_url, *map(os.environ.get, variables)]
        shown = str(error)
        for address in filter(None, addresses):
            shown = shown.replace(repr(address), "this one")
        return shown
    return None


def embedded_readiness(weights: Weights) -> Readiness:
    if not is_installed(RUNTIME_MODULE):
        return Readiness(False, f"its runtime, {RUNTIME_MODULE}, is not installed", weights.command)
    if libgomp_is_missing():
        return Readiness(False, "the system library libgomp is not installed", LIBGOMP_COMMAND)
    try:
        installed_pieces(weights)
    except ConfigError:
        return Readiness(
            False, f"the weights of {weights.title} are not installed", weights.command
        )
    return Readiness(True, f"{weights.title} is installed")


def default_target() -> tuple[str, str] | None:
    """The default model and the reason: a provider whose key is set, or installed weights."""
    for service in SERVICES:
        readiness = service_readiness(service)
        # The models of another server are unknown here.
        if readiness.ready and any(os.environ.get(name) for name in service.keys):
            return service.target, readiness.because
    for weights in EMBEDDED:
        readiness = embedded_readiness(weights)
        if readiness.ready:
            return f"local/{weights.name}", readiness.because
    return None


def remedies() -> list[str]:
    """Commands that make a model usable, each with a comment."""
    keys: dict[str, list[str]] = {}
    for service in SERVICES:
        names = keys.setdefault(_export([service.keys[0], *service.needs]), [])
        names.append(f"{service.name}/")
    ways = [f"{command}  # {', '.join(names)}" for command, names in keys.items()]
    return [*ways, f"{QWEN.command}  # local/qwen: on this machine, without a key"]


def is_installed(module: str) -> bool:
    """Whether the module can be found. Only its parent packages are imported."""
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


def _names(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'}"


def _export(names: Sequence[str]) -> str:
    return f"export {' '.join(f'{name}=...' for name in names)}"


def plug_in_readiness(name: str) -> Readiness:
    """Whether a provider of another package is usable here."""
    try:
        provider = plug_in(name)
    except ConfigError as error:
        return Readiness(False, str(error), wrong=True)
    if provider is None or provider.readiness is None:
        return Readiness(True, f"installed by {plug_in_origin(name)}")
    return provider.readiness()


def plug_in_target(name: str) -> str:
    """An example of a model of this plug-in."""
    try:
        provider = plug_in(name)
    except ConfigError:
        provider = None
    return f"{name}/{provider.default_model if provider else 'default'}"
