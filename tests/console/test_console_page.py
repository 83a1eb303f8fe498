"""The page loads quickly, and every address shows its content."""

from playwright.async_api import Request, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER

pytestmark = IN_ONE_BROWSER

MAX_SENT = 90_000
"""Bytes of the whole page, compressed."""


async def test_every_address_shows_its_page(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    page = await stage.open("/")
    pages = page.get_by_role("navigation", name="Pages")
    await expect(pages.get_by_role("link")).to_have_text(["Chat", "Runs", "Tools"])
    for path, here in [("/runs", "Runs"), ("/tools", "Tools"), ("/replay", "Runs"), ("/", "Chat")]:
        await stage.goto(page, path)
        await expect(pages.locator("[aria-current=page]")).to_have_text(here)


async def test_the_page_is_there_after_four_small_files(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    context = await stage.context()
    loaded: list[Request] = []
    context.on("requestfinished", lambda request: loaded.append(request))
    page = await stage.open("/", context=context)
    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    files = [request for request in loaded if "/v1/" not in request.url]
    sizes = {file.url: (await file.sizes())["responseBodySize"] for file in files}
    paints = (
        "() => performance.getEntriesByType('paint').map((each) => [each.name, each.startTime])"
    )
    print(sizes, await page.evaluate(paints))  # with -s, for docs/internals/console.md
    assert len(sizes) <= 4, sizes
    assert 0 < sum(sizes.values()) < MAX_SENT, sizes
