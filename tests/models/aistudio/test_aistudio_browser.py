"""Shared browsers: a profile can be open in only one, so its models share it."""

from pathlib import Path
from typing import Any

import pytest

from windlass.models.aistudio import browser
from windlass.models.aistudio.browser import SharedBrowser
from windlass.models.aistudio.config import BrowserConfig


class Closable:
    closed = False

    async def close(self) -> None:
        self.closed = True


class PretendedBrowser(Closable):
    started: list["PretendedBrowser"]

    def __init__(self, _: BrowserConfig) -> None:
        self.users = 0

    async def new_page(self) -> Closable:
        if self not in self.started:
            self.started.append(self)
        return Closable()

    async def aclose(self) -> None:
        await self.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[PretendedBrowser]:
    """The browsers that were started."""
    PretendedBrowser.started = []
    monkeypatch.setattr(browser, "Browser", PretendedBrowser)
    return PretendedBrowser.started


def config_of(profile: Path) -> BrowserConfig:
    return BrowserConfig("http://localhost/", profile, None)


async def test_models_of_one_profile_share_a_browser_and_the_last_one_closes_it(
    started: list[PretendedBrowser], tmp_path: Path
) -> None:
    one, other = (SharedBrowser(config_of(tmp_path)) for _ in range(2))
    page: Any = await one.new_page()
    theirs: Any = await other.new_page()
    assert len(started) == 1
    await one.aclose()
    assert (page.closed, theirs.closed, started[0].closed) == (True, False, False)
    await other.aclose()
    assert started[0].closed


async def test_another_profile_has_a_browser_of_its_own(
    started: list[PretendedBrowser], tmp_path: Path
) -> None:
    browsers = [SharedBrowser(config_of(tmp_path / name)) for name in ("one", "other")]
    for each in browsers:
        await each.new_page()
    assert len(started) == 2
    for each in browsers:
        await each.aclose()


async def test_a_browser_that_was_closed_is_started_again_when_it_is_needed(
    started: list[PretendedBrowser], tmp_path: Path
) -> None:
    shared = SharedBrowser(config_of(tmp_path))
    for _ in range(2):
        await shared.new_page()
        await shared.aclose()
    assert [each.closed for each in started] == [True, True]
