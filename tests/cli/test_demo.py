"""The first five minutes: what README says, typed as it is written there, and `windlass demo`."""

import argparse
import asyncio
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from playwright.async_api import async_playwright, expect
from tests.support.browsing import HEADLESS, LEAN
from tests.support.thoroughness import WHOLE

from windlass import ConfigError
from windlass.cli import demo
from windlass.cli.demo_tools import TOOLS
from windlass.models.local.weights import WeightsProgress
from windlass.testing import ScriptedModel

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
[FIRST_PAGE] = re.findall(r"\[Start in five minutes\]\((.+?)\)", README)
FIRST_MINUTES = (ROOT / FIRST_PAGE).read_text("utf-8")
CODEX_TOOLS = (
    "apps",
    "goals",
    "multi_agent",
    "plugins",
    "shell_tool",
    "unified_exec",
    "view_image",
)


class Demo:
    """A running demo, and what it has printed so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process, self._log = process, log

    @property
    def text(self) -> str:
        return self._log.read_text("utf-8")

    def wait_for(self, text: str) -> str:
        """Waits until it has printed this, and returns all that it has printed."""
        while text not in self.text:
            try:
                self._process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(self.text)
        return self.text

    @property
    def address(self) -> str:
        found = re.search(r"Open (http://[\d.:]+) in a browser", self.wait_for("Ctrl-C stops it"))
        assert found
        return found[1]

    @property
    def curl(self) -> list[str]:
        """The printed command, as a shell reads it."""
        text = self.wait_for("Or with")
        return shlex.split(text[text.index("curl ") : text.index("Or with")].replace("\\\n", " "))

    def interrupt(self) -> int:
        """Presses Ctrl-C, which a terminal sends to the whole group; returns the exit code."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait(60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """README's first command, with README's light model unless everything is tested."""
    folder = tmp_path_factory.mktemp("demo")
    command = _command("make run")
    # Tests run side by side: threads of one model that wait for each other would be slow.
    # The variables of a `make test` above would make this one print its directory.
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("MAKE")}
    environ = {
        **inherited,
        "OMP_THREAD_LIMIT": "1",
        "PORT": str(_free_port()),
        "WINDLASS_STATE_DIR": str(folder / "state"),
    }
    if not WHOLE:
        light = re.search(r"`MODEL=(\w+) make run`", README)
        assert light, "README names the light model"
        environ["MODEL"] = light[1]
    log = folder / "stderr"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=output, env=environ, start_new_session=True
        ) as process,
    ):
        demo = Demo(process, log)
        try:
            yield demo
        finally:
            demo.interrupt()


def _command(start: str) -> list[str]:
    """The command of README's block of `make` commands that starts like this."""
    (block,) = (each for each in README.split("```")[1::2] if "make run" in each)
    [line] = [line for line in block.splitlines() if line.startswith(start)]
    return shlex.split(line, comments=True)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


async def tool_events(session: aiohttp.ClientSession, address: str, run_id: str) -> list[str]:
    async with session.get(f"{address}/v1/runs/{run_id}/events") as response:
        text = (await response.read()).decode()
    return [
        event for event in re.findall(r"^event: (.+)$", text, re.MULTILINE) if "tool_run" in event
    ]


@pytest.mark.process
async def test_the_page_of_readme_s_first_command_opens_before_the_model_is_ready(
    running: Demo,
) -> None:
    address = running.address
    first, *_ = [line for line in running.text.splitlines() if line.strip()]
    assert first == f"Open {address} in a browser."
    assert re.search(r"Runs are stored in .+demo\.db\.", running.text)
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        assert "<!doctype html>" in (await response.text()).lower()


@pytest.mark.process
async def test_the_page_answers_the_first_example_prompt_with_a_tool(running: Demo) -> None:
    """Opens the printed address and chooses an example prompt, as README's first link says."""
    assert "choose one of the example prompts" in FIRST_MINUTES
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=HEADLESS, args=LEAN)
        page = await browser.new_page()
        await page.goto(running.address)
        examples = page.get_by_role("list", name="Examples").get_by_role("button")
        await expect(examples).to_have_text(list(demo.EXAMPLES), timeout=60_000)
        await examples.first.click()
        await expect(page.locator('.run[data-reason="answer"]')).to_be_visible(timeout=800_000)
        used = page.locator('.card[data-tool="get_weather"][data-state="output-available"]')
        await expect(used.first).to_be_attached()
        await browser.close()


