"""`windlass chat` in a real terminal."""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import Terminal

from windlass.testing import FakeOpenAI, Gate, call, calls, refuse, slow, think

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs" / "chat.md"
PROMPT = "\n>\n"
TOOLS = '''
import asyncio
import os
from pathlib import Path

from windlass import ToolContext, tool

Path("pid").write_text(str(os.getpid()))


@tool
def get_weather(city: str, unit: str = "c") -> dict:
    """The weather of a city."""
    return {"sky": "sunny", "degrees": 21}


@tool(approve=True)
def delete_file(path: str) -> str:
    """Deletes a file."""
    return f"{path} is deleted"


@tool
def send_mail(to: str, context: ToolContext) -> str:
    """Sends a mail, for as long as nobody lets it end."""
    context.progress(0.5, f"connected to the server of {to}")
    with open("gate") as gate:
        gate.read()
    return "sent"


@tool
def read_page() -> str:
    """Reads a page that wants to steer the terminal."""
    return "\\x1b[2J\\x1b]0;owned\\x07\\x1b[31mred"


@tool
async def hold_on() -> str:
    """Does not let itself be cancelled."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
'''


@contextmanager
def chatting(home: Path, script: Any, *options: str, **size: int) -> Iterator[Terminal]:
    """A chat in a terminal, with a scripted model and the tools above, at its first prompt."""
    (home / "tools.py").write_text(TOOLS)
    command = [sys.executable, "-m", "windlass", "chat", "--model", "openai/gpt-5-mini"]
    with FakeOpenAI(script) as fake:
        environ = {"OPENAI_BASE_URL": fake.base_url, "OPENAI_API_KEY": "sk-test"}
        command += ["--tools", "tools.py", *options]
        with Terminal(command, home, environ, **size) as terminal:
            terminal.wait_for("/help\n", PROMPT)
            yield terminal


def elapsed(screen: str) -> str:
    """The time on a running card."""
    found = re.search(r"running · [\d.]+ s", screen)
    assert found
    return found[0]


def open_gate(home: Path) -> None:
    """Lets a waiting tool end. A named pipe opens when both ends are open."""
    threading.Thread(target=lambda: (home / "gate").write_text(""), daemon=True).start()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "gate")
    return tmp_path


WEATHER = [
    think(
        "The person asks for two cities.",
        calls(call("get_weather", city="Paris"), call("get_weather", city="Rome", unit="f")),
    ),
    "It is **sunny** in both:\n\n- Paris has 21 degrees\n- Rome has 21 degrees\n",
]


def test_typed_words_become_cards_and_an_answer(home: Path) -> None:
    with chatting(home, WEATHER) as terminal:
        terminal.type("Weather in Paris and Rome?", "Enter")
        seen = terminal.wait_for("round 2 of 5 · 20 in, 10 out")
        assert re.search(r"✔ get_weather ─.*✔ get_weather ─", seen)
        assert "• Rome has 21 degrees" in seen
        assert "✻ thought for" in seen
        terminal.press("C-d")
        terminal.wait_for("exit code 0")


def test_a_tool_is_approved_and_the_next_denied(home: Path) -> None:
    script = [call("delete_file", path="a.txt"), "One.", call("delete_file", path="b.txt"), "Two."]
    with chatting(home, script) as terminal:
        terminal.type("Delete a.txt", "Enter")
        seen = terminal.wait_for("Run it? [y]es, [N]o")
        assert '"path": "a.txt"' in seen
        terminal.type("y", "Enter")
        seen = terminal.wait_for("✔ delete_file", "→ a.txt is deleted", "One.", PROMPT)
        assert "Run it?" not in seen
        terminal.type("Delete b.txt", "Enter")
        terminal.wait_for("Run it? [y]es, [N]o")
        terminal.press("Enter")
        terminal.wait_for("⊘ delete_file", "the user said no", "Two.")


