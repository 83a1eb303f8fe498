"""Converts the error responses of upstreams, in the usual formats, to `ModelError`. Pure."""

import html
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from windlass.errors import ModelError
from windlass.jsontext import decode_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text
from windlass.wires.token_limits import CONTEXT_EXCEEDED, is_context_exceeded

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
"""In addition to every 5xx except 501."""

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
"""For errors in a stream, which have only a code and no status."""

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
