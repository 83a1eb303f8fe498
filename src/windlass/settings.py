"""Settings from the environment. Pure."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct, field

from windlass.errors import ConfigError

Mode = Literal["auto", "native", "emulated"]
MODES: tuple[Mode, ...] = get_args(Mode)

_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Words for a flag besides those that msgspec knows."""
_Flag: TypeAlias = Annotated[bool, Meta(description="true or false")]
_Count: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
_Seconds: TypeAlias = Annotated[
    Annotated[float, Meta(ge=0, le=sys.float_info.max)] | None,
    Meta(description="a number of seconds, 0 or more"),
]


class FunctionCallingSettings(Struct, frozen=True, kw_only=True):
    """The defaults of function calling, which a client or a request may override.

    The name of a field in JSON is that of its environment variable.
    """

    mode: Mode = field(default="auto", name="FUNCTION_CALLING_MODE")
    """`native`, `emulated`, or `auto`, which is native with a fallback."""
    native_retry_count: _Count = field(default=2, name="FC_NATIVE_RETRY_COUNT")
    """The number of native attempts before the fallback."""
    fallback_on_failure: _Flag = field(default=True, name="FC_FALLBACK_ON_FAILURE")
    """Whether `auto` falls back to emulation."""
    clear_between_requests: _Flag = field(default=True, name="FC_CLEAR_BETWEEN_REQUESTS")
    """Whether to clear a page's declarations after a request."""
    ui_timeout_ms: _Count = field(default=5000, name="FC_UI_TIMEOUT_MS")
    """The time limit of an operation on the page."""
    debug_logs: _Flag = field(default=False, name="FC_DEBUG_LOGS")
    """Whether to log prompts and answers."""
    cache_enabled: _Flag = field(default=True, name="FUNCTION_CALLING_CACHE_ENABLED")
    """Whether to cache a page's declarations."""
    cache_ttl: _Seconds = field(default=None, name="FUNCTION_CALLING_CACHE_TTL")
    """For how many seconds to cache them; None means without a limit."""


def function_calling_settings(environ: Mapping[str, str]) -> FunctionCallingSettings:
    """Returns the settings in the environment. An empty value means the default.

    Raises `ConfigError`, which names the variable and its valid values.
    """
    values: dict[str, Any] = {}
    for setting in msgspec.structs.fields(FunctionCallingSettings):
        if text := environ.get(setting.encode_name, "").strip():
            values[setting.name] = _read(text, setting.type, setting.encode_name)
    return FunctionCallingSettings(**values)


def mode_from(value: object, name: str = "mode") -> Mode:
    """Returns the mode, and ignores case. Raises `ConfigError`, which names the setting."""
    mode = value.strip().lower() if isinstance(value, str) else value
    if mode not in MODES:
        raise ConfigError(f"{name} must be 'auto', 'native' or 'emulated', not {value!r}")
    return mode


def _read(text: str, kind: Any, name: str) -> Any:
    """The value of a variable. Raises `ConfigError`, which names it."""
    if kind is Mode:
        return mode_from(text, name)
    try:
        word = _WORDS.get(text.lower(), text) if kind is _Flag else text
        return msgspec.convert(word, kind, strict=False)
    except msgspec.ValidationError:
        (meta,) = kind.__metadata__
        raise ConfigError(f"{name} must be {meta.description}, not {text!r}") from None


def state_directory() -> Path:
    """Returns the directory for persistent state: `WINDLASS_STATE_DIR`, or the user's default."""
    if given := os.environ.get("WINDLASS_STATE_DIR"):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "windlass"
