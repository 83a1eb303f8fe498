"""Language models by name: `create_model("provider/model")`.

Importing this package imports no HTTP library: a provider's module is imported at first use.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from windlass.errors import ConfigError
from windlass.model import Model
from windlass.models.keys import Key
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts

__all__ = ["PROVIDERS", "WIRES", "Key", "Retry", "Timeouts", "create_model"]

PROVIDERS: dict[str, tuple[str, str]] = {
    "aistudio": ("windlass.models.aistudio.model", "AIStudioModel"),
    "anthropic": ("windlass.models.anthropic", "AnthropicModel"),
    "openai": ("windlass.models.openai", "OpenAIModel"),
    "gemini": ("windlass.models.gemini", "GeminiModel"),
    "local": ("windlass.models.local.model", "LocalModel"),
    "responses": ("windlass.models.responses", "ResponsesModel"),
    "vertex": ("windlass.models.gemini", "VertexModel"),
}
"""The providers: the module and the class of each."""

WIRES: dict[str, str] = {
    "anthropic": "messages",
    "openai": "chat",
    "gemini": "gemini",
    "responses": "responses",
    "vertex": "gemini",
}
"""The wire of each provider that has one."""


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
    if provider not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"unknown provider {provider!r} in {name!r}; supported: {known}")
    module, attribute = PROVIDERS[provider]
    make = cast("Callable[..., Model]", getattr(import_module(module), attribute))
    options: dict[str, Any] = {"base_url": base_url, "api_key": api_key, "headers": headers}
    timeouts = timeout if isinstance(timeout, Timeouts) else Timeouts(read=timeout)
    return make(model, **options, retry=retry, timeouts=timeouts)
