"""A chat from the keys that are typed to what is shown, without a terminal."""

import asyncio
import io
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.chatting import ALT_ENTER, CTRL_C, CTRL_D, chosen, conversing, talk

from windlass import tool
from windlass.cli import main
from windlass.cli.chat.conversation import TerminalChat, read_messages
from windlass.cli.chat.terminal import LogRecorder
from windlass.content import FunctionDeclaration, Message
from windlass.errors import ConfigError
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import FakeOpenAI, Gate, call, calls, cut, refuse, slow, think

deleted: list[str] = []


@tool
def get_weather(city: str) -> dict[str, Any]:
    """The weather of a city. It is made up."""
    print(f"asking {city}")
    return {"sky": "sunny", "degrees": 21}


@tool(approve=True)
def delete_file(path: str) -> str:
    """Deletes a file."""
    deleted.append(path)
    return f"deleted {path}"


@tool
def broken() -> str:
    """Fails."""
    raise RuntimeError("the \x1b[31mdisk is full")


@pytest.fixture(autouse=True)
def _nothing_deleted() -> None:
    deleted.clear()


async def test_a_question_is_answered_with_a_card_for_its_tool() -> None:
    script = [think("Hm.", call("get_weather", city="Paris")), "It is **sunny**."]
    chat = await talk(script, f"Weather?\r{CTRL_D}", tools=[get_weather])
    assert "✻ thought for" in chat.shown
    assert "✔ get_weather" in chat.shown
    assert "degrees: 21" in chat.shown
    assert "It is sunny." in chat.shown
    assert "round 2 of 5 · 20 in, 10 out" in chat.shown
    assert [m.role for m in chat.conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_output_of_a_tool_is_shown_as_such() -> None:
    script = [call("get_weather", city="Par\x1bis"), "Sunny."]
    chat = await talk(script, f"Weather?\r{CTRL_D}", tools=[get_weather])
    assert "printed: asking Par␛is" in chat.shown.partition("Sunny.")[0]


async def test_the_next_question_has_the_earlier_messages() -> None:
    chat = await talk(["Hello Ada.", "Ada."], f"I am Ada\rWho am I?\r{CTRL_D}")
    assert [m["content"] for m in chat.asked(1)] == ["I am Ada", "Hello Ada.", "Who am I?"]


@pytest.mark.parametrize("keys", [f"a{ALT_ENTER}b\r", "a\\\rb\r"])
async def test_a_question_may_have_several_lines(keys: str) -> None:
    chat = await talk(["Yes."], keys + CTRL_D)
    assert chat.asked(0)[0]["content"] == "a\nb"


async def test_an_empty_line_sends_nothing() -> None:
    chat = await talk([], f"\r  \r{CTRL_D}")
    assert chat.fake.requests == []


async def test_a_path_is_a_question_and_not_a_command() -> None:
    chat = await talk(["A file."], f"/etc/hosts is what?\r{CTRL_D}")
    assert chat.asked(0)[0]["content"] == "/etc/hosts is what?"


async def test_bytes_that_are_no_text_do_not_break_the_question() -> None:
    chat = await talk(["Yes."], f"a\udcffb\r{CTRL_D}")
    assert chat.asked(0)[0]["content"] == "a\ufffdb"


# Approval.


@pytest.mark.parametrize("answer", ["", "n", "no", "N"])
async def test_without_an_approval_a_tool_is_denied(answer: str) -> None:
    script = [call("delete_file", path="a"), "I did not."]
    chat = await talk(script, f"Delete a\r{answer}\r{CTRL_D}", tools=[delete_file])
    assert deleted == []
    assert "⊘ delete_file" in chat.shown
    assert chat.asked(1)[-1]["content"] == '{"error":"The call was denied: the user said no."}'


@pytest.mark.parametrize("answer", ["y", "yes", " Y "])
async def test_an_approved_tool_runs(answer: str) -> None:
    script = [call("delete_file", path="a"), "Done."]
    chat = await talk(script, f"Delete a\r{answer}\r{CTRL_D}", tools=[delete_file])
    assert deleted == ["a"]
    assert "✔ delete_file" in chat.shown


async def test_ctrl_d_at_the_question_denies_the_call() -> None:
    script = [call("delete_file", path="a"), "I did not."]
    await talk(script, f"Delete a\r{CTRL_D}{CTRL_D}", tools=[delete_file])
    assert deleted == []


async def test_an_unclear_answer_is_asked_again() -> None:
    script = [call("delete_file", path="a"), "Done."]
    await talk(script, f"Delete a\rperhaps\ry\r{CTRL_D}", tools=[delete_file])
    assert deleted == ["a"]


async def test_always_is_for_this_tool_and_the_rest_of_the_chat() -> None:
    both = calls(call("delete_file", path="a"), call("delete_file", path="b"))
    script = [both, "Done.", call("delete_file", path="c"), "Done."]
    await talk(script, f"Delete a, b\ra\rAnd c\r{CTRL_D}", tools=[delete_file])
    assert sorted(deleted) == ["a", "b", "c"]


async def test_the_arguments_can_be_edited_before_a_tool_runs() -> None:
    script = [call("delete_file", path="a"), "Done."]
    at_the_value = "\x1b[D\x1b[D"  # two to the left of the end of {"path":"a"}
    keys = f"Delete a\re\r{at_the_value}bc\r{CTRL_D}"
    chat = await talk(script, keys, tools=[delete_file])
    assert deleted == ["abc"]
    assert 'path: "abc"' in chat.shown


async def test_edited_arguments_that_the_tool_refuses_are_not_taken() -> None:
    script = [call("delete_file", path="a"), "Done."]
    clear = "\x15"  # Ctrl-U
    keys = f'Delete a\re\r{clear}{{"file": 1}}\r{clear}not json\r{clear}{{"path": "z"}}\r{CTRL_D}'
    await talk(script, keys, tools=[delete_file])
    assert deleted == ["z"]


async def test_closing_the_editor_denies_the_call() -> None:
    script = [call("delete_file", path="a"), "I did not."]
    await talk(script, f"Delete a\re\r\x15{CTRL_D}{CTRL_D}", tools=[delete_file])
    assert deleted == []


async def test_ctrl_c_at_the_question_stops_the_run_and_nothing_has_happened() -> None:
    script = [call("delete_file", path="a"), "Hello."]
    chat = await talk(script, f"Delete a\r{CTRL_C}Hi\r{CTRL_D}", tools=[delete_file])
    assert deleted == []
    assert "Stopped. Not started: delete_file." in chat.shown
    assert "Hello." in chat.shown


async def test_all_of_the_arguments_can_be_read_before_they_are_agreed_to() -> None:
    path = "/".join(f"part{number}" for number in range(600))
    script = [call("delete_file", path=path), "I did not."]
    chat = await talk(script, f"Delete\r\r{CTRL_D}", tools=[delete_file])
    assert path in chat.shown.replace("\n", "")


# Stopping and failing.


async def test_ctrl_c_stops_the_run_and_the_chat_continues() -> None:
    gate = Gate()
    script = [slow("One two three.", gate, after=1), "Hello."]
    loop = asyncio.get_running_loop()
    waiting = loop.run_in_executor(None, gate.reached.block)
    waiting.add_done_callback(lambda _: signal.raise_signal(signal.SIGINT))
    chat = await talk(script, f"Count\rHi\r{CTRL_D}")
    assert "Stopped." in chat.shown
    assert "Hello." in chat.shown
    assert chat.asked(1)[-1]["content"] == "Hi"


async def test_a_model_error_is_one_line_and_the_conversation_stays_as_it_was() -> None:
    script = ["Hello.", refuse(400, "no\nsuch \x1b[5mthing"), "Again."]
    chat = await talk(script, f"Hi\rFail\rOnce more\r{CTRL_D}")
    assert "no such ␛[5mthing (HTTP 400)\n" in chat.shown
    assert "\x1b[31mno such ␛[5mthing" in chat.written
    assert [m["content"] for m in chat.asked(2)] == ["Hi", "Hello.", "Once more"]


async def test_a_stream_that_is_cut_leaves_the_conversation_as_it_was() -> None:
    chat = await talk([cut("One two three.", after=1), "Hello."], f"Count\rHi\r{CTRL_D}")
    assert [m["content"] for m in chat.asked(1)] == ["Hi"]


async def test_a_run_that_cannot_begin_is_one_line() -> None:
    chat = await talk([], f"Hi\r{CTRL_D}", tools=[get_weather], before=_twice_the_same_tool)
    assert "get_weather" in chat.shown
    assert chat.fake.requests == []


def _twice_the_same_tool(conversation: TerminalChat) -> None:
    conversation._client._tools = (get_weather, get_weather.function, get_weather.function)


async def test_a_tool_that_fails_reports_why_only_when_asked() -> None:
    journal_home = logging.getLogger()
    journal = LogRecorder()
    journal_home.addHandler(journal)
    try:
        chat = await talk([call("broken"), "Sorry."], f"Try\r{CTRL_D}", tools=[broken])
    finally:
        journal_home.removeHandler(journal)
    assert "✘ broken" in chat.shown
    assert "disk is full" not in chat.shown
    [entry] = journal.entries
    assert "disk is full" in entry
    assert "in broken" in entry
    assert "executor.py" not in entry


async def test_calls_of_tools_that_are_only_declared_do_not_break_the_chat() -> None:
    declared = FunctionDeclaration("book_flight", "Books a flight.")
    script = [call("book_flight"), "Hello."]
    chat = await talk(script, f"Book\rHi\r{CTRL_D}", tools=[declared])
    assert "The model called a tool that only the caller can run." in chat.shown
    assert [m["role"] for m in chat.asked(1)] == ["user", "assistant", "tool", "user"]


# Leaving.


async def test_ctrl_c_twice_at_the_prompt_leaves() -> None:
    chat = await talk([], CTRL_C + CTRL_C)
    assert chat.shown.count("Ctrl-C again, or Ctrl-D, exits.") == 1


async def test_ctrl_c_clears_the_line_and_a_line_in_between_starts_the_count_again() -> None:
    keys = f"wrong{CTRL_C}Hi\r{CTRL_C}more{CTRL_C}{CTRL_C}"
    chat = await talk(["Hello."], keys)
    assert [m["content"] for m in chat.asked(0)] == ["Hi"]
    assert chat.shown.count("Ctrl-C again, or Ctrl-D, exits.") == 3


# SlashCommands.


async def test_help_names_every_command() -> None:
    chat = await talk([], "/help\r/quit\r")
    for name in (
        "/tools",
        "/model NAME",
        "/system TEXT",
        "/save FILE",
        "/clear",
        "/retry",
        "/last",
    ):
        assert name in chat.shown


async def test_an_unknown_command_names_the_nearest() -> None:
    chat = await talk([], "/sav x\r/quit\r")
    assert "unknown command /sav (did you mean /save?); /help lists all commands" in chat.shown


async def test_tools_are_listed_with_descriptions_and_approvals() -> None:
    chat = await talk([], "/tools\r/quit\r", tools=[get_weather, delete_file])
    assert "get_weather   The weather of a city" in chat.shown
    assert "It is made up" not in chat.shown
    assert "Deletes a file. (needs approval)" in chat.shown
    assert "No tools" in (await talk([], "/tools\r/quit\r")).shown


async def test_instructions_can_be_changed_and_taken_away() -> None:
    keys = "Hi\r/system Be rude.\rHi\r/system -\rHi\r/system\r/quit\r"
    chat = await talk(["a", "b", "c"], keys, system="Be kind.")
    firsts = [chat.asked(request)[0] for request in range(3)]
    assert [first["content"] for first in firsts] == ["Be kind.", "Be rude.", "Hi"]
    assert "There are no instructions." in chat.shown


async def test_another_model_continues_the_same_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeOpenAI(["I am other."]) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.base_url)
        keys = "Hi\r/model openai/other\rWho are you?\r/model\r/quit\r"
        chat = await talk(["Hello."], keys, tools=[get_weather])
        [request] = other.requests
    assert request.body["model"] == "other"
    assert [m["content"] for m in request.body["messages"]] == ["Hi", "Hello.", "Who are you?"]
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["get_weather"]
    assert "The model is openai/other." in chat.shown


