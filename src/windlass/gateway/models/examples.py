"""Prompts for a new chat, made from the declarations of a model's tools. Pure."""

from collections.abc import Sequence
from typing import Any

from windlass.content import FunctionDeclaration
from windlass.tool import Tool
from windlass.wires.fields import as_list, as_object

MAX_EXAMPLES = 4
GENERAL = (
    "Explain how rainbows form, in three sentences.",
    "Write a short poem about the sea.",
    "Write a Python function that checks whether a word is a palindrome.",
    "List five ideas for a rainy weekend.",
)
"""For a model with few tools or none."""
OVERVIEW = "What can you do? List your tools with one sentence each."


def example_prompts(tools: Sequence[Tool]) -> list[str]:
    """Returns four prompts.

    A tool whose schema gives an example or a default for each required argument is called with
    these values. For any other tool, the prompt asks only what it does: an invented argument could
    have an effect.
    """
    declared = [each.declaration for each in tools]
    functions = [each for each in declared if isinstance(each, FunctionDeclaration)]
    if not functions:
        return list(GENERAL)
    prompts = [_call_prompt(each) or _question(each) for each in functions]
    return [OVERVIEW, *prompts, *GENERAL][:MAX_EXAMPLES]


def _question(function: FunctionDeclaration) -> str:
    return f"What does {function.name} do? Give an example of a question for it."


def _call_prompt(function: FunctionDeclaration) -> str | None:
    """A prompt that calls the tool with values of its schema; None if some are missing."""
    schema: dict[str, Any] = function.parameters or {}
    properties = as_object(schema.get("properties")) or {}
    required = as_list(schema.get("required")) or []
    values = {name: _sample(as_object(properties.get(name)) or {}) for name in required}
    if not values or None in values.values():
        return None
    given = " and ".join(f"{name} {value}" for name, value in values.items())
    return f"Use {function.name} with {given}."


def _sample(schema: dict[str, Any]) -> str | None:
    examples = as_list(schema.get("examples")) or []
    value = examples[0] if examples else schema.get("default")
    return None if value is None or isinstance(value, dict | list) else str(value)
