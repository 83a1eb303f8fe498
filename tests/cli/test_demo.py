"""The first five minutes: `windlass demo`, and the real model on this machine using real tools."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from tests.support.thoroughness import WHOLE

from windlass import ConfigError
from windlass.cli import demo

pytestmark = pytest.mark.timeout(900)

CODEX_TOOLS = (
    "apps",
    "goals",
    "multi_agent",
    "plugins",
    "shell_tool",
    "unified_exec",
    "view_image",
)
DEMO = ["-m", "windlass", "demo", "--port", "0"]

WITH_TWO_TOOLS = """
import sys
from windlass.cli import demo_tools, main

demo_tools.TOOLS = demo_tools.TOOLS[:2]
sys.exit(main(["demo", "--port", "0"]))
"""
"""The demo without three of its tools: the model needs twice as long to read about five."""


@pytest.fixture(scope="module")
def banner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The output of a demo that runs on a free port."""
    folder = tmp_path_factory.mktemp("demo")
    log = folder / "stderr"
    command = [sys.executable, *(DEMO if WHOLE else ["-c", WITH_TWO_TOOLS])]
    # Tests run in parallel: threads of one model that wait for each other would be slow.
    environ = {
        **os.environ,
        "OMP_THREAD_LIMIT": "1",
        "WINDLASS_STATE_DIR": str(folder / "state"),
    }
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr, env=environ) as process:
        try:
            yield _until_listening(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()


def _until_listening(process: "subprocess.Popen[bytes]", log: Path) -> str:
    while "Ctrl-C stops it" not in (said := log.read_text()):
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(said)
    return said


def address_in(banner: str) -> str:
    found = re.search(r"listens on (http://[\d.:]+)", banner)
    assert found
    return found[1]


async def tools_run(session: aiohttp.ClientSession, address: str, run_id: str) -> list[str]:
    async with session.get(f"{address}/v1/runs/{run_id}/events") as response:
        told = (await response.read()).decode()
    return [
        event for event in re.findall(r"^event: (.+)$", told, re.MULTILINE) if "tool_run" in event
    ]


@pytest.mark.process
async def test_the_printed_curl_line_is_answered_with_the_help_of_a_tool(banner: str) -> None:
    line = banner[banner.index("curl ") : banner.index("Or with")].replace("\\\n", " ")
    _, url, _, header, _, body = shlex.split(line)
    name, value = header.split(": ")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=800)) as session:
        async with session.post(url, data=body, headers={name: value}) as response:
            answer: dict[str, Any] = await response.json()
            run_id = response.headers["X-Windlass-Run-Id"]
        assert answer["choices"][0]["message"]["content"]
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert "tool_run_ended" in await tools_run(session, address_in(banner), run_id)


@pytest.mark.process
async def test_the_page_stands_first_and_the_runs_are_kept(banner: str) -> None:
    address = address_in(banner)
    assert banner.index(f"Open {address} in a browser.") < banner.index("curl ")
    assert re.search(r"Runs are stored in .+demo\.db\.", banner)
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        assert "<!doctype html>" in (await response.text()).lower()


@pytest.mark.whole("tests/gateway/routes/test_openai_sdk, with a scripted model")
async def test_the_openai_sdk_gets_an_answer_that_used_a_tool(banner: str) -> None:
    address = address_in(banner)
    # The question of the curl line: the model does not read the same beginning again.
    question: Any = [{"role": "user", "content": demo.PROMPT}]
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client:
        [model] = [model.id async for model in client.models.list()]
        raw = await client.chat.completions.with_raw_response.create(
            model=model, messages=question, stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in raw.parse()]
    assert "".join(pieces).strip()
    async with aiohttp.ClientSession() as session:
        assert "tool_run_ended" in await tools_run(
            session, address, raw.headers["X-Windlass-Run-Id"]
        )


@pytest.mark.timeout(1500)
@pytest.mark.whole("tests/gateway/clients/test_codex, with a scripted model")
async def test_codex_gets_an_answer_of_the_model_on_this_machine(
    banner: str, tmp_path: Path
) -> None:
    """Codex's own instructions and tools would fill the context of a small model."""
    from tests.support.codex import Codex

    instructions = tmp_path / "instructions.md"
    instructions.write_text("You are a friendly assistant. Answer in one short sentence.")
    without = [word for name in CODEX_TOOLS for word in ("--disable", name)]
    codex = Codex(tmp_path, f"{address_in(banner)}/v1", "qwen")
    done = await asyncio.to_thread(
        codex.does,
        "Say hello.",
        "-c",
        f"model_instructions_file={str(instructions)!r}",
        *without,
        timeout=1400,
    )
    assert "".join(done.answers).strip()
    assert done.usage["output_tokens"] > 0


def test_the_demo_keeps_its_runs_where_a_user_s_programs_keep_such_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WINDLASS_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs, _ = demo._runs()
    assert runs.path == str(tmp_path / "windlass" / "demo.db")
    assert (tmp_path / "windlass").is_dir()


def test_without_a_place_for_its_runs_the_demo_goes_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(tmp_path / "file" / "state"))
    runs, said = demo._runs()
    assert runs.path is None
    assert said.startswith("Runs are not stored: ")


def test_a_file_that_cannot_be_its_runs_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(tmp_path))
    damaged = tmp_path / "demo.db"
    damaged.write_text("something else" * 100)
    runs, said = demo._runs()
    assert runs.path is None
    assert said.startswith(f"Runs are not stored: {damaged}")
    assert damaged.read_text() == "something else" * 100


def test_the_small_model_replaces_a_missing_large_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def create(name: str) -> Any:
        made.append(name)
        if name == demo.DEFAULT:
            raise ConfigError("the weights of qwen are not here")
        return "the small one"

    monkeypatch.setattr(demo, "_created", create)
    assert demo._model(None) == ("smol", "the small one")
    assert made == ["qwen", "smol"]
    assert "the weights of qwen are not here\nUsing the small model" in capsys.readouterr().err


def test_a_model_that_is_asked_for_by_name_has_no_stand_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> Any:
        raise ConfigError(f"{name} is not here")

    monkeypatch.setattr(demo, "_created", refuse)
    with pytest.raises(ConfigError, match="qwen is not here"):
        demo._model("qwen")
    with pytest.raises(ConfigError, match="qwen is not here"):
        demo._model(None)
