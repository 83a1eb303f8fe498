"""`windlass completion` in a real shell, and what every command's help has."""

import argparse
import subprocess
from collections.abc import Iterator

import pytest
from tests.cli.environment import hide

import windlass
from windlass.cli import COMMANDS, main, whole_parser
from windlass.cli.completion import SHELLS


def completions(script: str, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    typed = " ".join(f"'{word}'" for word in words)
    program = f"""
{script}
COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE="${{COMP_WORDS[*]}}"
COMP_POINT=${{#COMP_LINE}}
complete_with=$(complete -p windlass | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$complete_with windlass "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "bash"]) == 0
    return capsys.readouterr().out


@pytest.mark.process
def test_bash_completes_a_command(script: str) -> None:
    assert completions(script, "windlass", "ru") == ["run", "runs"]
    assert completions(script, "windlass", "runs", "fol") == ["follow"]


@pytest.mark.process
def test_bash_completes_the_options_of_a_command(script: str) -> None:
    offered = completions(script, "windlass", "run", "--")
    assert {"--tools", "--model", "--json", "--events", "--approve"} <= set(offered)
    assert "--port" not in offered


@pytest.mark.process
def test_bash_completes_actions_and_choices(script: str) -> None:
    assert completions(script, "windlass", "tools", "sch") == ["schema"]
    assert completions(script, "windlass", "run", "--approve", "") == ["yes", "no", "ask"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "windlass" in capsys.readouterr().out


def test_without_shtab_the_error_has_the_install_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "shtab")
    assert main(["completion", "bash"]) == 2
    assert capsys.readouterr().err == (
        "windlass: completion needs shtab: pip install 'windlass[cli]'\n"
    )


def helps(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Each command with its help, and those of its actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{parser.prog} {name}", command.format_help()
                yield from helps(command)


def test_every_help_has_examples() -> None:
    for name, text in [("windlass", whole_parser().format_help()), *helps(whole_parser())]:
        assert "examples" in text, name


def test_every_command_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert all(name in shown for name in COMMANDS)


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"windlass {windlass.__version__}\n"
