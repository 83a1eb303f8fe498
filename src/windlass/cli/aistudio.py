"""`windlass aistudio`: signs in to the AI Studio page, checks it, and clears its caches."""

import argparse
import asyncio
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import msgspec

from windlass.cli.arguments import add_action
from windlass.cli.connect.clients import DEFAULT_KEY_ENV, root_of
from windlass.cli.output import own_stdout, table
from windlass.errors import ConfigError, ModelError
from windlass.models.aistudio.browser import Browser
from windlass.models.aistudio.config import BrowserConfig, browser_config, check_playwright
from windlass.models.aistudio.doctor import PROBE, Finding, examine
from windlass.models.aistudio.model import PageSource
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.selectors import VERSION
from windlass.settings import function_calling_settings

HELP = "sign in to the AI Studio page, check it, or clear its caches"

DESCRIPTION = """\
`windlass aistudio login` opens a browser with its own profile, and you sign in manually: Windlass
never sees your password. `windlass aistudio doctor` opens the page, shows which elements it finds
and in which ways, has the model call a function, and checks that it reads the call. Run it when the
page has changed. `windlass aistudio clear-cache` makes a gateway declare its functions again."""

EPILOG = """\
examples:
  windlass aistudio login
  windlass aistudio doctor
  windlass aistudio doctor --no-ask   # without the probe call, which is one request
  windlass aistudio clear-cache

The exit code of doctor is 0 only if a run can work. WINDLASS_AISTUDIO_URL, _BROWSER and _PROFILE
set the page, the browser and the profile (see docs/aistudio.md)."""

