"""The tools page: every tool, a form to call it manually, and its last calls."""

from typing import Any, Literal

from playwright.async_api import expect
from pydantic import BaseModel
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, PHONE

from windlass import tool
from windlass.testing import call

pytestmark = IN_ONE_BROWSER


class Filter(BaseModel):
    field: str
    kind: Literal["is", "contains"] = "is"


class Period(BaseModel):
    start: str
    days: int = 7


@tool
def find_orders(
    query: str,
    limit: int = 20,
    exact: bool | None = None,
    filters: list[Filter] = [],  # noqa: B006
    period: Period | None = None,
    marks: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Finds orders.

    Args:
        query: Words of the order.
        limit: How many.
    """
    given = {"query": query, "limit": limit, "exact": exact, "marks": marks}
    return {**given, "filters": filters, "period": period}


async def test_every_tool_is_listed_and_found_by_its_words(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools")
    entries = page.get_by_role("list").get_by_role("link")
    await expect(entries).to_have_count(len(stage.tools.tools()))
    await expect(page.locator("[data-tool=pay]")).to_contain_text("needs approval")
    await page.get_by_role("searchbox").fill("WEATHER city")
    await expect(entries).to_have_text(["get_weather"])
    await expect(page.locator("[data-announcer]")).to_have_text("1 tool found")
    await page.get_by_role("searchbox").fill("nonsense")
    await expect(page.get_by_text("No tool matches “nonsense”")).to_be_visible()
    await page.get_by_role("searchbox").fill("weather")
    await entries.click()
    await expect(page).to_have_url(f"{stage.origin}/tools/get_weather")


async def test_a_tool_says_what_it_is(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/get_weather")
    await expect(page.get_by_role("heading", level=1)).to_have_text("get_weather")
    await expect(page.get_by_text("The weather of a city. Held at the city")).to_be_visible()
    await expect(
        page.get_by_text("Runs in this gateway · available to scripted · safe to run again")
    ).to_be_visible()
    schema = page.locator("pre", has_text='"required"')
    await expect(schema).to_have_count(0)  # the form shows what it says
    await page.get_by_text("JSON Schema of the arguments").click()
    await expect(schema).to_be_visible()
    await expect(page.get_by_text("No calls yet.")).to_be_visible()
    await axe(page)


async def test_a_tool_is_called_manually_and_its_call_is_listed(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/get_weather")
    await page.get_by_label("city").fill("Oslo")
    await page.keyboard.press("Control+Enter")
    result = page.get_by_role("region", name="Result of the call")
    await expect(result).to_have_attribute("data-outcome", "ok")
    await expect(result.locator(".fields > div")).to_have_text(
        ["cityOslo", "skysunny", "degrees21"]
    )
    await expect(page.locator("[data-announcer]")).to_have_text("get_weather: done.")
    last = page.locator(".tools-list li")
    await expect(last.locator("summary")).to_contain_text("city: Oslo")
    await last.locator("summary").click()
    await expect(last.get_by_text("Called manually")).to_be_visible()
    await axe(page)


async def test_a_failed_tool_is_reported_with_its_message(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/divide")
    await page.get_by_label("dividend").fill("1.5")
    await page.get_by_label("divisor").fill("0")
    await page.get_by_role("button", name="Call", exact=True).click()
    result = page.get_by_role("region", name="Result of the call")
    await expect(result).to_have_attribute("data-outcome", "error")
    await expect(result).to_contain_text("Nothing can be divided by zero.")
    await expect(page.get_by_text("1 call, 1 failed.")).to_be_visible()


async def test_missing_and_invalid_values_are_reported_at_their_field(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/divide")
    dividend, divisor = page.get_by_label("dividend"), page.get_by_label("divisor")
    await expect(page.get_by_text("number · Required")).to_have_count(2)
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(dividend).to_be_focused()
    await expect(dividend).to_have_attribute("aria-invalid", "true")
    await expect(dividend).to_have_accessible_description("This field is required.")
    await dividend.fill("one")
    await divisor.fill("2")
    await expect(dividend).to_have_accessible_description("“one” is not a number.")
    await page.keyboard.press("Control+Enter")
    await expect(dividend).to_be_focused()
    await axe(page)
    assert stage.tools.ran == []
    await dividend.fill("1")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".tools-result pre")).to_have_text("0.5")


async def test_a_form_has_fields_for_all_that_a_schema_asks_for(stage_of: StageOf) -> None:
    stage = await stage_of(more_tools=[find_orders])
    page = await stage.open("/tools/find_orders", viewport=PHONE)
    await page.get_by_label("query").fill("two\nlines")
    await expect(page.get_by_label("limit")).to_have_value("20")
    await expect(page.get_by_label("limit")).to_have_accessible_description("How many.")
    await page.get_by_label("exact").select_option("false")
    await page.get_by_role("button", name="Add to filters").click()
    await page.get_by_role("button", name="Add to filters").click()
    await page.get_by_role("button", name="Remove filters 1").click()
    await page.get_by_role("group", name="filters 1").get_by_label("field").fill("status")
    await page.get_by_role("button", name="Fill in period").click()
    await page.get_by_label("start").fill("today")
    await page.get_by_label("marks").fill('{"a": "b"}')
    await axe(page)
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.locator(".tools-result [class*=good]")).to_be_visible()
    await page.get_by_role("button", name="Edit as JSON").click()
    given = page.get_by_label("Arguments as JSON")
    assert await page.evaluate("text => JSON.parse(text)", await given.input_value()) == {
        "query": "two\nlines",
        "limit": 20,
        "exact": False,
        "filters": [{"field": "status", "kind": "is"}],
        "period": {"start": "today", "days": 7},
        "marks": {"a": "b"},
    }
    assert await page.locator("main").evaluate("main => main.scrollWidth - main.clientWidth") == 0


async def test_arguments_can_be_written_as_json(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/get_weather")
    await page.get_by_role("button", name="Edit as JSON").click()
    given = page.get_by_label("Arguments as JSON")
    for text, problem in (
        ("{", "Invalid JSON: "),
        ("[]", "This must be an object"),
        ('{"city": 5}', "city: This must be text."),
    ):
        await given.fill(text)
        await expect(page.locator(".form-problem")).to_contain_text(problem)
    await given.fill('{"city": "Rome", "planet": "Mars"}')
    await expect(page.get_by_role("button", name="Edit in fields")).to_be_disabled()
    await given.fill('{"city": "Bonn"}')
    await page.get_by_role("button", name="Edit in fields").click()
    await expect(page.get_by_label("city")).to_have_value("Bonn")


async def test_a_tool_that_asks_first_runs_with_the_callers_yes(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/pay")
    await page.get_by_label("amount").fill("5")
    await page.get_by_role("button", name="Approve and call").click()
    await expect(page.locator(".tools-result pre")).to_have_text("paid 5 to the landlord")


async def test_a_call_that_is_cancelled_says_what_may_have_happened(stage_of: StageOf) -> None:
    stage = await stage_of()
    stage.tools.hold("Ann")
    page = await stage.open("/tools/send_mail")
    await page.get_by_label("to", exact=False).first.fill("Ann")
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.get_by_text("Running,")).to_be_visible()
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("It may have had an effect before it stopped.")).to_be_visible()
    await expect(page.get_by_role("button", name="Call", exact=True)).to_be_enabled()


async def test_calls_of_models_lead_to_their_runs_and_back_into_the_form(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Lima"), "Sunny."])
    run_id = await stage.start()
    page = await stage.open(f"/runs/{run_id}")
    await expect(page.get_by_text("Sunny.")).to_be_visible()
    await stage.goto(page, "/tools/get_weather")
    await page.locator(".tools-list summary").click()
    link = page.get_by_role("link", name="View run")
    await expect(link).to_have_attribute("href", f"/runs/{run_id}")
    await page.get_by_role("button", name="Edit as JSON").click()
    await page.get_by_label("Arguments as JSON").fill("{")
    await page.get_by_role("button", name="Copy to form").click()
    await expect(page.get_by_label("city")).to_have_value("Lima")
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.locator(".tools-result")).to_contain_text("Lima")


async def test_a_missing_tool_is_reported(stage_of: StageOf) -> None:
    stage = await stage_of()
    stage.watch.expects("404")
    page = await stage.open("/tools/nothing")
    await expect(page.get_by_text("The tool 'nothing' does not exist")).to_be_visible()
