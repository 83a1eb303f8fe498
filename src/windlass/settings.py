"""Settings from the environment. Pure.

| Name | Default | Meaning |
|---|---|---|
| `FUNCTION_CALLING_MODE` | `auto` | `native`, `emulated`, or `auto` (native with a fallback) |
| `FC_NATIVE_RETRY_COUNT` | 2 | the number of native attempts before the fallback |
| `FC_FALLBACK_ON_FAILURE` | true | whether `auto` falls back to emulation |
| `FC_CLEAR_BETWEEN_REQUESTS` | true | whether to clear a page's declarations after a request |
| `FC_UI_TIMEOUT_MS` | 5000 | the time limit of an operation on the page |
| `FC_DEBUG_LOGS` | false | whether to log prompts and answers |
| `FUNCTION_CALLING_CACHE_ENABLED` | true | whether to cache a page's declarations |
| `FUNCTION_CALLING_CACHE_TTL` | none | for how many seconds to cache them |
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from windlass.errors import ConfigError

Mode = Literal["auto", "native", "emulated"]
MODES: tuple[Mode, ...] = get_args(Mode)

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class FunctionCallingSettings(Struct, frozen=True, kw_only=True):
    """The defaults of function calling, which a client or a request may override."""

    mode: Mode = "auto"
    native_retry_count: int = 2
    fallback_on_failure: bool = True
    clear_between_requests: bool = True
    ui_timeout_ms: int = 5000
    debug_logs: bool = False
    cache_enabled: bool = True
    cache_ttl: float | None = None


def function_calling_settings(environ: Mapping[str, str]) -> FunctionCallingSettings:
    """Returns the settings in the environment. An empty value means the default.

    Raises `ConfigError`, which names the variable and its valid values.
    """
    default = FunctionCallingSettings()
    given = _Environment(environ)
    mode = given.text("FUNCTION_CALLING_MODE")
    return FunctionCallingSettings(
        mode=mode_from(mode, "FUNCTION_CALLING_MODE") if mode else default.mode,
        native_retry_count=given.count("FC_NATIVE_RETRY_COUNT", default.native_retry_count),
        fallback_on_failure=given.flag("FC_FALLBACK_ON_FAILURE", default.fallback_on_failure),
        clear_between_requests=given.flag(
            "FC_CLEAR_BETWEEN_REQUESTS", default.clear_between_requests
        ),
        ui_timeout_ms=given.count("FC_UI_TIMEOUT_MS", default.ui_timeout_ms),
        debug_logs=given.flag("FC_DEBUG_LOGS", default.debug_logs),
        cache_enabled=given.flag("FUNCTION_CALLING_CACHE_ENABLED", default.cache_enabled),
        cache_ttl=given.seconds("FUNCTION_CALLING_CACHE_TTL"),
    )


def mode_from(value: object, name: str = "mode") -> Mode:
    """Returns the mode, and ignores case. Raises `ConfigError`, which names the setting."""
    mode = value.strip().lower() if isinstance(value, str) else value
    if mode not in MODES:
        raise ConfigError(f"{name} must be 'auto', 'native' or 'emulated', not {value!r}")
    return mode


class _Environment:
    """Reads typed values from the environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if not text:
            return default
        if text.lower() not in _TRUE | _FALSE:
            raise ConfigError(f"{name} must be true or false, not {text!r}")
        return text.lower() in _TRUE

    def count(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit()):
            raise ConfigError(f"{name} must be a whole number, 0 or more, not {text!r}")
        return int(text)

    def seconds(self, name: str) -> float | None:
        text = self.text(name)
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigError(f"{name} must be a number of seconds, 0 or more, not {text!r}")
        return seconds


def state_directory() -> Path:
    """Returns the directory for persistent state: `WINDLASS_STATE_DIR`, or the user's default."""
    if given := os.environ.get("WINDLASS_STATE_DIR"):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "windlass"
