"""The gateway's log lines: complete, one line each, and without content."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass import AsyncClient, ConfigError, tool
from windlass.gateway.observe.access_log import (
    AccessLog,
    AccessRecord,
    JsonFormatter,
    TextFormatter,
    configure_logging,
)
from windlass.testing import ScriptedModel, call, say

SECRET = "sk-planted-5ecret"
DONE = AccessRecord(
    method="POST",
    path="/v1/chat/completions",
    status=200,
    seconds=0.81234567,
    key="web",
    model="fast",
    run_id="run_1",
    mode="native",
    stop_reason="answer",
    rounds=2,
    tool_runs=1,
    input_tokens=20,
    output_tokens=10,
    stream=True,
    client="127.0.0.1",
    request_id="req_1",
    bytes_out=512,
)
HOSTILE = st.text(st.characters(codec=None, categories=None), max_size=80)


class Written:
    """The output of a handler with our formatter."""

    def __init__(self, formatter: logging.Formatter, name: str = "windlass") -> None:
        self._stream = io.StringIO()
        self._handler = logging.StreamHandler(self._stream)
        self._handler.setFormatter(formatter)
        self._logger = logging.getLogger(name)
        self._level = self._logger.level

    def __enter__(self) -> "Written":
        self._logger.addHandler(self._handler)
        self._logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *problem: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level)

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def test_a_request_is_one_json_object() -> None:
    with Written(JsonFormatter()) as written:
        AccessLog().line(DONE)
    [line] = written.objects
    assert datetime.fromisoformat(line.pop("time")).utcoffset() is not None
    assert line == {
        "level": "INFO",
        "logger": "windlass.gateway.access",
        "message": "POST /v1/chat/completions 200",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "seconds": 0.812346,
        "key": "web",
        "model": "fast",
        "run_id": "run_1",
        "mode": "native",
        "stop_reason": "answer",
        "rounds": 2,
        "tool_runs": 1,
        "input_tokens": 20,
        "output_tokens": 10,
        "stream": True,
        "client": "127.0.0.1",
        "request_id": "req_1",
        "bytes_out": 512,
    }


def test_fields_without_a_value_are_left_out() -> None:
    with Written(JsonFormatter()) as written:
        AccessLog().line(
            AccessRecord(
                method="GET", path="/health", status=200, seconds=0.0, stream=False, bytes_out=0
            )
        )
    assert written.objects[0].keys() == {
        *("time", "level", "logger", "message"),
        *("method", "path", "status", "seconds", "stream", "bytes_out"),
    }


def test_a_terminal_gets_one_line_of_text() -> None:
    with Written(TextFormatter()) as written:
        AccessLog().line(DONE)
    [line] = written.lines
    said = "INFO    POST /v1/chat/completions 200 seconds=0.812346 key=web model=fast run_id=run_1 "
    assert line[9:].startswith(said)
    assert "output_tokens=10 stream=True" in line


def test_a_query_string_is_never_logged() -> None:
    with Written(JsonFormatter()) as written:
        AccessLog().line(
            AccessRecord(
                method="GET",
                path=f"/v1/runs?key={SECRET}",
                status=404,
                seconds=0.0,
                stream=False,
                bytes_out=0,
            )
        )
    assert written.objects[0]["path"] == "/v1/runs"
    assert SECRET not in written.text


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter(), logging.Formatter()])
@settings(deadline=None)
@given(method=HOSTILE, path=HOSTILE, name=HOSTILE)
def test_a_request_cannot_forge_a_log_line(
    formatter: logging.Formatter, method: str, path: str, name: str
) -> None:
    forged = f"{path}\r\n\x1b[2J\u2028\x85{path} 200 key=admin"
    with Written(formatter) as written:
        AccessLog().line(
            AccessRecord(
                method=method,
                path=forged,
                status=404,
                seconds=0.0,
                model=name,
                request_id=name,
                stream=False,
                bytes_out=0,
            )
        )
    assert len(written.lines) == 1
    assert written.lines[0].isprintable()


def test_a_path_cannot_forge_fields() -> None:
    with Written(TextFormatter()) as written:
        AccessLog().line(
            AccessRecord(
                method="GET",
                path="/x 200 key=admin",
                status=404,
                seconds=0.0,
                stream=False,
                bytes_out=0,
            )
        )
    assert "GET /x%20200%20key=admin 404 seconds=0.0" in written.text


def test_a_long_path_is_shortened() -> None:
    with Written(JsonFormatter()) as written:
        AccessLog().line(
            AccessRecord(
                method="GET", path="/" * 60_000, status=404, seconds=0.0, stream=False, bytes_out=0
            )
        )
    assert len(written.text) < 2_000


def test_the_exception_is_a_field_of_the_log_line() -> None:
    with Written(JsonFormatter()) as written:
        try:
            raise RuntimeError("first\nsecond")
        except RuntimeError:
            logging.getLogger("windlass.loop").exception("Tool failed", extra={"tool": "f"})
    [line] = written.objects
    assert (line["level"], line["tool"]) == ("ERROR", "f")
    assert line["exception"].endswith("RuntimeError: first\nsecond")


def test_an_exception_cannot_forge_a_log_line() -> None:
    with Written(TextFormatter()) as written:
        try:
            raise RuntimeError("first\n12:00:00 INFO    forged\x1b[2J")
        except RuntimeError:
            logging.getLogger("windlass.loop").exception("Tool failed", stack_info=True)
    first, *below = written.lines
    assert first.endswith("Tool failed")
    assert all(line.startswith("    ") and line.isprintable() for line in below)
    assert "    12:00:00 INFO    forged\\x1b[2J" in below
    assert "    Stack (most recent call last):" in below


def test_extra_fields_of_any_kind_are_written_and_do_not_replace_the_standard_fields() -> None:
    circle: list[Any] = []
    circle.append(circle)
    log = logging.getLogger("windlass.loop")
    with Written(JsonFormatter()) as written:
        log.info("a", extra={"level": "FATAL", "time": 0, "when": date(2026, 1, 2)})
        log.info("b", extra={"half": "\ud800", "share": float("nan"), "arguments": {"n": 1}})
        log.info("c", extra={"circle": circle}, stack_info=True)
    first, second, third = written.objects
    assert (first["level"], first["when"]) == ("INFO", "2026-01-02")
    assert (second["message"], second["share"]) == ("b", "nan")
    assert third["circle"] == "[[...]]"
    assert third["stack"].startswith("Stack (most recent call last)")


async def test_the_log_lines_of_a_run_contain_no_content() -> None:
    @tool
    def fine(word: str) -> str:
        return word

    script = [call("fine", word=SECRET), say(SECRET)]
    with Written(JsonFormatter()) as written:
        logging.getLogger("windlass").setLevel(logging.INFO)
        async with AsyncClient(ScriptedModel(script), mode="native") as client:
            await client.generate(SECRET, tools=[fine])
    assert "Tool executed successfully" in {line["message"] for line in written.objects}
    assert SECRET not in written.text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def untouched() -> Iterator[None]:
    """Restores the loggers."""
    root, ours = logging.getLogger(), logging.getLogger("windlass")
    handlers, root_level, our_level = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(root_level)
    ours.setLevel(our_level)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("stream", "json_asked", "in_json"),
    [
        (io.StringIO, None, True),
        (Terminal, None, False),
        (Terminal, True, True),
        (io.StringIO, False, False),
    ],
)
def test_a_terminal_gets_text_and_any_other_output_json(
    monkeypatch: pytest.MonkeyPatch, stream: Any, json_asked: bool | None, in_json: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    configure_logging("info", json_asked)
    AccessLog().line(DONE)
    [line] = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    assert line.startswith("{") is in_json


@pytest.mark.usefixtures("untouched")
def test_the_level_applies_to_windlass_and_other_libraries_log_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    configure_logging("ERROR")
    configure_logging("debug")
    logging.getLogger("windlass.loop").debug("ours")
    logging.getLogger("another").info("chatter")
    logging.getLogger("another").warning("theirs")
    lines = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [json.loads(line)["message"] for line in lines] == ["ours", "theirs"]


@pytest.mark.usefixtures("untouched")
def test_a_quiet_level_has_no_access_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    configure_logging("warning")
    AccessLog().line(DONE)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_an_unknown_level_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"must be one of DEBUG, INFO, .*, not 'loud'"):
        configure_logging("loud")
