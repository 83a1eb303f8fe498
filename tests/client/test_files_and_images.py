"""Files and images in prompts, and how programs use replies, events and chats."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import (
    AsyncClient,
    Client,
    ConfigError,
    FileData,
    InlineData,
    Message,
    Part,
    RunEnded,
    Text,
    TextDelta,
)
from windlass.events import event_from_json, event_to_json, event_to_json_bytes, event_to_sse
from windlass.testing import FakeGemini, FakeOpenAI, ScriptedModel, call, refuse, slow

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
ADDRESS = "https://example.org/cat.png?size=2"


@pytest.fixture
def cat(tmp_path: Path) -> Path:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    return path


def asked(model: ScriptedModel) -> Message:
    """The last message that the model was sent."""
    return model.requests[-1].messages[-1]


# Part.from_file


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("cat.png", PNG, InlineData(PNG, "image/png")),
        ("cat.webp", b"x", InlineData(b"x", "image/webp")),
        ("cat.JPG", b"x", InlineData(b"x", "image/jpeg")),
        ("cat", PNG, InlineData(PNG, "image/png")),
        ("voice.m4a", b"x", InlineData(b"x", "audio/mp4")),
        ("notes.txt", "grüße\n".encode(), Text("grüße\n")),
        ("notes.md", b"\xef\xbb\xbf# Title", Text("# Title")),
        ("data.json", b"{}", Text("{}")),
        ("Makefile", b"all:\n", Text("all:\n")),
        ("empty.txt", b"", Text("")),
    ],
)
def test_a_file_is_its_text_or_its_bytes_with_their_type(
    tmp_path: Path, name: str, data: bytes, part: Part
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert Part.from_file(path) == part
    assert Part.from_file(str(path)) == part


def test_a_type_that_is_given_is_not_guessed(cat: Path) -> None:
    assert Part.from_file(cat, "image/x-own") == InlineData(PNG, "image/x-own")
    cat.write_bytes(b"just words")
    assert Part.from_file(cat, mime_type="text/plain") == Text("just words")


def test_a_document_reaches_openai_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")
    with FakeOpenAI(["Read."]) as fake:
        with Client("openai/gpt", base_url=fake.base_url, api_key="k") as client:
            client.generate(["Summarize this", path])
        content = fake.requests[0].body["messages"][0]["content"]
    data = base64.b64encode(b"%PDF").decode()
    assert content[1] == {
        "type": "file",
        "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{data}"},
    }


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("absent.png", None, "cannot read {}: No such file or directory"),
        ("notes.txt", b"\xff\xfe\x00", "cannot read {} as text/plain: it is not UTF-8"),
        ("thing.qqq", b"\x00\xff", "cannot tell the type of {}: use Part.from_file(path, mime_t"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, data: bytes | None, said: str
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with Client(ScriptedModel(["Never."])) as client:
        for use in (Part.from_file, client.generate, Message.user):
            with pytest.raises(ConfigError) as caught:
                use(path)
            assert str(caught.value).startswith(said.format(path))


def test_a_folder_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        Part.from_file(tmp_path)


# Prompts


def test_a_path_in_a_prompt_is_the_file(cat: Path) -> None:
    model = ScriptedModel(["A cat.", "A cat."])
    with Client(model) as client:
        client.generate(["Describe this", cat])
        assert asked(model) == Message.user("Describe this", InlineData(PNG, "image/png"))
        client.generate(cat)
        assert asked(model) == Message.user(cat)


async def test_a_path_in_an_asynchronous_prompt_is_the_file(cat: Path) -> None:
    model = ScriptedModel(["A cat."])
    async with AsyncClient(model) as client:
        await client.generate(["Describe this", cat])
    assert asked(model) == Message.user("Describe this", cat)


IMAGES: list[tuple[Callable[[Path], Any], InlineData | FileData]] = [
    (lambda cat: cat, InlineData(PNG, "image/png")),
    (lambda cat: str(cat), InlineData(PNG, "image/png")),
    (lambda cat: PNG, InlineData(PNG, "image/png")),
    (lambda cat: b"\xff\xd8\xff\xe0", InlineData(b"\xff\xd8\xff\xe0", "image/jpeg")),
    (lambda cat: b"RIFF....WEBPVP8", InlineData(b"RIFF....WEBPVP8", "image/webp")),
    (lambda cat: ADDRESS, FileData(ADDRESS, "image/png")),
    (lambda cat: "https://example.org/1", FileData("https://example.org/1")),
    (lambda cat: "data:image/gif;base64,R0lG", InlineData(b"GIF", "image/gif")),
    (lambda cat: InlineData(b"x", "image/x-own"), InlineData(b"x", "image/x-own")),
]


@pytest.mark.parametrize(("image", "part"), IMAGES)
def test_images_come_after_the_prompt(
    cat: Path, image: Callable[[Path], Any], part: InlineData | FileData
) -> None:
    model = ScriptedModel(["A cat."])
    with Client(model) as client:
        client.generate("Describe this", images=[image(cat)])
    assert asked(model) == Message.user("Describe this", part)


def test_every_verb_accepts_images(cat: Path) -> None:
    model = ScriptedModel(["A cat."] * 5)
    expected = Message.user("What is it?", cat)
    with Client(model) as client:
        client.generate("What is it?", images=[cat])
        assert asked(model) == expected
        with client.stream("What is it?", images=[cat]) as stream:
            assert stream.reply.text == "A cat."
        assert asked(model) == expected
        client.start("What is it?", images=[cat]).result()
        assert asked(model) == expected
        chat = client.chat()
        chat.send("What is it?", images=[cat])
        assert asked(model) == expected
        with chat.stream("What is it?", images=[cat]) as stream:
            assert stream.reply.text == "A cat."
        assert asked(model) == expected


async def test_every_asynchronous_verb_accepts_images(cat: Path) -> None:
    model = ScriptedModel(["A cat."] * 5)
    expected = Message.user("What is it?", cat)
    async with AsyncClient(model) as client:
        await client.generate("What is it?", images=[cat])
        assert asked(model) == expected
        async with client.stream("What is it?", images=[cat]) as stream:
            assert [e async for e in stream]
        assert asked(model) == expected
        await (await client.start("What is it?", images=[cat])).result()
        assert asked(model) == expected
        chat = client.chat()
        await chat.send("What is it?", images=[cat])
        assert asked(model) == expected
        async with chat.stream("What is it?", images=[cat]) as stream:
            assert [e async for e in stream]
        assert asked(model) == expected


def test_images_join_the_last_message_of_a_conversation(cat: Path) -> None:
    model = ScriptedModel(["A cat."] * 3)
    history = [Message.user("Hi"), Message.assistant("Hello.")]
    with Client(model) as client:
        client.generate([*history, {"role": "user", "content": "What is it?"}], images=[cat])
        assert asked(model) == Message.user("What is it?", cat)
        client.generate(history, images=[cat])
        assert model.requests[-1].messages == (*history, Message.user(cat))
        client.generate("", images=[cat])
        assert asked(model) == Message.user(cat)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ([b"who knows"], "cannot tell the type of an image from its bytes"),
        ([3], "an image cannot be a int: 3"),
        (["absent.png"], "cannot read absent.png"),
        ("cat.png", "images must be a list"),
        (b"\x89PNG", "images must be a list"),
        (["data:image/png"], "images.image_url.url: the data URL has no comma"),
    ],
)
def test_a_value_that_is_not_an_image_is_refused(images: Any, said: str) -> None:
    with Client(ScriptedModel([])) as client, pytest.raises(ConfigError, match=said):
        client.generate("What is it?", images=images)


def test_a_text_file_is_refused_as_an_image(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("words")
    with Client(ScriptedModel([])) as client, pytest.raises(ConfigError, match="is not an image"):
        client.generate("What is it?", images=[path])


def test_images_reach_both_wires(cat: Path) -> None:
    data = base64.b64encode(PNG).decode()
    with FakeOpenAI(["A cat."]) as fake:
        with Client("openai/gpt", base_url=fake.base_url, api_key="k") as client:
            client.generate("What?", images=[cat, ADDRESS])
        content = fake.requests[0].body["messages"][0]["content"]
    urls = [part["image_url"]["url"] for part in content[1:]]
    assert urls == [f"data:image/png;base64,{data}", ADDRESS]
    with FakeGemini(["A cat."]) as fake:
        with Client("gemini/flash", base_url=fake.base_url, api_key="k") as client:
            client.generate("What?", images=[cat, ADDRESS])
        parts = fake.requests[0].body["contents"][0]["parts"]
    assert parts[1] == {"inlineData": {"mimeType": "image/png", "data": data}}
    assert parts[2] == {"fileData": {"mimeType": "image/png", "fileUri": ADDRESS}}


# Events, replies


def test_an_event_is_json_as_text_and_as_bytes() -> None:
    event = TextDelta("grüße\n", seq=7)
    text = event_to_json(event)
    assert isinstance(text, str)
    assert event_to_json_bytes(event) == text.encode()
    assert event_from_json(text) == event_from_json(event_to_json_bytes(event)) == event
    assert event_to_sse(event) == f"id: 7\nevent: text_delta\ndata: {text}\n\n"


def read(chunks: list[str]) -> list[Any]:
    """The server-sent events that a browser receives. The id is the event's number."""
    events: list[Any] = []
    for chunk in chunks:
        assert chunk.endswith("\n\n")
        fields = dict(line.split(": ", 1) for line in chunk.splitlines() if line)
        event = event_from_json(fields["data"])
        assert fields["id"] == str(event.seq)
        assert fields["event"] == json.loads(fields["data"])["event"]
        events.append(event)
    return events


