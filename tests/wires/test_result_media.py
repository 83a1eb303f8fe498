"""Media in the results of tools: where each wire has it, as a table of wire and kind of part."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post
from tests.wires.test_no_part_is_lost import on_aistudio, on_anthropic, on_responses, on_text

from windlass import (
    AsyncClient,
    ConfigError,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    ModelRequest,
    Part,
    tool,
)
from windlass.gateway.app import App
from windlass.gateway.config import GatewayConfig, ModelConfig
from windlass.gateway.gateway import Gateway
from windlass.models.local.model import _as_text
from windlass.testing import ScriptedModel, call, say
from windlass.testing.script import Turn
from windlass.wires.chat.write_request import RequestEncoder as ChatEncoder
from windlass.wires.gemini.write_request import RequestEncoder as GeminiEncoder

BYTES = b"remarkable"
DATA = base64.b64encode(BYTES).decode()
URL = "https://example.com/remarkable"
MEDIA: dict[str, InlineData | FileData] = {
    "image": InlineData(BYTES, "image/png"),
    "gif": InlineData(BYTES, "image/gif"),
    "audio": InlineData(BYTES, "audio/wav"),
    "pdf": InlineData(BYTES, "application/pdf"),
    "text file": InlineData(BYTES, "text/plain"),
    "zip": InlineData(BYTES, "application/zip"),
    "image at a URL": FileData(URL, "image/png"),
    "film at a URL": FileData(URL, "video/mp4"),
}

RESULT, AFTER, LABEL = "in the result", "in a user turn after it", "a text in its place"
TABLE: dict[str, dict[str, str]] = {
    "chat": {**dict.fromkeys(MEDIA, AFTER), "film at a URL": LABEL},
    "responses": {**dict.fromkeys(MEDIA, RESULT), "audio": AFTER},
    "anthropic": {
        **dict.fromkeys(MEDIA, RESULT),
        "audio": LABEL,
        "zip": LABEL,
        "film at a URL": LABEL,
    },
    "gemini 3": {
        **dict.fromkeys(MEDIA, AFTER),
        "image": RESULT,
        "pdf": RESULT,
        "text file": RESULT,
        "image at a URL": RESULT,
    },
    "gemini 2.5": dict.fromkeys(MEDIA, AFTER),
    "emulated": {**dict.fromkeys(MEDIA, AFTER), "film at a URL": LABEL},
    "aistudio": dict.fromkeys(MEDIA, LABEL),
}
"""Where a wire has the media of a result. docs/wires.md has the same table."""


def conversation(part: InlineData | FileData, text: str = "Here it is.") -> list[Message]:
    """A call whose result has a text and media."""
    return [
        Message.user("Go"),
        Message.assistant(FunctionCall("f", "{}", "c1")),
        Message.tool([FunctionResponse("f", {"output": text}, "c1", (part,))]),
    ]


def chat_place(messages: list[Message]) -> tuple[str, str]:
    """What the result has, and what follows it."""
    body = json.loads(ChatEncoder("m", official=True).body(ModelRequest(messages)))
    [*_, result, after] = body["messages"]
    assert (result["role"], after["role"]) == ("tool", "user")
    assert isinstance(result["content"], str)  # official services accept nothing else
    assert after["content"][0]["text"] == "Media from the tool f (c1):"
    return json.dumps(result), json.dumps(after)


def responses_place(messages: list[Message]) -> tuple[str, str]:
    items = json.loads(on_responses(messages))["input"]
    [result] = [each for each in items if each["type"] == "function_call_output"]
    output = result["output"]
    kinds = {"input_text", "input_image", "input_file"}  # all that the service accepts
    assert isinstance(output, str) or {each["type"] for each in output} <= kinds
    return json.dumps(result), json.dumps(items[items.index(result) + 1 :])


def anthropic_place(messages: list[Message]) -> tuple[str, str]:
    [*_, last] = json.loads(on_anthropic(messages))["messages"]
    [result] = last["content"]
    assert {each["type"] for each in result["content"]} <= {"text", "image", "document"}
    return json.dumps(result), ""


def gemini_place(messages: list[Message], signed: bool) -> tuple[str, str]:
    encoder = GeminiEncoder(ids=True, signed=signed)
    [*_, last] = json.loads(encoder.body(ModelRequest(messages)))["contents"]
    [result, *after] = last["parts"]
    assert result.keys() == {"functionResponse"}
    assert signed or "parts" not in result["functionResponse"]
    return json.dumps(result), json.dumps(after)


async def place_of(wire: str, messages: list[Message]) -> tuple[str, str]:
    match wire:
        case "chat":
            return chat_place(messages)
        case "responses":
            return responses_place(messages)
        case "anthropic":
            return anthropic_place(messages)
        case "aistudio":
            return on_aistudio(messages), ""
        case "emulated":
            return "", await on_text(messages)
        case _:
            return gemini_place(messages, wire == "gemini 3")


@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("wire", TABLE)
async def test_the_media_of_a_result_match_the_table(wire: str, kind: str) -> None:
    part = MEDIA[kind]
    result, after = await place_of(wire, conversation(part))
    mark = (DATA, BYTES.decode()) if isinstance(part, InlineData) else (URL,)
    match TABLE[wire][kind]:
        case "in the result":
            assert any(each in result for each in mark)
            assert not any(each in after for each in mark)
        case "in a user turn after it":
            assert any(each in after for each in mark)
            assert not any(each in result for each in mark)
        case _:
            assert DATA not in result + after
            assert (part.mime_type or "") in result + after
    assert "Here it is." in result + after


def test_the_docs_have_the_same_table() -> None:
    page = (Path(__file__).parents[2] / "docs/wires.md").read_text()
    for wire, cells in TABLE.items():
        [line] = [each for each in page.splitlines() if each.startswith(f"| {wire} |")]
        assert [cell.strip() for cell in line.split("|")[2:-1]] == list(cells.values())
    assert f"| Model | {' | '.join(MEDIA)} |" in page


def test_the_local_model_reads_a_label() -> None:
    mark = {"windlass": {"results": True}}
    result = Message("user", (*Message.user("Done.").parts, MEDIA["image"]), mark)
    assert _as_text(result).parts == Message.user("Done.\n[image/png, 10 bytes]").parts
    labelled = Message("user", (*Message.user("[image/png, 10 bytes]").parts, MEDIA["image"]), mark)
    assert _as_text(labelled).text == "[image/png, 10 bytes]"
    asked = Message.user("Look", MEDIA["image"])
    assert _as_text(asked) is asked


# What tools return.


@tool
def chart(kind: str) -> Any:
    """Draws a chart."""
    part = MEDIA[kind]
    values: dict[str, Any] = {
        "image": part,
        "audio": [part, "of a bird"],
        "pdf": {"report": part, "pages": 3},
        "text file": Part.from_text("plain words"),
        "gif": (part, MEDIA["image"]),
    }
    return values[kind]


@pytest.mark.parametrize(
    ("kind", "output", "parts"),
    [
        ("image", "[image/png, 10 bytes]", 1),
        ("audio", ["[audio/wav, 10 bytes]", "of a bird"], 1),
        ("pdf", {"report": "[application/pdf, 10 bytes]", "pages": 3}, 1),
        ("text file", "plain words", 0),
        ("gif", ["[image/gif, 10 bytes]", "[image/png, 10 bytes]"], 2),
    ],
)
async def test_a_tool_may_return_media_alone_in_a_list_or_in_an_object(
    kind: str, output: object, parts: int
) -> None:
    async with AsyncClient(ScriptedModel([call("chart", kind=kind), "Nice."])) as client:
        reply = await client.generate("Draw", tools=[chart])
    [result] = reply.results
    assert (result.output, len(result.parts)) == (output, parts)
    assert reply.parts == ()


async def test_the_media_of_an_answer_are_its_parts(tmp_path: Path) -> None:
    turn = Turn(parts=(MEDIA["image"], *Message.user("A chart.").parts, MEDIA["audio"]))
    async with AsyncClient(ScriptedModel([turn])) as client:
        reply = await client.generate("Draw")
    assert reply.parts == (MEDIA["image"], MEDIA["audio"])
    assert reply.text == "A chart."
    image, audio = reply.parts
    assert isinstance(image, InlineData)
    assert isinstance(audio, InlineData)
    assert image.save(tmp_path / "new" / "chart") == tmp_path / "new" / "chart.png"
    assert audio.save(str(tmp_path / "sound.wave")) == tmp_path / "sound.wave"
    assert (tmp_path / "new/chart.png").read_bytes() == (tmp_path / "sound.wave").read_bytes()


def test_media_at_a_url_are_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"download the file from {URL}"):
        MEDIA["image at a URL"].save(tmp_path / "image.png")


@pytest.mark.parametrize(
    ("mime", "suffix"),
    [
        ("image/jpeg", ".jpg"),
        ("image/webp", ".webp"),
        ("audio/mpeg", ".mp3"),
        ("audio/wav", ".wav"),
        ("application/pdf", ".pdf"),
        ("text/plain; charset=utf-8", ".txt"),
        ("application/x-unheard-of", ""),
    ],
)
def test_a_saved_part_has_the_suffix_of_its_type(mime: str, suffix: str, tmp_path: Path) -> None:
    assert InlineData(b"x", mime).save(tmp_path / "name").name == f"name{suffix}"


# Results of a client, on every wire of the gateway.

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {
                    "role": "tool",
                    "tool_call_id": "c1",
                    "content": [
                        {"type": "text", "text": "Here it is."},
                        {
                            "type": "image_url",
                            "image_url": {"url": f"data:image/png;base64,{DATA}"},
                        },
                    ],
                },
            ],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "model": "m",
            "input": [
                {"role": "user", "content": "Go"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [
                        {"type": "input_text", "text": "Here it is."},
                        {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
                    ],
                },
            ],
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": "Go"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [
                                {"type": "text", "text": "Here it is."},
                                {
                                    "type": "image",
                                    "source": {
                                        "type": "base64",
                                        "media_type": "image/png",
                                        "data": DATA,
                                    },
                                },
                            ],
                        }
                    ],
                },
            ],
        },
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Go"}]},
                {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f"}}]},
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "c1",
                                "name": "f",
                                "response": {"output": "Here it is."},
                                "parts": [{"inlineData": {"mimeType": "image/png", "data": DATA}}],
                            }
                        }
                    ],
                },
            ],
        },
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic", "gemini", "local"])
async def test_a_client_may_send_an_image_in_a_result_to_any_model(
    client: str, provider: str
) -> None:
    model = ScriptedModel([say("Nice.")])
    config = GatewayConfig(models={"m": ModelConfig(name="m", target=f"{provider}/m")})
    path, body = CLIENTS[client]
    answer = await post(App(Gateway(config, models={"m": model})), body, path)
    assert answer.status == 200, answer.body
    [request] = model.requests
    [result] = [each for message in request.messages for each in message.responses]
    assert (result.text, [part.mime_type for part in result.parts]) == (
        "Here it is.",
        ["image/png"],
    )
    [part] = result.parts
    assert isinstance(part, InlineData)
    assert part.data == BYTES
    if client == "chat":  # it is sent once, whatever the model's wire is
        assert chat_place(list(request.messages))[0].count(DATA) == 0
