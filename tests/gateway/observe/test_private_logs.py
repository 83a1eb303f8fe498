"""With `log_content = false`, the gateway's log contains no content at any level."""

import ast
import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError
from tests.support.asgi import post
from tests.support.commands import Command
from tests.support.serving import config_of
from tests.support.sources import trees
from tests.support.talking import asking

from windlass import ToolError, tool
from windlass.errors import ModelError, StorageError
from windlass.gateway import create_app
from windlass.gateway.app import App
from windlass.gateway.config import ModelConfig, ServerConfig
from windlass.gateway.observe.access_log import configure_logging
from windlass.gateway.observe.privacy import HARMLESS_FIELDS, LOGGERS, hide_content
from windlass.testing import FakeOpenAI, ScriptedModel, call

SECRET = "planted-5ecret"
CONTENT_FIELDS = {"arguments"}
"""Extra fields of our log lines that hold content."""


class Order(BaseModel):
    amount: int


def pay(word: str, how: str) -> str:
    """Pays."""
    if how == "plain":
        raise ValueError(f"cannot pay with {word}")
    if how == "pydantic":
        Order.model_validate({"amount": word})
    if how == "file":
        Path("/nowhere", word).read_text()
    if how == "group":
        raise ExceptionGroup(word, [KeyError(word), ToolError(word)])
    if how == "chain":
        try:
            raise KeyError(word)
        except KeyError as error:
            raise RuntimeError(word) from error
    if how == "noted":
        error = ValueError(word)
        error.add_note(word)
        raise error
    return word


WAYS = ("fine", "plain", "pydantic", "file", "group", "chain", "noted")
TOOLS = [tool(pay), tool(name="pay_again", idempotent=True, retries=1)(pay)]
MODEL = ModelConfig(name="m", target="scripted/model", tools=("pay", "pay_again"))


def gateway(*, content: bool, how: str) -> App:
    config = replace(config_of(MODEL), server=ServerConfig(log_content=content))
    script = [call("pay", word=SECRET, how=how), call("pay_again", word=SECRET, how=how), SECRET]
    return create_app(config, models={"m": ScriptedModel(script)}, tools=TOOLS)


def shown(records: list[logging.LogRecord]) -> str:
    """All text that any handler could make from the records."""
    formatter = logging.Formatter()
    lines = [formatter.format(record) + repr(vars(record)) for record in records]
    return "\n".join(lines)


@pytest.mark.parametrize("how", WAYS)
async def test_a_run_at_debug_logs_no_content(caplog: pytest.LogCaptureFixture, how: str) -> None:
    caplog.set_level(logging.DEBUG)
    app = gateway(content=False, how=how)
    assert (await post(app, asking(SECRET))).status == 200
    arguments = {"arguments": {"word": SECRET, "how": how}}
    assert (await post(app, arguments, "/v1/tools/pay/call")).status == 200
    messages = {record.getMessage() for record in caplog.records}
    assert "Tool call parsed" in messages
    assert ("Tool failed" in messages) is (how != "fine")
    assert SECRET not in shown(caplog.records)
    await app.gateway.aclose()


async def test_a_failed_tool_is_logged_with_its_type_and_its_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = gateway(content=False, how="chain")
    await post(app, asking("?"))
    failed = next(record for record in caplog.records if record.getMessage() == "Tool failed")
    assert failed.exc_text is not None
    assert "in pay\n" in failed.exc_text
    assert re.findall(r"^\w*Error", failed.exc_text, re.MULTILINE) == ["KeyError", "RuntimeError"]
    assert "direct cause" in failed.exc_text
    await app.gateway.aclose()


async def test_with_log_content_arguments_and_exceptions_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    app = gateway(content=True, how="plain")
    await post(app, asking("?"))
    parsed = next(each for each in caplog.records if each.getMessage() == "Tool call parsed")
    assert vars(parsed)["arguments"] == {"word": SECRET, "how": "plain"}
    assert f"cannot pay with {SECRET}" in shown(caplog.records)
    await app.gateway.aclose()