@pytest.mark.parametrize("entered", [True, False])
async def test_a_stream_is_server_sent_events(entered: bool) -> None:
    async with AsyncClient(ScriptedModel(["a b c"])) as client:
        stream = client.stream("?")
        if entered:
            async with stream:
                chunks = [chunk async for chunk in stream.sse()]
        else:
            chunks = [chunk async for chunk in stream.sse()]
    with Client(ScriptedModel(["a b c"])) as client:
        sync_stream = client.stream("?")
        if entered:
            with sync_stream:
                same = list(sync_stream.sse())
        else:
            same = list(sync_stream.sse())
    for events in (read(chunks), read(same)):
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "a b c"
        assert isinstance(events[-1], RunEnded)


async def test_a_run_that_fails_ends_its_server_sent_events_with_the_reason() -> None:
    async with AsyncClient(ScriptedModel([refuse(400, "down")])) as client:
        events = read([chunk async for chunk in client.stream("?").sse()])
    assert (events[-1].reason, events[-1].error) == ("error", "down (HTTP 400)")
    with Client(ScriptedModel([refuse(400, "down")])) as client:
        assert read(list(client.stream("?").sse()))[-1].reason == "error"


async def test_a_reader_that_leaves_stops_the_run() -> None:
    async with AsyncClient(ScriptedModel([slow("One two.", after=1)])) as client:
        stream = client.stream("?")
        chunks = stream.sse()
        async for chunk in chunks:
            if "text_delta" in chunk:
                break
        await chunks.aclose()
        assert stream.run.stop_reason == "stopped"


