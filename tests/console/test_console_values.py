"""Results of any size and kind: a part on the page, and all of it for download."""

import asyncio

from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER

pytestmark = IN_ONE_BROWSER

TWO_MEGABYTES = 2_000_000
FIRST_SHOWN = 20_000
MOST_SHOWN = 160_000
DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""An image of one pixel."""


async def called(page: Page, **given: str) -> None:
    for name, value in given.items():
        await page.get_by_label(name).fill(value)
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.locator("[data-outcome=ok]").first).to_be_visible()


async def test_two_megabytes_are_never_in_the_page_as_a_whole(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/read_log")
    await called(page, size=str(TWO_MEGABYTES))
    shown = page.locator(".tools-result pre")
    assert len(await shown.inner_text()) == FIRST_SHOWN
    await expect(page.get_by_text("20 kB of 2.0 MB shown.")).to_be_visible()

    more = page.get_by_role("button", name="Show more")
    await more.click()
    assert len(await shown.inner_text()) == 2 * FIRST_SHOWN
    while await more.count():
        await more.click()
    assert len(await shown.inner_text()) == MOST_SHOWN
    await expect(page.get_by_text("Download it to see the rest.")).to_be_visible()
    assert await page.evaluate("() => document.body.textContent.length") < MOST_SHOWN + 20_000


async def test_all_of_a_value_can_be_downloaded_and_copied(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/read_log")
    await called(page, size=str(TWO_MEGABYTES))
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download Result").click()
    download = await downloading.value
    assert download.suggested_filename == "result.txt"
    path = await download.path()
    assert await asyncio.to_thread(lambda: path.stat().st_size) == TWO_MEGABYTES

    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy Result").click()
    await expect(page.get_by_text("Copied").last).to_be_visible()
    copied = await page.evaluate("async () => (await navigator.clipboard.readText()).length")
    assert copied == TWO_MEGABYTES


async def test_json_is_shown_in_lines_and_text_as_it_is(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/get_weather")
    await called(page, city="Rome")
    shown = page.locator(".tools-result pre")
    assert await shown.inner_text() == '{\n  "city": "Rome",\n  "sky": "sunny",\n  "degrees": 21\n}'

    await stage.goto(page, "/tools/quote")
    await called(page, text="<b>two</b>\n  lines")
    assert await shown.inner_text() == "<b>two</b>\n  lines"


async def test_an_image_is_shown_as_one(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/quote")
    await called(page, text=f"data:image/png;base64,{DOT}")
    image = page.get_by_role("img", name="Image (image/png)")
    await expect(image.first).to_be_visible()
    assert await image.first.evaluate("image => image.naturalWidth") == 1


async def test_copying_works_where_browsers_keep_the_clipboard_to_themselves(
    stage_of: StageOf,
) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/quote")
    await called(page, text="taken")
    await page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await page.evaluate(
        "() => document.addEventListener('copy', () => { window.taken = String(getSelection()) })"
    )
    await page.get_by_role("button", name="Copy Result").click()
    await expect(page.get_by_text("Copied").last).to_be_visible()
    assert await page.evaluate("() => window.taken") == "taken"