async def test_a_model_that_cannot_be_used_leaves_the_old_one() -> None:
    chat = await talk(["Hello."], "/model nobody/x\rHi\r/quit\r")
    assert "nobody" in chat.shown
    assert "Hello." in chat.shown


async def test_retry_asks_the_last_question_again_as_if_it_had_not_been_answered() -> None:
    script = ["One.", "Two.", refuse(400, "bad"), "Three."]
    chat = await talk(script, "Hi\r/retry\rMore\r/retry\r/quit\r")
    assert [m["content"] for m in chat.asked(1)] == ["Hi"]
    assert [m["content"] for m in chat.asked(3)] == ["Hi", "Two.", "More"]


async def test_nothing_can_be_retried_at_the_beginning_or_after_a_clear() -> None:
    chat = await talk(["One.", "Two."], "/retry\rHi\r/clear\r/retry\rHi\r/quit\r")
    assert chat.shown.count("no question to ask again") == 2
    assert [m["content"] for m in chat.asked(1)] == ["Hi"]


async def test_usage_is_shown_for_the_last_answer_and_in_total() -> None:
    chat = await talk(["One.", "Two."], "Hi\rHi\r/usage\r/quit\r")
    assert "the last answer   10 in, 5 out" in chat.shown
    assert "2 answers         20 in, 10 out" in chat.shown


