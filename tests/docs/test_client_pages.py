"""The programs on the pages about clients and about other systems: they run against a gateway.

The Python blocks of these pages are marked `py`, because each needs a server or another package.
"""

import contextlib
import gc
import io
import os
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.support.page_steps import steps_of, tab_of
from tests.support.serving import Serving

from windlass.model import ModelRequest
from windlass.testing import FakeOpenAI, ScriptedModel, Turn, call, say, tool_results

pytestmark = [pytest.mark.process, pytest.mark.sdk]
DOCS = Path(__file__).parents[2] / "docs"
OTHER_PYTHON = DOCS.parent / "bench" / ".venv-clients" / "bin" / "python"
"""`make clients` installs the packages that are not part of this environment."""
PACKAGES = {
    "anthropic-sdk": "anthropic",
    "google-genai": "google.genai",
    "langchain": "langchain_openai",
    "llamaindex": "llama_index",
    "openai-agents": "agents",
    "openai-sdk": "openai",
    "pydantic-ai": "pydantic_ai",
}
IMPORTED = ("anthropic", "google.genai", "openai")
"""Other tests import them too. Programs of openai-agents leave an event loop open."""
NODE = Path(sys.executable).parent / "node"
NODE_FOLDER = DOCS.parent / "bench" / "clients"
NODE_PACKAGES = {"ai-sdk": "@ai-sdk/openai", "openai-sdk": "openai"}
PAGES = [*sorted(DOCS.glob("clients/*.md")), *sorted(DOCS.glob("coming-from/*.md"))]
PAGE_URL = "http://127.0.0.1:8080"
ANSWER = "It is sunny in Paris."
SECONDS = 120


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def programs_of(page: Path, language: str = "py") -> list[str]:
    return [step.text for step in steps_of(page.read_text("utf-8")) if step.language == language]


def answered(request: ModelRequest) -> Turn:
    last = request.messages[-1]
    return say(ANSWER) if last.role == "tool" else call("get_weather", city="Paris")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Serving]:
    models = {"assistant": ScriptedModel(answered)}
    with Serving(models=models, tools=[get_weather]) as gateway:
        yield gateway


@pytest.mark.parametrize("name", PACKAGES)
def test_the_program_of_a_client_gets_an_answer(name: str, gateway: Serving) -> None:
    [program] = programs_of(DOCS / "clients" / f"{name}.md")
    found = find_spec(PACKAGES[name].partition(".")[0])
    python = Path(sys.executable) if found else OTHER_PYTHON
    if not python.exists():
        pytest.skip(f"`make clients` installs {PACKAGES[name]}")
    if PACKAGES[name] in IMPORTED:
        output = printed_here(gateway, program)
    else:
        output = printed(gateway, program, python, "-c")
    assert set(output.splitlines()) == {ANSWER}


@pytest.mark.parametrize("name", NODE_PACKAGES)
def test_the_program_of_a_client_in_node_gets_an_answer(name: str, gateway: Serving) -> None:
    if not (NODE_FOLDER / "node_modules" / NODE_PACKAGES[name]).exists():
        pytest.skip(f"`make clients` installs {NODE_PACKAGES[name]}")
    [program] = programs_of(DOCS / "clients" / f"{name}.md", "js")
    assert printed(gateway, program, NODE, "--input-type=module", "-e").strip() == ANSWER


def printed_here(gateway: Serving, program: str) -> str:
    """The output of a program in this process, which has imported its SDK already."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program.replace(PAGE_URL, gateway.root_url), {"__name__": "__main__"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a program may leave its client open
        gc.collect()
    return output.getvalue()


def printed(gateway: Serving, program: str, *command: str | Path) -> str:
    """The output of a program that uses this gateway instead of that of the page."""
    done = subprocess.run(
        [*command, program.replace(PAGE_URL, gateway.root_url)],
        cwd=NODE_FOLDER,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "")},
        text=True,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_client_page_with_a_program_is_tested() -> None:
    pages = {page.stem for page in DOCS.glob("clients/*.md") if programs_of(page)}
    assert pages == set(PACKAGES)


def test_every_program_has_valid_syntax() -> None:
    for page in PAGES:
        for program in programs_of(page):
            compile(program, str(page), "exec")


BEFORE = {
    "gemini-ex": "",
    "hawki": """
        from windlass import Client
        client, prompt = Client("openai/gpt-5-mini", tools=[get_weather]), "Weather?"
    """,
    "langgraph": "",
    "pydantic-ai": """
        from pydantic import BaseModel
        class City(BaseModel):
            name: str
        def current_user():
            return "ada"
        def orders_of(user):
            return [f"order of {user}"]
    """,
}
"""What the reader has before the program of the tab "Windlass" begins."""


def scripted(request: dict[str, Any]) -> Turn:
    if "response_format" in request:
        return say('{"name": "Oslo"}')
    return say(ANSWER) if tool_results(request) else call("get_weather", city="Paris")


@pytest.mark.parametrize("name", BEFORE)
def test_the_windlass_program_on_a_comparison_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tab = tab_of((DOCS / "coming-from" / f"{name}.md").read_text("utf-8"), "Windlass")
    [program] = [step.text for step in steps_of(tab) if step.language == "py"]
    program = re.sub(r'"gemini/[\w.-]+"', '"openai/gpt-5-mini"', program)
    namespace: dict[str, Any] = {"get_weather": get_weather}
    with FakeOpenAI(scripted) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        exec(textwrap.dedent(BEFORE[name]) + program, namespace)
    assert fake.requests


def test_every_comparison_page_with_a_program_is_tested() -> None:
    pages = {page.stem for page in DOCS.glob("coming-from/*.md") if programs_of(page)}
    assert pages == set(BEFORE)
