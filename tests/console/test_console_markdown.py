"""What a model writes is shown as Markdown: elements that the page makes, and nothing it loads."""

from playwright.async_api import Page, expect
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ended

from windlass.testing import Gate, say, slow

pytestmark = IN_ONE_BROWSER

TEXT = """# Late orders

I found **20** of them, *late*, ~~19~~ in `orders.db`. AT&amp;T &#33;
See [the handbook](https://example.org/handbook), a@example.org or [this](javascript:alert(1)).

#### Steps
1. Write
   - kindly
2. Look

- [x] done
- [ ] to do

| Order | Amount |
|---|--:|
| 1000 | **12** |

> Late is late.

```python
print("<b>")
```

![a chart](https://example.org/chart.png)

<div onclick="alert(1)">raw</div>
"""

NESTED = """1. First

   ```sh
   ls -l
   ```

   - a [link](https://example.org/a_(b)) in a list
     > quoted **text *with* emphasis**
2. Second, with `code` and <b>tags</b>

- [x] done

| a | b |
|---|:-:|
| 1 | ~~2~~ |

Setext heading
---

See [the book] and snake_case_name.

[the book]: https://example.org/book
"""


async def shown(stage_of: StageOf, text: str) -> Page:
    stage = await stage_of([say(text)])
    page = await stage.open(f"/runs/{await stage.start()}")
    await expect(page.locator(".md")).to_have_attribute("class", "md")
    return page


async def test_markdown_becomes_elements(stage_of: StageOf) -> None:
    page = await shown(stage_of, TEXT)
    written = page.locator(".md")
    await expect(written.get_by_role("heading", level=2)).to_have_text("Late orders")
    await expect(written.get_by_role("heading", level=3)).to_have_text("Steps")
    await expect(written.locator("p").first).to_have_text(
        "I found 20 of them, late, 19 in orders.db. AT&T !\n"
        "See the handbook, a@example.org or this (javascript:alert(1)).",
        use_inner_text=True,
    )
    for element, text in (
        ("strong >> nth=0", "20"),
        ("em", "late"),
        ("del", "19"),
        ("p code", "orders.db"),
        ("ol > li > ul > li", "kindly"),
        ("blockquote", "Late is late."),
        ("td >> nth=1", "12"),
        ("pre", 'print("<b>")'),
    ):
        await expect(written.locator(element)).to_have_text(text)
    boxes = written.get_by_role("checkbox")
    await expect(boxes.nth(0)).to_be_checked()
    await expect(boxes.nth(1)).not_to_be_checked()
    await axe(page)


async def test_nothing_in_markdown_is_loaded_or_run(stage_of: StageOf) -> None:
    page = await shown(stage_of, TEXT)
    links = page.locator(".md a")
    assert await links.evaluate_all("links => links.map((link) => link.href)") == [
        "https://example.org/handbook",
        "mailto:a@example.org",
        "https://example.org/chart.png",
    ]
    for link in await links.all():
        await expect(link).to_have_attribute("rel", "noopener noreferrer")
        await expect(link).to_have_attribute("target", "_blank")
    await expect(links.last).to_have_text("Image: a chart")
    await expect(page.get_by_text('<div onclick="alert(1)">raw</div>')).to_be_visible()
    assert await page.locator(".md img, .md [onclick]").count() == 0


async def test_code_is_copied_as_it_was_written(stage_of: StageOf) -> None:
    page = await shown(stage_of, TEXT)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy code").click()
    await expect(page.locator("[data-announcer]")).to_have_text("Copied")
    assert await page.evaluate("() => navigator.clipboard.readText()") == 'print("<b>")'


async def test_what_is_complete_stays_in_place_while_more_is_written(stage_of: StageOf) -> None:
    gate = Gate()
    stage = await stage_of(
        [slow(say("First.\n\nSecond.\n\nThird.\n\nFourth, and more."), gate, after=5)]
    )
    page = await stage.open(f"/runs/{await stage.start()}")
    written = page.locator(".md > p")
    await expect(written).to_have_text(["First.", "Second.", "Third.", "Fourth, and "])
    await page.evaluate("() => { window.first = document.querySelector('.md > p') }")
    gate.open()
    await expect(written.last).to_have_text("Fourth, and more.")
    assert await page.evaluate("() => window.first === document.querySelector('.md > p')")


async def test_an_answer_streamed_by_character_looks_like_the_answer_at_once(
    stage_of: StageOf,
) -> None:
    gate = Gate()
    text = TEXT + NESTED
    stage = await stage_of([slow(say(text, pieces=1), gate, after=5)])
    page = await stage.open(f"/runs/{await stage.start()}")
    await expect(page.locator(".md")).to_have_attribute("aria-busy", "true")
    gate.open()
    await ended(page)
    streamed = await page.locator(".md").inner_html()
    await page.reload()
    await expect(page.locator(".md")).to_contain_text("See the book and snake_case_name.")
    assert streamed == await page.locator(".md").inner_html()
    await expect(page.locator(".md ol > li > ul blockquote em")).to_have_text("with")
    await expect(page.get_by_role("link", name="the book")).to_be_visible()