def test_readme_and_its_first_link_describe_the_demo_as_it_is() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^make (\S+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile, target
    parser = argparse.ArgumentParser()
    demo.configure(parser)
    assert f"<http://127.0.0.1:{parser.parse_args([]).port}/>" in FIRST_MINUTES
    assert len(TOOLS) == 5
    assert "with five tools" in FIRST_MINUTES


EXPECTED = {
    demo.EXAMPLES[0]: ("get_weather", "Rome"),
    demo.EXAMPLES[1]: ("get_weather", "Oslo"),
    demo.EXAMPLES[2]: ("calculate", "12"),
    demo.EXAMPLES[3]: ("add_to_shopping_list", "oat milk"),
}
"""The tool that answers each example prompt, and a word of the answer."""


@pytest.mark.whole("test_the_page_answers_the_first_example_prompt_with_a_tool, with `smol`")
async def test_the_example_prompts_work_with_the_embedded_model(running: Demo) -> None:
    async with aiohttp.ClientSession() as session:
        for prompt, (tool, word) in EXPECTED.items():
            asked = {"model": "qwen", "messages": [{"role": "user", "content": prompt}]}
            async with session.post(f"{running.address}/v1/runs", json=asked) as response:
                run = f"{running.address}/v1/runs/{(await response.json())['id']}"
            used, said = [], ""
            async with session.get(f"{run}/events") as events:
                async for line in events.content:
                    if not line.startswith(b"data: "):
                        continue
                    event = json.loads(line.removeprefix(b"data: "))
                    if event["event"] == "approval_requested":
                        await session.post(f"{run}/approve", json={"call_id": event["call"]["id"]})
                    elif event["event"] == "tool_run_ended":
                        used.append(event["response"]["name"])
                    elif event["event"] == "text_delta":
                        said += event["text"]
            assert used == [tool], prompt
            assert word in said, prompt


@pytest.mark.process
async def test_the_terminal_and_the_api_report_the_preparation_until_the_model_is_ready(
    running: Demo,
) -> None:
    text = running.wait_for("Ready after")
    assert text.index("Loading the model...") < text.index("Reading the instructions and tools...")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{running.address}/v1/models") as response,
    ):
        [model] = (await response.json())["data"]
    assert (model["windlass"]["status"], model["windlass"]["ready_in"]) == ("ready", None)


@pytest.mark.process
async def test_the_printed_curl_command_is_answered_with_the_help_of_a_tool(running: Demo) -> None:
    running.wait_for("Ready after")
    command = running.curl
    if shutil.which("curl"):
        done = await asyncio.to_thread(
            subprocess.run, [*command, "--silent", "--include"], capture_output=True, check=True
        )
        head, _, body = done.stdout.decode().replace("\r", "").partition("\n\n")
        assert " 200 " in head.splitlines()[0]
        assert '"content":' in body
        run_id = re.search(r"(?i)^x-windlass-run-id: (.+)$", head, re.MULTILINE)
        assert run_id
        async with aiohttp.ClientSession() as session:
            events = await tool_events(session, running.address, run_id[1].strip())
        assert "tool_run_ended" in events
        return
    _, url, _, header, _, body = command
    name, value = header.split(": ")
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers={name: value}) as response,
    ):
        answer: dict[str, Any] = await response.json()
    assert answer["choices"][0]["message"]["content"]


@pytest.mark.process
async def test_the_printed_address_works_with_the_openai_package(running: Demo) -> None:
    printed = re.search(r'OpenAI\(base_url="(.+?)", api_key="(.+?)"\)', running.wait_for("Ready"))
    assert printed
    async with openai.AsyncOpenAI(base_url=printed[1], api_key=printed[2]) as client:
        [model] = [model.id async for model in client.models.list()]
    assert f"with the model {model}" in running.text


@pytest.mark.whole("tests/gateway/routes/test_openai_sdk, with a scripted model")
async def test_the_openai_sdk_gets_an_answer_that_used_a_tool(running: Demo) -> None:
    address = running.address
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
        assert "tool_run_ended" in await tool_events(
            session, address, raw.headers["X-Windlass-Run-Id"]
        )


