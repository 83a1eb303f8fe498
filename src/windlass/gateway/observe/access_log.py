"""One line for each request, and the shape of every line that Windlass logs.

An access line holds names, numbers and times: no content, no header and no query string. What a
client chose, such as a path, is escaped and kept short, so that nobody can write lines of their
own.
"""

import copy
import json as stdlib_json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from windlass.errors import ConfigError
from windlass.gateway.observe.privacy import STANDARD_FIELDS, redact

__all__ = ["AccessLog", "AccessRecord", "JsonFormatter", "TextFormatter", "configure_logging"]

ACCESS = "windlass.gateway.access"
IN_ACCESS_MESSAGE = frozenset({"method", "path", "status"})
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LONGEST = 500
"""Characters of a text that a client chose."""

_UNRESERVED = "/:@!$&'()*+,;="
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.-]{1,200}")


class AccessRecord(Struct, frozen=True, kw_only=True):
    """What is known of a request when it has been answered; None is left out of the line.

    `key` is a key's name, and `model` the name that the configuration has for it: neither is the
    client's own text.
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
    stream: bool = False
    client: str | None = None
    request_id: str | None = None
    bytes_out: int = 0


class AccessLog:
    """Writes to the logger `windlass.gateway.access`, at INFO."""

    def __init__(self) -> None:
        self._log = logging.getLogger(ACCESS)

    def line(self, record: AccessRecord) -> None:
        """Logs the request, whatever is in it."""
        if not self._log.isEnabledFor(logging.INFO):
            return
        fields = {
            name: value if type(value) is not str else _safe(value)
            for name, value in msgspec.structs.asdict(record).items()
            if value is not None
        }
        path = fields["path"] = _path(record.path)
        fields["seconds"] = round(record.seconds, 6)
        # Not by `Logger.info`, which looks for the line of code that called it.
        self._log.handle(_AccessLine((fields["method"], path, record.status), fields))


class _AccessLine(logging.LogRecord):
    """A log record that has its extra fields apart, where our formatters find them at once."""

    def __init__(self, said: tuple[str, str, int], fields: dict[str, Any]) -> None:
        super().__init__(ACCESS, logging.INFO, "", 0, "%s %s %d", said, None)
        self.fields = fields


def _path(path: str) -> str:
    if _PLAIN_PATH.fullmatch(path):
        return path
    return _short(quote(path.partition("?")[0], safe=_UNRESERVED, errors="replace"))


class JsonFormatter(logging.Formatter):
    """A record as one JSON object in one line, with its extra fields and its exception."""

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
    """A record as a line for people, with its extra fields; its exception is indented below."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record).astimezone():%H:%M:%S} {record.levelname:<8}"
        said = IN_ACCESS_MESSAGE if record.name == ACCESS else ()
        pairs = (
            f" {name}={_escaped(str(value))}"
            for name, value in _extra(record).items()
            if name not in said
        )
        line = head + _escaped(record.getMessage()) + "".join(pairs)
        return "\n".join([line, *self._below(record)])

    def _below(self, record: logging.LogRecord) -> Iterator[str]:
        for line in [*_trace(self, record).splitlines(), *(record.stack_info or "").splitlines()]:
            yield f"    {_escaped(line)}"


class _Handler(logging.StreamHandler[Any]):
    """The handler that `configure_logging` made, to be found again."""

    def __init__(self, stream: Any, *, content: bool) -> None:
        super().__init__(stream)
        self._content = content

    def emit(self, record: logging.LogRecord) -> None:
        if not self._content and not isinstance(record, _AccessLine):
            record = copy.copy(record)  # other handlers get it as it is
            try:
                if not redact(record):
                    return
            except Exception:  # noqa: BLE001 - a log line must not break what it tells of
                self.handleError(record)
                return
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """The usual report shows the message and its arguments."""
        if self._content:
            super().handleError(record)
        elif logging.raiseExceptions and sys.stderr is not None:
            place = f"{record.pathname}:{record.lineno}"
            sys.stderr.write(f"A log line of {record.name} cannot be written: {place}\n")


def configure_logging(level: str = "INFO", json: bool | None = None, content: bool = False) -> None:
    """Sends the program's log to standard error: JSON, or text where a terminal reads it.

    `level` is for Windlass; other libraries are heard from WARNING on. Without `content`, prompts,
    arguments, results and the texts of exceptions are left out at every level. Called again, it
    replaces what it did before. Raises `ConfigError` for a level that does not exist.
    """
    name = level.strip().upper()
    if name not in LEVELS:
        raise ConfigError(f"the log level must be one of {', '.join(LEVELS)}, not {level!r}")
    in_json = not sys.stderr.isatty() if json is None else json
    handler = _Handler(sys.stderr, content=content)
    handler.setFormatter(JsonFormatter() if in_json else TextFormatter())
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("windlass").setLevel(name)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The traceback of the record; one that is written already is taken as it is."""
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
    """In ASCII: some readers end a line at characters that JSON would leave as they are."""
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
    return text if len(text) <= LONGEST and text.isprintable() else _short(_escaped(text))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _escaped(text: str) -> str:
    """The text with whatever ends a line or steers a terminal spelled out."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
