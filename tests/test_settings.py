"""Settings from the environment: their names, defaults and invalid values."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from windlass import ConfigError
from windlass.settings import FunctionCallingSettings, function_calling_settings, mode_from


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = function_calling_settings({})
    assert settings == FunctionCallingSettings()
    assert (settings.mode, settings.native_retry_count, settings.fallback_on_failure) == (
        "auto",
        2,
        True,
    )
    assert (settings.debug_logs, settings.cache_enabled, settings.cache_ttl) == (False, True, None)
    assert (settings.clear_between_requests, settings.ui_timeout_ms) == (True, 5000)


def test_every_setting_is_read() -> None:
    settings = function_calling_settings(
        {
            "FUNCTION_CALLING_MODE": " Native ",
            "FC_NATIVE_RETRY_COUNT": "0",
            "FC_FALLBACK_ON_FAILURE": "false",
            "FC_CLEAR_BETWEEN_REQUESTS": "no",
            "FC_UI_TIMEOUT_MS": "9000",
            "FC_DEBUG_LOGS": "TRUE",
            "FUNCTION_CALLING_CACHE_ENABLED": "0",
            "FUNCTION_CALLING_CACHE_TTL": "1.5",
            "SOMETHING_ELSE": "x",
        }
    )
    assert settings == FunctionCallingSettings(
        mode="native",
        native_retry_count=0,
        fallback_on_failure=False,
        clear_between_requests=False,
        ui_timeout_ms=9000,
        debug_logs=True,
        cache_enabled=False,
        cache_ttl=1.5,
    )


def test_an_empty_value_means_the_default() -> None:
    names = ("FUNCTION_CALLING_MODE", "FC_NATIVE_RETRY_COUNT", "FC_DEBUG_LOGS")
    assert function_calling_settings(dict.fromkeys(names, " ")) == FunctionCallingSettings()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FUNCTION_CALLING_MODE", "magic", "must be 'auto', 'native' or 'emulated', not 'magic'"),
        ("FC_NATIVE_RETRY_COUNT", "-1", "must be a whole number, 0 or more, not '-1'"),
        ("FC_NATIVE_RETRY_COUNT", "²", "must be a whole number"),
        ("FC_UI_TIMEOUT_MS", "5s", "must be a whole number"),
        ("FC_FALLBACK_ON_FAILURE", "maybe", "must be true or false, not 'maybe'"),
        ("FC_DEBUG_LOGS", "2", "must be true or false"),
        ("FUNCTION_CALLING_CACHE_TTL", "soon", "must be a number of seconds"),
        ("FUNCTION_CALLING_CACHE_TTL", "-1", "must be a number of seconds"),
        ("FUNCTION_CALLING_CACHE_TTL", "inf", "must be a number of seconds"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        function_calling_settings({name: value})
    assert str(caught.value).startswith(f"{name} {said}")


def test_a_mode_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode must be 'auto', 'native' or 'emulated', not 5"):
        mode_from(5)


def test_the_documentation_has_every_variable_with_its_default() -> None:
    docs = Path(__file__).parents[1] / "docs"
    pages = "".join((docs / name).read_text() for name in ("emulation.md", "aistudio.md"))
    rows = re.findall(r"^\| `(F[A-Z_]+)` \| `?(\w+)`? \|", pages, re.MULTILINE)
    defaults = {
        setting.encode_name: json.dumps(setting.default).strip('"').replace("null", "none")
        for setting in msgspec.structs.fields(FunctionCallingSettings)
    }
    assert dict(rows) == defaults
