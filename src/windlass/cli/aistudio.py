"""`windlass aistudio`: sign in once, and see whether the page is still as Windlass knows it."""

import argparse
import asyncio
import os
import sys
from typing import Any

import msgspec

from windlass.cli.output import own_stdout, table
from windlass.models.aistudio.browser import Browser
from windlass.models.aistudio.config import BrowserConfig, browser_config, check_playwright
from windlass.models.aistudio.doctor import Finding, examine
from windlass.models.aistudio.model import PageSource
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.selectors import VERSION, selectors_of
from windlass.settings import function_calling_settings

DESCRIPTION = """\
`windlass aistudio login` opens the browser with a profile of its own, and you sign in by hand:
Windlass never sees a password. `windlass aistudio doctor` opens the page and says which of its
parts are found, by which selector, and which are not: what to run when the page has changed."""

EPILOG = """\
examples:
  windlass aistudio login
  windlass aistudio doctor
  windlass aistudio doctor --ask      # also has the model call a function: costs one request

The exit code of doctor is 0 if everything is found, 1 if something is missing. Where the page, the
browser and the profile are: WINDLASS_AISTUDIO_URL, _BROWSER, _PROFILE (see docs/aistudio.md)."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    _action(actions, "login", "sign in by hand, in a window", "windlass aistudio login")
    doctor = _action(
        actions, "doctor", "check each selector against the page", "windlass aistudio doctor --ask"
    )
    doctor.add_argument("--url", help="the page (default: WINDLASS_AISTUDIO_URL, or AI Studio)")
    doctor.add_argument("--ask", action="store_true", help="also have the model call a function")
    doctor.add_argument("--json", action="store_true", help="write a JSON list")


def _action(actions: Any, name: str, said: str, example: str) -> argparse.ArgumentParser:
    return actions.add_parser(
        name,
        help=said,
        epilog=f"examples:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` if there is no browser, `ModelError` if the page cannot be opened."""
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
            output.text(f"{_listed(findings)}\n{_conclusion(missing)}\n")
    return 1 if missing else 0


async def sign_in(browser: PageSource, url: str) -> int:
    """Waits until the page of AI Studio is there, or the window is closed; the exit code."""
    try:
        page = await browser.new_page()
        sys.stderr.write("Sign in to Google AI Studio in the window that has opened.\n")
        page.set_default_timeout(0)
        arrived = asyncio.ensure_future(_arrived(ChatPage(page, url, 0)))
        closed = asyncio.ensure_future(page.wait_for_event("close", timeout=0))
        done, _ = await asyncio.wait((arrived, closed), return_when=asyncio.FIRST_COMPLETED)
        for task in (arrived, closed):
            task.cancel()
        await asyncio.gather(arrived, closed, return_exceptions=True)
        if arrived not in done or arrived.exception() is not None:
            sys.stderr.write("The window was closed before you were signed in.\n")
            return 1
        sys.stderr.write("Signed in: aistudio/ can be used now.\n")
        return 0
    finally:
        await browser.aclose()


async def _arrived(chat: ChatPage) -> None:
    prompt = ", ".join(selectors_of("prompt"))
    await chat.page.goto(chat.url)
    await chat.page.locator(prompt).first.wait_for()


async def diagnose(browser: PageSource, config: BrowserConfig, *, ask: bool) -> list[Finding]:
    """What is found on the page. The browser is closed afterwards."""
    try:
        timeout = function_calling_settings(os.environ).ui_timeout_ms
        chat = ChatPage(await browser.new_page(), config.url, timeout)
        await chat.prepare()
        return await examine(chat, ask=ask)
    finally:
        await browser.aclose()


def _listed(findings: list[Finding]) -> str:
    rows = [(finding.state, finding.element, finding.selector or "") for finding in findings]
    return table(("state", "element", "found by"), rows)


def _conclusion(missing: list[str]) -> str:
    if not missing:
        return f"The page is as Windlass knows it (selectors of {VERSION})."
    return (
        f"Missing: {', '.join(missing)}. The page has changed since {VERSION}: native function"
        " calling may fail there; mode='emulated' needs only the prompt, the run button and turns."
    )
