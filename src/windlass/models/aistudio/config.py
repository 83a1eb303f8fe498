"""The configuration of the page, the browser and its profile, and whether they are usable here.

| Name | Default | Meaning |
|---|---|---|
| `WINDLASS_AISTUDIO_URL` | AI Studio's page for a new chat | the address of the page |
| `WINDLASS_AISTUDIO_PROFILE` | `~/.local/share/windlass/aistudio` | the profile's folder |
| `WINDLASS_AISTUDIO_BROWSER` | the installed Chrome or Chromium | the browser's program |
| `WINDLASS_AISTUDIO_HEADLESS` | true | whether the browser runs without a window |
| `WINDLASS_AISTUDIO_PAGES` | 2 | the maximum number of open pages, one conversation on each |
| `WINDLASS_AISTUDIO_LATE_CALL` | 3.2 | seconds in which an idle page may still show a call |
| `WINDLASS_AISTUDIO_SNAPSHOTS` | none | the folder for snapshots of the page after a failure |
"""

import math
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.errors import ConfigError
from windlass.models.provider import Readiness

DEFAULT_URL = "https://aistudio.google.com/prompts/new_chat"
INSTALL_BROWSER = (
    "install one (`playwright install chromium`, on Debian `apt-get install chromium`) or set"
    " WINDLASS_AISTUDIO_BROWSER to its program"
)
_PROGRAMS = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome")
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class BrowserConfig(Struct, frozen=True):
    """The configuration of the page and its browser."""

    url: str
    profile: Path
    program: Path | None
    """None means Playwright's own browser."""
    headless: bool = True
    pages: int = 2
    late_call: float = 3.2
    snapshots: Path | None = None
    arguments: tuple[str, ...] = ()
    """Additional command-line arguments of the browser."""


def browser_config(environ: Mapping[str, str], *, url: str | None = None) -> BrowserConfig:
    """The configuration from the environment. An empty value counts as unset.

    Raises `ConfigError` with the variable and its allowed values.
    """
    pages = environ.get("WINDLASS_AISTUDIO_PAGES", "").strip() or "2"
    if not (pages.isascii() and pages.isdigit()) or int(pages) < 1:
        raise ConfigError(
            f"WINDLASS_AISTUDIO_PAGES must be a whole number, 1 or more, not {pages!r}"
        )
    headless = environ.get("WINDLASS_AISTUDIO_HEADLESS", "").strip().lower() or "true"
    if headless not in _SWITCH:
        raise ConfigError(f"WINDLASS_AISTUDIO_HEADLESS must be true or false, not {headless!r}")
    snapshots = environ.get("WINDLASS_AISTUDIO_SNAPSHOTS", "").strip()
    return BrowserConfig(
        url=_address(url or environ.get("WINDLASS_AISTUDIO_URL", "").strip() or DEFAULT_URL),
        profile=_profile(environ),
        program=_program(environ),
        headless=_SWITCH[headless],
        pages=int(pages),
        late_call=_late_call(environ),
        snapshots=Path(snapshots).expanduser() if snapshots else None,
    )


def check_playwright() -> None:
    """Raises `ConfigError` if Playwright is not installed."""
    if find_spec("playwright") is None:
        raise ConfigError("aistudio/ needs Playwright: pip install 'windlass[aistudio]'")


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"the address of the page (base_url or WINDLASS_AISTUDIO_URL) must be http or https,"
            f" not {url!r}"
        )
    return url


def _late_call(environ: Mapping[str, str]) -> float:
    text = environ.get("WINDLASS_AISTUDIO_LATE_CALL", "").strip() or "3.2"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(
            f"WINDLASS_AISTUDIO_LATE_CALL must be a number of seconds, 0 or more, not {text!r}"
        )
    return seconds


def _profile(environ: Mapping[str, str]) -> Path:
    if given := environ.get("WINDLASS_AISTUDIO_PROFILE", "").strip():
        return Path(given).expanduser()
    data = environ.get("XDG_DATA_HOME", "").strip()
    root = Path(data) if data else Path.home() / ".local" / "share"
    return root / "windlass" / "aistudio"


def _program(environ: Mapping[str, str]) -> Path | None:
    given = environ.get("WINDLASS_AISTUDIO_BROWSER", "").strip()
    if not given:
        found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        return Path(found) if found else None
    program = shutil.which(str(Path(given).expanduser()))
    if program is None:
        raise ConfigError(
            f"WINDLASS_AISTUDIO_BROWSER: program {given!r} not found; {INSTALL_BROWSER}"
        )
    return Path(program)


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