def test_the_repr_of_a_reply_is_short() -> None:
    with Client(ScriptedModel([call("f"), "It is sunny. " * 50]), tools=[lambda_tool]) as client:
        reply = client.generate("?" * 10_000)
    start = ("It is sunny. " * 50)[:57]
    assert repr(reply) == (
        f"Reply('{start}...', stop_reason='answer', tokens={reply.usage.total_tokens}, rounds=2)"
    )
    assert str(reply) == repr(reply)


def lambda_tool() -> str:
    """Nothing."""
    return ""


lambda_tool.__name__ = "f"


# Chats


@pytest.mark.parametrize("kept", [True, False])
def test_chats_are_listed_the_last_used_first(tmp_path: Path, kept: bool) -> None:
    model = ScriptedModel(["One.", "Two.", "Three.", "Four."])
    with Client(model, log=tmp_path / "runs.db" if kept else None) as client:
        assert client.chats() == []
        first, second, silent = client.chat(), client.chat(), client.chat()
        first.send("The first question")
        second.send("Another")
        with first.stream("And more") as stream:
            assert stream.reply.text == "Three."
        client.generate("Not a chat")
        found = client.chats()
        assert [chat.id for chat in found] == [first.id, second.id]
        assert [chat.title for chat in found] == ["The first question", "Another"]
        assert [chat.runs for chat in found] == [2, 1]
        assert not any(chat.running for chat in found)
        assert found[0].created <= found[1].created <= found[1].updated <= found[0].updated
        assert found[0].model == model.name
        again = client.chat(id=found[0].id)
        assert again.messages == first.messages
        assert silent.messages == ()


async def test_an_asynchronous_client_lists_chats_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    async with AsyncClient(ScriptedModel(["One."]), log=file) as client:
        chat = client.chat()
        await chat.send("Hello?")
    async with AsyncClient(ScriptedModel(["Two."]), log=file) as client:
        [found] = await client.chats()
        assert (found.id, found.title) == (chat.id, "Hello?")
        assert (await client.chat(id=found.id).send("More?")).text == "Two."
        [found] = await client.chats()
        assert found.runs == 2


async def test_a_chat_in_memory_is_forgotten_with_its_last_reference() -> None:
    async with AsyncClient(ScriptedModel(["One."])) as client:
        chat = client.chat()
        await chat.send("Hello?")
        assert client.chat(id=chat.id) is chat
        del chat
        assert await client.chats() == []
        with pytest.raises(ConfigError, match="log="):
            client.chat(id="chat_unknown")
