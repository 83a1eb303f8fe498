"""`ChatPage`: one page of AI Studio with a chat, and the actions of a user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from windlass.errors import ModelError, StreamCut
from windlass.models.aistudio.elements import (
    REPORT,
    START,
    STOP,
    Elements,
    names_for_observer,
    page_failed,
)
from windlass.models.aistudio.functions import FunctionController
from windlass.models.aistudio.selectors import selectors_of
from windlass.models.aistudio.turn import Snapshot, snapshot_of

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Page


_LOAD_SECONDS = 30.0


class Watch:
    """The observer's reports of one turn, in order."""

    def __init__(self) -> None:
        self._reports: asyncio.Queue[Snapshot | None] = asyncio.Queue()

    def put(self, snapshot: Snapshot | None) -> None:
        self._reports.put_nowait(snapshot)

    async def next(self, seconds: float) -> Snapshot | None:
        """The next report; None after a timeout. Raises `StreamCut` if the page was closed."""
        try:
            async with asyncio.timeout(seconds):
                report = await self._reports.get()
        except TimeoutError:
            return None
        if report is None:
            raise StreamCut("the page of AI Studio was closed")
        return report


class ChatPage:
    """The actions of a chat. Each raises `ModelError` if the page does not react in time."""

    def __init__(self, page: Page, url: str, timeout_ms: float) -> None:
        self.page = page
        self.elements = Elements(page, timeout_ms)
        self.functions = FunctionController(self.elements)
        self.model: str | None = None
        self.is_new = False
        """Whether the chat is empty."""
        self.url = url
        self._number = 0
        self._watch: Watch | None = None

    async def prepare(self) -> None:
        """Installs the observer's report function. Call it once, before the first `open`."""
        await self.page.expose_binding(REPORT, self._received)  # pyright: ignore[reportUnknownMemberType]
        self.page.on("close", lambda _: self._lost())
        self.page.on("crash", lambda _: self._lost())

    async def open(self, model: str) -> None:
        """Loads the page with the model and an empty chat. Raises if it is not signed in."""
        self.model = None
        await self.load(model)
        try:
            await self.elements.find("prompt")
        except ModelError:
            await self._check_signed_in()
            raise
        await self.dismiss()
        await self._check_model(model)
        self.model, self.is_new = model, True

    async def load(self, model: str = "default") -> None:
        """Loads the page. Raises if it shows the sign-in page."""
        from playwright.async_api import Error

        try:
            await self.page.goto(
                _with_model(self.url, model), timeout=_LOAD_SECONDS * 1000, wait_until="load"
            )
        except Error as error:
            reason = error.message.splitlines()[0]
            raise page_failed(f"cannot open the page of AI Studio: {reason}") from None
        await self._check_signed_in()

    async def new_chat(self) -> None:
        """Starts an empty chat and discards the old one."""
        if self.is_new:
            return
        await self.dismiss()
        await self.elements.click("new_chat")
        if await self._asks_to_discard():
            await self.elements.click("discard")
        if not await self.elements.disappears("turn"):
            raise page_failed("the page did not start a new chat")
        self.is_new = True

    async def send(self, text: str) -> None:
        """Writes the prompt and runs it."""
        await self.dismiss()
        prompt = await self.elements.find("prompt")
        await self.elements.fill(prompt, text)
        self.is_new = False
        await self.elements.click("run_button")

    async def answer_calls(self, texts: Sequence[str]) -> None:
        """Writes one answer into the field of each of the last calls, in order."""
        await self.dismiss()
        fields = await self._answer_fields()
        if len(fields) < len(texts):
            raise page_failed("the page shows no field for the result of a call")
        # Answered fields may stay enabled: the pending ones are the last.
        for number, (field, text) in enumerate(zip(fields[-len(texts) :], texts, strict=True)):
            # The page may continue after each answer: wait until it is idle again.
            if number:
                await self.elements.disappears("generating", timeout=0)
            await self.elements.fill(field, text)
            await self._submit(field)

    async def stop(self) -> None:
        """Presses Stop if the page is generating."""
        if await self.elements.shown("generating") is not None:
            await self.elements.click("stop_button")
            await self.elements.disappears("generating")

    async def field(self, name: str) -> str | None:
        """The value of a settings field; None if the page has no such field."""
        field = await self.elements.shown(name)
        return None if field is None else await field.input_value()

    async def set_field(self, name: str, text: str) -> bool:
        """Sets a settings field; False if the page has no such field."""
        field = await self.elements.shown(name)
        if field is None:
            return False
        if await field.input_value() != text:
            await self.elements.fill(field, text)
        return True

    async def dismiss(self) -> None:
        """Closes a dialog that covers the page, with Escape or its button."""
        if await self.elements.shown("overlay") is None:
            return
        await self.page.keyboard.press("Escape")
        if await self.elements.shown("overlay") is None:
            return
        if await self.elements.shown("close_button") is not None:
            await self.elements.click("close_button")
        if not await self.elements.disappears("overlay"):
            raise page_failed("a dialog covers the page and cannot be closed")

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[Watch]:
        """The observer's reports, from now until the block ends."""
        self._number += 1
        self._watch = Watch()
        await self.page.evaluate(START, [names_for_observer(), self._number])
        try:
            yield self._watch
        finally:
            self._watch = None
            await self._unwatch()

    async def _unwatch(self) -> None:
        """Stops the observer, unless the page is closed or hangs."""
        from playwright.async_api import Error

        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self.elements.seconds):
                await self.page.evaluate(STOP)

    def _received(self, _: object, report: str) -> None:
        number, snapshot = snapshot_of(report)
        if self._watch is not None and number == self._number:
            self._watch.put(snapshot)

    def _lost(self) -> None:
        if self._watch is not None:
            self._watch.put(None)

    async def _check_signed_in(self) -> None:
        if _is_sign_in(self.page.url) or await self.elements.shown("sign_in") is not None:
            raise ModelError(
                "the browser profile is not signed in to Google AI Studio:"
                " run `windlass aistudio login` and sign in once",
                status=401,
                code="signed_out",
            )

    async def _check_model(self, model: str) -> None:
        """Raises if the page selected another model, which it does for unknown names."""
        name = await self.elements.text("model_name")
        if name and model != "default" and _plain(model) != _plain(name):
            raise ModelError(
                f"AI Studio has no model {model!r} for this account: it selected {name!r};"
                " use aistudio/default for the model that the page selects",
                status=404,
                code="model_not_found",
            )

    async def _asks_to_discard(self) -> bool:
        """Whether the page asks to discard the chat, or has already discarded it."""
        turns = ", ".join(selectors_of("turn"))
        either = ", ".join((*selectors_of("discard"), f"body:not(:has({turns}))"))
        if not await self.elements.appears(self.page.locator(either).first):
            raise page_failed("the page did not start a new chat")
        return await self.elements.shown("discard") is not None

    async def _answer_fields(self) -> list[ElementHandle]:
        for selector in selectors_of("call_answer"):
            if fields := await self.page.query_selector_all(selector):
                return fields
        return []

    async def _submit(self, field: ElementHandle) -> None:
        """Presses the button beside the field, or Enter if there is none."""
        form = await field.query_selector("xpath=ancestor::form")
        for selector in selectors_of("call_send"):
            if form is not None and (button := await form.query_selector(selector)):
                await button.click(timeout=self.elements.timeout)
                return
        await field.press("Enter", timeout=self.elements.timeout)


def _with_model(url: str, model: str) -> str:
    if model == "default":
        return url
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query) if pair[0] != "model"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("model", model)])))


def _is_sign_in(url: str) -> bool:
    parts = urlsplit(url)
    return parts.hostname == "accounts.google.com" or "/signin" in parts.path


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("models/"))
