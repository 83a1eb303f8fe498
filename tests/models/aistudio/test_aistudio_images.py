"""Images in prompts: uploaded by the page's own menu."""

import base64
from typing import Any

import pytest
from tests.models.aistudio.test_aistudio_calling import events_of, text_in
from tests.support.browsing import IN_ONE_BROWSER, MakeModel

from windlass import Message
from windlass.content import InlineData
from windlass.errors import ModelError
from windlass.model import ModelRequest
from windlass.models.aistudio.wire import PagePrompt, plan_of, said_turns
from windlass.testing.aistudio import FakeAIStudio

pytestmark = IN_ONE_BROWSER

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
IMAGE = InlineData(PIXEL, "image/png")
ASKED = Message.user("What is this?", IMAGE)


def images_in(body: Any) -> list[bytes]:
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [base64.b64decode(part["inlineData"]["data"]) for part in parts if "inlineData" in part]


async def test_an_image_is_uploaded_with_its_prompt(model_on: MakeModel) -> None:
    with FakeAIStudio(["A pixel.", "Red."], late={"upload": 0.05}) as fake:
        model = model_on(fake.url)
        assert text_in(await events_of(model, ModelRequest([ASKED]))) == "A pixel."
        body = fake.requests[0].body
        assert (images_in(body), body["prompt"]) == ([PIXEL], "What is this?")
        again = [ASKED, Message.assistant("A pixel."), Message.user("Which colour?")]
        assert text_in(await events_of(model, ModelRequest(again))) == "Red."
        assert fake.requests[1].body["prompt"] == "Which colour?"


async def test_two_images_are_uploaded_in_their_order(model_on: MakeModel) -> None:
    other = InlineData(PIXEL + b"\0", "image/png")
    with FakeAIStudio(["Two."]) as fake:
        request = ModelRequest([Message.user("Compare.", IMAGE, other)])
        await events_of(model_on(fake.url), request)
        assert images_in(fake.requests[0].body) == [PIXEL, PIXEL + b"\0"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"refuses_images": True}, "Cannot upload image-1.png"),
        ({"broken": {"attach_button"}}, "'attach_button'"),
        ({"broken": {"file_input"}}, "'file_input'"),
    ],
)
async def test_an_upload_that_fails_is_an_error_and_nothing_is_asked(
    model_on: MakeModel, options: dict[str, Any], said: str
) -> None:
    with FakeAIStudio(["never"], **options) as fake:
        model = model_on(fake.url, settings={"ui_timeout_ms": 2000}, attempts=1)
        with pytest.raises(ModelError, match=said):
            await events_of(model, ModelRequest([ASKED]))
        assert fake.requests == []


async def test_images_of_a_history_that_the_page_does_not_hold_are_uploaded_and_named() -> None:
    plan = plan_of([ASKED, Message.assistant("A pixel."), Message.user("And this?", IMAGE)], None)
    assert isinstance(plan, PagePrompt)
    assert plan.images == (IMAGE, IMAGE)
    assert '"images":["attached image 1"]' in plan.text


async def test_a_chat_with_another_image_is_another_chat() -> None:
    live = said_turns([ASKED, Message.assistant("A pixel.")])
    other = Message.user("What is this?", InlineData(b"other", "image/png"))
    history = [other, Message.assistant("A pixel."), Message.user("And?")]
    plan = plan_of(history, live)
    assert isinstance(plan, PagePrompt)
    assert plan.new_chat
