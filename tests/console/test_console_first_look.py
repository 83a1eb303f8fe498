"""What a person sees first: the empty page, an answer before the machinery, and clear errors."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Route, expect
from tests.console.axe import axe
from tests.console.chatting import Listening, answered, ask, message_box, turns
from tests.console.conftest import StageOf
from tests.console.stage import DESK, IN_ONE_BROWSER, MODEL, PHONE, card, ended, state_of
from tests.support.talking import asking

from windlass import tool
from windlass.events import ModelEvent
from windlass.model import ModelRequest, Preparation
from windlass.testing import Gate, ScriptedModel, call, calls, refuse, say

pytestmark = IN_ONE_BROWSER

EXAMPLES = ("Weather in Rome?", "Two.", "Three.", "Four.", "One too many.")
BARS = """chart => {
  const { left, right, width } = chart.getBoundingClientRect();
  const bars = [...chart.querySelectorAll("rect:last-of-type")]
    .map((bar) => bar.getBoundingClientRect());
  const third = width / bars.length;
  const begins = (at) => left + at * third;
  return bars.map((bar, at) => bar.left >= begins(at) && bar.right <= begins(at + 1));
}"""
"""Whether each bar is in its own part of the chart's width."""
MARKS_ANSWER = "run => getComputedStyle(run, '::after').content !== 'none'"
"""Whether grey lines are where the answer will be."""
GAPS = """texts => {
  const places = texts.map((text) => text.getBoundingClientRect());
  return places.slice(1).map(({ top }, at) => top - places[at].bottom);
}"""
"""The space between a text and the next one."""
COLOUR = "bubble => getComputedStyle(bubble).backgroundColor"


