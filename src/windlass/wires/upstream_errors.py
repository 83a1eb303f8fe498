"""Converts the errors of upstreams to `ModelError`, and reads the token limits in them. Pure.

Services report limits of the context and of the answer in their own words, with or without a code.
"""

import html
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from windlass.errors import ModelError
from windlass.jsontext import decode_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
"""The statuses that are retried, in addition to every 5xx except 501."""

TRANSIENT_CODES = frozenset(
    {
        "api_error",
        "bad_gateway",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "service_unavailable",
        "timeout",
        "timeout_error",
        "too_many_requests",
        "ABORTED",
        "DEADLINE_EXCEEDED",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    }
)
"""The codes that are retried if an error has no status, such as an error in a stream."""

FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Codes of a 429 that waiting does not resolve."""

MAX_MESSAGE = 2000
MAX_PAGE_TEXT = 300
MAX_PAGE_BYTES = 8192
MIN_SECRET = 4


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets: some services quote a refused key."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, "[redacted]")
    return text


def problem_of(
    status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str] = ()
) -> ModelError:
    """The error of an HTTP response. Header names are in lower case or case-insensitive.

    A prompt that is too long always has the code `context_length_exceeded`, here and in a stream.
    """
    try:
        value: object = decode_json(body)
    except ValueError:
        value = _page_text(body)
    error = _error_object(value)
    code = _code(error)
    message = _message(error) or as_text(value) or ""
    if is_context_exceeded(status, code, message):
        status, code = 400, CONTEXT_EXCEEDED
    retryable = is_retryable(status, code)
    should_retry = headers.get("x-should-retry")  # sent by OpenAI
    return ModelError(
        redacted(message.strip()[:MAX_MESSAGE], secrets) or f"HTTP status {status}",
        status=status,
        retryable=should_retry == "true" if should_retry else retryable,
        retry_after=retry_after(headers, as_list(error.get("details")) or ()),
        code=redacted(code, secrets) if code else None,
    )


def problem_in(error: object, secrets: Iterable[str] = ()) -> ModelError:
    """The error inside a successful response: in a stream, or with status 200."""
    fields = _error_object({"error": error})
    code, number = _code(fields), fields.get("code")
    status = number if isinstance(number, int) and 400 <= number <= 599 else None
    message = _message(fields) or "the model's service reported an error"
    if is_context_exceeded(status, code, message):
        status, code = 400, CONTEXT_EXCEEDED
    return ModelError(
        redacted(message[:MAX_MESSAGE], secrets),
        status=status,
        retryable=is_retryable(status, code),
        retry_after=retry_after({}, as_list(fields.get("details")) or ()),
        code=redacted(code, secrets) if code else None,
    )


def _error_object(value: object) -> JsonObject:
    """The fields of the error. Google sends a streamed error in a list."""
    items = as_list(value)
    fields = as_object(items[0] if items else value) or {}
    match fields.get("error"):
        case dict():
            return as_object(fields["error"]) or {}
        case str(text):
            return {**fields, "message": text}
        case _:
            return fields


def _message(error: JsonObject) -> str | None:
    for key in ("message", "detail", "msg", "error_description"):
        if text := _flat_text(error.get(key)):
            return text
    return None


def _flat_text(value: Any) -> str:
    """The text of a value. FastAPI's `detail` is a list of objects with `loc` and `msg`."""
    items = as_list(value)
    if items is None:
        fields = as_object(value)
        return (_message(fields) or "") if fields else as_text(value) or ""
    texts: list[str] = []
    for item in items:
        fields = as_object(item) or {"msg": item}
        place = ".".join(map(str, as_list(fields.get("loc")) or ()))
        texts.append(": ".join(filter(None, (place, as_text(fields.get("msg"))))))
    return "; ".join(filter(None, texts))


def _code(error: JsonObject) -> str | None:
    """OpenAI's `code` or `type`; Google's `status`, whose `code` is a number."""
    for key in ("code", "status", "type"):
        if text := as_text(error.get(key)):
            return text
    return None


def _page_text(body: bytes) -> str:
    """The text of a plain or HTML page, shortened. Such pages usually come from proxies."""
    text = body[:MAX_PAGE_BYTES].decode("utf-8", "replace")
    if "<" in text:
        text = re.sub(r"(?is)<(script|style|head)\b.*?</\1\s*>", " ", text)
        text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    text = " ".join(text.split())
    return text if len(text) <= MAX_PAGE_TEXT else f"{text[:MAX_PAGE_TEXT]}..."


def is_retryable(status: int | None, code: str | None) -> bool:
    if code in FINAL_CODES:
        return False
    if status is not None:
        return status in RETRYABLE_STATUS or (status >= 500 and status != 501)
    return code in TRANSIENT_CODES


def retry_after(
    headers: Mapping[str, str], details: Iterable[object], now: datetime | None = None
) -> float | None:
    """The wait that the server requests, in a header (seconds or a date) or in the body."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after", "")
    for seconds in (_seconds(after), _until(after, now)):
        if seconds is not None:
            return seconds
    return _google_delay(details)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(text: str, now: datetime | None) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def _google_delay(details: Iterable[object]) -> float | None:
    """Google's RetryInfo among an error's details: `{"@type": ..., "retryDelay": "17.5s"}`."""
    for detail in details:
        delay = as_text((as_object(detail) or {}).get("retryDelay"))
        if delay is not None:
            return _seconds(delay.removesuffix("s"))
    return None


CONTEXT_EXCEEDED = "context_length_exceeded"
"""The code of every error about a prompt that is too long, for all services."""
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
    """The length and the maximum length of a refused prompt, in tokens."""

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
    """Whether the limit holds for every request. Otherwise it is the rest of the context."""


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
