"""Results of any size and kind: a part on the page, and all of it for download."""

import asyncio
from typing import Any

from playwright.async_api import Page, expect
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ask, card, ended

from windlass import tool
from windlass.testing import call

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


async def test_an_object_is_shown_as_names_and_values_and_text_as_it_is(
    stage_of: StageOf,
) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/get_weather")
    await called(page, city="Rome")
    fields = page.locator(".tools-result .fields > div")
    await expect(fields).to_have_text(["cityRome", "skysunny", "degrees21"])

    await stage.goto(page, "/tools/quote")
    await called(page, text="<b>two</b>\n  lines")
    shown = page.locator(".tools-result pre")
    assert await shown.inner_text() == "<b>two</b>\n  lines"


async def test_an_object_with_objects_is_json_as_a_result_and_named_as_arguments(
    stage_of: StageOf,
) -> None:
    @tool
    def order(items: dict[str, int], name: str) -> dict[str, Any]:
        """Orders things."""
        return {"ordered": items, "by": name}

    stage = await stage_of(
        [call("order", items={"tea": 2}, name="true"), "Ordered."], more_tools=[order]
    )
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    shown = card(page, "order")
    await expect(shown.locator(".folded-preview")).to_have_text(
        ['items: {"tea":2}, name: "true"', 'ordered: {"tea":2}, by: "true"']
    )
    for label in ("Arguments", "Result"):
        await shown.get_by_text(label).click()
    # A text that looks like another value has quotes.
    await expect(shown.locator(".fields > div")).to_have_text(
        ['items{\n  "tea": 2\n}', 'name"true"']
    )
    await expect(shown.locator("pre")).to_contain_text('"tea": 2')


async def test_an_image_in_a_result_is_seen_without_opening_it(stage_of: StageOf) -> None:
    @tool
    def draw(title: str) -> dict[str, Any]:
        """Draws a chart."""
        image = {"type": "image", "mime_type": "image/png", "data": DOT}
        return {"title": title, "chart": image}

    stage = await stage_of([call("draw", title="Sales"), "Drawn."], more_tools=[draw])
    page = await stage.open("/")
    await ask(page, "Draw.")
    await ended(page)
    image = page.get_by_role("img", name="Image (image/png)")
    await expect(image).to_be_visible()
    await expect(card(page, "draw")).to_be_hidden()
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="Download image").click()
    assert (await downloading.value).suggested_filename == "image.png"
    await axe(page)
    await page.locator(".toolfold > summary").click()
    await expect(card(page, "draw").locator(".folded-preview").last).to_have_text(
        "title: Sales, chart: (image/png, 72 B, shown below)"
    )
    await expect(image).to_have_count(1)
    await expect(image).to_be_visible()


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