async def test_the_empty_page_greets_offers_prompts_and_names_the_model(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Sunny."), target="local/qwen", examples=EXAMPLES)
    page = await stage.open("/")
    await expect(page.get_by_role("heading", name="Hello. What can I do for you?")).to_be_visible()
    await expect(page.get_by_text("You are talking to Qwen")).to_be_visible()
    await expect(page.locator(".talk-empty svg.logo")).to_be_visible()
    bar = page.locator(".chat-bar")
    assert await bar.evaluate("bar => bar.clientHeight") < 20, "a new chat has no title"
    await expect(page.locator(".theme")).to_contain_text("Theme")
    icon = await page.locator("link[rel=icon]").get_attribute("href")
    assert (await page.request.get(f"{stage.origin}{icon}")).headers[
        "content-type"
    ] == "image/svg+xml"
    await page.get_by_role("main").get_by_role("link", name="Help").click()
    await page.get_by_role("dialog", name="Help").get_by_role("button", name="Close").click()
    prompts = page.get_by_role("list", name="Examples").get_by_role("button")
    await expect(prompts).to_have_text(list(EXAMPLES[:4]))
    await prompts.first.click()
    await answered(page, 1)
    await expect(turns(page)).to_contain_text(EXAMPLES[0])
    await expect(bar.get_by_role("heading", name=EXAMPLES[0])).to_be_in_viewport(ratio=1)
    await expect(message_box(page)).to_have_value("")


async def test_many_tools_are_a_link_to_all_of_them(stage_of: StageOf) -> None:
    def numbered(number: int) -> str:
        """Returns a number as text."""
        return str(number)

    tools = [tool(numbered, name=f"number_{count}") for count in range(20)]
    stage = await stage_of("Hello.", more_tools=tools)
    page = await stage.open("/")
    offered = page.get_by_role("list", name="Tools")
    await expect(offered.get_by_role("button")).to_have_count(16)
    await offered.get_by_role("link", name="All 28 tools").click()
    await expect(page.get_by_role("link", name="number_19")).to_be_visible()


async def test_a_tool_opens_beside_the_chat_and_leaves_it_where_it_is(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    for size in (DESK, PHONE):
        page = await stage.open("/", viewport=size)
        await message_box(page).fill("A draft")
        pill = page.get_by_role("list", name="Tools").get_by_role("button", name="divide")
        await pill.click()
        panel = page.get_by_role("complementary", name="divide")
        await expect(panel.get_by_role("textbox", name="dividend")).to_be_visible()
        await expect(page).to_have_url(f"{stage.origin}/")
        await axe(page)
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await expect(pill).to_be_focused()
        await expect(message_box(page)).to_have_value("A draft")


async def test_finished_tools_are_one_line_and_the_answer_comes_without_machinery(
    stage_of: StageOf,
) -> None:
    both = calls(call("get_weather", city="Rome"), call("divide", dividend=1, divisor=0))
    stage = await stage_of([both, call("get_weather", city="Oslo"), say("Sunny in both.")])
    oslo = stage.tools.hold("Oslo")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await oslo.reached.wait()
    folds = page.locator(".toolfold")
    first, second = folds.nth(0), folds.nth(1)
    await expect(first.locator("> summary")).to_have_text(
        re.compile(r"^2 tools, \d+ ms1 failedget_weather, divide$")
    )
    await expect(card(page, "get_weather").nth(0)).to_be_hidden()
    await expect(card(page, "get_weather").nth(1)).to_be_visible()  # it is running
    await state_of(card(page, "get_weather").nth(1), "running")
    assert await page.locator(".run").evaluate(MARKS_ANSWER)
    oslo.open()
    await ended(page)
    assert not await page.locator(".run").evaluate(MARKS_ANSWER)
    await expect(second).not_to_have_attribute("open", "")
    for machinery in (".waterfall", ".budget", ".ending"):
        await expect(page.locator(machinery)).to_have_count(0)
    await expect(page.get_by_text("The model answered")).to_have_count(0)
    await expect(page.get_by_text(re.compile(r"round \d of \d"))).to_have_count(0)

    await first.locator("> summary").click()
    await expect(card(page, "get_weather").nth(0)).to_be_visible()
    await axe(page)
    timeline = page.get_by_role("button", name="Timeline")
    await timeline.click()
    panel = page.get_by_role("complementary", name="Timeline")
    await expect(panel.locator(".wf-row")).to_have_count(6)
    await expect(panel).to_contain_text("3 rounds")
    await axe(page)
    await second.evaluate("fold => { fold.open = false }")
    await panel.get_by_role("button", name="get_weather").last.click()
    await expect(card(page, "get_weather").nth(1)).to_be_focused()
    await panel.get_by_role("button", name="Close panel").click()
    await expect(timeline).to_be_focused()


async def test_hidden_buttons_leave_no_wide_gaps_between_messages(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Sunny.", "You are welcome."))
    page = await stage.open("/")
    for count, text in enumerate(("Weather?", "Thanks!"), start=1):
        await ask(page, text)
        await answered(page, count)
    gaps = await page.locator(".asked-text, .md").evaluate_all(GAPS)
    assert len(gaps) == 3
    assert max(gaps) < 50, gaps
    await page.mouse.move(0, 0)
    hidden = turns(page).first.get_by_role("button", name="Copy as Markdown")
    opacity = "button => getComputedStyle(button.closest('.turn-foot')).opacity"
    await expect(hidden).to_be_visible()
    assert await hidden.evaluate(opacity) == "0"
    await hidden.focus()
    assert await hidden.evaluate(opacity) == "1"


async def test_the_focus_of_a_card_that_folds_goes_to_its_line(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5), "It is paid."])
    page = await stage.open("/")
    await ask(page, "Pay.")
    await expect(card(page, "pay")).to_be_focused()
    await expect(card(page, "pay").get_by_text("a approve")).to_be_visible()
    assert not await page.locator(".run").evaluate(MARKS_ANSWER)  # the run waits for a person
    await page.keyboard.press("a")
    await ended(page)
    await expect(page.locator(".toolfold > summary")).to_be_focused()


async def test_a_prompt_looks_the_same_in_the_chat_and_on_the_page_of_its_run(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening("Yes."))
    for scheme in ("light", "dark"):
        page = await stage.open("/", color_scheme=scheme)
        await ask(page, "Hello")
        await answered(page, 1)
        here = await page.locator(".turn .bubble").evaluate(COLOUR)
        await page.get_by_role("link", name="View run").click()
        there = page.get_by_role("region", name="Prompt")
        await expect(there).to_have_text("Hello")
        # The title does not repeat it.
        await expect(page.get_by_role("heading", level=1)).to_have_text("Run Done")
        assert await there.evaluate(COLOUR) == here


async def test_an_error_says_what_happened_when_to_retry_and_where_the_details_are(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening(refuse(400, "The model is confused."), "Yes."))
    stage.watch.expects("503")
    page = await stage.open("/")

    async def loading(route: Route) -> None:
        error = {"message": "The model is loading", "type": "server_error", "code": "loading"}
        headers = {"Retry-After": "12", "X-Request-Id": "req_1"}
        await route.fulfill(status=503, json={"error": error}, headers=headers)

    await page.route("**/v1/runs", loading)
    await ask(page, "Hello")
    await expect(page.get_by_role("alert").filter(has_text="loading")).to_have_text(
        "The model is loading. Try again in 12 seconds."
        " For details, see the gateway's log, request id req_1."
    )
    await page.unroute("**/v1/runs")
    await message_box(page).press("Enter")
    await ended(page, "error")
    run_id = await page.locator(".run").get_attribute("data-run")
    await expect(page.locator(".ending")).to_have_text(
        "The run failed.The model is confused. (HTTP 400)To ask again, press Retry."
        f" For details, see the gateway's log, run id {run_id}"
    )
    # Its end is hidden, but one click selects all of it.
    shown = page.locator(".ending code")
    assert await shown.evaluate("code => [code.clientWidth < 150, code.clientHeight < 30]") == [
        True,
        True,
    ]
    await shown.click()
    assert await page.evaluate("() => getSelection().toString()") == run_id
    await axe(page)


class Preparing(ScriptedModel):
    """A model that is not ready, and answers once its gate is open."""

    preparation: Preparation | None = Preparation("loading")

    def __init__(self, answer: str) -> None:
        super().__init__([answer])
        self.gate = Gate()

    @asynccontextmanager
    async def _opened(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        await self.gate.passed()
        async with super()._opened(request) as events:
            yield events


async def test_a_model_that_is_not_ready_says_what_it_does_and_for_how_long(
    stage_of: StageOf,
) -> None:
    model = Preparing("Hello.")
    stage = await stage_of(speaker=model, examples=EXAMPLES)
    page = await stage.open("/")
    preparation = page.locator(".preparation")
    await expect(preparation).to_contain_text("The model is loading. You can ask now")
    model.preparation = Preparation("reading", 95)
    reading = "The model is reading its instructions and tools, about 1 min 35 s left"
    await expect(preparation).to_contain_text(reading)
    await axe(page)
    await page.get_by_role("button", name=EXAMPLES[0]).click()
    await expect(page.locator(".waiting")).to_have_text(reading)
    model.preparation = Preparation("reading", 12)
    await expect(page.locator(".waiting")).to_contain_text("about 12 s left")
    model.preparation = None
    await expect(page.locator(".waiting")).to_have_text("Waiting for the model")
    model.gate.open()
    await answered(page, 1)
    await page.get_by_role("link", name="New chat").click()
    await expect(page.get_by_role("list", name="Examples")).to_be_visible()
    await expect(preparation).to_have_count(0)


async def test_an_unknown_address_shows_where_to_go(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    stage.watch.expects("404")
    page = await stage.open("/nowhere/at/all")
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    await axe(page)
    await page.get_by_role("main").get_by_role("link", name="Runs").click()
    await expect(page).to_have_url(f"{stage.origin}/runs")


async def test_runs_are_found_by_date_and_content_and_have_charts(stage_of: StageOf) -> None:
    denied = call("pay", amount=5)
    stage = await stage_of([denied, "Then not.", "A pomegranate.", "Yes."])
    body = asking("Pay.", model=MODEL)
    await stage.post("/v1/chat/completions", body)  # without a stream, the call is denied
    for prompt in ("Fruit?", "Sure?"):
        await stage.post("/v1/chat/completions", asking(prompt, model=MODEL))
    page = await stage.open("/runs")
    rows = page.get_by_role("table", name="Runs").locator("tbody tr")
    await expect(rows).to_have_count(3)
    await expect(page.get_by_role("figure", name="Latency")).to_be_visible()
    plot = page.get_by_role("figure", name="Cost in tokens")
    assert await plot.locator("svg").evaluate(BARS) == [True, True, True]
    await expect(plot.locator(".chart-most")).to_have_text("30")
    await expect(plot.locator(".chart-times span")).to_have_text(
        [re.compile(r"\d\d:\d\d"), "3 runs", re.compile(r"\d\d:\d\d")]
    )
    await expect(page.get_by_text("Failures by tool: 0")).to_be_visible()
    await expect(page.get_by_role("table", name="Failures by tool")).to_be_hidden()
    await expect(rows.first).to_be_in_viewport(ratio=1)  # the list is not pushed away
    await expect(rows.last.locator(".runs-failed")).to_have_count(0)  # denied is no failure
    await axe(page)
    await page.get_by_role("searchbox", name="Search").fill("POMEGRANATE")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("Fruit?")
    await page.get_by_role("searchbox", name="Search").fill("")
    await expect(rows).to_have_count(3)
    await page.get_by_label("To", exact=True).fill("2020-01-01")
    await expect(page.get_by_text("No matching runs.")).to_be_visible()
    await expect(page).to_have_url(f"{stage.origin}/runs?to=2020-01-01")
    await stage.goto(page, "/runs?from=2020-01-01")
    await expect(rows).to_have_count(3)
    await expect(page.get_by_label("From", exact=True)).to_have_value("2020-01-01")


async def test_a_bar_of_a_chart_opens_its_run_and_a_line_marks_a_new_day(
    stage_of: StageOf,
) -> None:
    stage = await stage_of("A pomegranate.")
    for prompt in ("Fruit?", "Sure?", "And now?"):
        await stage.post("/v1/chat/completions", asking(prompt, model=MODEL))
    page = await stage.open("/")

    async def earlier(route: Route) -> None:
        listed = await (await route.fetch()).json()
        listed["data"][-1]["created"] -= 24 * 60 * 60
        await route.fulfill(json=listed)

    await page.route("**/v1/runs?*", earlier)
    await page.get_by_role("link", name="Runs").click()
    plot = page.get_by_role("figure", name="Latency")
    columns = plot.locator("a")
    await expect(columns).to_have_count(3)
    assert await plot.locator(".chart-day").evaluate_all(
        "lines => lines.map((line) => [...line.closest('svg').children].indexOf(line.parentNode))"
    ) == [1]
    await page.evaluate("() => { window.samePage = true; }")
    await columns.nth(0).click(position={"x": 3, "y": 3})  # above the bar
    await expect(page.get_by_role("region", name="Prompt")).to_have_text("Fruit?")
    assert await page.evaluate("() => window.samePage"), "the page was loaded again"
