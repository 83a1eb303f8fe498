"""The runs page: every run can be found by its content and its end."""

from playwright.async_api import Locator, Page, expect
from tests.console.axe import axe
from tests.console.chatting import Listening
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, MODEL, PHONE, Stage
from tests.support.talking import asking

from windlass.model import ModelRequest
from windlass.testing import Step, call, calls, last_prompt, refuse, tool_results

pytestmark = IN_ONE_BROWSER

START = """async (bodies) => {
  const headers = { "Content-Type": "application/json" };
  for (const body of bodies) {
    await fetch("/v1/runs", { method: "POST", headers, body: JSON.stringify(body) });
  }
}"""


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Runs").locator("tbody tr")


def figure(page: Page, name: str) -> Locator:
    return page.locator(".runs-totals div", has_text=name).locator("dd")


def script(request: ModelRequest) -> Step:
    match last_prompt(request):
        case "Divide":
            both = calls(call("divide", dividend=1, divisor=0), call("get_weather", city="Rome"))
            return "Impossible." if tool_results(request) else both
        case "Confuse":
            return refuse(400, "The model is confused.")
        case _:
            return "Yes."


async def staged(stage_of: StageOf) -> Stage:
    """A gateway with three runs: one failed, one had a tool that failed, one is plain."""
    stage = await stage_of(script, extra={"other": "Hello."})
    await stage.start("Confuse")
    for prompt in ("Divide", "Apples"):
        await stage.post("/v1/chat/completions", asking(prompt, model=MODEL))
    return stage


async def test_each_run_shows_its_prompt_and_its_duration(stage_of: StageOf) -> None:
    stage = await staged(stage_of)
    page = await stage.open("/runs")
    await expect(rows(page)).to_have_count(3)
    apples, divided, confused = (rows(page).nth(place) for place in range(3))
    await expect(apples.locator(".runs-status")).to_have_text("Done")
    await expect(confused).to_contain_text("The model is confused.")
    await expect(confused.locator("[data-status=failed]")).to_be_visible()
    await expect(divided.get_by_role("cell").nth(5)).to_have_text("2")
    await expect(divided.get_by_role("cell").nth(6)).to_have_text("20 / 10")
    await expect(divided.locator(".runs-used li")).to_have_text(["divide 1 failed", "get_weather"])
    await expect(divided.get_by_role("cell").nth(4)).to_contain_text("s")

    await expect(figure(page, "Runs shown")).to_have_text("3")
    await expect(figure(page, "Failed")).to_have_text("1")
    await expect(figure(page, "Tokens in")).to_have_text("30")
    await expect(rows(page).first).to_be_in_viewport()
    await page.get_by_text("Failures by tool: 1").click()
    failures = page.get_by_role("table", name="Failures by tool").locator("tbody tr")
    await expect(failures.nth(0).get_by_role("cell").nth(0)).to_have_text("divide")
    await expect(failures.nth(0).get_by_role("cell").nth(2)).to_have_text("1")
    await axe(page)
    await divided.get_by_role("link", name="Divide").click()
    await expect(page.get_by_text("Nothing can be divided by zero.")).to_be_visible()


async def test_filters_are_part_of_the_address(stage_of: StageOf) -> None:
    stage = await staged(stage_of)
    page = await stage.open("/runs")
    await page.get_by_role("searchbox", name="Search").fill("appl")
    await expect(rows(page)).to_have_count(1)
    await expect(page).to_have_url(f"{stage.origin}/runs?q=appl")
    await page.get_by_label("Status").select_option("failed")
    await expect(page.get_by_text("No matching runs.")).to_be_visible()
    await page.get_by_role("searchbox", name="Search").fill("")
    await expect(rows(page)).to_contain_text("Confuse")

    await stage.goto(page, "/runs?tool=divide")
    await expect(rows(page)).to_have_count(1)
    await expect(page.get_by_role("combobox", name="Tool")).to_have_value("divide")
    await page.get_by_role("combobox", name="Tool").select_option("")
    await page.get_by_label("Model").select_option("other")
    await expect(page.get_by_text("No matching runs.")).to_be_visible()


async def test_runs_of_the_responses_api_are_like_any_other(stage_of: StageOf) -> None:
    """Also one that is not stored, on a gateway that stores the others."""
    stage = await stage_of(script)
    for prompt, store in (("Apples", True), ("Divide", False)):
        body = {"model": MODEL, "input": prompt, "store": store}
        assert (await stage.post("/v1/responses", body))["status"] == "completed"
    page = await stage.open("/runs")
    await expect(rows(page)).to_have_count(2)
    divided, apples = rows(page).nth(0), rows(page).nth(1)
    await expect(apples).to_contain_text("Apples")
    await expect(divided.locator(".runs-used li")).to_have_text(["divide 1 failed", "get_weather"])
    await divided.get_by_role("link", name="Divide").click()
    await expect(page.get_by_text("Nothing can be divided by zero.")).to_be_visible()
    await expect(page.get_by_text("Impossible.")).to_be_visible()
    await stage.goto(page, "/runs")
    await apples.get_by_role("link", name="Apples").click()
    await expect(page.get_by_text("Yes.")).to_be_visible()


async def test_runs_come_and_end_while_one_looks(stage_of: StageOf) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome"), "Sunny."))
    rome = stage.tools.hold("Rome")
    page = await stage.open("/runs")
    await expect(page.get_by_text("No runs yet.")).to_be_visible()
    await stage.start("Weather?")
    await expect(rows(page).locator("[data-status=running]")).to_be_visible()
    rome.open()
    await expect(rows(page).locator("[data-status=ended]")).to_be_visible()
    await expect(rows(page)).to_contain_text("get_weather")


async def test_older_runs_are_shown_when_they_are_wanted(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes."))
    page = await stage.open("/runs")
    await page.evaluate(START, [asking(f"Question {number}", model=MODEL) for number in range(52)])
    await page.reload()
    await expect(rows(page)).to_have_count(50)
    await page.get_by_role("button", name="Show older runs").click()
    await expect(rows(page)).to_have_count(52)
    await expect(rows(page).nth(51)).to_contain_text("Question 0")
    await expect(page.get_by_role("button", name="Show older runs")).to_have_count(0)


async def test_on_a_phone_each_run_is_whole_on_the_screen(stage_of: StageOf) -> None:
    stage = await staged(stage_of)
    page = await stage.open("/runs", viewport=PHONE, color_scheme="dark")
    await expect(rows(page)).to_have_count(3)
    await expect(rows(page).first).to_be_in_viewport(ratio=1)
    assert await page.locator("main").evaluate("main => main.scrollWidth <= main.clientWidth")
    await axe(page)
