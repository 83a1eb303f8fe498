"""Eleven states of the page, on a desk, on a phone and in the dark, as pictures to look at.

The pictures are in `build/screens`, which is not committed.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.pictures import show_tools
from tests.console.stage import DESK, IN_ONE_BROWSER, PHONE, Stage, ask, card, ended

from windlass.testing import ScriptedModel, call, calls, refuse, say

pytestmark = [
    IN_ONE_BROWSER,
    pytest.mark.whole("the tests of each state, which take no pictures"),
]

FOLDER = Path(__file__).parent.parent.parent / "build" / "screens"
EXAMPLES = (
    "What is the forecast for Paris and for Tokyo?",
    "Book a hotel in Tokyo.",
    "Convert 21 degrees Celsius to Fahrenheit.",
    "What time is it in Lima?",
)
ANSWER = """It will **rain** in Paris, at 14 degrees. In Tokyo it will be **clear**, at 21 degrees.

| City | Sky | Degrees |
|---|---|---:|
| Paris | rain | 14 |
| Tokyo | clear | 21 |

The mean is $\\bar{t} = \\frac{14 + 21}{2} = 17.5$ degrees[^1]. In Python:

```python
def mean(values: list[float]) -> float:
    # The sum, divided by the number of values.
    return sum(values) / len(values)
```

[^1]: Of the two cities, without weights.
"""
SCRIPT = [
    calls(call("forecast", city="Paris"), call("forecast", city="Tokyo")),
    say(ANSWER),
    call("book_hotel", city="Tokyo"),
    say("The hotel in Tokyo is booked for one night. Your booking is `TOK-1`."),
    refuse(503, "The model is overloaded."),
]
TITLES = (
    "Plan a week in Japan with a small budget",
    "Translate the letter to Ms Bianchi",
    "Why is the sky blue at noon and red at dusk?",
)


async def prepared(stage: Stage) -> None:
    """Some chats from earlier, which were asked without the page."""
    async with httpx2.AsyncClient(base_url=stage.origin, trust_env=False) as client:
        for number, title in enumerate(TITLES):
            messages = [{"role": "user", "content": title}]
            body = {"model": "plain", "chat_id": f"old{number}", "messages": messages}
            answer = await client.post("/v1/chat/completions", json=body)
            assert answer.is_success


Looks = dict[str, Literal["light", "dark"]]
Shot = Callable[[str], Awaitable[None]]


@pytest.mark.parametrize(
    ("options", "looks"),
    [
        ({"viewport": DESK}, {"dark": "dark", "desk": "light"}),
        ({"viewport": PHONE, "has_touch": True, "is_mobile": True}, {"phone": "light"}),
    ],
    ids=["desk", "phone"],
)
async def test_the_states_of_the_page_can_be_looked_at(
    stage_of: StageOf, options: dict[str, Any], looks: Looks
) -> None:
    stage = await stage_of(
        speaker=ScriptedModel(SCRIPT, "local/qwen"),
        name="qwen",
        target="local/qwen",
        tools=("forecast", "book_hotel"),
        shown=show_tools,
        extra={"plain": lambda _: "Certainly."},
        examples=EXAMPLES,
    )
    await prepared(stage)
    page = await stage.open("/", **options)
    FOLDER.mkdir(parents=True, exist_ok=True)
    taken: list[str] = []

    async def shot(name: str) -> None:
        taken.append(name)
        for look, scheme in looks.items():
            await page.emulate_media(color_scheme=scheme)
            path = FOLDER / f"{len(taken):02}-{name}-{look}.png"
            await page.screenshot(path=path, animations="disabled")

    await _chat(stage, page, shot)
    await _other_pages(stage, page, shot)
    assert len(taken) == 11


async def _chat(stage: Stage, page: Page, shot: Shot) -> None:
    paris, tokyo = stage.tools.hold("Paris"), stage.tools.hold("Tokyo")
    await expect(page.get_by_role("button", name=EXAMPLES[0])).to_be_visible()
    await shot("empty")
    await page.get_by_role("button", name=EXAMPLES[0]).click()
    await paris.reached.wait()
    await tokyo.reached.wait()
    await expect(page.locator('.card[data-state="running"]')).to_have_count(2)
    await shot("streaming")
    paris.open()
    tokyo.open()
    await ended(page)
    await shot("answer")
    await page.locator(".toolfold > summary").click()
    await expect(card(page, "forecast").first).to_be_visible()
    await page.locator(".turn").first.evaluate("turn => turn.scrollIntoView()")
    await shot("tools-open")

    await ask(page, EXAMPLES[1])
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await expect(page.locator(".fields")).to_contain_text("nights")
    await expect(page.locator(".approval-keys")).to_have_attribute("data-ready", "true")
    await shot("approval")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator('.run[data-reason="answer"]')).to_have_count(2)
    await ask(page, "And now?")
    await ended(page, "error")
    await shot("error")

    await page.keyboard.press("Control+k")
    await page.get_by_role("searchbox", name="Search chats").fill("certainly")
    await expect(page.locator(".chats-match").first).to_be_visible()
    await shot("chats")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")


async def _other_pages(stage: Stage, page: Page, shot: Shot) -> None:
    for name, path, shown in (
        ("runs", "/runs", ".chart"),
        ("run", None, ".wf-row"),
        ("tool", "/tools/forecast", ".tools-call"),
    ):
        if path:
            await stage.goto(page, path)
        else:
            await page.get_by_role("link", name=EXAMPLES[0]).click()
        await expect(page.locator(shown).first).to_be_visible()
        if name == "run":
            await page.locator("main").evaluate("main => main.scrollTo(0, main.scrollHeight)")
        await shot(name)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await shot("help")
