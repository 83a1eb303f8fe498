"""What goes with a message: the model, its tools, instructions, parameters and pictures."""

import base64

from playwright.async_api import FilePayload, expect
from tests.console.axe import axe
from tests.console.chatting import Listening, answered, ask, message_box, send_button, turns
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER

from windlass.content import InlineData, Text
from windlass.model import ToolChoice

pytestmark = IN_ONE_BROWSER

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PASTE = """({ data, box }) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
  const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.querySelector(box).dispatchEvent(paste);
}"""


BRING = """({ name, kind, event }) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(["1,2"], name, { type: kind }));
  const target = document.querySelector(".composer textarea");
  const options = { bubbles: true, cancelable: true };
  target.dispatchEvent(event === "drop"
    ? new DragEvent("drop", { ...options, dataTransfer: transfer })
    : new ClipboardEvent("paste", { ...options, clipboardData: transfer }));
}"""


DISTANCE_FROM_CHIP = """(button) => {
  const chip = button.parentElement.querySelector(".file-chip").getBoundingClientRect();
  return Math.abs(button.getBoundingClientRect().right - chip.right);
}"""


async def test_the_model_is_offered_the_tools_that_are_ticked(stage_of: StageOf) -> None:
    model = Listening("Yes.")
    stage = await stage_of(model)
    page = await stage.open("/")
    await ask(page, "All?")
    await answered(page, 1)
    everything = [tool.name for tool in stage.tools.tools()]
    assert len(model.requests[-1].tools) == len(everything)

    tools = page.get_by_role("button", name=f"{len(everything)} tools")
    await tools.click()
    await page.get_by_role("checkbox", name="pay").uncheck()
    await axe(page)
    await expect(page.get_by_role("button", name=f"{len(everything) - 1} of")).to_be_visible()
    await ask(page, "All but one?")
    await answered(page, 2)
    others = tuple(name for name in everything if name != "pay")
    assert model.requests[-1].tool_choice == ToolChoice("auto", others)

    await page.get_by_role("button", name=f"{len(everything) - 1} of").click()
    await page.get_by_role("button", name="None", exact=True).click()
    await ask(page, "None?")
    await answered(page, 3)
    assert model.requests[-1].tools == ()
    await page.reload()
    await expect(page.get_by_role("button", name="Tools off")).to_be_visible()


async def test_instructions_and_parameters_reach_the_model_and_stay(stage_of: StageOf) -> None:
    model = Listening("Yes.")
    stage = await stage_of(model)
    page = await stage.open("/")
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_label("System prompt").fill("Be brief.")
    for name, value in [("Temperature", "0.5"), ("Top p", "0.9"), ("Max tokens", "50")]:
        await page.get_by_label(name).fill(value)
    await page.get_by_label("Seed").fill("seven")
    await expect(page.get_by_label("Seed")).to_have_accessible_description(
        "Seed must be a whole number."
    )
    await message_box(page).fill("Hello")
    await expect(send_button(page)).to_be_disabled()
    await expect(send_button(page)).to_have_accessible_description("Seed must be a whole number.")
    await axe(page)
    await page.get_by_label("Seed").fill("7")
    await ask(page, "Hello")
    await answered(page, 1)
    assert model.conversation == [("system", "Be brief."), ("user", "Hello")]
    settings = model.requests[-1].settings
    given = (settings.temperature, settings.top_p, settings.max_tokens, settings.seed)
    assert given == (0.5, 0.9, 50, 7)

    again = await stage.open("/", context=page.context)
    await again.get_by_role("button", name="Settings").click()
    await expect(again.get_by_label("System prompt")).to_have_value("Be brief.")


async def test_another_model_answers_when_it_is_chosen(stage_of: StageOf) -> None:
    stage = await stage_of("I am the first.", extra={"other": "I am the other."})
    page = await stage.open("/")
    await page.get_by_label("Model").select_option("other")
    await expect(page.get_by_role("button", name="No tools")).to_be_visible()
    await ask(page, "Who?")
    await expect(turns(page)).to_contain_text("I am the other.")
    await page.reload()
    await expect(page.get_by_label("Model")).to_have_value("other")


