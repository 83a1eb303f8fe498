"""Which model `windlass run` uses, and with which tools."""

from pathlib import Path

import pytest
from tests.cli.running import Run, Upstream

from windlass.cli.model_selection import choose_model
from windlass.cli.providers import Readiness
from windlass.testing import call


def test_the_first_model_of_the_file_here_is_used_with_its_tools(
    upstream: Upstream, run: Run, here: Path
) -> None:
    fake = upstream(call("get_weather", city="Rome"), "Sunny.", "Also here.")
    (here / "windlass.toml").write_text(
        '[models.fast]\ntarget = "openai/gpt-of-file"\ntools = ["get_weather"]\n'
        'system = "Be kind."\n[models.other]\ntarget = "openai/gpt-other"\n'
        '[tools]\nmodules = ["tools.py"]\n'
    )
    ran = run("Weather?")
    body = fake.requests[0].body
    assert ran.out == "Sunny.\n"
    assert "openai/gpt-of-file (the first model of windlass.toml); tools: get_weather" in ran.error
    assert body["model"] == "gpt-of-file"
    assert body["messages"][0]["content"] == "Be kind."
    assert [each["function"]["name"] for each in body["tools"]] == ["get_weather"]
    assert run("Hi", "--model", "other").out == "Also here.\n"
    assert fake.requests[-1].body["model"] == "gpt-other"


def test_a_name_that_the_file_does_not_have_is_answered_with_those_it_has(
    run: Run, here: Path
) -> None:
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "openai/gpt-test"\n')
    ran = run("Hi", "--model", "fats")
    assert ran.code == 2
    assert "windlass.toml has no model 'fats' (did you mean 'fast'?)" in ran.error


def test_the_environment_names_a_model_before_the_file_does(
    upstream: Upstream, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = upstream("Hello.")
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "openai/gpt-of-file"\n')
    monkeypatch.setenv("WINDLASS_MODEL", "openai/gpt-of-environment")
    monkeypatch.setenv("WINDLASS_TOOLS", "tools.py")
    run("Hi")
    assert fake.requests[0].body["model"] == "gpt-of-environment"
    assert len(fake.requests[0].body["tools"]) == 4


def test_without_any_model_every_remedy_is_named(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_ready = Readiness(False, "not installed")
    monkeypatch.setattr("windlass.cli.providers.embedded_readiness", lambda weights: not_ready)
    ran = run("Hi")
    assert ran.code == 2
    for remedy in ("--model", "WINDLASS_MODEL", "OPENAI_API_KEY", "GEMINI_API_KEY", "[local]"):
        assert remedy in ran.error


def test_the_embedded_model_is_used_when_no_key_is_set(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Readiness(True, "it is installed")
    monkeypatch.setattr("windlass.cli.providers.embedded_readiness", lambda weights: ready)
    assert choose_model(None).config.target == "local/qwen"
