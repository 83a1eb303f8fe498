"""Whether `aistudio/` can be used from here. Nothing is started: the page is not looked at."""

import os
import re
import sys
from pathlib import Path

from windlass.cli.providers import Readiness, is_installed
from windlass.errors import ConfigError
from windlass.models.aistudio.config import BrowserConfig, browser_config

__all__ = ["aistudio_readiness"]

_OWN_BROWSERS = {
    "darwin": "Library/Caches/ms-playwright",
    "win32": "AppData/Local/ms-playwright",
}
"""Where Playwright keeps the browsers that it has installed, if not in the usual cache."""


def aistudio_readiness() -> Readiness:
    """Playwright, a browser, a profile in which somebody could be signed in."""
    if not is_installed("playwright"):
        return Readiness(False, "playwright is not installed", "pip install 'windlass[aistudio]'")
    try:
        config = browser_config(os.environ)
    except ConfigError as error:
        named = re.search(r"WINDLASS_AISTUDIO_\w+", str(error))
        remedy = f"export {named[0]}=..." if named else None
        return Readiness(False, str(error), remedy, wrong=True)
    if config.program is None and not _has_own_browser():
        return Readiness(False, "there is no Chrome or Chromium", "playwright install chromium")
    if not _is_used(config.profile):
        return Readiness(False, "nobody has signed in by hand yet", "windlass aistudio login")
    return Readiness(True, f"AI Studio's page in {_browser(config)}, profile {config.profile}")


def _browser(config: BrowserConfig) -> str:
    return "Playwright's own browser" if config.program is None else config.program.name


def _has_own_browser() -> bool:
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    folder = Path.home() / _OWN_BROWSERS.get(sys.platform, ".cache/ms-playwright")
    return any((Path(given) if given else folder).glob("chromium-*"))


def _is_used(profile: Path) -> bool:
    try:
        return any(profile.iterdir())
    except OSError:
        return False
