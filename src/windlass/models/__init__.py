"""Language models by name: `create_model("provider/model")`.

Importing this package imports no HTTP library: a provider's module is imported at first use. Other
packages can add providers, see `provider`.
"""

from collections.abc import Mapping
from typing import Any

from windlass.errors import ConfigError
from windlass.model import Model
from windlass.models.keys import Key
from windlass.models.provider import (
    GROUP,
    PROVIDERS,
    Provider,
    Readiness,
    factory,
    plug_in,
    plug_in_names,
    plug_in_origin,
    provider_names,
)
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts

__all__ = [
    "GROUP",
    "PROVIDERS",
    "WIRES",
    "Key",
    "Provider",
    "Readiness",
    "Retry",
    "Timeouts",
    "create_model",
    "plug_in",
    "plug_in_names",
    "plug_in_origin",
    "provider_names",
    "wire_of",
]

WIRES: dict[str, str] = {
    "anthropic": "messages",
    "openai": "chat",
    "gemini": "gemini",
    "responses": "responses",
    "vertex": "gemini",
}
"""The wire of each provider of Windlass that has one."""


def wire_of(provider: str) -> str:
    """The wire of a provider; empty if it has none."""
    if provider in PROVIDERS:
        return WIRES.get(provider, "")
    found = plug_in(provider)
    return found.wire if found else ""


def create_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: Key | None = None,
    headers: Mapping[str, str] | None = None,
    retry: Retry = DEFAULT_RETRY,
    timeout: Timeouts | float = DEFAULT_TIMEOUTS,
) -> Model:
    """The model named `provider/model`. A plain `timeout` is the longest silence in seconds.

    Raises `ConfigError` for an unknown provider or a missing key.
    """
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise ConfigError(
            f"a model name must be provider/model, such as 'openai/gpt-5-mini' or"
            f" 'gemini/gemini-2.5-flash', not {name!r}"
        )
    make = factory(provider)
    if make is None:
        known = ", ".join(provider_names())
        raise ConfigError(f"unknown provider {provider!r} in {name!r}; supported: {known}")
    options: dict[str, Any] = {"base_url": base_url, "api_key": api_key, "headers": headers}
    timeouts = timeout if isinstance(timeout, Timeouts) else Timeouts(read=timeout)
    return make(model, **options, retry=retry, timeouts=timeouts)
