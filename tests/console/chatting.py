"""Talking in the console's chat, and a model that remembers what it was asked."""

from collections.abc import Iterable, Iterator

from playwright.async_api import Locator, Page, expect

from windlass.content import Message
from windlass.model import ModelRequest
from windlass.testing import Step

__all__ = ["Listening", "answered", "ask", "message_box", "send_button", "turns"]


class Listening:
    """A script that records its requests; its last step answers all further ones."""

    def __init__(self, *steps: Step) -> None:
        self.requests: list[ModelRequest] = []
        self._steps = _endless(steps)

    def __call__(self, request: ModelRequest) -> Step:
        self.requests.append(request)
        return next(self._steps)

    @property
    def conversation(self) -> list[tuple[str, str]]:
        """The roles and texts of the model's last request."""
        return [(said.role, said.text) for said in self.messages]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self.requests[-1].messages)


def _endless(steps: Iterable[Step]) -> Iterator[Step]:
    step: Step = ""
    for step in steps:
        yield step
    while True:
        yield step


def message_box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message", exact=True)


def send_button(page: Page) -> Locator:
    return page.get_by_role("button", name="Send", exact=True)


def turns(page: Page) -> Locator:
    return page.locator(".turn")


async def ask(page: Page, text: str) -> None:
    """Writes a message and sends it."""
    await message_box(page).fill(text)
    await expect(send_button(page)).to_be_enabled()
    await message_box(page).press("Enter")


async def answered(page: Page, count: int) -> None:
    """Waits until the page has that many turns, and all have ended."""
    await expect(page.locator(".turn .run[data-reason]")).to_have_count(count)
    await expect(send_button(page)).to_be_visible()
