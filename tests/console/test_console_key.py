"""A key that is wrong or revoked: the page reports it and loses nothing."""

from playwright.async_api import Page, Route, expect
from tests.console.chatting import message_box
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ask, card, ended, state_of

from windlass.gateway.config import KeyConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import call

pytestmark = IN_ONE_BROWSER

API = "**/v1/**"


async def enter(page: Page, key: str) -> None:
    await page.get_by_label("Key").fill(key)
    await page.get_by_label("Key").press("Enter")


async def refuse(route: Route) -> None:
    await route.fulfill(status=401, json={"error": {"message": "This key has expired."}})


async def test_a_wrong_key_is_called_wrong(stage_of: StageOf) -> None:
    key, kept = new_key()
    stage = await stage_of(["Hello."], keys=[KeyConfig(name="web", hash=kept)])
    stage.watch.expects("401")
    page = await stage.open("/")
    await expect(page.get_by_label("Key")).to_be_focused()
    await expect(page.get_by_text("does not take this key")).to_have_count(0)
    await enter(page, "wl_wrong")
    await expect(page.get_by_text("The gateway rejected this key.")).to_be_visible()
    await enter(page, key)
    await ask(page, "Hi.")
    await ended(page)


async def test_a_key_that_expires_is_asked_for_again_and_the_run_continues(
    stage_of: StageOf,
) -> None:
    key, kept = new_key()
    script = [call("get_weather", city="Rome"), "It is sunny."]
    stage = await stage_of(script, keys=[KeyConfig(name="web", hash=kept)])
    stage.watch.expects("401|ERR_INTERNET_DISCONNECTED")
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await enter(page, key)
    await ask(page, "Weather?")
    await state_of(card(page, "get_weather"), "running")
    await message_box(page).fill("And tomorrow?")

    await page.route(API, refuse)
    await page.context.set_offline(True)
    await page.context.set_offline(False)
    await expect(page.get_by_label("Key")).to_be_visible()
    await expect(page.get_by_text("Weather?")).to_have_count(0)
    await page.unroute(API)
    rome.open()
    await enter(page, key)

    await ended(page)
    await expect(page.get_by_text("It is sunny.")).to_be_visible()
    await expect(message_box(page)).to_have_value("And tomorrow?")
