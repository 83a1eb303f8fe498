"""The form of a value: what a parameter's description asks for, and what a request says. Pure."""

import re
from typing import Any, cast

from windlass.content import Schema
from windlass.emulation.forms import in_form
from windlass.emulation.numbers import numbers_in
from windlass.emulation.program import ProgramStep

_PERCENT = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s*(?:%|per\s?cent\b)", re.IGNORECASE)
_ASKS_FOR_PERCENT = re.compile(r"percent|%", re.IGNORECASE)
_UP_TO_HUNDRED = re.compile(r"\b0(?:\.0)? ?(?:-|to|and) ?100\b")
_ASKS_FOR_SHARE = re.compile(r"decimal|fraction|\b0\.\d", re.IGNORECASE)

_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset({"all", "any", "no", "none", "other", "yes"})
"""Values of enums that are in many requests, and mean something else there."""


def in_asked_form(name: str, value: Any, schema: Schema, said: str) -> Any:
    """Returns a date or a percentage of the request in the form that the parameter asks for.

    For 5%, a whole number is 5, and so is a number that is described as a percentage. Any other
    number is 0.05. Other values are returned as they are.
    """
    if isinstance(value, str):
        return in_form(value, str(schema.get("description") or ""))
    if isinstance(value, list):
        items = schema.get("items")
        inner = cast("Schema", items) if isinstance(items, dict) else {}
        # The description of a list is that of its items.
        inner = {"description": schema.get("description"), **inner}
        return [in_asked_form(name, each, inner, said) for each in cast("list[Any]", value)]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    percent = _percentage(value, said)
    if percent is None:
        return value
    if schema.get("type") == "integer" or _is_percentage(name, schema):
        return int(percent) if percent.is_integer() else percent
    return round(percent / 100, 10)


def named_choices(step: ProgramStep, said: str) -> dict[str, str]:
    """Returns the values of enums that the request names, for parameters that the step leaves out.

    A parameter of which the request names two values is left out.
    """
    words = f" {' '.join(_WORD.findall(said.lower()))} "
    named: dict[str, str] = {}
    for name in step.function.parameters.values():
        if name in step.arguments:
            continue
        found = [
            choice
            for choice in step.function.choices(name)
            if (text := " ".join(_WORD.findall(choice.lower())))
            and text not in _COMMON
            and (f" {text} " in words or f" {text}s " in words)
        ]
        if len(found) == 1:
            named[name] = found[0]
    return named


def _percentages(said: str) -> set[float]:
    """The percentages of the request that are not other numbers in it."""
    given = {float(found.replace(",", "")) for found in _PERCENT.findall(said)}
    return given - {number for number, _ in numbers_in(_PERCENT.sub(" ", said))}


def _percentage(value: float, said: str) -> float | None:
    """The percentage that the value is; None if the request may mean another number."""
    for percent in _percentages(said):
        if value == percent or abs(value * 100 - percent) < 1e-9:
            return percent
    return None


def _is_percentage(name: str, schema: Schema) -> bool:
    text = f"{name.replace('_', ' ')} {schema.get('description') or ''}"
    maximum = schema.get("maximum")
    if (isinstance(maximum, int | float) and maximum > 1) or _UP_TO_HUNDRED.search(text):
        return True
    return bool(_ASKS_FOR_PERCENT.search(text)) and not _ASKS_FOR_SHARE.search(text)
