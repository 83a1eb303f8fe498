"""A page that loses its gateway or its network, or is reloaded, continues after its last event."""

from pathlib import Path

import httpx2
from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.process import GatewayProcess, gateway_process
from tests.console.stage import (
    IN_ONE_BROWSER,
    MODEL,
    Pages,
    SharedContexts,
    ask,
    card,
    ended,
    state_of,
)
from tests.support.talking import asking

from windlass.testing import FakeOpenAI, call, calls, slow

pytestmark = IN_ONE_BROWSER

LOST = r"Failed to load resource|ERR_(INTERNET_DISCONNECTED|CONNECTION_REFUSED|INCOMPLETE_CHUNKED)"
"""Chromium's messages about a broken connection."""
BOTH = calls(call("look_up", place="sea"), call("send_mail", to="Ann"))


async def stays(page: Page) -> None:
    """Marks the page, so that `stayed` can tell whether it was loaded again."""
    await page.evaluate("() => { window.marked = true }")


async def stayed(page: Page) -> bool:
    return await page.evaluate("() => window.marked === true")


async def started(gateway: GatewayProcess) -> str:
    async with httpx2.AsyncClient(base_url=gateway.url, trust_env=False) as client:
        return (await client.post("/v1/runs", json=asking("Go.", model=MODEL))).json()["id"]


async def test_a_page_continues_by_itself_when_its_gateway_is_killed_while_tools_run(
    browser: SharedContexts, tmp_path: Path
) -> None:
    with FakeOpenAI([BOTH, "The sea is there."]) as model:
        async with gateway_process(tmp_path, model.base_url) as gateway:
            pages = Pages(browser, gateway.url)
            pages.watch.expects(LOST)
            page = await pages.open(f"/runs/{await started(gateway)}")
            await stays(page)
            await state_of(card(page, "look_up"), "running")
            await state_of(card(page, "send_mail"), "running")

            await gateway.kill()
            await expect(page.get_by_text("Connection lost")).to_be_visible()
            gateway.put("sea")
            await gateway.start()

            await ended(page)
            await expect(page.get_by_text("Connection lost")).to_have_count(0)
            await expect(page.get_by_text("The gateway restarted")).to_be_visible()
            await state_of(card(page, "look_up"), "output-available")
            await state_of(card(page, "send_mail"), "output-error")
            await expect(card(page, "send_mail")).to_have_attribute("data-outcome", "interrupted")
            await expect(card(page, "send_mail")).to_have_attribute("data-effect", "unknown")
            await expect(page.get_by_text("The sea is there.")).to_be_visible()
            assert await stayed(page)
            await pages.aclose()


async def test_a_chat_drops_the_partial_answer_of_a_killed_gateway(
    browser: SharedContexts, tmp_path: Path
) -> None:
    with FakeOpenAI([slow("Half of an answer", after=2), "A whole answer.", "And more."]) as model:
        async with gateway_process(tmp_path, model.base_url) as gateway:
            pages = Pages(browser, gateway.url)
            pages.watch.expects(LOST)
            page = await pages.open("/")
            await ask(page, "Go.")
            await stays(page)
            await expect(page.get_by_text("Half of")).to_be_visible()
            await gateway.restart()
            await expect(page.get_by_text("A whole answer.")).to_be_visible()
            await ended(page)
            await expect(page.get_by_text("Half of")).not_to_be_visible()
            await expect(page.get_by_text("Round 1 was interrupted")).to_be_visible()
            await ask(page, "Go on.")
            await expect(page.get_by_text("And more.")).to_be_visible()
            assert await stayed(page)
            await pages.aclose()


async def test_a_page_that_was_offline_asks_only_for_what_it_has_missed(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    stage.watch.expects(LOST)
    rome = stage.tools.hold("Rome")
    page = await stage.open(f"/runs/{await stage.start()}")
    await state_of(card(page, "get_weather"), "running")

    await page.context.set_offline(True)
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    rome.open()
    await page.context.set_offline(False)

    await ended(page)
    await state_of(card(page, "get_weather"), "output-available")
    await expect(page.get_by_text("It is sunny.")).to_have_count(1)
    readings = [url for url in stage.watch.requests if "/events?" in url]
    assert len(readings) >= 2
    assert [url.endswith("after=0") for url in readings] == [True] + [False] * len(readings[1:])


async def test_a_page_that_is_loaded_again_in_the_middle_shows_the_same_run(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    rome = stage.tools.hold("Rome")
    page = await stage.open(f"/runs/{await stage.start()}")
    await state_of(card(page, "get_weather"), "running")
    await page.reload()
    await state_of(card(page, "get_weather"), "running")
    rome.open()
    await ended(page)
    await expect(page.get_by_text("It is sunny.")).to_have_count(1)


async def test_two_tabs_follow_one_run_and_one_of_them_decides(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5), "It is paid."])
    run_id = await stage.start()
    context = await stage.context()
    first = await stage.open(f"/runs/{run_id}", context=context)
    second = await stage.open(f"/runs/{run_id}", context=context)
    for page in (first, second):
        await state_of(card(page, "pay"), "approval-requested")
    await card(second, "pay").get_by_role("button", name="Approve").first.click()
    for page in (first, second):
        await ended(page)
        await state_of(card(page, "pay"), "output-available")
        await expect(page.get_by_text("It is paid.")).to_be_visible()
    assert stage.tools.ran == ["pay"]


async def test_a_page_without_its_gateway_loads_when_the_gateway_is_back(stage_of: StageOf) -> None:
    stage = await stage_of()
    stage.watch.expects("net::ERR")
    page = await stage.open("/")
    await page.route("**/v1/*", lambda route: route.abort())
    for link, shown in (("Runs", "No runs yet."), ("Tools", "get_weather")):
        await page.get_by_role("link", name=link).click()
        await expect(page.get_by_text("Cannot reach the gateway.")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        await page.unroute("**/v1/*")
        await expect(page.get_by_text(shown).first).to_be_visible()
        await expect(page.get_by_text("Cannot reach the gateway.")).to_have_count(0)
        await page.route("**/v1/*", lambda route: route.abort())


async def test_a_message_about_a_failed_stop_goes_with_the_run(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    stage.watch.expects("net::ERR")
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await rome.reached.wait()
    await page.route("**/stop", lambda route: route.abort())
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("Cannot reach the gateway.")
    rome.open()
    await ended(page)
    await expect(page.get_by_text("Cannot reach the gateway.")).to_have_count(0)
