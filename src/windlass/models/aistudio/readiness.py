"""Whether `aistudio/` is usable here: Playwright, a browser and a profile. No page is opened."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from windlass.errors import ConfigError
from windlass.models.aistudio.config import BrowserConfig, browser_config
from windlass.models.provider import Readiness

PLAYWRIGHT_BROWSERS = {
    "darwin": "Library/Caches/ms-playwright",
    "win32": "AppData/Local/ms-playwright",
}
"""Where Playwright installs browsers on systems without ~/.cache."""


def aistudio_readiness() -> Readiness:
    """Checks for Playwright, a browser, and a profile. The page is not opened."""
    if find_spec("playwright") is None:
        return Readiness(False, "playwright is not installed", "pip install 'windlass[aistudio]'")
    try:
        config = browser_config(os.environ)
    except ConfigError as error:
        named = re.search(r"WINDLASS_AISTUDIO_\w+", str(error))
        remedy = f"export {named[0]}=..." if named else None
        return Readiness(False, str(error), remedy, wrong=True)
    if config.program is None and not _has_playwright_browser():
        return Readiness(
            False, "Chrome or Chromium is not installed", "playwright install chromium"
        )
    if not _is_used(config.profile):
        return Readiness(False, "not signed in yet", "windlass aistudio login")
    return Readiness(True, f"AI Studio's page in {_browser(config)}, profile {config.profile}")


def _browser(config: BrowserConfig) -> str:
    return "Playwright's own browser" if config.program is None else config.program.name


def _has_playwright_browser() -> bool:
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    folder = Path.home() / PLAYWRIGHT_BROWSERS.get(sys.platform, ".cache/ms-playwright")
    return any((Path(given) if given else folder).glob("chromium-*"))


def _is_used(profile: Path) -> bool:
    try:
        return any(profile.iterdir())
    except OSError:
        return False
