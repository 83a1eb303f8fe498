"""`ChatPage`: one page of AI Studio with a chat, and the actions of a user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from windlass.content import InlineData
from windlass.errors import ModelError, StreamCut
from windlass.models.aistudio.elements import REPORT, Elements, missing, page_failed
from windlass.models.aistudio.functions import FunctionController
from windlass.models.aistudio.selectors import selectors_of
from windlass.models.aistudio.turn import Snapshot, snapshot_of

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, FilePayload, Page


_LOAD_SECONDS = 30.0
_SETTLED_MS = 150
_TAKEN_MS = 2000.0
_UPLOAD_SECONDS = 60.0
_ATTACHED = "(page) => page.all('attachment', document).filter(page.isVisible).length"


class TurnWatch:
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
        self._watch: TurnWatch | None = None

    async def prepare(self) -> None:
        """Installs the observer's report function. Call it once, before the first `open`."""
        await self.page.expose_binding(REPORT, self._received)  # pyright: ignore[reportUnknownMemberType]
        self.page.on("close", lambda _: self._lost())
        self.page.on("crash", lambda _: self._lost())

    async def open(self, model: str) -> None:
        """Loads the page with the model and an empty chat. Raises if it is not signed in."""
        self.model = None
        await self.load(model)
        await self.wait_until_ready()
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

    async def wait_until_ready(self) -> None:
        """Waits until the page shows its prompt and has stopped changing.

        Raises `ModelError` if it shows none, or the sign-in page.
        """
        try:
            await self.elements.find("prompt")
        except ModelError:
            await self._check_signed_in()
            raise
        # A page that is made on a server is drawn before its buttons work, and then drawn again.
        await self.elements.run(
            "(page, [quiet, limit]) => page.settled(quiet, limit)",
            [_SETTLED_MS, self.elements.timeout],
        )

    async def new_chat(self) -> None:
        """Starts an empty chat and discards the old one."""
        if self.is_new:
            return
        await self.dismiss()
        await self.elements.click("new_chat")
        await self._confirm_discard()
        self.is_new = True

    async def send(self, text: str, images: Sequence[InlineData] = ()) -> None:
        """Writes the prompt, attaches the images, and runs it.

        Raises `ModelError` if the page does not take the prompt.
        """
        await self.dismiss()
        if images:
            await self._attach(images)
        self.is_new = False
        deadline = asyncio.get_running_loop().time() + self.elements.seconds
        while True:
            prompt = await self.elements.find("prompt")
            await self.elements.fill(prompt, text, "prompt")
            await self.elements.run("(page) => page.still(() => page.noteIdle())")
            await self.elements.click("run_button")
            # A page that is not ready yet ignores the click, and may empty the field.
            if await self._is_taken(prompt, text):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise page_failed(
                    "the page does not run the prompt: the element 'run_button'"
                    f" ({await self._found_by('run_button')}) has no effect"
                )

    async def answer_calls(self, texts: Sequence[str], known: Sequence[str]) -> None:
        """Writes one answer into the field of each of the last calls, in order."""
        await self.dismiss()
        for number, text in enumerate(texts):
            # The page may continue after each answer, and draws its turns again: wait until it is
            # idle, and look for the fields each time.
            if number:
                await self.elements.is_idle()
            fields = await self.elements.elements(
                "(page, [known, count]) => page.answerFields(known, count)",
                [list(known), len(texts)],
            )
            if len(fields) < len(texts) or fields[number] is None:
                raise page_failed(
                    f"the page shows no field for the result of a call: {missing('call_answer')}"
                )
            field = fields[number]
            assert field is not None
            await self.elements.uncover(field)
            await self.elements.fill(field, text, "call_answer")
            await self._submit(field)

    async def stop(self) -> None:
        """Presses Stop if the page is generating."""
        if await self.elements.is_shown("stop_button"):
            await self.elements.click("stop_button")
            await self.elements.disappears("stop_button")

    async def field(self, name: str) -> str | None:
        """The value of a settings field; None if the page has no such field."""
        field = await self.elements.shown(name)
        return None if field is None else await self.elements.value(field)

    async def set_field(self, name: str, text: str) -> bool:
        """Sets a settings field; False if the page has no such field."""
        field = await self.elements.shown(name)
        if field is None:
            return False
        if await self.elements.value(field) != text:
            await self.elements.fill(field, text, name)
        return True

    async def dismiss(self) -> None:
        """Closes a dialog or a banner that covers the prompt.

        Raises `ModelError`, which names it, if it cannot be closed.
        """
        prompt = await self.elements.shown("prompt")
        if prompt is not None:
            await self.elements.uncover(prompt)

    @asynccontextmanager
    async def watch(
        self, given: Sequence[str] = (), known: Sequence[str] = (), *, is_prompt: bool = True
    ) -> AsyncGenerator[TurnWatch]:
        """The observer's reports, from now until the block ends.

        `given` is the prompt that is about to be sent, or the results; `known` are the functions.
        """
        self._number += 1
        self._watch = TurnWatch()
        await self.elements.run(
            "(page, options) => page.watch(options)",
            {
                "number": self._number,
                "given": list(given),
                "known": list(known),
                "isPrompt": is_prompt,
            },
        )
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
                await self.page.evaluate("() => window.windlassPage?.unwatch()")

    def _received(self, _: object, report: str) -> None:
        number, snapshot = snapshot_of(report)
        if self._watch is not None and number == self._number:
            self._watch.put(snapshot)

    def _lost(self) -> None:
        if self._watch is not None:
            self._watch.put(None)

    async def _check_signed_in(self) -> None:
        if _is_sign_in(self.page.url) or await self.elements.is_shown("sign_in"):
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

    async def _confirm_discard(self) -> None:
        """Confirms that the chat is discarded, if the page asks. Raises if the chat stays."""
        for _ in range(2):
            how: str = await self.elements.run(
                "(page, limit) => page.discarded(limit)", self.elements.timeout
            )
            if how == "empty":
                return
            if how == "asks":
                await self.elements.click("discard")
        raise page_failed(
            "the page did not start a new chat: it still shows the element 'turn'"
            f" ({selectors_of('turn')[0]})"
        )

    async def _is_taken(self, field: ElementHandle, text: str) -> bool:
        """Whether the page has taken the prompt: it is busy, or the field no longer has the text.

        The page may need a moment for it.
        """
        return await self.elements.run(
            "(page, [field, text, limit]) => page.taken(field, text, limit)",
            [field, text, min(_TAKEN_MS, self.elements.timeout / 2)],
        )

    async def _found_by(self, name: str) -> str:
        found = await self.elements.found(name)
        return "; ".join(found.ways) if found else "not found"

    async def _attach(self, images: Sequence[InlineData]) -> None:
        """Uploads the images by the page's own menu, and waits until it shows all of them."""
        files: list[FilePayload] = [
            {
                "name": f"image-{number}.{image.mime_type.partition('/')[2].partition('+')[0]}",
                "mimeType": image.mime_type,
                "buffer": image.data,
            }
            for number, image in enumerate(images, 1)
        ]
        before: int = await self.elements.run(_ATTACHED)
        await self.elements.click("attach_button")
        if not await self.elements.appears("file_input"):
            await self._check_consent()
            raise page_failed(missing("file_input", await self.elements.why_missing("file_input")))
        field = await self.elements.find("file_input")
        async with self.elements.no_driver_errors("the page does not take the images"):
            await field.set_input_files(files, timeout=self.elements.timeout)
            await self.page.keyboard.press("Escape")  # the menu may stay open
        wanted = before + len(files)
        deadline = asyncio.get_running_loop().time() + _UPLOAD_SECONDS
        while await self.elements.run(_ATTACHED) < wanted or await self.elements.is_shown(
            "uploading"
        ):
            await self._check_consent()
            if problem := await self.elements.text("toast"):
                raise page_failed(f"the page does not take the images: {problem}")
            if asyncio.get_running_loop().time() > deadline:
                raise page_failed(
                    f"the page has not uploaded the images in {_UPLOAD_SECONDS:g} seconds:"
                    f" {missing('attachment')}"
                )
            await asyncio.sleep(0.1)

    async def _check_consent(self) -> None:
        """Raises if the page asks for an agreement, which only the user can give."""
        asks: bool = await self.elements.run(
            "(page) => page.allBy('button[aria-label*=\"copyright\" i]', document)"
            ".some(page.isVisible)"
        )
        if asks:
            raise page_failed(
                "the page asks to agree to its terms for uploads: open it once with"
                " WINDLASS_AISTUDIO_HEADLESS=false, attach an image, and answer manually",
                retryable=False,
            )

    async def _submit(self, field: ElementHandle) -> None:
        """Presses the button beside the field, or Enter if there is none."""
        form = await field.query_selector("xpath=ancestor::form")
        async with self.elements.no_driver_errors("the page does not take the result of a call"):
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
