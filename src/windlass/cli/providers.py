"""Which providers and models are usable here, and what the others need. Never shows a key."""

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from windlass.errors import ConfigError
from windlass.models import Key, create_model
from windlass.models.local.weights import QWEN, SMOL, Weights, installed_pieces
from windlass.models.aistudio.config import BrowserConfig, browser_config
from windlass.models.local.catalog import QWEN, SMOL, Weights
from windlass.models.local.weights import installed_pieces

RUNTIME_MODULE = "xllamacpp"
LIBGOMP_COMMAND = "apt-get install libgomp1"


class Service(Struct, frozen=True):
    """A provider that is reached over the network."""

    name: str
    keys: tuple[str, ...]
    """The variables that may hold its key."""
    model: str
    """What is asked when nobody says which model."""
    needs: tuple[str, ...] = ()
    """Variables that must be set besides."""
    address: str | None = None
    """The variable with the address of a server of one's own, which may need no key."""

    @property
    def target(self) -> str:
        return f"{self.name}/{self.model}"


class Readiness(Struct, frozen=True):
    """Whether something can be used, why or why not, and the command that changes it."""

    ready: bool
    because: str
    remedy: str | None = None
    wrong: bool = False
    """Whether it is there, and cannot be used as it is."""


SERVICES = (
    Service("openai", ("OPENAI_API_KEY",), "gpt-5-mini", address="OPENAI_BASE_URL"),
    Service("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-2.5-flash"),
    Service(
        "vertex",
        ("VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"),
        "gemini-2.5-flash",
        needs=("GOOGLE_CLOUD_PROJECT",),
    ),
)
"""In the order in which they are preferred."""

EMBEDDED = (QWEN, SMOL)
"""The weights that run in this process, the better ones first."""


def service_readiness(service: Service) -> Readiness:
    """Reads the environment alone: whether a key is a good one is known to the service."""
    keys = [name for name in service.keys if os.environ.get(name)][:1]
    missing = [name for name in service.needs if not os.environ.get(name)]
    addresses = [name for name in (service.address,) if name and os.environ.get(name)]
    if not keys and not addresses:
        wanted = [*service.keys[:1], *missing]
        return Readiness(False, f"{_names(service.keys)} not set", _export(wanted))
    if missing:
        return Readiness(False, f"{_names(missing)} not set", _export(missing))
    given = [*keys, *addresses]
    if problem := creation_problem(service.target):
        return Readiness(False, f"{_names(given)} set, but {problem}", _export(given), wrong=True)
    return Readiness(True, f"{_names(given)} set")


def creation_problem(
    target: str, *, base_url: str | None = None, api_key: Key | None = None, **options: Any
) -> str | None:
    """Why the model cannot be made, in the words that a run of it would fail with."""
    try:
        create_model(target, base_url=base_url, api_key=api_key, **options)
    except ConfigError as error:
        # An address may hold a secret, or be a key that was put in the wrong place.
        address = base_url or os.environ.get("OPENAI_BASE_URL")
        return str(error).replace(repr(address), "this one") if address else str(error)
    return None


def embedded_readiness(weights: Weights) -> Readiness:
    if not is_installed(RUNTIME_MODULE):
        return Readiness(False, f"its runtime, {RUNTIME_MODULE}, is not installed", weights.command)
    if libgomp_is_missing():
        return Readiness(False, "the system's library libgomp is not installed", LIBGOMP_COMMAND)
    try:
        installed_pieces(weights)
    except ConfigError:
        return Readiness(
            False, f"the weights of {weights.title} are not installed", weights.command
        )
    return Readiness(True, f"{weights.title} is installed")


def default_target() -> tuple[str, str] | None:
    """The model that is used when nobody names one, and why it: a key that is set, else weights."""
    for service in SERVICES:
        readiness = service_readiness(service)
        # A server of one's own has models that nobody here knows the names of.
        if readiness.ready and any(os.environ.get(name) for name in service.keys):
            return service.target, readiness.because
    for weights in EMBEDDED:
        readiness = embedded_readiness(weights)
        if readiness.ready:
            return f"local/{weights.name}", readiness.because
    return None


def remedies() -> list[str]:
    """Ways to come to a model, each a command with what it is for."""
    keys = [
        f"{_export([service.keys[0], *service.needs])}  # {service.name}/" for service in SERVICES
    ]
    return [*keys, f"{QWEN.command}  # local/qwen: on this machine, without a key"]


def is_installed(module: str) -> bool:
    """Whether it could be imported. It is not imported, though a package around it may be."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def libgomp_is_missing() -> bool:
    if sys.platform != "linux":
        return False
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        return True
    return False


def _names(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'}"


def _export(names: Sequence[str]) -> str:
    return f"export {' '.join(f'{name}=...' for name in names)}"


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