def test_the_gateway_does_not_change_the_log_of_its_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("windlass.loop")
    with hide_content(True):
        log.warning("one", extra={"arguments": SECRET})
    log.warning("two", extra={"arguments": SECRET})
    assert [vars(each)["arguments"] == SECRET for each in caplog.records] == [False, True]


class Written:
    """What the gateway's own handler writes to standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._stream = io.StringIO()

    def begin(self, *, json: bool = True) -> None:
        self._monkeypatch.setattr(sys, "stderr", self._stream)
        logging.getLogger().handlers.clear()  # pytest's handler would raise formatting errors
        configure_logging("DEBUG", json=json)

    def __str__(self) -> str:
        return self._stream.getvalue()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """Restores the loggers."""
    root, ours = logging.getLogger(), logging.getLogger("windlass")
    handlers, root_level, our_level = root.handlers[:], root.level, ours.level
    yield Written(monkeypatch)
    root.handlers[:] = handlers
    root.setLevel(root_level)
    ours.setLevel(our_level)


@pytest.mark.parametrize("name", ["mcp.client", "aiohttp.client", "nats", "httpcore", "asyncio"])
def test_a_librarys_debug_lines_are_left_out(written: Written, name: str) -> None:
    written.begin()
    library = logging.getLogger(name)
    level = library.level
    library.setLevel(logging.DEBUG)
    library.debug("sending %s", SECRET)
    library.warning("Lost\nfuture: %r", ValueError(SECRET))
    library.error(ValueError(SECRET))
    library.setLevel(level)
    logged = [json.loads(line) for line in str(written).splitlines()]
    assert [line["level"] for line in logged] == ["WARNING", "ERROR"]
    assert logged[0]["message"] == "Lost"
    assert SECRET not in str(written)


async def test_an_unretrieved_exception_is_logged_without_its_message(
    written: Written,
) -> None:
    written.begin()

    async def fail() -> None:
        raise ValueError(SECRET)

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    told = asyncio.Event()
    asyncio.get_running_loop().call_soon(told.set)
    del task
    await told.wait()
    assert "Task exception was never retrieved" in str(written)
    assert "ValueError" in str(written)
    assert SECRET not in str(written)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (StorageError("runs.db: the disk is full"), "the disk is full"),
        (FileNotFoundError(2, SECRET, f"/data/{SECRET}"), "[Errno 2] No such file or directory"),
        (ModelError(f"bad message: {SECRET}", status=429), "ModelError (status 429)"),
        (ToolError(SECRET), "windlass.errors.ToolError"),
    ],
)
@pytest.mark.parametrize("json_asked", [True, False])
def test_an_exception_keeps_its_status_or_errno(
    written: Written, error: Exception, kept: str, json_asked: bool
) -> None:
    written.begin(json=json_asked)
    for name in ("windlass.runs", "tools_of_the_operator"):
        logging.getLogger(name).error("It failed", exc_info=error)
    logging.getLogger("windlass.runs").error("It failed: %s", error)
    assert str(written).count(kept) == 3
    assert SECRET not in str(written)


@pytest.mark.parametrize("name", ["windlass.runs", "asyncio"])
def test_a_line_that_cannot_be_written_is_reported_without_its_arguments(
    written: Written, name: str
) -> None:
    written.begin()
    logging.getLogger(name).error("%d of %d", SECRET)
    assert f"cannot write log line of {name}" in str(written)
    assert SECRET not in str(written)


def test_a_pydantic_error_is_logged_without_its_input(written: Written) -> None:
    written.begin()
    try:
        Order.model_validate({"amount": SECRET})
    except ValidationError:
        logging.getLogger("windlass.loop").exception("It failed")
    assert "ValidationError" in str(written)
    assert SECRET not in str(written)


@cache
def _method_calls() -> list[tuple[str, str, ast.Call]]:
    """All calls of the form `name.method()` in files with a logger: the name and the method."""
    return [
        (node.func.value.id, node.func.attr, node)
        for _, tree in trees(r"\b(logging|log)\b")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    ]


@pytest.mark.sweep
def test_every_logger_of_windlass_is_covered() -> None:
    made: set[str] = set()
    for owner, method, node in _method_calls():
        if (owner, method) == ("logging", "getLogger") and node.args:
            [name] = node.args
            if isinstance(name, ast.Constant):
                made.add(str(name.value))
    assert made == set(LOGGERS)


@pytest.mark.sweep
def test_every_extra_field_is_known_to_be_harmless_or_content() -> None:
    found: set[str] = set()
    for owner, _, node in _method_calls():
        if owner != "log":
            continue
        for keyword in node.keywords:
            if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                names = [key for key in keyword.value.keys if key is not None]
                found |= {str(ast.literal_eval(name)) for name in names}
    assert found <= HARMLESS_FIELDS | CONTENT_FIELDS
    assert not HARMLESS_FIELDS & CONTENT_FIELDS


CONFIG = """\
[server]
log_content = {content}

