"""What a model writes is shown as Markdown: elements that the page makes, and nothing it loads."""

from playwright.async_api import Page, expect
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ask, ended

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


async def test_complete_paragraphs_stay_in_place_while_more_text_arrives(stage_of: StageOf) -> None:
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


RICH = """The mean is $\\frac{1}{n}\\sum_{i=1}^{n} x_i$, and it costs $5 or $6[^1].

$$
\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}
$$

```python
def mean(x):  # why
    return sum(x) / 2
```

- שלום עולם
- עוד שורה

| שם | ערך |
|---|---|
| א | 1 |

![A dot](PIXEL)

[^1]: In *euros*.
"""
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BULLET_SIDE = """(list) => {
  const [box, text] = [list.getBoundingClientRect(), list.querySelector("li")];
  const range = document.createRange();
  range.selectNodeContents(text);
  const inside = range.getBoundingClientRect();
  return [getComputedStyle(list).direction, inside.right < box.right, inside.left > box.left];
}"""


GAP = """(fraction) => {
  const [above, below] = [...fraction.children].map((part) => {
    const range = document.createRange();
    range.selectNodeContents(part);
    return range.getBoundingClientRect();
  });
  return below.top - above.bottom;
}"""
"""Pixels between the two parts of a fraction."""


async def test_math_code_footnotes_images_and_right_to_left_lists_are_drawn(
    stage_of: StageOf,
) -> None:
    text = RICH.replace("PIXEL", PIXEL)
    stage = await stage_of([say(text)])
    page = await stage.open("/")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await ask(page, "Go.")
    await ended(page)
    written = page.locator(".md")
    formula = written.locator("math").first
    assert await formula.evaluate("math => math.namespaceURI.endsWith('MathML')")
    box = await formula.locator("mfrac").bounding_box()
    assert box is not None
    assert box["height"] > 12  # it is drawn, one above the other
    assert await formula.locator("mfrac").evaluate(GAP) > 0  # the parts do not touch the bar
    await expect(written.locator("mtd")).to_have_count(4)
    await expect(written.locator("p").first).to_contain_text("costs $5 or $6")
    keyword, comment = written.locator(".hl-kwd").first, written.locator(".hl-cmnt")
    await expect(keyword).to_have_text("def")
    colours = [await each.evaluate("e => getComputedStyle(e).color") for each in (keyword, comment)]
    assert len({*colours}) == 2
    picture = written.get_by_alt_text("A dot")
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    assert await written.locator("ul").evaluate(BULLET_SIDE) == ["rtl", True, True]
    cells = [await written.locator("th").nth(at).bounding_box() for at in (0, 1)]
    assert cells[0]
    assert cells[1]
    assert cells[0]["x"] > cells[1]["x"]  # the first column is at the right
    await written.get_by_role("button", name="Footnote 1").click()
    await expect(written.locator(".md-note")).to_be_focused()
    await axe(page)
    await page.get_by_role("button", name="Copy as Markdown").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == text