async def test_pictures_are_chosen_pasted_removed_and_seen_by_the_model(stage_of: StageOf) -> None:
    model = Listening("A dot.")
    stage = await stage_of(model)
    page = await stage.open("/")
    chosen: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL}
    await page.locator("input[type=file]").set_input_files(chosen)
    pictures = page.get_by_role("list", name="Attachments").get_by_role("img")
    await expect(pictures).to_have_count(1)
    pasted = {"data": base64.b64encode(PIXEL).decode(), "box": ".composer textarea"}
    await page.evaluate(PASTE, pasted)
    await expect(pictures).to_have_count(2)
    await axe(page)
    await page.get_by_role("button", name="Remove image 2").click()
    await expect(pictures).to_have_count(1)

    await ask(page, "What is this?")
    await answered(page, 1)
    [text, picture] = model.messages[0].parts
    assert isinstance(picture, InlineData)
    assert (picture.data, picture.mime_type) == (PIXEL, "image/png")
    await page.reload()
    await expect(page.get_by_alt_text("Image 1 of the message")).to_be_visible()
    await turns(page).get_by_role("button", name="Retry").click()
    await answered(page, 1)
    assert model.messages[0].parts == (text, picture)


async def test_text_tables_and_pdfs_are_attached_by_picker_paste_and_drop(
    stage_of: StageOf,
) -> None:
    model = Listening("Read.")
    stage = await stage_of(model)
    page = await stage.open("/")
    long = "notes-with-a-name-that-is-too-long-for-its-place.txt"
    notes: FilePayload = {"name": long, "mimeType": "text/plain", "buffer": b"Hello"}
    await page.locator("input[type=file]").set_input_files(notes)
    for name, kind, event in [("a.csv", "text/csv", "drop"), ("b.pdf", "application/pdf", "paste")]:
        await page.evaluate(BRING, {"name": name, "kind": kind, "event": event})
    chips = page.get_by_role("list", name="Attachments").locator(".file-name")
    await expect(chips).to_have_text([long, "a.csv", "b.pdf"])
    await axe(page)
    remove = page.get_by_role("button", name=f"Remove {long}")
    assert await remove.evaluate(DISTANCE_FROM_CHIP) < 12
    await remove.click()
    await ask(page, "Sum it.")
    await answered(page, 1)
    text, table, document = model.messages[0].parts
    assert (text, table) == (Text("Sum it."), Text('<file name="a.csv">\n1,2\n</file>'))
    assert isinstance(document, InlineData)
    assert (document.data, document.mime_type) == (b"1,2", "application/pdf")
    await expect(turns(page).locator(".file-name")).to_have_text(["a.csv", "b.pdf"])
    await page.reload()
    await expect(turns(page).locator(".file-name")).to_have_text(["a.csv", "b.pdf"])


async def test_a_message_about_a_file_goes_when_it_no_longer_applies(stage_of: StageOf) -> None:
    stage = await stage_of("Never.")
    page = await stage.open("/")
    problem = page.locator(".writing-problem")
    archive: FilePayload = {"name": "a.zip", "mimeType": "application/zip", "buffer": b"PK\0\xff"}
    await page.locator("input[type=file]").set_input_files(archive)
    await expect(problem).to_have_text(
        "a.zip cannot be attached. Use a text, CSV or PDF file, or an image."
    )
    await message_box(page).fill("N")
    await expect(problem).to_have_count(0)


async def test_a_model_that_takes_no_pictures_is_named_until_another_one_is_chosen(
    stage_of: StageOf,
) -> None:
    stage = await stage_of("Yes.", target="local/qwen", extra={"other": "Hello."})
    page = await stage.open("/")
    chosen: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL}
    await page.locator("input[type=file]").set_input_files(chosen)
    problem = page.get_by_role("alert").filter(has_text="cannot read images")
    await expect(problem).to_contain_text("The model scripted cannot read images.")
    await message_box(page).fill("What is this?")
    await expect(send_button(page)).to_be_disabled()
    await page.get_by_label("Model").select_option("other")
    await expect(problem).to_have_count(0)
    await expect(send_button(page)).to_be_enabled()
    await page.get_by_label("Model").select_option("scripted")
    await expect(problem).to_be_visible()
    await page.get_by_role("button", name="Remove image 1").click()
    await expect(problem).to_have_count(0)
