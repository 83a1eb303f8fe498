"""What a native failure means: the words of servers that cannot call functions. Pure.

Only what emulation can help with is recognised here. A tool whose schema is wrong, a history that
is out of order, a prompt that is too long: those are the caller's to know, and are raised.
"""

import re
from typing import Literal

from windlass.errors import ModelError

__all__ = ["UNAVAILABLE", "Failure", "native_failure", "refusal_in"]

Failure = Literal["unsupported", "choice", "malformed", "unavailable"]
"""Tools are not supported; this `tool_choice` is not; a call came out broken; the page failed."""

UNAVAILABLE = "native_mode_unavailable"
LONGEST = 200

_STATUSES = frozenset({None, 400, 404, 405, 415, 422, 500, 501})
"""llama.cpp says 500 of a request that it will never take."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_SUBJECT = _any_of(r"\btools?\b", r"\bfunctions?\b", r"\b(tool|function)[_ -]?\w+", r"toolconfig")
_REFUSAL = _any_of(
    r"(\bnot|n't) (be )?(support|enabl|permit|allow|available|implement)",
    r"unsupported",
    r"unrecogni[sz]ed (request )?(arg|param|field)",  # Azure, of tools and functions
    r"(unknown|unexpected) (name|keyword|param|arg|field)",
    r"no endpoints found",  # OpenRouter
    r"\brequires? --",  # vLLM and llama.cpp, of the flag that they were started without
)
_CHOICE = _any_of(r"tool_?choice", r"function_?calling_?config", r"mode `?any\b")
_MALFORMED = _any_of(
    r"failed to call a function",  # Groq
    r"error parsing tool call",  # Ollama
    r"fail(ed|ure) to parse .{0,40}(tool|function)",
    r"malformed.{0,20}(tool|function)",
)
_MALFORMED_CODES = frozenset({"tool_use_failed", "MALFORMED_FUNCTION_CALL"})
_NOT_OURS = _any_of(
    # The caller's tool is wrong.
    r"invalid (json )?schema",
    r"schema (for|of) (function|tool)",
    r"(tools|function_declarations|functions)[\[.]\d",
    r"input_schema",
    r"(function|tool)('s|\.) ?(name|parameters|description)",
    # The history is wrong.
    r"tool_(call|use)_id",
    r"response parts",
    r"preceding|followed by",
    # It is too much.
    r"context length|too (long|large|many)|maximum (context|number)",
    r"rate limit|quota|credit|billing",
)


def refusal_in(message: str) -> str | None:
    """The sentence of the message that says what is not supported, without the others."""
    sentences = re.split(r"(?<=[.!?;])\s+|\n", message)
    return next((each[:LONGEST] for each in sentences if _REFUSAL.search(each)), None)


def native_failure(problem: ModelError) -> Failure | None:
    """What the failure says of native function calling; None if that is not its cause."""
    message = problem.message
    if problem.code == UNAVAILABLE:
        return "unavailable"
    if problem.status not in _STATUSES:
        return None
    if problem.code in _MALFORMED_CODES or _MALFORMED.search(message):
        return "malformed"
    if _NOT_OURS.search(message) or not (_SUBJECT.search(message) and _REFUSAL.search(message)):
        return None
    return "choice" if _CHOICE.search(message) and "--" not in message else "unsupported"