def test_keys_from_before_the_question_do_not_answer_it(home: Path) -> None:
    gate = Gate()
    script = [slow(call("delete_file", path="a.txt"), gate), "Done."]
    with chatting(home, script) as terminal:
        terminal.type("Delete a.txt", "Enter")
        terminal.wait_for("Ctrl-C stops")
        terminal.type("y", "Enter")
        gate.open()
        seen = terminal.wait_for("Run it? [y]es, [N]o")
        assert "✔" not in seen
        terminal.type("n", "Enter")
        terminal.wait_for("⊘ delete_file")


def test_ctrl_c_stops_a_run_that_may_have_had_an_effect_and_the_chat_continues(home: Path) -> None:
    with chatting(home, [call("send_mail", to="ada"), "Hello."]) as terminal:
        terminal.type("Write to Ada", "Enter")
        terminal.wait_for("● send_mail", "connected to the server of ada", "50%", "running ·")
        terminal.press("C-c")
        terminal.wait_for("■ send_mail", "Stopped. May have had an effect: send_mail.", PROMPT)
        terminal.type("Hi", "Enter")
        terminal.wait_for("Hello.")
        open_gate(home)


def test_an_interrupt_that_comes_after_the_answer_does_not_end_the_chat(home: Path) -> None:
    with chatting(home, ["Hello.", "Again."]) as terminal:
        terminal.type("Hi", "Enter")
        terminal.wait_for("Hello.", PROMPT)
        os.kill(int((home / "pid").read_text()), signal.SIGINT)
        terminal.type("Hi", "Enter")
        terminal.wait_for("Again.")


def test_a_tool_that_does_not_stop_cannot_hold_the_terminal(home: Path) -> None:
    with chatting(home, [call("hold_on")]) as terminal:
        terminal.type("Hold on", "Enter")
        terminal.wait_for("● hold_on")
        terminal.press("C-c")
        terminal.wait_for("stopping; 2 more Ctrl-C")
        terminal.press("C-c")
        terminal.wait_for("stopping; 1 more Ctrl-C")
        terminal.press("C-c")
        terminal.wait_for("exit code 130")
        terminal.type("this can be seen")
        terminal.wait_for("this can be seen")


def test_typing_during_a_run_does_not_show_and_is_not_lost(home: Path) -> None:
    with chatting(home, [call("send_mail", to="ada"), "Sent.", "Hello."]) as terminal:
        terminal.type("Write to Ada", "Enter")
        terminal.wait_for("● send_mail")
        terminal.type("what else")
        seen = terminal.screen()
        for _ in range(2):
            seen = terminal.wait_for("running ·", gone=elapsed(seen))
        assert "what else" not in seen
        open_gate(home)
        seen = terminal.wait_for("Sent.", "> what else")
        assert seen.count("what else") == 1
        terminal.press("Enter")
        terminal.wait_for("Hello.")


def test_a_saved_chat_is_continued(home: Path) -> None:
    with chatting(home, ["Hello Ada."]) as terminal:
        terminal.type("I am Ada", "Enter")
        terminal.wait_for("Hello Ada.", PROMPT)
        terminal.type("/save chat.json", "Enter")
        terminal.wait_for("windlass chat --resume chat.json")
        terminal.type("/quit", "Enter")
        terminal.wait_for("exit code 0")

    def answer(request: dict[str, Any]) -> str:
        return f"After {len(request['messages'])} messages."

    with FakeOpenAI(answer) as fake:
        environ = {"OPENAI_BASE_URL": fake.base_url, "WINDLASS_MODEL": "openai/gpt-5-mini"}
        command = [sys.executable, "-m", "windlass", "chat", "--resume", "chat.json"]
        with Terminal(command, home, environ) as terminal:
            terminal.wait_for("Continuing after 2 messages.", PROMPT)
            terminal.press("Up")
            terminal.wait_for("> I am Ada")
            terminal.press("Enter")
            terminal.wait_for("After 3 messages.")


def test_a_narrower_terminal_has_one_card_that_fits(home: Path) -> None:
    with chatting(home, [call("send_mail", to="ada"), "Sent."], width=100) as terminal:
        terminal.type("Write to Ada", "Enter")
        terminal.wait_for("● send_mail", "running ·")
        terminal.resize(60, 24)
        seen = terminal.wait_for(f"╭─ ● send_mail {'─' * 44}╮\n")
        assert seen.count("╭") == seen.count("╰") == 1
        open_gate(home)
        seen = terminal.wait_for("✔ send_mail", "Sent.", PROMPT)
        assert seen.count("╭") == seen.count("╰") == 1


