"""Log records without content: with `log_content = false`, no record shows what was said.

Content is everything that a client, a model or a tool said: prompts, answers, arguments, results,
and the texts of exceptions, which are often made of them. A record keeps its own words, its numbers
and the fields that are known to be harmless. An exception keeps its type and its traceback.
"""

import logging
import os
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from windlass.content import PrivateText
from windlass.errors import ConfigError, ModelError, StorageError

__all__ = ["HARMLESS_FIELDS", "HIDDEN", "LOGGERS", "STANDARD_FIELDS", "hide_content", "redact"]

HIDDEN = "[hidden: log_content is false]"

HARMLESS_FIELDS = frozenset(
    {
        "address",
        "attempt",
        "calls",
        "context",
        "dependency",
        "failure",
        "model",
        "nats",
        "outcome",
        "reason",
        "request_id",
        "round",
        "rounds",
        "run_id",
        "runs",
        "seconds",
        "status",
        "tokens",
        "tool",
        "tool_call_id",
        "tool_count",
        "wait",
    }
)
"""Extra fields of our own log lines that never hold content. Texts in other fields are hidden."""

STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

LOGGERS = (
    "windlass",
    "windlass.client",
    "windlass.emulation",
    "windlass.gateway",
    "windlass.loop",
    "windlass.mcp",
    "windlass.messaging",
    "windlass.models",
    "windlass.models.aistudio",
    "windlass.models.local",
    "windlass.remote",
    "windlass.runs",
    "windlass.worker",
)
"""A logger's filter does not see the records of the loggers below it, so each has its own."""

_LIBRARIES = frozenset(
    {
        "aiohttp",
        "anyio",
        "asyncio",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "mcp",
        "nats",
        "opentelemetry",
        "playwright",
        "starlette",
        "uvicorn",
    }
)
"""Libraries that handle content. Their DEBUG lines have it, and headers besides."""

_hiding: ContextVar[bool] = ContextVar("windlass_hides_content", default=False)


@contextmanager
def hide_content(hide: bool) -> Generator[None]:
    """Redacts what Windlass logs in this context, and in the tasks that are started in it."""
    token = _hiding.set(hide)
    try:
        yield
    finally:
        _hiding.reset(token)


class _InContext(logging.Filter):
    """Redacts the records of a gateway, whoever handles them."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _hiding.get():
            redact(record)
        return True


_in_context = _InContext()
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_in_context)


def redact(record: logging.LogRecord) -> bool:
    """Takes content out of the record, in place. False if the record must not be logged at all."""
    home = record.name.partition(".")[0]
    if home in _LIBRARIES and record.levelno < logging.INFO:
        return False
    if isinstance(record.msg, BaseException):
        record.msg = _told(record.msg)
    record.args = _arguments(record.args)
    if home in _LIBRARIES:
        # The lines below the first show values: asyncio writes a future with its exception there.
        record.msg, record.args = record.getMessage().partition("\n")[0], None
    if home in _LIBRARIES or home == "windlass":
        for name, value in list(vars(record).items()):
            if name not in STANDARD_FIELDS:
                vars(record)[name] = _field(name, value)
    if record.exc_info:
        error = record.exc_info[1]
        record.exc_text = "" if error is None else "\n".join(_traceback(error))
        record.exc_info = None
    return True


def _arguments(given: Any) -> Any:
    if isinstance(given, dict):
        named = cast("dict[str, Any]", given)
        return {name: _argument(value) for name, value in named.items()}
    return tuple(_argument(value) for value in given) if given else given


def _argument(value: Any) -> Any:
    if isinstance(value, PrivateText):
        return value.instead or HIDDEN
    match value:
        case ConfigError() | StorageError():  # they speak of the setup
            return str(value)
        case BaseException():
            return _told(value)
        case _:
            return value


def _field(name: str, value: Any) -> Any:
    if name in HARMLESS_FIELDS or isinstance(value, int | float | None):
        return _argument(value)
    return HIDDEN


def _traceback(error: BaseException, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """The lines of a traceback, with types in place of texts, the causes first."""
    seen |= {id(error)}
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _traceback(before, seen)
        how = "direct cause" if error.__cause__ is before else "context"
        yield f"\nThe exception above was the {how} of the following exception:\n"
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        for frame in traceback.format_tb(error.__traceback__):
            yield frame.rstrip("\n")
    yield _told(error)
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        for number, member in enumerate(members, start=1):
            if id(member) not in seen:
                yield f"  Exception {number} of {len(members)}:"
                for line in _traceback(member, seen):
                    yield f"    {line}"


def _told(error: BaseException) -> str:
    """An exception without its text, but with what the text says of the system."""
    kind = type(error)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{home}{kind.__qualname__}"
    match error:
        case StorageError():
            return f"{name}: {error}"
        case ModelError(status=int(status)):
            return f"{name} (status {status})"
        case OSError(errno=int(number)):
            return f"{name}: [Errno {number}] {os.strerror(number)}"
        case _:
            return f"{name}: {HIDDEN}"
