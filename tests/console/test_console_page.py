"""The page as such: it comes, and asks for nothing but itself."""

from playwright.async_api import expect
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER

pytestmark = IN_ONE_BROWSER


async def test_every_address_shows_its_page(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    page = await stage.open("/")
    pages = page.get_by_role("navigation", name="Pages")
    await expect(pages.get_by_role("link")).to_have_text(["Chat", "Runs", "Tools"])
    for path, here in [("/runs", "Runs"), ("/tools", "Tools"), ("/replay", "Runs"), ("/", "Chat")]:
        await page.goto(path)
        await expect(pages.locator("[aria-current=page]")).to_have_text(here)
        await axe(page)
