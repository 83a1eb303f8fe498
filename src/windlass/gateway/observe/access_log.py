"""The access log and the formats of all log lines.

An access line contains names, numbers and times, but no content, header or query string. Text from
the client, such as a path, is escaped and shortened, so that a client cannot forge log lines.
"""

import copy
import json as stdlib_json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from windlass.errors import ConfigError
from windlass.gateway.observe.batches import Batcher
from windlass.gateway.observe.privacy import STANDARD_FIELDS, redact

__all__ = ["AccessLog", "AccessRecord", "JsonFormatter", "TextFormatter", "configure_logging"]

ACCESS = "windlass.gateway.access"
IN_ACCESS_MESSAGE = frozenset({"method", "path", "status"})
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
MAX_TEXT = 500
"""The maximum length of text from a client."""

_UNRESERVED = "/:@!$&'()*+,;="
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.-]{1,200}")


class AccessRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of an access line; fields that are None are left out.

    `key` and `model` are names from the configuration, not text from the client.
    """

    method: str
    path: str
    status: int
    seconds: float
    key: str | None = None
    model: str | None = None
    run_id: str | None = None
    mode: str | None = None
    stop_reason: str | None = None
    rounds: int | None = None
    tool_runs: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    stream: bool
    client: str | None = None
    request_id: str | None = None
    bytes_out: int


class AccessLog:
    """Writes to the logger `windlass.gateway.access`, at INFO, several lines at a time."""

    def __init__(self) -> None:
        self._log = logging.getLogger(ACCESS)
        self._batch = Batcher(self._write)

    def line(self, record: AccessRecord) -> None:
        if self._log.isEnabledFor(logging.INFO):
            self._batch.add((record, time.time()))

    def flush(self) -> None:
        """Writes the lines that wait."""
        self._batch.flush()

    def _write(self, line: tuple[AccessRecord, float]) -> None:
        record, created = line
        fields = msgspec.to_builtins(record)
        texts = "".join([value for value in fields.values() if type(value) is str])
        if texts != _safe(texts):
            fields = {
                name: value if type(value) is not str else _safe(value)
                for name, value in fields.items()
            }
        path = fields["path"] = _path(record.path)
        fields["seconds"] = round(record.seconds, 6)
        # `Logger.info` would search the stack for its caller, which is slow.
        self._log.handle(_AccessLine((fields["method"], path, record.status), fields, created))


class _AccessLine(logging.LogRecord):
    """A log record with its extra fields in one dict, where our formatters find them quickly.

    The constructor of `LogRecord` looks up the thread, the process and the task, which takes longer
    than to write the line. All access lines have those of the first.
    """

    _common: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, arguments: tuple[str, str, int], fields: dict[str, Any], created: float
    ) -> None:
        common = _AccessLine._common
        if common.get("process") != os.getpid():
            super().__init__(ACCESS, logging.INFO, "", 0, "%s %s %d", (), None)
            common = _AccessLine._common = {**vars(self), "process": os.getpid()}
        vars(self).update(common, args=arguments, created=created, msecs=created % 1 * 1000)
        self.fields = fields


def _path(path: str) -> str:
    if _PLAIN_PATH.fullmatch(path):
        return path
    return _short(quote(path.partition("?")[0], safe=_UNRESERVED, errors="replace"))


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with its extra fields and its exception."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if trace := _trace(self, record):
            line["exception"] = trace
        if record.stack_info:
            line["stack"] = record.stack_info
        return _json({**line, **_extra(record), **line})


class TextFormatter(logging.Formatter):
    """Formats a record as a line of text with its extra fields; its exception is indented below."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record).astimezone():%H:%M:%S} {record.levelname:<8}"
        in_message = IN_ACCESS_MESSAGE if record.name == ACCESS else ()
        pairs = (
            f" {name}={_escaped(str(value))}"
            for name, value in _extra(record).items()
            if name not in in_message
        )
        line = head + _escaped(record.getMessage()) + "".join(pairs)
        return "\n".join([line, *self._below(record)])

    def _below(self, record: logging.LogRecord) -> Iterator[str]:
        for line in [*_trace(self, record).splitlines(), *(record.stack_info or "").splitlines()]:
            yield f"    {_escaped(line)}"


class _Handler(logging.StreamHandler[Any]):
    """The handler of `configure_logging`, which finds and replaces it by this type."""

    def __init__(self, stream: Any, *, content: bool) -> None:
        super().__init__(stream)
        self._content = content

    def emit(self, record: logging.LogRecord) -> None:
        if not self._content and not isinstance(record, _AccessLine):
            record = copy.copy(record)  # other handlers receive the original
            try:
                if not redact(record):
                    return
            except Exception:  # noqa: BLE001 - logging must not break the code that logs
                self.handleError(record)
                return
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Without `content`, leaves out the message and its arguments, which `logging` prints."""
        if self._content:
            super().handleError(record)
        elif logging.raiseExceptions and sys.stderr is not None:
            place = f"{record.pathname}:{record.lineno}"
            sys.stderr.write(f"cannot write log line of {record.name}: {place}\n")


def configure_logging(level: str = "INFO", json: bool | None = None, content: bool = False) -> None:
    """Sends the log to standard error, as JSON, or as text if it is a terminal.

    `level` applies to Windlass; other libraries log from WARNING on. Without `content`, prompts,
    arguments, results and messages of exceptions are left out at every level. Another call replaces
    the settings of the first. Raises `ConfigError` for an unknown level.
    """
    name = level.strip().upper()
    if name not in LEVELS:
        raise ConfigError(f"the log level must be one of {', '.join(LEVELS)}, not {level!r}")
    in_json = not sys.stderr.isatty() if json is None else json
    handler = _Handler(sys.stderr, content=content)
    handler.setFormatter(JsonFormatter() if in_json else TextFormatter())
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("windlass").setLevel(name)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The record's traceback, from `exc_text` if it is already formatted."""
    if record.exc_text or not record.exc_info:
        return record.exc_text or ""
    return formatter.formatException(record.exc_info)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    if isinstance(record, _AccessLine):
        return record.fields
    return {name: value for name, value in vars(record).items() if name not in STANDARD_FIELDS}


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _json(line: dict[str, Any]) -> str:
    """ASCII JSON: some readers take Unicode line separators for line ends."""
    try:
        text = msgspec.json.encode(line).decode()
        if text.isascii():
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return stdlib_json.dumps(line, default=str, skipkeys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return stdlib_json.dumps({name: str(value) for name, value in line.items()})


def _safe(text: str) -> str:
    return text if len(text) <= MAX_TEXT and text.isprintable() else _short(_escaped(text))


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def _escaped(text: str) -> str:
    """The text with line ends and control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
