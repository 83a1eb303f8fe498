"""The console in real Chromium, on a real gateway with a scripted model.

A module that uses it says `pytestmark = IN_ONE_BROWSER`. Its tests take the fixture `stage_of`:

    stage = await stage_of([call("get_weather", city="Rome"), "Sunny."])
    rome = stage.tools.hold("Rome")         # the tool waits until `rome.open()`
    run_id = await stage.start("Weather?")  # without the page
    page = await stage.open(f"/runs/{run_id}")
    await expect(card(page, "get_weather")).to_have_attribute("data-state", "running")

At the end of a test, anything that went wrong in its pages fails it: an error in the console, a
violation of the Content-Security-Policy, a request to another origin.
`stage.watch.expects(pattern)` allows problems that belong to
the test.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect
from tests.console.toolbox import Toolbox
from tests.console.watching import REPORT_VIOLATIONS, Watch
from tests.support.serving import Serving, config_of
from tests.support.talking import asking

from windlass.gateway.config import KeyConfig, ModelConfig, RunsConfig, ServerConfig
from windlass.model import Model, ModelRequest
from windlass.testing import Script, ScriptedModel

__all__ = [
    "DESK",
    "IN_ONE_BROWSER",
    "MODEL",
    "PHONE",
    "Pages",
    "SharedContexts",
    "Stage",
    "ask",
    "card",
    "ended",
    "state_of",
]

IN_ONE_BROWSER = pytest.mark.asyncio(loop_scope="session")
MODEL = "scripted"
PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1280, "height": 800}
PATIENCE = 60_000
"""Milliseconds to wait for the page: long enough for a busy machine."""

expect.set_options(timeout=PATIENCE)


def card(page: Page, tool: str) -> Locator:
    """The cards of a tool's calls."""
    return page.locator(f'.card[data-tool="{tool}"]')


async def state_of(card: Locator, state: str) -> None:
    """Waits until the card is in that state."""
    await expect(card).to_have_attribute("data-state", state)


async def ended(page: Page, reason: str = "answer") -> None:
    """Waits until the last run on the page has ended, for that reason."""
    await expect(page.locator(".run").last).to_have_attribute("data-reason", reason)


async def ask(page: Page, text: str) -> None:
    """Writes a message in the chat and sends it, by a key that every device takes."""
    message = page.get_by_role("textbox", name="Message", exact=True)
    await message.fill(text)
    await message.press("Control+Enter")


async def new_context(browser: Browser, **options: Any) -> BrowserContext:
    context = await browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
    context.set_default_timeout(PATIENCE)
    await context.add_init_script(REPORT_VIOLATIONS)
    return context