async def test_last_shows_thoughts_and_tools_in_full() -> None:
    script = [think("First.\nSecond.", call("get_weather", city="x" * 300)), "Sunny."]
    chat = await talk(script, "Hi\r/last\r/quit\r", tools=[get_weather])
    after = chat.shown.partition("Sunny.")[2]
    assert "First.\nSecond." in after
    assert after.count("x") >= 300
    assert '"degrees": 21' in after
    assert "no tools and no thoughts" in (await talk([], "/last\r/quit\r")).shown


async def test_a_saved_chat_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    script = [call("get_weather", city="Paris"), "Sunny."]
    keys = f"Weather?\r/save {file}\r/quit\r"
    await talk(script, keys, tools=[get_weather], system="Be kind.")

    def resume(conversation: TerminalChat) -> None:
        conversation.resume(read_messages(file))

    chat = await talk(["Sunny!"], "/retry\r/quit\r", before=resume)
    assert "Continuing after 4 messages." in chat.shown
    assert [m["content"] for m in chat.asked(0)] == ["Be kind.", "Weather?"]


async def test_saving_does_not_overwrite_what_is_not_a_chat(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("precious")
    saves = (file, tmp_path / "no" / "where", "", tmp_path / "a", tmp_path / "a")
    keys = "Hi\r" + "".join(f"/save {place}\r" for place in saves)
    chat = await talk(["Hello."], f"{keys}/quit\r")
    assert file.read_text() == "precious"
    assert "exists and is not a saved chat" in " ".join(chat.shown.split())
    assert "cannot write" in chat.shown
    assert "/save needs a file" in chat.shown
    assert chat.shown.count("Saved.") == 2
    assert read_messages(tmp_path / "a")[0] == Message.user("Hi")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"role": "nobody", "parts": []}]', "\xff"])
