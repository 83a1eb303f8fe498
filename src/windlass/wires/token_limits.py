"""Reads the limits of tokens in the errors of services: of the context, and of the answer. Pure.

Services report them in their own words, with or without a code.
"""

import re
from typing import NamedTuple

CONTEXT_EXCEEDED = "context_length_exceeded"
"""The code of every error about a prompt that is too long, whatever the service."""
_CONTEXT_CODES = frozenset(
    {
        CONTEXT_EXCEEDED,
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "prompt_too_long",
    }
)
_CONTEXT_STATUSES = frozenset({None, 400, 413, 422})
_CONTEXT_TEXT = re.compile(
    r"(?i)(prompt|input) is too long"
    r"|maximum (context|prompt) length|maximum model length|model's context length"
    r"|exceeds? (the|your|its|this model's) (available |maximum )?context (size|window|length)"
    r"|context (window|length) exceeds|exceed context limit"
    r"|input tokens? (count|length)?.{0,40}exceeds? the (maximum|configured)"
    r"|input token length too long|prompt exceeds max length"
    r"|reduce the length of the (messages|prompt|input)"
    r"|model only supports up to"
    r"|tokens \+ `?max_new_tokens`? must be"
)
_NUMBER = r"\(?(\d[\d,]*)"
_USED_FIRST = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"prompt is too long\D*# tokens? > #",
        r"input token count.{0,6}?#\)? exceeds the maximum number of tokens allowed.{0,6}?#",
        r"input token count is # but model only supports up to #",
        r"# tokens\)? exceeds the available context size.{0,4}?#",
        r"prompt contains # tokens.{0,60}?too large for model with # maximum context",
        r"prompt \(length #\) is longer than the maximum model length of #",
        r"it has # tokens.{0,80}?room for #",
        r"has # (?:input )?tokens.{0,60}?context (?:length|window|size) (?:is|of) #",
    )
)
_MAXIMUM_FIRST = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"maximum (?:context|prompt) length (?:is|of) # tokens.{0,60}?resulted in #",
        r"maximum (?:context|prompt) length (?:is|of) # tokens.{0,60}?requested (?:about )?#",
        r"maximum (?:context|prompt) length (?:is|of) #.{0,60}?(?:contains|has) #",
    )
)


class RefusedPrompt(NamedTuple):
    """How long a refused prompt is, and how long it may be, in tokens."""

    tokens: int
    maximum: int


def is_context_exceeded(status: int | None, code: str | None, message: str) -> bool:
    """Whether the error says that the prompt is longer than the model's context."""
    if code in _CONTEXT_CODES:
        return True
    return status in _CONTEXT_STATUSES and _CONTEXT_TEXT.search(message) is not None


def prompt_size(message: str) -> RefusedPrompt | None:
    """The size of the prompt and its maximum, if the error names both."""
    for pattern in _USED_FIRST:
        if found := pattern.search(message):
            return RefusedPrompt(_number(found[1]), _number(found[2]))
    for pattern in _MAXIMUM_FIRST:
        if found := pattern.search(message):
            return RefusedPrompt(_number(found[2]), _number(found[1]))
    return None


class OutputLimit(NamedTuple):
    """The largest number of output tokens that a service accepts."""

    tokens: int
    of_model: bool
    """Whether it holds for every request. Otherwise it is what the prompt leaves of the context."""


_LIMIT_NAME = r"[`']?(?:max_tokens|max_completion_tokens|max_output_tokens|max_new_tokens)[`']?"
_MODEL_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"supports at most (\d+) (?:completion|output) tokens",
        rf"{_LIMIT_NAME}: integer above maximum value\W+expected a value <= (\d+)",
        rf"{_LIMIT_NAME} must be (?:less than or equal to|at most|<=) [`']?(\d+)",
        rf"valid range of {_LIMIT_NAME} is \[\d+, ?(\d+)\]",
        r"max_tokens: ?\d+ > (\d+), which is the maximum",
    )
)
_OPEN_RANGE = re.compile(
    r"maxOutputTokens value of \d+ but the supported range is from 1 \(inclusive\) to (\d+)"
)
_CONTEXT_AND_PROMPT = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"context length is (?P<context>\d+) tokens.{0,60}?\((?P<prompt>\d+) (?:in the|of)[^)]+,",
        r"maximum context length is (?P<context>\d+) tokens and your request has (?P<prompt>\d+)",
        r"exceed context limit: (?P<prompt>\d+) \+ \d+ > (?P<context>\d+)",
    )
)


def output_limit(message: str) -> OutputLimit | None:
    """The limit, if the error is about the requested number of output tokens and names it."""
    for pattern in _MODEL_LIMITS:
        if found := pattern.search(message):
            return OutputLimit(int(found[1]), of_model=True)
    if found := _OPEN_RANGE.search(message):
        return OutputLimit(int(found[1]) - 1, of_model=True)
    for pattern in _CONTEXT_AND_PROMPT:
        if found := pattern.search(message):
            return OutputLimit(int(found["context"]) - int(found["prompt"]), of_model=False)
    return None


def _number(text: str) -> int:
    return int(text.replace(",", ""))
