"""Rendered Markdown comes back as Markdown."""

import pytest
from tests.models.aistudio.test_aistudio_calling import asking, events_of, text_in
from tests.support.browsing import IN_ONE_BROWSER, Chromium, MakeModel, replica

from windlass.events import TextDelta
from windlass.models.aistudio.elements import Elements
from windlass.testing import say

pytestmark = IN_ONE_BROWSER

ANSWERS = {
    "headings": "# One\n\n## Two\n\n###### Six",
    "emphasis": "It is **bold**, *slanted*, ***both***, ~~gone~~ and `code`.",
    "a list": "- one\n- two with **bold**\n- three",
    "nested lists": "1. first\n   - a\n     - deep\n   - b\n2. second",
    "a list that starts later": "3. three\n4. four",
    "a list of tasks": "- [x] done\n- [ ] open",
    "a table": "| a | b |\n| :--- | ---: |\n| 1 | `x \\| y` |\n| **2** | [z](https://a.b) |",
    "a link": "See [the **docs**](https://example.com/a_b?c=d) now.",
    "an image": "![A cat](https://example.com/cat.png)",
    "a quotation": "> One\n>\n> > Two\n>\n> - a\n> - b",
    "code": 'Run this:\n\n```python\ndef f(x):\n    return x  # "quoted"\n```\n\nDone.',
    "code in a list": "- Run:\n\n  ```sh\n  ls -l\n  ```\n\n- Done",
    "code with ticks": "````\n```\ninner\n```\n````",
    "code without a language": "```\nplain text\n```",
    "code span with a tick": "Use `` a`b `` here.",
    "a rule": "One\n\n---\n\nTwo",
    "lines of one paragraph": "one\ntwo\nthree",
    "words that only look like marks": "2 * 3 * 4 = 24, snake_case_name, a < b and x_1",
}


@pytest.mark.whole("the next test, whose answer contains all of them")
@pytest.mark.parametrize("name", ANSWERS)
async def test_rendered_markdown_comes_back_as_it_was_written(
    model_on: MakeModel, name: str
) -> None:
    with replica([say(ANSWERS[name])]) as fake:
        events = await events_of(model_on(fake.url), asking())
        assert text_in(events) == ANSWERS[name]


async def test_a_long_answer_is_streamed_in_pieces_that_are_never_taken_back(
    model_on: MakeModel,
) -> None:
    answer = "\n\nAnd:\n\n".join(ANSWERS.values())
    with replica([say(answer)]) as fake:
        events = await events_of(model_on(fake.url), asking())
        assert text_in(events) == answer
        assert sum(isinstance(event, TextDelta) for event in events) > 10


PAGE = """
<div class="frame"><div class="head"><span>Rust</span><button>Copy</button></div>
<pre><code>fn main() {}</code></pre></div>
<p>Formula <span class="katex"><annotation encoding="application/x-tex">a^2</annotation></span>,
<a href="https://a.b">https://a.b</a> and<br>a new line.</p>
<p><b>Note </b><i>this</i><button>Like</button><mat-icon>thumb_up</mat-icon></p>
<table><tr><th align="center">h</th></tr><tr><td>c</td></tr></table>
"""
SPACES = "  "
MARKDOWN = f"""\
```rust
fn main() {{}}
```

Formula $a^2$,
https://a.b and{SPACES}
a new line.

**Note** *this*

| h |
| :---: |
| c |"""


async def test_markup_of_other_pages_is_read_without_its_buttons_and_titles(
    chromium: Chromium,
) -> None:
    page = await chromium.lend()
    await page.goto("about:blank")
    await page.set_content(f"<article role='article' data-turn-role='Model'>{PAGE}</article>")
    read = await Elements(page, 5000).run(
        "(page) => page.turnsNow([])[0].parts.map((part) => part.text).join('\\n\\n')"
    )
    await chromium.take_back(page)
    assert read == MARKDOWN