[models.fast]
target = "openai/gpt-test"
base_url = "{base_url}"
api_key_env = "LOG_TEST_KEY"
mode = "{mode}"
tools = ["pay"]

[tools]
modules = ["tools.py"]
"""
TOOL_FILE = '''
from windlass import tool

@tool
def pay(word: str) -> str:
    """Pays."""
    raise ValueError(f"cannot pay with {word}")
'''
OPERATOR_KEY = "sk-of-the-operator"


def served_log(home: Path, fake: FakeOpenAI, *, content: str, mode: str) -> str:
    """The log of `windlass serve --log-level DEBUG` during a run and a tool call."""
    config = CONFIG.format(base_url=fake.base_url, content=content, mode=mode)
    (home / "windlass.toml").write_text(config)
    (home / "tools.py").write_text(TOOL_FILE)
    process = Command(
        *("serve", "--port", "0", "--log-level", "DEBUG"),
        cwd=home,
        env={"LOG_TEST_KEY": OPERATOR_KEY, "PATH": "", "FUNCTION_CALLING_DEBUG": "true"},
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        log = ""
        while "listens on" not in log:
            line = process.stderr.readline()
            assert line, log
            log += line
        address = log.split()[-1]
        body = asking(SECRET, model="fast")
        with httpx2.Client(base_url=address, timeout=30, verify=False, trust_env=False) as client:
            client.post("/v1/chat/completions", json=body).raise_for_status()
            call_body = {"arguments": {"word": SECRET}}
            client.post("/v1/tools/pay/call", json=call_body).raise_for_status()
            refused = client.post("/v1/chat/completions", json=body)
            assert refused.status_code == 400
        process.terminate()
        return log + process.communicate(timeout=30)[1]
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.process
@pytest.mark.parametrize("mode", ["native", "emulated", "auto"])
def test_a_served_gateway_at_debug_writes_no_content(tmp_path: Path, mode: str) -> None:
    written = f'<tool_call>{{"name": "pay", "arguments": {{"word": "{SECRET}"}}}}</tool_call>'
    first: Any = call("pay", word=SECRET) if mode != "emulated" else written
    refusal = ModelError(f"messages: {SECRET} is not allowed", status=400)
    script = [first, SECRET, refusal, refusal]
    with FakeOpenAI(script, api_key=OPERATOR_KEY) as fake:
        log = served_log(tmp_path, fake, content="false", mode=mode)
    assert "Tool call parsed" in log
    assert "ValueError" in log
    assert SECRET not in log
    assert OPERATOR_KEY not in log


@pytest.mark.process
def test_a_served_gateway_with_log_content_writes_it(tmp_path: Path) -> None:
    refusal = ModelError("no", status=400)
    with FakeOpenAI([call("pay", word=SECRET), SECRET, refusal], api_key=OPERATOR_KEY) as fake:
        log = served_log(tmp_path, fake, content="true", mode="native")
    assert f"cannot pay with {SECRET}" in log
    assert OPERATOR_KEY not in log
