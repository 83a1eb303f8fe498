"""A run in a file: saved by the page, opened on any other, and replayed at its own speed."""

import json
from pathlib import Path
from typing import Any

from playwright.async_api import FilePayload, Page, expect
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, Stage, card, ended, state_of

from windlass.runs.export import read_export
from windlass.testing import call, calls

pytestmark = IN_ONE_BROWSER

DROPPED = """(text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "run.json", { type: "application/json" }));
  return data;
}"""


async def exported(stage: Stage, folder: Path) -> dict[str, Any]:
    """The file of a run with parallel tools and an approval, as the page saves it."""
    page = await stage.open(f"/runs/{await stage.start('Weather, and pay.')}")
    await card(page, "pay").get_by_role("button", name="Approve").click()
    await ended(page)
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Export").click()
    saved = await saving.value
    path = folder / saved.suggested_filename
    await saved.save_as(path)
    assert path.name == f"{read_export(path.read_bytes()).run.id}.json"
    return json.loads(path.read_bytes())


def slowed(file: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same run, as if each of its events had taken this long: a place in it is easy to find."""
    events = [
        {**event, "time": 1_000_000 + number * seconds}
        for number, event in enumerate(file["events"])
    ]
    return {**file, "events": events}


async def open_file(page: Page, content: bytes, name: str = "run.json") -> None:
    payload: FilePayload = {"name": name, "mimeType": "application/json", "buffer": content}
    await page.locator("input[type=file]").set_input_files(payload)


async def test_an_exported_run_is_played_again_without_its_gateway(
    stage_of: StageOf, tmp_path: Path
) -> None:
    both = calls(call("get_weather", city="Rome"), call("pay", amount=5))
    stage = await stage_of([both, "Sunny, and paid."])
    file = slowed(await exported(stage, tmp_path), 100)
    page = await (await stage_of()).open("/replay")
    await open_file(page, json.dumps(file).encode())
    await page.get_by_role("button", name="Pause").click()

    place = page.get_by_role("slider", name="Position in the run")
    kinds = [event["event"] for event in file["events"]]
    await place.fill(str(100 * kinds.index("approval_requested") + 50))
    await state_of(card(page, "pay"), "approval-requested")
    await expect(card(page, "pay").locator(".elapsed")).to_have_text("50.0 s")
    await expect(page.locator(".card").get_by_role("button", name="Approve")).to_have_count(0)
    await expect(page.get_by_role("region", name="Prompt")).to_have_text("Weather, and pay.")
    await page.get_by_role("button", name="Skip to end").click()
    await ended(page)
    await axe(page)
    await expect(page.get_by_text("Sunny, and paid.")).to_be_visible()
    await expect(page.get_by_role("button", name="Run again")).to_have_count(0)
    await place.fill("0")
    await expect(page.locator(".card")).to_have_count(0)


async def test_a_replay_takes_the_time_that_the_run_took_or_a_part_of_it(
    stage_of: StageOf, tmp_path: Path
) -> None:
    stage = await stage_of([call("pay", amount=5), "Paid."])
    file = slowed(await exported(stage, tmp_path), 1)
    page = await stage.open("/replay", context=await stage.context())
    await page.clock.install()
    await open_file(page, json.dumps(file).encode())
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000 + 1"))
    place = page.get_by_role("slider", name="Position in the run")
    for speed, passed in [("1×", 2), ("4×", 0.5), ("16×", 0.125)]:
        await page.get_by_role("button", name=speed, exact=True).click()
        before = float(await place.input_value())
        await page.clock.run_for(int(passed * 1000))
        moved = float(await place.input_value()) - before
        assert 1.5 <= moved <= 2.5, speed


async def test_a_file_that_is_no_export_is_refused_with_a_message_and_leaves_the_page_as_it_was(
    stage_of: StageOf,
) -> None:
    page = await (await stage_of()).open("/replay")
    later = {"format": "windlass.run", "version": 9, "events": []}
    for content, why in [
        (b"\x89PNG", "photo.png: Not a run export: invalid JSON"),
        (b"{}", 'photo.png: Not a run export: it has no "format": "windlass.run".'),
        (json.dumps(later).encode(), "photo.png: This run export has version 9"),
    ]:
        await open_file(page, content, "photo.png")
        await expect(page.locator("main").get_by_role("alert")).to_contain_text(why)
    await expect(page.get_by_role("group", name="Player")).to_have_count(0)


async def test_a_file_can_be_dropped_on_the_page(stage_of: StageOf, tmp_path: Path) -> None:
    stage = await stage_of([call("pay", amount=5), "Paid."])
    text = json.dumps(await exported(stage, tmp_path))
    page = await stage.open("/replay")
    files = await page.evaluate_handle(DROPPED, text)
    await page.locator(".run-page").dispatch_event("drop", {"dataTransfer": files})
    await page.get_by_role("button", name="Skip to end").click()
    await ended(page)
