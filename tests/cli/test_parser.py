"""Mistyped commands, options and values: the message names what was meant."""

import pytest

from windlass.cli import COMMANDS, main


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The last line of stderr of a command that is used wrongly."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    return error.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sreve", "windlass: error: unknown command 'sreve' (did you mean 'serve'?)"),
        ("tols list --tools x", "windlass: error: unknown command 'tols' (did you mean 'tools'?)"),
        ("tools lst", "windlass tools: error: unknown action 'lst' (did you mean 'list'?)"),
        ("keys nwe", "windlass keys: error: unknown action 'nwe' (did you mean 'new'?)"),
        (
            "run hi --aprove yes",
            "windlass run: error: unknown option '--aprove' (did you mean '--approve'?)",
        ),
        (
            "run hi --modle=x",
            "windlass run: error: unknown option '--modle' (did you mean '--mode' or '--model'?)",
        ),
        (
            "runs show --jsn",
            "windlass runs show: error: unknown option '--jsn' (did you mean '--json'?)",
        ),
        (
            "chat --max_rounds 3",
            "windlass chat: error: unknown option '--max_rounds' (did you mean '--max-rounds'?)",
        ),
        (
            "serve --model x",
            "windlass serve: error: unknown option '--model'",
        ),
        ("serve --hlep", "windlass serve: error: unknown option '--hlep' (did you mean '--help'?)"),
        ("keys new web", "windlass keys new: error: unexpected argument 'web'"),
        ("doctor now please", "windlass doctor: error: unexpected argument 'now'"),
        ("--verson", "windlass: error: unknown option '--verson' (did you mean '--version'?)"),
        ("serve --zzz", "windlass serve: error: unknown option '--zzz'"),
        (
            "completion bsh",
            (
                "windlass completion: error: argument SHELL: invalid choice: 'bsh'"
                " (did you mean 'bash'?)"
            ),
        ),
        (
            "run hi --approve x",
            (
                "windlass run: error: argument --approve: invalid choice: 'x'"
                " (choose from yes, no, ask)"
            ),
        ),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *words.split()) == said


def test_an_unknown_command_lists_all_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refusal(capsys, "zzzz")
    assert all(name in said for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("run hi --max-rounds -1", "--max-rounds"),
        ("chat --max-rounds -1", "--max-rounds"),
        ("chat --max-rounds many", "--max-rounds"),
        ("worker --max-running 0", "--max-running"),
        ("mcp --http --port 70000", "--port"),
        ("demo --port 70000", "--port"),
    ],
)
def test_a_wrong_value_is_reported_with_the_name_of_the_option(
    words: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, *words.split())
    assert f"error: argument {option}: must be " in said
    assert "_" not in said


@pytest.mark.parametrize("words", ["run hi --max-r 2", "run -- --tols", "run --sys=--x hi"])
def test_abbreviations_and_values_are_left_alone(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.cli.run.run", lambda options: 0)
    assert main(words.split()) == 0