@pytest.mark.timeout(1500)
@pytest.mark.whole("tests/gateway/clients/test_codex, with a scripted model")
async def test_codex_gets_an_answer_of_the_model_on_this_machine(
    running: Demo, tmp_path: Path
) -> None:
    """Codex's own instructions and tools would fill the context of a small model."""
    from tests.support.codex import Codex

    instructions = tmp_path / "instructions.md"
    instructions.write_text("You are a friendly assistant. Answer in one short sentence.")
    without = [word for name in CODEX_TOOLS for word in ("--disable", name)]
    codex = Codex(tmp_path, f"{running.address}/v1", "qwen")
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


@pytest.mark.process
def test_ctrl_c_ends_the_demo_with_a_last_line_and_the_documented_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    environ = {**os.environ, "WINDLASS_STATE_DIR": str(tmp_path), "OMP_THREAD_LIMIT": "1"}
    command = [sys.executable, "-m", "windlass", "demo", "--port", "0", "--model", "smol"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stderr=output, env=environ, start_new_session=True) as process,
    ):
        demo = Demo(process, log)
        demo.wait_for("Loading the model...")
        assert demo.interrupt() == 130
    text = log.read_text("utf-8")
    assert text.endswith(f"\nWindlass has stopped. Runs are stored in {tmp_path / 'demo.db'}.\n")
    assert "Traceback" not in text
    assert '"level"' not in text  # no log lines


def test_the_demo_prints_its_address_first_logs_no_requests_and_prints_a_last_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels: list[str] = []
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(demo, "configure_logging", levels.append)
    monkeypatch.setattr(demo, "_model", lambda _: ("qwen", ScriptedModel([], "local/qwen")))

    def serve(app: object, started: Callable[[str], None]) -> None:
        """Returns, as after SIGTERM."""
        started("http://127.0.0.1:1")

    monkeypatch.setattr("windlass.gateway.serve.serve", serve)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("it opened a browser"))
    parser = argparse.ArgumentParser()
    demo.configure(parser)
    assert demo.run(parser.parse_args([])) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert lines[0] == "Open http://127.0.0.1:1 in a browser."
    assert lines[-1] == f"Windlass has stopped. Runs are stored in {tmp_path / 'demo.db'}."
    assert levels == ["WARNING"]


def test_progress_lines_have_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(demo.time, "monotonic", lambda: now)
    stream = io.StringIO()
    lines = demo.ProgressLines(stream)
    for seconds, progress in (
        (1, WeightsProgress("joining", 0, 1000)),
        (1, WeightsProgress("joining", 100, 1000)),
        (2, WeightsProgress("joining", 500, 1000)),
        (1, WeightsProgress("joining", 600, 1000)),
        (1, WeightsProgress("joining", 1000, 1000)),
        (1, WeightsProgress("loading", 0, 1)),
        (5, WeightsProgress("loading", 1, 1)),
        (1, WeightsProgress("reading", 100, 900)),
        (4, WeightsProgress("reading", 500, 900)),
        (4, WeightsProgress("reading", 900, 900)),
    ):
        now += seconds
        lines(progress)
    lines.ready("qwen", 25.4)
    assert stream.getvalue().splitlines() == [
        "Joining the model's weights (only once)...",
        "Joining the model's weights (only once): 50 %, about 3 s left",
        "Loading the model...",
        "Reading the instructions and tools...",
        "Reading the instructions and tools: 55 %, about 4 s left",
        "Ready after 25 s. The first answer takes a few seconds.",
    ]


def test_the_demo_keeps_its_runs_where_a_user_s_programs_keep_such_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WINDLASS_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs, _ = demo._runs()
    assert runs.path == str(tmp_path / "windlass" / "demo.db")
    assert (tmp_path / "windlass").is_dir()


def test_without_a_writable_folder_the_demo_stores_no_runs(
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


def test_a_model_requested_by_name_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> Any:
        raise ConfigError(f"{name} is not here")

    monkeypatch.setattr(demo, "_created", refuse)
    with pytest.raises(ConfigError, match="qwen is not here"):
        demo._model("qwen")
    with pytest.raises(ConfigError, match="qwen is not here"):
        demo._model(None)
