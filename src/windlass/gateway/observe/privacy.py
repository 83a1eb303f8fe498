"""Removes content from log records if `log_content` is false.

Content is text of clients, models and tools: prompts, answers, arguments, results, and messages of
exceptions, which often contain them. A record keeps its message template, its numbers and its
harmless fields. An exception keeps its type and its traceback.
"""

import logging
import os
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, cast

from windlass.content import PrivateText
from windlass.errors import ConfigError, ModelError, StorageError

HIDDEN = "[hidden: log_content is false]"

HARMLESS_FIELDS = frozenset(
    {
        "address",
        "attempt",
        "budget",
        "calls",
        "context",
        "cost",
        "dependency",
        "failure",
        "model",
        "nats",
        "outcome",
        "pid",
        "processes",
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
"""Extra fields of our log lines that never contain content. Text in other fields is hidden."""

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
    "windlass.wires",
    "windlass.worker",
)
"""A filter does not apply to the records of child loggers, so each logger gets one."""

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
        "pid",
        "processes",
        "opentelemetry",
        "playwright",
        "starlette",
        "uvicorn",
    }
)
"""Libraries that handle content: their DEBUG lines contain content and headers."""

_hiding: ContextVar[bool] = ContextVar("windlass_hides_content", default=False)


class hide_content:  # noqa: N801 - used like a function
    """Redacts the log records of this context and of the tasks that it starts."""

    __slots__ = ("_hide", "_token")

    def __init__(self, hide: bool) -> None:
        self._hide = hide

    def __enter__(self) -> None:
        self._token = _hiding.set(self._hide)

    def __exit__(self, *_: object) -> None:
        _hiding.reset(self._token)


class _RedactingFilter(logging.Filter):
    """Redacts records in a context with `hide_content`, for all handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _hiding.get():
            redact(record)
        return True


_filter = _RedactingFilter()
for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_filter)


def redact(record: logging.LogRecord) -> bool:
    """Removes content from the record in place; returns False if it must not be logged."""
    package = record.name.partition(".")[0]
    if package in _LIBRARIES and record.levelno < logging.INFO:
        return False
    if isinstance(record.msg, BaseException):
        record.msg = _without_message(record.msg)
    record.args = _arguments(record.args)
    if package in _LIBRARIES:
        # Later lines show values, such as asyncio's futures with their exceptions.
        record.msg, record.args = record.getMessage().partition("\n")[0], None
    if package in _LIBRARIES or package == "windlass":
        for name, value in list(vars(record).items()):
            if name not in STANDARD_FIELDS:
                vars(record)[name] = _field(name, value)
    if record.exc_info:
        error = record.exc_info[1]
        record.exc_text = "" if error is None else "\n".join(_traceback(error))
        record.exc_info = None
    return True


def _arguments(arguments: Any) -> Any:
    if isinstance(arguments, dict):
        named = cast("dict[str, Any]", arguments)
        return {name: _argument(value) for name, value in named.items()}
    return tuple(_argument(value) for value in arguments) if arguments else arguments


def _argument(value: Any) -> Any:
    if isinstance(value, PrivateText):
        return value.instead or HIDDEN
    match value:
        case ConfigError() | StorageError():  # their messages are about the setup
            return str(value)
        case BaseException():
            return _without_message(value)
        case _:
            return value


def _field(name: str, value: Any) -> Any:
    if name in HARMLESS_FIELDS or isinstance(value, int | float | None):
        return _argument(value)
    return HIDDEN


def _traceback(error: BaseException, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """The lines of a traceback without messages, causes first."""
    seen |= {id(error)}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and id(cause) not in seen:
        yield from _traceback(cause, seen)
        relation = "direct cause" if error.__cause__ is cause else "context"
        yield f"\nThe exception above was the {relation} of the following exception:\n"
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        for frame in traceback.format_tb(error.__traceback__):
            yield frame.rstrip("\n")
    yield _without_message(error)
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        for number, member in enumerate(members, start=1):
            if id(member) not in seen:
                yield f"  Exception {number} of {len(members)}:"
                for line in _traceback(member, seen):
                    yield f"    {line}"


def _without_message(error: BaseException) -> str:
    """The exception's type without its message, but with a status or errno."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    match error:
        case StorageError():
            return f"{name}: {error}"
        case ModelError(status=int(status)):
            return f"{name} (status {status})"
        case OSError(errno=int(number)):
            return f"{name}: [Errno {number}] {os.strerror(number)}"
        case _:
            return f"{name}: {HIDDEN}"