class SharedContexts:
    """Browser contexts for one test after another, at a third less CPU time than new ones.

    The process of a context's pages stays, because a page without any script stays open. The tests
    have different origins, so no test finds data that another has stored.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._free: dict[str, list[BrowserContext]] = {}
        """The contexts that are not lent, by their options."""
        self._seen: dict[BrowserContext, set[str]] = {}
        """The origins whose pages were open in a context."""

    async def lend(self, origin: str, **options: Any) -> BrowserContext:
        """A context with these options that has seen no page of the origin."""
        free = self._free.setdefault(str(sorted(options.items())), [])
        context = next((each for each in free if origin not in self._seen[each]), None)
        if context is None:
            context = await new_context(self.browser, **options)
            await (await context.new_page()).goto(f"{origin}/health/live")
            self._seen[context] = set()
        else:
            free.remove(context)
        self._seen[context].add(origin)
        return context

    async def take_back(self, context: BrowserContext, **options: Any) -> None:
        """Closes the pages of a test, and ends its changes to the context."""
        for page in context.pages[1:]:
            await page.close()
        await context.clear_permissions()
        await context.set_offline(False)
        self._free[str(sorted(options.items()))].append(context)


class Pages:
    """The pages of one test, at one origin, under one watch."""

    def __init__(self, shared: SharedContexts, origin: str) -> None:
        self.origin = origin
        self.watch = Watch(origin)
        self._shared = shared
        self._lent: list[tuple[BrowserContext, dict[str, Any]]] = []
        self._contexts: list[BrowserContext] = []

    async def context(self, **options: Any) -> BrowserContext:
        """A new browser context without stored data; `open(path, context=...)` is a tab in it.

        A test that changes the context's clock, scripts or routes needs one.
        """
        context = await new_context(self._shared.browser, **options)
        self.watch.begin(context)
        self._contexts.append(context)
        return context

    async def open(
        self, path: str = "/", *, context: BrowserContext | None = None, **options: Any
    ) -> Page:
        """A page at that address, in another context than the test's other pages.

        `viewport=PHONE`, `color_scheme="dark"` and the like are options of that context.
        """
        if context is None:
            context = await self._shared.lend(self.origin, **options)
            self._lent.append((context, options))
            self.watch.begin(context)
        page = await context.new_page()
        await self.goto(page, path)
        return page

    async def goto(self, page: Page, path: str) -> None:
        """Opens a path of the gateway, or a whole address."""
        await page.goto(self.origin + path if path.startswith("/") else path)

    async def aclose(self) -> None:
        """Closes the pages. Raises `AssertionError` if anything was wrong with them."""
        for context in self._contexts:
            await context.close()
        for context, options in self._lent:
            await self._shared.take_back(context, **options)
            self.watch.end(context)
        assert self.watch.problems == []


class Stage(Pages):
    """A gateway in this process, so that a test can hold its tools, and the pages on it."""

    def __init__(self, shared: SharedContexts, serving: Serving, tools: Toolbox) -> None:
        super().__init__(shared, serving.root_url)
        self.serving = serving
        self.tools = tools

    @classmethod
    async def raised(
        cls,
        shared: SharedContexts,
        script: Script[ModelRequest],
        *,
        runs: Path | None,
        keys: Sequence[KeyConfig] = (),
        extra: Mapping[str, Script[ModelRequest]] | None = None,
        more_tools: Sequence[Any] = (),
        shown: Callable[[Toolbox], Sequence[Any]] = lambda _: (),
        speaker: Model | None = None,
        server: Mapping[str, Any] | None = None,
        **model: Any,
    ) -> "Stage":
        """Serves `scripted` with all the tools, and the `extra` models with none.

        There are `more_tools`, and those that are `shown` are made with the toolbox. A `speaker`
        takes the script's place. Other options are for the model's configuration.
        """
        box = Toolbox()
        tools = [*box.tools(), *more_tools, *shown(box)]
        names = tuple(tool.name for tool in tools)
        name = model.get("name", MODEL)
        served = [
            ModelConfig(**{"name": MODEL, "target": "scripted/model", "tools": names, **model})
        ]
        models: dict[str, Model] = {name: speaker or ScriptedModel(script)}
        for other, said in (extra or {}).items():
            served.append(ModelConfig(name=other, target=f"scripted/{other}"))
            models[other] = ScriptedModel(said)
        config = config_of(
            *served,
            keys=tuple(keys),
            runs=RunsConfig(path=str(runs) if runs else None),
            server=ServerConfig(**{"shutdown_timeout": 0.0, "access_log": False, **(server or {})}),
        )
        serving = Serving(config, models=models, tools=tools)
        await asyncio.to_thread(serving.__enter__)
        return cls(shared, serving, box)

    async def post(self, path: str, body: Any, key: str | None = None) -> Any:
        """Sends a request from outside the page, and returns the answer."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(base_url=self.origin, trust_env=False) as client:
            answer = await client.post(path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    async def start(self, prompt: str = "Go.", key: str | None = None, **fields: Any) -> str:
        """Starts a run from outside of the page, and returns its id."""
        return (await self.post("/v1/runs", asking(prompt, model=MODEL, **fields), key))["id"]

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            self.tools.open_all()
            await asyncio.to_thread(self.serving.__exit__)
