"""The pictures of the documentation: one short conversation, with any model."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Page, ViewportSize, expect
from tests.console.stage import DESK, PHONE, Stage, ask, card
from tests.console.toolbox import Toolbox

from windlass import Tool, ToolContext, tool
from windlass.testing import call, calls, say

__all__ = ["EXAMPLES", "NAMES", "SCRIPT", "TOOLS", "photographed", "show_tools"]

NAMES = ("empty", "live", "approval", "chat", "runs", "tool", "phone")
TOOLS = ("forecast", "book_hotel")
WEATHER = "What is the forecast for Paris and for Tokyo?"
HOTEL = "Book a hotel in Tokyo for 2 nights."
EXAMPLES = (WEATHER, HOTEL, "How warm is it in Oslo?", "What can you do?")
SCRIPT = [
    calls(call("forecast", city="Paris"), call("forecast", city="Tokyo")),
    say("It will **rain** in Paris, at 14 degrees. In Tokyo it will be **clear**, at 21 degrees."),
    call("book_hotel", city="Tokyo", nights=2),
    say("The hotel in Tokyo is booked for two nights. Your booking is `TOK-2`."),
]
LOW: ViewportSize = {"width": DESK["width"], "height": 620}
Pause = Callable[[float], Awaitable[None]]


def show_tools(box: Toolbox) -> list[Tool]:
    """Tools that look well: the forecast of a city is held at the city."""

    @tool(idempotent=True)
    async def forecast(city: str, context: ToolContext) -> dict[str, Any]:
        """The weather forecast for a city.

        Args:
            city: The city's name, such as Paris.
        """
        context.progress(0.6, f"asking the weather station of {city}")
        await box.at(city)
        rains = city == "Paris"
        return {"city": city, "sky": "rain" if rains else "clear", "degrees": 14 if rains else 21}

    @tool(approve=True)
    async def book_hotel(city: str, nights: int = 1) -> dict[str, Any]:
        """Books a hotel. It costs money, so a person is asked first.

        Args:
            city: Where the hotel is.
            nights: For how many nights.
        """
        await box.at(f"hotel in {city}")
        return {"booking": f"{city[:3].upper()}-{nights}", "city": city, "nights": nights}

    return [forecast, book_hotel]


async def photographed(stage: Stage, folder: Path, *, seconds: float, pause: Pause) -> None:
    """Holds the conversation and takes the pictures; a model has this many seconds to answer."""

    async def shot(page: Page, name: str) -> None:
        await page.screenshot(path=folder / f"console-{name}.png", animations="disabled")

    async def answered(page: Page, runs: int) -> None:
        ended = page.locator('.run[data-reason="answer"]')
        await expect(ended).to_have_count(runs, timeout=1000 * seconds)

    paris, tokyo = stage.tools.hold("Paris"), stage.tools.hold("Tokyo")
    hotel = stage.tools.hold("hotel in Tokyo")
    page = await stage.open("/")
    await expect(page.get_by_role("button", name=WEATHER)).to_be_visible()
    await expect(page.locator(".preparation")).to_have_count(0, timeout=1000 * seconds)
    await shot(page, "empty")
    await ask(page, WEATHER)
    async with asyncio.timeout(seconds):
        await paris.reached.wait()
        await tokyo.reached.wait()
    running = page.locator('.card[data-tool="forecast"][data-state="running"]')
    await expect(running).to_have_count(2)
    await pause(3)
    await shot(page, "live")
    for scheme in ("dark", "light"):
        await page.emulate_media(color_scheme=scheme)
        await page.screenshot(path=folder / f"readme-{scheme}.png", animations="disabled")
    paris.open()
    await pause(6)
    tokyo.open()
    await answered(page, 1)

    await ask(page, HOTEL)
    booking = card(page, "book_hotel")
    await expect(booking).to_have_attribute(
        "data-state", "approval-requested", timeout=1000 * seconds
    )
    await pause(3)
    await shot(page, "approval")
    await booking.get_by_role("button", name="Approve").click()
    await pause(4)
    hotel.open()
    await answered(page, 2)
    await shot(page, "chat")
    chat = page.url

    await page.set_viewport_size(LOW)
    await stage.goto(page, "/runs")
    await expect(page.get_by_role("link", name=HOTEL)).to_be_visible()
    await shot(page, "runs")

    await page.set_viewport_size(DESK)
    await stage.goto(page, "/tools/forecast")
    await page.get_by_role("textbox", name="city").fill("Oslo")
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.locator(".tools-result .fields")).to_contain_text("Oslo")
    await shot(page, "tool")

    phone = await stage.open(chat, viewport=PHONE, color_scheme="dark")
    await answered(phone, 2)
    await shot(phone, "phone")