def test_control_sequences_of_a_tool_are_shown_and_not_executed(home: Path) -> None:
    script = [call("read_page"), "Model: \x1b[2J\x1b[8mhidden"]
    with chatting(home, script) as terminal:
        terminal.type("Read it", "Enter")
        terminal.wait_for("> Read it", "→ ␛[2J␛]0;owned␇␛[31mred", "Model: ␛[2J␛[8mhidden")


def test_a_model_error_is_a_line_and_the_chat_continues(home: Path) -> None:
    with chatting(home, [refuse(400, "no such thing"), "Hello."]) as terminal:
        terminal.type("Hi", "Enter")
        terminal.wait_for("\nno such thing (HTTP 400)\n", PROMPT)
        terminal.type("/retry", "Enter")
        terminal.wait_for("Hello.")


def test_commands_are_completed_and_lines_cleared(home: Path) -> None:
    with chatting(home, []) as terminal:
        terminal.type("/he")
        terminal.wait_for("> /he\n      /help")
        terminal.press("Tab", "Enter")
        terminal.wait_for("/save FILE", PROMPT)
        terminal.type("half a line")
        terminal.wait_for("> half a line")
        terminal.press("C-c")
        terminal.wait_for("Ctrl-C again, or Ctrl-D, exits.\n>\n")
        terminal.press("C-c")
        terminal.wait_for("exit code 0")


# The screens of the page.


def weather_screen(home: Path) -> str:
    with chatting(home, WEATHER, height=30) as terminal:
        terminal.type("Weather in Paris and Rome?", "Enter")
        return terminal.wait_for("round 2 of 5", PROMPT)


def approval_screen(home: Path) -> str:
    with chatting(home, [call("delete_file", path="notes.txt"), "Done."]) as terminal:
        terminal.type("Delete my notes", "Enter")
        return terminal.wait_for("Run it? [y]es, [N]o")


def stopped_screen(home: Path) -> str:
    with chatting(home, [call("send_mail", to="ada"), "Sent."]) as terminal:
        terminal.type("Write to Ada", "Enter")
        terminal.wait_for("● send_mail", "50%")
        terminal.press("C-c")
        seen = terminal.wait_for("Stopped.", PROMPT)
        open_gate(home)
        return seen


def running_screen(home: Path) -> str:
    both = calls(call("send_mail", to="ada"), call("get_weather", city="Rome"))
    with chatting(home, [both, "Sent."]) as terminal:
        terminal.type("Write to Ada, and how is the weather?", "Enter")
        seen = terminal.wait_for("● send_mail", "50%", "✔ get_weather")
        open_gate(home)
        return seen


SCREENS = {
    "weather": weather_screen,
    "running": running_screen,
    "approval": approval_screen,
    "stopped": stopped_screen,
}


@pytest.mark.parametrize("name", SCREENS)
def test_the_page_shows_what_the_terminal_shows(home: Path, name: str) -> None:
    """With WRITE_SCREENS=1, this run rewrites the page."""
    seen = "\n".join(line.rstrip() for line in SCREENS[name](home).rstrip().splitlines())
    block = re.compile(rf"(<!-- screen: {name} -->\n```text\n)(.*?)(\n```)", re.DOTALL)
    page = PAGE.read_text()
    found = block.search(page)
    assert found, f"{PAGE.name} has no screen {name!r}"
    if os.environ.get("WRITE_SCREENS"):
        PAGE.write_text(block.sub(lambda match: f"{match[1]}{seen}{match[3]}", page))
    else:
        assert timeless(found[2]) == timeless(seen)


def timeless(screen: str) -> str:
    """The screen without what differs from run to run: times, and the lines that make room."""
    for pattern, instead in ((r"\d+(\.\d+)? s\b", "_ s"), ("─+", "─"), ("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋")):
        screen = re.sub(pattern, instead, screen)
    return screen