def test_a_file_that_is_not_a_chat_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"chat\.json is not a saved chat"):
        read_messages(file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_messages(tmp_path / "absent.json")


async def test_a_number_of_rounds_that_cannot_be_is_refused_at_once() -> None:
    with FakeOpenAI() as fake, pytest.raises(ConfigError, match="max_rounds must be at least 0"):
        async with conversing(fake, max_rounds=-1):
            pass


async def test_the_round_limit_is_enforced_and_shown() -> None:
    script = [call("get_weather", city="Paris"), "I do not know."]
    chat = await talk(script, f"Weather?\r{CTRL_D}", tools=[get_weather], max_rounds=1)
    assert "last round, without tools" in chat.shown
    assert "The round limit was reached" in chat.shown


@pytest.mark.parametrize(
    ("own", "configured", "expected"),
    [(None, "configured", "saved"), ("own", "configured", "own"), (None, None, "saved")],
)
async def test_saved_instructions_override_configured_ones_but_not_explicit_ones(
    own: str | None, configured: str | None, expected: str
) -> None:
    with FakeOpenAI() as fake:
        conversation = TerminalChat(chosen(fake, system=configured), system=own)
        conversation.resume([Message.system("saved"), Message.user("Hi")])
        assert conversation.system == expected
        await conversation.aclose()


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_the_extra_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Tty())
    monkeypatch.setattr(sys, "stdout", Tty())
    monkeypatch.delitem(sys.modules, "windlass.cli.chat.shell", raising=False)
    monkeypatch.setitem(sys.modules, "prompt_toolkit.output", None)
    assert main(["chat", "--model", "openai/gpt-test"]) == 2
    assert capsys.readouterr().err.endswith("pip install 'windlass[cli]'\n")


def test_without_a_terminal_the_way_to_do_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--model", "openai/gpt-test"]) == 2
    assert "use `windlass run" in capsys.readouterr().err


async def test_the_runs_of_a_chat_are_kept_together_until_it_is_cleared(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with FakeOpenAI(["One.", "Two.", "Three."]) as fake:
        conversation = TerminalChat(msgspec.structs.replace(chosen(fake), runs=file))
        for question in ("First", "Second", "Third"):
            if question == "Third":
                conversation.clear()
            async with conversation.stream(Message.user(question), lambda _: True) as stream:
                async for _ in stream:
                    pass
            conversation.remember(stream.reply)
        await conversation.aclose()
    log = SQLiteLog(file)
    third, second, first = await log.list()
    await log.aclose()
    assert [record.title for record in (first, second, third)] == ["First", "Second", "Third"]
    assert first.chat == second.chat != third.chat
    assert first.chat.startswith("chat_")
