"""Providers by name: those of Windlass, and plug-ins that other packages install.

A package offers a provider by an entry point of the group `windlass.providers`. Its name is the
part of a model's name before the slash. It refers to a class or function that makes a model, or to
a `Provider`:

    [project.entry-points."windlass.providers"]
    acme = "acme_windlass:AcmeModel"

Entry points are read when a name is not one of Windlass's own; a plug-in is imported at first use.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from msgspec import Struct

from windlass.errors import ConfigError
from windlass.model import Model
from windlass.request import PartKind

log = logging.getLogger("windlass.models")

GROUP = "windlass.providers"
"""The group of entry points."""

PROVIDERS: dict[str, tuple[str, str]] = {
    "anthropic": ("windlass.models.anthropic", "AnthropicModel"),
    "openai": ("windlass.models.openai", "OpenAIModel"),
    "gemini": ("windlass.models.gemini", "GeminiModel"),
    "local": ("windlass.models.local.model", "LocalModel"),
    "responses": ("windlass.models.responses", "ResponsesModel"),
    "vertex": ("windlass.models.gemini", "VertexModel"),
}
"""The providers of Windlass: the module and the class of each."""


class Readiness(Struct, frozen=True):
    """Whether something is usable, the reason, and the command that makes it usable."""

    ready: bool
    because: str
    remedy: str | None = None
    wrong: bool = False
    """Whether the configuration is wrong, not only incomplete."""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider of models, as a plug-in describes itself."""

    create: Callable[..., Model]
    """Called with the model's name and the keywords `base_url`, `api_key`, `headers` (each may be
    None), `retry` and `timeouts`. Raises `ConfigError` if the model cannot be made."""
    default_model: str = "default"
    """The model of examples and of `windlass models`."""
    parts: frozenset[PartKind] | None = frozenset()
    """The kinds of parts besides text that messages may have; None means that the model decides."""
    wire: str = ""
    """The API that it speaks, if it is one of chat, responses, messages and gemini."""
    readiness: Callable[[], Readiness] | None = None
    """Whether the provider is usable here, for `windlass models` and `windlass doctor`. None means
    that it is."""
    telemetry_name: str = ""
    """The provider's name in traces, if it differs from its own."""


def provider_names() -> list[str]:
    """The names of all providers, sorted."""
    return sorted({*PROVIDERS, *_entries()})


def plug_in_names() -> list[str]:
    """The names of the providers that plug-ins offer, sorted."""
    return sorted(_entries())


def plug_in(name: str) -> Provider | None:
    """The plug-in of this name; None if there is none. Raises `ConfigError` if it is broken."""
    entry = None if name in PROVIDERS else _entries().get(name)
    return None if entry is None else _loaded(entry)


def plug_in_origin(name: str) -> str:
    """The package that installed the plug-in, with its version."""
    distribution = _entries()[name].dist
    return f"{distribution.name} {distribution.version}" if distribution else "an unknown package"


def factory(name: str) -> Callable[..., Model] | None:
    """The function that makes models of this provider; None for an unknown one."""
    if name in PROVIDERS:
        module, attribute = PROVIDERS[name]
        return cast("Callable[..., Model]", getattr(import_module(module), attribute))
    provider = plug_in(name)
    return None if provider is None else provider.create


def _entries() -> Mapping[str, EntryPoint]:
    return _entries_on(tuple(sys.path))


@cache
def _entries_on(_: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in PROVIDERS:
            log.warning("ignoring the plug-in %r: Windlass has a provider of this name", entry.name)
        elif entry.name in found and found[entry.name].value != entry.value:
            log.warning("ignoring a second plug-in of the name %r: %s", entry.name, entry.value)
        else:
            found.setdefault(entry.name, entry)
    return found


@cache
def _loaded(entry: EntryPoint) -> Provider:
    try:
        loaded: Any = entry.load()
    except Exception as error:
        raise ConfigError(
            f"cannot load the provider {entry.name!r} from {entry.value}: {error}"
        ) from error
    if isinstance(loaded, Provider):
        return loaded
    if not callable(loaded):
        raise ConfigError(
            f"the provider {entry.name!r} must be a class, a function or a Provider, but"
            f" {entry.value} is {type(loaded).__name__}"
        )
    return Provider(create=cast("Callable[..., Model]", loaded), parts=None)
