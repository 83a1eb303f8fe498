"""The pages that a newcomer follows: every file is written, and every command is run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.page_steps import Follower, environment_of, steps_of, tab_of
from tests.support.ports import free_port

from windlass.testing import FakeOpenAI, Turn, call, calls, last_prompt, say, tool_results

pytestmark = pytest.mark.process
DOCS = Path(__file__).parents[2] / "docs"
START = (DOCS / "index.md").read_text()
READING_WORDS_PER_MINUTE = 200
PROGRAMS = Path(sys.executable).parent
ROPE = {"description": "rope", "quantity": 2, "price": 12.5}
ANCHOR = {"description": "anchor", "quantity": 1, "price": 80}
BOLTS = {"description": "bolts", "quantity": 400, "price": 0.1}
INVOICES = {
    "ACME": {"number": "A-17", "seller": "ACME Ltd.", "lines": [ROPE, ANCHOR], "total": 105},
    "Bolt": {"number": "2026/88", "seller": "Bolt & Sons", "lines": [BOLTS], "total": 40},
}


def weather(request: dict[str, Any]) -> Turn:
    if tool_results(request):
        return say("It is sunny in Paris, at 21 °C.")
    return call("get_weather", city="Paris")


def support(request: dict[str, Any]) -> Turn:
    results, prompt = tool_results(request), last_prompt(request)
    if "refund" in prompt.lower():
        if not results:
            return call("refund", number="1001", amount=180)
        denied = "error" in str(results[0])
        return say(
            "I may not refund this order. A colleague will contact you."
            if denied
            else "I have refunded 180 EUR."
        )
    if not results:
        (number,) = re.findall(r"\d+", prompt)
        return call("find_order", number=number)
    if "error" in str(results[0]):
        return say("I cannot find order 7. Can you check the number?")
    return say("Your stove is on its way.")


def invoices(request: dict[str, Any]) -> Turn:
    (found,) = (each for name, each in INVOICES.items() if name in last_prompt(request))
    return say(json.dumps(found))


def team(request: dict[str, Any]) -> Turn:
    if tool_results(request):
        return say("Yes, we have 7 anchors. You can see them now.")
    return calls(call("check_stock", article="anchor"), call("show_article", article="anchor"))


def report(request: dict[str, Any]) -> Turn:
    cities = ["Paris", "Oslo", "Rome"][len(tool_results(request)) :]
    if cities:
        return call("research", city=cities[0])
    return say("Rome is the largest, then Paris, then Oslo.")


SCRIPTS: dict[str, Callable[[dict[str, Any]], Turn]] = {
    "support-agent": support,
    "invoices": invoices,
    "team-gateway": team,
    "crash-proof-report": report,
}


@contextmanager
def follower_of(folder: Path, fake: FakeOpenAI) -> Iterator[Follower]:
    """Follows a page with the programs of this environment, on a free port."""
    port = str(free_port())
    environ = environment_of(PROGRAMS, folder, OPENAI_BASE_URL=fake.base_url, WINDLASS_PORT=port)
    with Follower(folder, environ, replacements={"8080": port}) as follower:
        yield follower


@pytest.mark.parametrize("page", SCRIPTS)
def test_a_tutorial_can_be_followed_to_its_end(page: str, tmp_path: Path) -> None:
    with FakeOpenAI(SCRIPTS[page]) as fake, follower_of(tmp_path, fake) as follower:
        follower.follow((DOCS / "tutorials" / f"{page}.md").read_text())


@pytest.mark.parametrize("page", ["read-calls", "keys-and-limits"])
def test_the_commands_of_a_guide_work(page: str, tmp_path: Path) -> None:
    with FakeOpenAI() as fake, follower_of(tmp_path, fake) as follower:
        follower.follow((DOCS / "guides" / f"{page}.md").read_text())
    assert follower.outputs


def test_every_tutorial_is_followed() -> None:
    pages = {path.stem for path in (DOCS / "tutorials").glob("*.md")} - {"index"}
    assert pages == set(SCRIPTS)


@pytest.mark.parametrize("tab", ["Library", "Gateway"])
def test_a_newcomer_gets_a_streamed_answer_with_a_tool(tab: str, tmp_path: Path) -> None:
    with FakeOpenAI(weather) as fake, follower_of(tmp_path, fake) as follower:
        follower.follow(tab_of(START, tab))
    assert len(fake.requests) == 2
    assert all(request.body["stream"] for request in fake.requests)
    assert [message["role"] for message in fake.requests[1].body["messages"]][-1] == "tool"
    assert "sunny in Paris" in _text_of(follower.outputs[-1])


def _text_of(output: str) -> str:
    """The text of an answer, also if it is a stream of chunks."""
    chunks = re.findall(r"^data: (\{.*)$", output, re.MULTILINE)
    deltas = [choice["delta"] for each in chunks for choice in json.loads(each)["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas) or output


@pytest.mark.parametrize("tab", ["Library", "Gateway", "Console"])
def test_the_first_page_takes_less_than_two_minutes_to_read(tab: str) -> None:
    before = START.partition("=== ")[0]
    words = len(re.findall(r"[\w'-]+", before + tab_of(START, tab)))
    assert words / READING_WORDS_PER_MINUTE < 2


def test_the_first_page_installs_before_it_uses_anything() -> None:
    for tab in ("Library", "Gateway", "Console"):
        first, *_ = steps_of(tab_of(START, tab))
        assert first.language == "sh"
        assert first.text.startswith("pip install ")


@pytest.mark.whole("test_a_newcomer_gets_a_streamed_answer_with_a_tool, without the installation")
def test_a_newcomer_can_install_and_ask(tmp_path: Path) -> None:
    """The tab "Library" from its `pip install` on, in a new environment, with a built wheel."""
    root = DOCS.parent
    uv = root / ".venv-tools" / "bin" / "uv"
    subprocess.run(
        [uv, "build", "--quiet", "--wheel", "-o", tmp_path / "dist"], cwd=root, check=True
    )
    [wheel] = (tmp_path / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    # The package index may have another project of this name.
    constraint = tmp_path / "constraint.txt"
    constraint.write_text(f"windlass @ {wheel.as_uri()}\n")
    inherited = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    folder = tmp_path / "folder"
    folder.mkdir()
    with FakeOpenAI(weather) as fake:
        environ = environment_of(
            tmp_path / "venv" / "bin",
            folder,
            OPENAI_BASE_URL=fake.base_url,
            PIP_CONSTRAINT=str(constraint),
            **inherited,
        )
        with Follower(folder, environ, install=True) as follower:
            follower.follow(tab_of(START, "Library"))
    assert "sunny in Paris" in follower.outputs[-1]
