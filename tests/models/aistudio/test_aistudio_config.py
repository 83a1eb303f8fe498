"""The user's settings: addresses, programs, folders, and their errors."""

from pathlib import Path

import pytest

from windlass.errors import ConfigError, ModelError
from windlass.models import create_model
from windlass.models.aistudio import AIStudioModel, config
from windlass.models.aistudio.config import DEFAULT_URL, browser_config


def test_the_environment_says_where_everything_is(tmp_path: Path) -> None:
    program = tmp_path / "browser"
    program.touch(mode=0o755)
    given = browser_config(
        {
            "WINDLASS_AISTUDIO_URL": "http://localhost:1/page",
            "WINDLASS_AISTUDIO_PROFILE": "/profiles/me",
            "WINDLASS_AISTUDIO_BROWSER": str(program),
            "WINDLASS_AISTUDIO_HEADLESS": "false",
            "WINDLASS_AISTUDIO_PAGES": "8",
            "WINDLASS_AISTUDIO_LATE_CALL": "1.5",
            "WINDLASS_AISTUDIO_SNAPSHOTS": "/snapshots",
        }
    )
    assert given.url == "http://localhost:1/page"
    assert (given.profile, given.program) == (Path("/profiles/me"), program)
    assert (given.headless, given.pages, given.snapshots) == (False, 8, Path("/snapshots"))
    assert given.late_call == 1.5


def test_the_defaults_are_googles_page_and_a_profile_of_the_user() -> None:
    given = browser_config({"XDG_DATA_HOME": "/data"})
    assert (given.url, given.profile) == (DEFAULT_URL, Path("/data/windlass/aistudio"))
    assert (given.headless, given.snapshots) == (True, None)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("WINDLASS_AISTUDIO_URL", "file:///etc/passwd", "must be http or https"),
        ("WINDLASS_AISTUDIO_BROWSER", "/no/such/browser", "program '/no/such/browser' not found"),
        ("WINDLASS_AISTUDIO_PAGES", "0", "1 or more, not '0'"),
        ("WINDLASS_AISTUDIO_LATE_CALL", "soon", "number of seconds, 0 or more, not 'soon'"),
        ("WINDLASS_AISTUDIO_HEADLESS", "perhaps", "true or false, not 'perhaps'"),
    ],
)
def test_an_invalid_setting_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{said}"):
        browser_config({name: value})


def test_without_playwright_the_error_has_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'windlass\[aistudio\]'"):
        AIStudioModel("gemini-2.5-flash")


def test_a_key_is_not_accepted_as_an_option() -> None:
    with pytest.raises(ConfigError, match="windlass aistudio login"):
        create_model("aistudio/gemini-2.5-flash", api_key="secret")


def test_it_is_created_by_name_without_starting_a_browser() -> None:
    model = create_model("aistudio/gemini-2.5-flash", base_url="http://localhost:1/page")
    assert (model.name, repr(model)) == (
        "aistudio/gemini-2.5-flash",
        "AIStudioModel('gemini-2.5-flash')",
    )


@pytest.mark.process
async def test_a_browser_that_cannot_start_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("WINDLASS_AISTUDIO_BROWSER", str(program))
    monkeypatch.setenv("WINDLASS_AISTUDIO_PROFILE", str(tmp_path / "profile"))
    from windlass import AsyncClient

    async with AsyncClient("aistudio/default", mode="native") as client:
        with pytest.raises(ModelError, match="playwright install chromium") as caught:
            await client.generate("Hi")
    assert (caught.value.status, caught.value.code) == (503, "browser_unavailable")
