"""What an upstream says when it refuses, in any of the usual shapes, as a `ModelError`. Pure."""

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

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
"""Besides every 5xx other than 501."""

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
        "too_many_requests",
        "ABORTED",
        "DEADLINE_EXCEEDED",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    }
)
"""An error in the middle of a stream has no status, only a code."""

FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""A 429 that no waiting cures."""

LONGEST_MESSAGE = 2000
LONGEST_PAGE = 300
PAGE_BYTES_READ = 8192
SHORTEST_SECRET = 4


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets: some services quote the key that they refuse."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[redacted]")
    return text


def problem_of(
    status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str] = ()
) -> ModelError:
    """The error that an HTTP answer stands for. Names in `headers` are lower case or ignore it."""
    try:
        value: object = decode_json(body)
    except ValueError:
        value = _page_text(body)
    error = _error_object(value)
    code = _code(error)
    message = _message(error) or as_text(value) or ""
    retryable = is_retryable(status, code)
    should_retry = headers.get("x-should-retry")  # OpenAI's own word on it
    return ModelError(
        redacted(message.strip()[:LONGEST_MESSAGE], secrets) or f"HTTP status {status}",
        status=status,
        retryable=should_retry == "true" if should_retry else retryable,
        retry_after=retry_after(headers, as_list(error.get("details")) or ()),
        code=redacted(code, secrets) if code else None,
    )


def problem_in(error: object, secrets: Iterable[str] = ()) -> ModelError:
    """The error inside an answer that began as a success: in a stream, or under status 200."""
    fields = _error_object({"error": error})
    code, number = _code(fields), fields.get("code")
    status = number if isinstance(number, int) and 400 <= number <= 599 else None
    message = _message(fields) or "the model's service reported an error"
    return ModelError(
        redacted(message[:LONGEST_MESSAGE], secrets),
        status=status,
        retryable=is_retryable(status, code),
        retry_after=retry_after({}, as_list(fields.get("details")) or ()),
        code=redacted(code, secrets) if code else None,
    )


def _error_object(value: object) -> JsonObject:
    """The fields of the error itself. Google puts a streamed one into a list."""
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
    """FastAPI's `detail` is a list of objects with the place (`loc`) and the reason (`msg`)."""
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
    """The words of a plain or HTML answer, shortened: such pages come from proxies."""
    text = body[:PAGE_BYTES_READ].decode("utf-8", "replace")
    if "<" in text:
        text = re.sub(r"(?is)<(script|style|head)\b.*?</\1\s*>", " ", text)
        text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_PAGE else f"{text[:LONGEST_PAGE]}..."


def is_retryable(status: int | None, code: str | None) -> bool:
    if code in FINAL_CODES:
        return False
    if status is not None:
        return status in RETRYABLE_STATUS or (status >= 500 and status != 501)
    return code in TRANSIENT_CODES


def retry_after(
    headers: Mapping[str, str], details: Iterable[object], now: datetime | None = None
) -> float | None:
    """The wait that the server asks for, in a header (seconds or a date) or in the body."""
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
