"""Problems that a page must never have: console errors, policy violations, requests elsewhere."""

import re
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Request, WebError

__all__ = ["REPORT_VIOLATIONS", "Watch"]

REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
OWN = ("data", "blob", "about")


class Watch:
    """Everything that went wrong in the pages of some contexts."""

    def __init__(self, origin: str) -> None:
        self.requests: list[str] = []
        """The addresses that were asked for."""
        self._origin = urlsplit(origin)
        self._problems: list[str] = []
        self._expected: list[re.Pattern[str]] = []

    def begin(self, context: BrowserContext) -> None:
        context.on("console", self._said)
        context.on("weberror", self._failed)
        context.on("request", self._asked)

    def end(self, context: BrowserContext) -> None:
        context.remove_listener("console", self._said)
        context.remove_listener("weberror", self._failed)
        context.remove_listener("request", self._asked)

    def expects(self, pattern: str) -> None:
        """Allows problems that contain this text."""
        self._expected.append(re.compile(pattern))

    @property
    def problems(self) -> list[str]:
        """The unexpected problems."""
        return [
            problem
            for problem in self._problems
            if not any(pattern.search(problem) for pattern in self._expected)
        ]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location.get("url", "")
            self._problems.append(f"console {message.type}: {message.text} ({where})")

    def _failed(self, error: WebError) -> None:
        self._problems.append(f"error in the page: {error.error}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        asked = urlsplit(request.url)
        if asked.scheme not in OWN and asked.netloc != self._origin.netloc:
            self._problems.append(f"request to another origin: {request.url}")
