"""Settings from the environment. Pure reading.

| Name | Default | What it says |
|---|---|---|
| `FUNCTION_CALLING_MODE` | `auto` | `native`, `emulated`, or native with a way out |
| `FC_NATIVE_RETRY_COUNT` | 2 | how often native mode is tried before it is given up |
| `FC_FALLBACK_ON_FAILURE` | true | whether `auto` goes on emulated when native mode fails |
| `FC_CLEAR_BETWEEN_REQUESTS` | true | whether a page's declarations are cleared afterwards |
| `FC_UI_TIMEOUT_MS` | 5000 | how long an operation on the page may take |
| `FC_DEBUG_LOGS` | false | whether prompts and answers go to the log |
| `FUNCTION_CALLING_CACHE_ENABLED` | true | whether a page's declarations are kept |
| `FUNCTION_CALLING_CACHE_TTL` | none | for how many seconds |
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
    """How tools are brought to a model, where a client or a request does not say it."""

    mode: Mode = "auto"
    native_retry_count: int = 2
    fallback_on_failure: bool = True
    clear_between_requests: bool = True
    ui_timeout_ms: int = 5000
    debug_logs: bool = False
    cache_enabled: bool = True
    cache_ttl: float | None = None


def function_calling_settings(environ: Mapping[str, str]) -> FunctionCallingSettings:
    """The settings that the environment names. An empty value is none.

    Raises `ConfigError`, which names the variable and what it may be.
    """
    default = FunctionCallingSettings()
    given = _Given(environ)
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
    """The mode of that name, in any case. Raises `ConfigError`, which names the setting."""
    mode = value.strip().lower() if isinstance(value, str) else value
    if mode not in MODES:
        raise ConfigError(f"{name} must be 'auto', 'native' or 'emulated', not {value!r}")
    return mode


class _Given:
    """The values of an environment, read one by one."""

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
    """`WINDLASS_STATE_DIR`, else a directory of the user's for what is kept between two starts."""
    if given := os.environ.get("WINDLASS_STATE_DIR"):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "windlass"
