"""`windlass check-config`: a line for each problem, and an exit code."""

from pathlib import Path

import pytest

from windlass.cli import COMMANDS, main

GOOD = """\
[models.fast]
target = "openai/gpt-5-mini"
tools = ["get_weather"]

[tools]
modules = ["tools.py"]
"""
TOOLS = "def get_weather(city: str) -> str: ...\nTOOLS = [get_weather]\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a file of tools in it."""
    monkeypatch.setitem(COMMANDS, "check-config", ("windlass.cli.check_config", "checks"))
    monkeypatch.chdir(tmp_path)
    for name in ("WINDLASS_HOST", "WINDLASS_PORT", "WINDLASS_MODEL", "WINDLASS_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def test_a_good_file_is_summed_up_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "windlass.toml").write_text(GOOD)
    assert main(["check-config"]) == 0
    assert capsys.readouterr().out == "windlass.toml: 1 model, 1 tool, 0 keys\n"


def test_each_problem_is_a_line_with_file_line_and_place(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace("openai/", "opnai/").replace('["get', '["gte')
    (here / "windlass.toml").write_text(text)
    assert main(["check-config"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "windlass.toml:2: models.fast.target: unknown provider 'opnai' (did you mean 'openai'?)",
        (
            "windlass.toml:3: models.fast.tools[0]: unknown tool 'gte_weather'"
            " (did you mean 'get_weather'?)"
        ),
    ]


def test_a_warning_is_written_and_does_not_count(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace("tools = [", 'api_key_env = "NOT_SET_HERE"\ntools = [')
    (here / "windlass.toml").write_text(text)
    assert main(["check-config"]) == 0
    warning, summary = capsys.readouterr().out.splitlines()
    assert warning == (
        "windlass.toml:3: warning: models.fast.api_key_env:"
        " the environment variable NOT_SET_HERE is not set"
    )
    assert summary == "windlass.toml: 1 model, 1 tool, 0 keys"


def test_another_file_can_be_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "windlass.toml").write_text("broken")
    (here / "other.toml").write_text(GOOD)
    assert main(["check-config", "other.toml"]) == 0
    assert main(["check-config", "none.toml"]) == 1
    assert "none.toml: cannot be read: No such file" in capsys.readouterr().out


def test_without_a_file_the_environment_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDLASS_MODEL", "openai/a,openai/b")
    monkeypatch.setenv("WINDLASS_TOOLS", "tools.py")
    assert main(["check-config"]) == 0
    assert capsys.readouterr().out == (
        "no windlass.toml here; the environment: 2 models, 1 tool, 0 keys;"
        " serves any provider/model\n"
    )
    monkeypatch.setenv("WINDLASS_PORT", "many")
    assert main(["check-config"]) == 1
    assert capsys.readouterr().out.startswith("WINDLASS_PORT: must be a whole number")


def test_wrong_usage_exits_with_2() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check-config", "a", "b"])
    assert caught.value.code == 2
