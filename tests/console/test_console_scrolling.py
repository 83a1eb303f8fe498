"""The page itself never scrolls, however long its content is: only the parts inside it do."""

from typing import Any

import pytest
from playwright.async_api import Page, ViewportSize, expect
from tests.console.conftest import StageOf
from tests.console.stage import DESK, IN_ONE_BROWSER, PHONE, ended

from windlass import Tool, tool
from windlass.testing import call, calls, say

pytestmark = IN_ONE_BROWSER

LOW: ViewportSize = {"width": 1280, "height": 360}
PHONES: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
SIZES: dict[str, tuple[dict[str, Any], list[ViewportSize]]] = {
    "desktop": ({}, [DESK, LOW]),
    "phone": (PHONES, [PHONE]),
}
"""How a page is opened, and the sizes that its window then has."""
ANSWER = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(40))
MANY_CALLS = calls(*(call("get_weather", city=f"City {number}") for number in range(12)))
TOO_HIGH = """() => {
  window.scrollTo(0, 1e6);
  return [document.scrollingElement.scrollHeight - innerHeight, scrollY];
}"""
MAIN_TOO_HIGH = (
    "document.querySelector('main').scrollHeight - document.querySelector('main').clientHeight"
)
# An absolutely positioned element whose container is outside of the part that scrolls around it
# stays behind when that part scrolls, and stretches whatever is further out.
STRAYS = """() => {
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowY);
  const scroller = (element) =>
    !element || scrolls(element) ? element : scroller(element.parentElement);
  return [...document.querySelectorAll("main *")]
    .filter((element) => element.offsetParent && getComputedStyle(element).position === "absolute")
    .filter((element) => scroller(element.parentElement)?.contains(element.offsetParent) === false)
    .map((element) => `${element.tagName}.${element.className}`);
}"""


PLACE_AFTER_LAYOUT = """(talk) => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(talk.scrollTop))))"""
IS_UNCOVERED = """(box) => {
  const { x, y, width } = box.getBoundingClientRect();
  return box.contains(document.elementFromPoint(x + width / 2, y + 1));
}"""


async def stays_in_place(page: Page) -> None:
    """The document is no higher than the window, and cannot be scrolled."""
    assert await page.evaluate(TOO_HIGH) == [0, 0]
    assert await page.evaluate(STRAYS) == []


async def resize(page: Page, window: ViewportSize) -> None:
    """Gives the window another size. Chromium lays the page out anew a few pictures later."""
    if page.viewport_size != window:
        await page.set_viewport_size(window)
        await page.wait_for_function(
            "height => [innerHeight, document.scrollingElement.scrollHeight].every("
            "each => each === height)",
            arg=window["height"],
        )


async def send(page: Page, text: str) -> None:
    """Writes a message and presses the button, which waits until the models are known."""
    await page.get_by_role("textbox", name="Message", exact=True).fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


def numbered_tool(number: int) -> Tool:
    @tool(name=f"tool_{number}")
    def numbered(city: str) -> str:
        """Does something with a city."""
        return city

    return numbered


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_chat_scrolls_inside_the_page(stage_of: StageOf, size: str) -> None:
    stage = await stage_of([MANY_CALLS, *(say(ANSWER) for _ in range(3))])
    options, sizes = SIZES[size]
    page = await stage.open("/", **options)
    message = page.get_by_role("textbox", name="Message", exact=True)
    for number in range(3):
        await send(page, f"Question {number}")
        await expect(page.locator(".turn")).to_have_count(number + 1)
        await ended(page)
    for again in (False, True):
        if again:  # the chat as it is read from the log
            await page.reload()
            await expect(page.locator(".turn")).to_have_count(3)
            await ended(page)
        talk = page.locator(".talk")
        for window in sizes:
            await resize(page, window)
            assert await talk.evaluate("talk => talk.scrollHeight > 2 * talk.clientHeight")
            for place in (0, 1e6):
                await talk.evaluate("(talk, place) => talk.scrollTo(0, place)", place)
                await stays_in_place(page)
                assert await page.evaluate(MAIN_TOO_HIGH) == 0
                await expect(message).to_be_in_viewport(ratio=1)
                assert await page.locator(".writing").evaluate(IS_UNCOVERED)


async def test_every_other_long_page_scrolls_inside_its_frame(stage_of: StageOf) -> None:
    script = [MANY_CALLS, *(say(ANSWER) for _ in range(40))]
    stage = await stage_of(script, more_tools=[numbered_tool(number) for number in range(40)])
    run_id = await stage.start("The first question.")
    await ended(await stage.open(f"/runs/{run_id}"))
    for number in range(24):
        await stage.start(f"Question {number}.")
    pages = {
        f"/runs/{run_id}": "Paragraph 39",
        "/runs": "Question 23.",
        "/tools": "tool_39",
        "/tools/get_weather": "12 calls",
        "/replay": "Replay",
    }
    for options, sizes in SIZES.values():
        page = await stage.open("/replay", **options)
        for path, shown in pages.items():
            await stage.goto(page, path)
            await expect(page.get_by_role("main").get_by_text(shown).first).to_be_attached()
            for window in sizes:
                await resize(page, window)
                for place in (0, 1e6):
                    await page.locator("main").evaluate("(it, to) => it.scrollTo(0, to)", place)
                    await stays_in_place(page)


async def test_the_panels_of_the_chat_scroll_by_themselves(stage_of: StageOf) -> None:
    tools = [numbered_tool(number) for number in range(60)]
    examples = tuple(f"Question {number}" + ", and more of it" * 20 for number in range(4))
    stage = await stage_of([say(ANSWER)], more_tools=tools, examples=examples)
    page = await stage.open("/", **PHONES)
    await expect(page.get_by_role("link", name="All 68 tools")).to_be_attached()
    assert await page.locator(".talk").evaluate("talk => talk.scrollHeight > talk.clientHeight")
    assert await page.locator(".talk").evaluate(PLACE_AFTER_LAYOUT) == 0, "it shows its beginning"
    await send(page, "Go.")
    await ended(page)
    for panel in ("tools", "settings"):
        await page.locator(f"[data-panel={panel}]").tap()
        await stays_in_place(page)
    await page.get_by_role("button", name="Chats", exact=True).tap()
    await expect(page.get_by_role("link", name="Go.")).to_be_visible()
    await stays_in_place(page)


async def test_copying_without_a_clipboard_does_not_move_the_page(stage_of: StageOf) -> None:
    stage = await stage_of([say(f"{ANSWER}\n\n```\ncode\n```")])
    page = await stage.open("/")
    await page.evaluate(
        """() => {
          Object.defineProperty(navigator, "clipboard", { value: undefined });
          window.heights = [];
          document.execCommand = () => {
            window.heights.push(document.scrollingElement.scrollHeight - innerHeight);
            return true;
          };
        }"""
    )
    await send(page, "Go.")
    await ended(page)
    await page.get_by_role("button", name="Copy code").click()
    assert await page.evaluate("window.heights") == [0]
