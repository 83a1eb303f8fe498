"""Ten thousand events and a result of two megabytes: the page stays responsive, and its memory
does not grow with them.

How long frames take depends on the machine, so that is printed (`pytest -s`) and not judged.
"""

import json
from collections.abc import Sequence
from typing import Any

from playwright.async_api import CDPSession, Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, card, ended, state_of

from windlass.testing import Gate, call, calls, say, slow

pytestmark = IN_ONE_BROWSER

FILES = 4_000
WORDS = 6_000
"""Each file's progress and each word of the answer is an event."""
RESULT = 2_000_000
PARAGRAPH = " ".join(["word"] * 59) + " end.\n\n"
ANSWER = PARAGRAPH * (WORDS // 60)
WORK = calls(call("copy_files", count=FILES), call("read_log", size=RESULT))

MOST_ELEMENTS = 1_500
MOST_TEXT = 120_000
"""Characters in the page: those of the answer, and a preview of the result."""
MOST_GROWTH = 16_000_000
"""Bytes of JavaScript's heap beyond those of the empty page: a few times the result's own."""

WATCH_FRAMES = """() => {
  const seen = window.seen = { frames: [], tasks: [] };
  const tasks = new PerformanceObserver((list) =>
    seen.tasks.push(...list.getEntries().map((task) => task.duration)));
  tasks.observe({ type: "longtask" });
  let last = performance.now();
  const frame = (now) => {
    seen.frames.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
COUNT = """async (run) =>
  (await (await fetch(`/v1/runs/${run}/events`)).text()).match(/^event: /gm).length"""
SIZE = """() => [
  document.getElementsByTagName("*").length,
  document.body.textContent.length,
]"""


async def heap_of(page: Page) -> int:
    """Bytes of JavaScript's heap after a garbage collection."""
    session: CDPSession = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    await session.send("Performance.enable")
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    await session.detach()
    return int(next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize"))


def figures(seen: dict[str, Any], heap: int, empty: int, size: Sequence[int]) -> str:
    frames = sorted(seen["frames"])
    part = {f"p{n}": round(frames[len(frames) * n // 100], 1) for n in (50, 95, 99)}
    return json.dumps(
        {
            "frames": len(frames),
            "frame_ms": {**part, "max": round(frames[-1], 1)},
            "long_tasks": len(seen["tasks"]),
            "longest_task_ms": max(seen["tasks"], default=0),
            "heap_mb": round(heap / 1e6, 1),
            "empty_heap_mb": round(empty / 1e6, 1),
            "elements": size[0],
            "characters": size[1],
        }
    )


async def is_bounded(page: Page, empty: int) -> tuple[int, Sequence[int]]:
    heap, size = await heap_of(page), await page.evaluate(SIZE)
    assert size[0] < MOST_ELEMENTS
    assert size[1] < MOST_TEXT
    assert heap - empty < MOST_GROWTH
    return heap, size


async def test_ten_thousand_events_and_two_megabytes_leave_the_page_quick_and_small(
    stage_of: StageOf,
) -> None:
    rest = Gate()
    stage = await stage_of([WORK, slow(say(ANSWER), rest, after=WORDS * 3 // 4)])
    first = stage.tools.hold("file 1")
    page = await stage.open("/tools/quote", context=await stage.context())
    await expect(page.get_by_role("heading", name="quote")).to_be_visible()
    empty = await heap_of(page)
    run_id = await stage.start()
    await stage.goto(page, f"/runs/{run_id}")
    await state_of(card(page, "copy_files"), "running")
    await page.evaluate(WATCH_FRAMES)

    first.open()
    await rest.reached.wait()
    # The user opens a tool's result while text still arrives.
    result = card(page, "read_log").locator("details", has_text="Result")
    await result.locator("summary").click()
    await expect(result.get_by_text("line 0: nothing happened")).to_be_visible()
    await expect(page.locator(".run")).to_have_attribute("aria-busy", "true")
    rest.open()
    await ended(page)
    await expect(page.locator(".run")).to_have_attribute("aria-busy", "false")

    heap, size = await is_bounded(page, empty)
    print(f"\nwhile it came: {figures(await page.evaluate('() => seen'), heap, empty, size)}")

    await page.goto("about:blank")
    await stage.goto(page, f"/runs/{run_id}")
    await page.evaluate(WATCH_FRAMES)
    await ended(page)
    took = await page.evaluate("() => performance.now()")
    heap, size = await is_bounded(page, empty)
    print(f"when it was opened again, whole after {took:.0f} ms:", end=" ")
    print(figures(await page.evaluate("() => seen"), heap, empty, size))
    assert await page.evaluate(COUNT, run_id) > FILES + WORDS
