"""`windlass aistudio`: signs in to the AI Studio page, and checks that Windlass can read it."""

import argparse
import asyncio
import os
import sys

import msgspec

from windlass.cli.arguments import add_action
from windlass.cli.output import own_stdout, table
from windlass.models.aistudio.browser import Browser
from windlass.models.aistudio.config import BrowserConfig, browser_config, check_playwright
from windlass.models.aistudio.doctor import Finding, examine
from windlass.models.aistudio.model import PageSource
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.selectors import VERSION, selectors_of
from windlass.settings import function_calling_settings

DESCRIPTION = """\
`windlass aistudio login` opens a browser with its own profile, and you sign in manually: Windlass
never sees your password. `windlass aistudio doctor` opens the page and shows which elements it
finds, with which selector, and which are missing. Run it when the page has changed."""

EPILOG = """\
examples:
  windlass aistudio login
  windlass aistudio doctor
  windlass aistudio doctor --ask      # also makes the model call a function: one request

The exit code of doctor is 0 if all elements are found, 1 if one is missing. WINDLASS_AISTUDIO_URL,
_BROWSER and _PROFILE set the page, the browser and the profile (see docs/aistudio.md)."""


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
        "check each selector on the page",
        "examples:\n  windlass aistudio doctor --ask",
    )
    doctor.add_argument("--url", help="the page (default: WINDLASS_AISTUDIO_URL or AI Studio)")
    doctor.add_argument("--ask", action="store_true", help="also make the model call a function")
    doctor.add_argument("--json", action="store_true", help="print a JSON list")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` without a browser, and `ModelError` if the page does not open."""
    check_playwright()
    if options.action == "login":
        config = msgspec.structs.replace(browser_config(os.environ), headless=False)
        return asyncio.run(sign_in(Browser(config), config.url))
    config = browser_config(os.environ, url=options.url)
    with own_stdout() as output:
        findings = asyncio.run(diagnose(Browser(config), config, ask=options.ask))
        missing = [finding.element for finding in findings if finding.state == "missing"]
        if options.json:
            output.json(findings)
        else:
            output.text(f"{_table(findings)}\n{_conclusion(missing)}\n")
    return 1 if missing else 0


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
    prompt = ", ".join(selectors_of("prompt"))
    await chat.page.goto(chat.url)
    await chat.page.locator(prompt).first.wait_for()


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
    rows = [(finding.state, finding.element, finding.selector or "") for finding in findings]
    return table(("state", "element", "found by"), rows)


def _conclusion(missing: list[str]) -> str:
    if not missing:
        return f"Windlass can read the page (selectors of {VERSION})."
    return (
        f"Missing: {', '.join(missing)}. The page has changed since {VERSION}: native function"
        " calling may fail; mode='emulated' needs only the prompt, the run button and turns."
    )
