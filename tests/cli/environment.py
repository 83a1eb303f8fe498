"""Helpers of the command tests: an environment without settings, and missing modules."""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import pytest

PREFIXES = (
    "WINDLASS_",
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "GOOGLE_",
    "VERTEX_",
    "OTEL_",
    "FC_",
    "FUNCTION_",
)


def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes all variables that Windlass reads."""
    for name in list(os.environ):
        if name.startswith(PREFIXES):
            monkeypatch.delenv(name)


def hide(monkeypatch: pytest.MonkeyPatch, *prefixes: str) -> None:
    """Hides the modules with this prefix, as if they were not installed."""
    find = PathFinder.find_spec

    def find_others(name: str, *args: Any) -> ModuleSpec | None:
        return None if name.startswith(prefixes) else find(name, *args)

    monkeypatch.setattr(PathFinder, "find_spec", find_others)
    for name in list(sys.modules):
        if name.startswith(prefixes):
            monkeypatch.delitem(sys.modules, name)