DEFAULT_GATEWAY = "http://127.0.0.1:8080"
_HTTP_SECONDS = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    add_action(
        actions,
        "login",
        "sign in manually, in a browser window",
        "examples:\n  windlass aistudio login",
    )
    doctor = add_action(
        actions,
        "doctor",
        "check that a run can work on the page",
        "examples:\n  windlass aistudio doctor\n  windlass aistudio doctor --no-ask --json",
    )
    doctor.add_argument("--url", help="the page (default: WINDLASS_AISTUDIO_URL or AI Studio)")
    doctor.add_argument(
        "--ask",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="make the model call a function and read its call, which costs a request",
    )
    doctor.add_argument("--json", action="store_true", help="print a JSON list")
    clear = add_action(
        actions,
        "clear-cache",
        "make a gateway declare its functions on the page again",
        "examples:\n  windlass aistudio clear-cache\n  windlass aistudio clear-cache studio"
        " --url https://llm.example.com/v1 --key-env LLM_KEY",
    )
    clear.add_argument(
        "models", nargs="*", metavar="MODEL", help="models of the gateway (default: all aistudio/)"
    )
    clear.add_argument("--url", default=DEFAULT_GATEWAY, help="the gateway (default: %(default)s)")
    clear.add_argument(
        "--key-env",
        metavar="NAME",
        default=DEFAULT_KEY_ENV,
        help="the environment variable that contains the gateway's key (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for a wrong setup, and `ModelError` if the page does not open."""
    if options.action == "clear-cache":
        return clear_cache(options)
    check_playwright()
    if options.action == "login":
        config = msgspec.structs.replace(browser_config(os.environ), headless=False)
        return asyncio.run(sign_in(Browser(config), config.url))
    config = browser_config(os.environ, url=options.url)
    with own_stdout() as output:
        findings = asyncio.run(diagnose(Browser(config), config, ask=options.ask))
        if options.json:
            output.json(findings)
        else:
            output.text(f"{_table(findings)}\n{_conclusion(findings)}\n")
    return 1 if any(finding.is_problem for finding in findings) else 0


async def sign_in(browser: PageSource, url: str) -> int:
    """Waits until the AI Studio page appears or the window is closed; returns the exit code."""
    try:
        page = await browser.new_page()
        sys.stderr.write("Sign in to Google AI Studio in the browser window.\n")
        page.set_default_timeout(0)
        arrived = asyncio.ensure_future(_arrived(ChatPage(page, url, 0)))
        closed = asyncio.ensure_future(page.wait_for_event("close", timeout=0))
        done, _ = await asyncio.wait((arrived, closed), return_when=asyncio.FIRST_COMPLETED)
        for task in (arrived, closed):
            task.cancel()
        await asyncio.gather(arrived, closed, return_exceptions=True)
        if arrived not in done or arrived.exception() is not None:
            sys.stderr.write("The window was closed before you signed in.\n")
            return 1
        sys.stderr.write("Signed in: you can use aistudio/ models now.\n")
        return 0
    finally:
        await browser.aclose()


async def _arrived(chat: ChatPage) -> None:
    """Returns when the page shows its prompt, however often it is loaded until then."""
    from playwright.async_api import Error

    await chat.page.goto(chat.url)
    while not chat.page.is_closed():
        try:
            if await chat.elements.is_shown("prompt"):
                return
        except Error:  # it is being loaded
            if chat.page.is_closed():
                raise
        await asyncio.sleep(0.2)


async def diagnose(browser: PageSource, config: BrowserConfig, *, ask: bool) -> list[Finding]:
    """Examines the page, then closes the browser."""
    try:
        timeout = function_calling_settings(os.environ).ui_timeout_ms
        chat = ChatPage(await browser.new_page(), config.url, timeout)
        await chat.prepare()
        return await examine(chat, ask=ask)
    finally:
        await browser.aclose()


def _table(findings: list[Finding]) -> str:
    rows = [(each.state, each.element, each.detail or each.selector or "") for each in findings]
    return table(("state", "element", "found by"), rows)


def _conclusion(findings: list[Finding]) -> str:
    problems = [finding for finding in findings if finding.is_problem]
    if not problems:
        asked = any(finding.element == PROBE for finding in findings)
        read = "read the page and a call on it" if asked else "read the page"
        return f"Windlass can {read} (selectors of {VERSION})."
    missing = [finding.element for finding in problems if finding.state == "missing"]
    failed = [f"{each.element}: {each.detail}" for each in problems if each.state == "failed"]
    lines = [f"Missing: {', '.join(missing)}."] if missing else []
    lines += [f"Failed: {each}" for each in failed]
    lines.append(
        f"The page has changed since the selectors were made ({VERSION}): native function"
        " calling may fail; mode='emulated' needs only the prompt, the run button and turns."
    )
    return "\n".join(lines)


def clear_cache(options: argparse.Namespace) -> int:
    """Asks the gateway to clear the caches. Raises `ConfigError` and `ModelError`."""
    root = root_of(options.url)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", options.key_env):
        raise ConfigError("--key-env must be the name of an environment variable, not a key")
    key = os.environ.get(options.key_env)
    names: list[str] = options.models or _page_models(root, key)
    if not names:
        raise ConfigError(f"the gateway {root} has no model of aistudio/ that this key may use")
    for name in names:
        path = f"/v1/models/{urllib.parse.quote(name, safe='/')}/cache"
        answer = _response(root, path, key, method="DELETE")
        count = answer["cleared"]
        sys.stdout.write(f"{name}: cleared {count} {'page' if count == 1 else 'pages'}\n")
    return 0


def _page_models(root: str, key: str | None) -> list[str]:
    models = _response(root, "/v1/models", key)["data"]
    return [each["id"] for each in models if each["windlass"]["target"].startswith("aistudio/")]


def _response(root: str, path: str, key: str | None, *, method: str = "GET") -> dict[str, Any]:
    """The JSON answer of the gateway. Raises `ModelError` with its message."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(root + path, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_SECONDS) as answer:
            return msgspec.json.decode(answer.read(), type=dict[str, Any])
    except urllib.error.HTTPError as error:
        try:
            message: str = msgspec.json.decode(error.read())["error"]["message"]
        except (msgspec.DecodeError, LookupError, TypeError):
            message = error.reason
        raise ModelError(f"{root}{path}: {message}", status=error.code) from None
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(
            f"cannot reach a gateway at {root}: {error}; start it with `windlass serve`, or name"
            " another with --url"
        ) from None
