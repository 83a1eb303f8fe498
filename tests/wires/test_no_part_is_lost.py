"""Every kind of part, in every role, on every wire: in the request, or an error that names it."""

import base64
from collections.abc import Callable
from typing import Any, get_args

import pytest

from windlass import (
    Client,
    ConfigError,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Message,
    ModelError,
    ModelRequest,
    Opaque,
    Part,
    Text,
    Thought,
)
from windlass.content import AnyPart, Role, paired
from windlass.emulation.model import EmulatedModel
from windlass.emulation.profiles import StepsModel
from windlass.models.aistudio.wire import CallAnswers, check_request, plan_of, said_turns
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    ScriptedModel,
    call,
)
from windlass.testing import calls as several
from windlass.wires.chat.write_request import RequestEncoder as OpenAIEncoder
from windlass.wires.gemini.write_request import RequestEncoder as GeminiEncoder
from windlass.wires.messages.write_request import RequestEncoder as AnthropicEncoder
from windlass.wires.responses.write_request import RequestEncoder as ResponsesEncoder

MARK = "remarkable"
BYTES = base64.b64encode(MARK.encode()).decode().rstrip("=")
TOOLS = (FunctionDeclaration("f", "", {"type": "object", "properties": {"a": {}}}),)

PARTS: dict[str, AnyPart] = {
    "text": Text(MARK),
    "thought": Thought(MARK),
    "image": InlineData(MARK.encode(), "image/png"),
    "sound": InlineData(MARK.encode(), "audio/wav"),
    "file": InlineData(MARK.encode(), "application/pdf"),
    "address": FileData(f"https://example.com/{MARK}", "image/png"),
    "address of a film": FileData(f"https://example.com/{MARK}", "video/mp4"),
    "call": FunctionCall("f", f'{{"a":"{MARK}"}}', "c9"),
    "call without an id": FunctionCall("f", f'{{"a":"{MARK}"}}'),
    "response": FunctionResponse("f", {"output": MARK}, "c1"),
    "response without an id": FunctionResponse("f", {"result": MARK}),
    "failed response": FunctionResponse("f", {"error": MARK}),
    "response of nobody": FunctionResponse("g", {"output": MARK}),
    "response with an image": FunctionResponse(
        "f", {"output": 1}, "c1", (InlineData(MARK.encode(), "image/png"),)
    ),
    "OpenAI's own": Opaque("openai", {"type": "file", "file": {"file_id": MARK}}),
    "Gemini's own": Opaque("gemini", {"executableCode": {"code": MARK}}),
    "Anthropic's own": Opaque("anthropic", {"type": "server_tool_use", "id": MARK}),
}
LEFT_OUT = {("thought", "assistant")}
"""Documented: what a model thought is not said again, except to Gemini."""
LABELLED = {("aistudio", "response with an image")}
"""Documented: a text with its type replaces the image."""


NEVER_REFUSED = {
    *(("text", role) for role in get_args(Role)),
    ("thought", "assistant"),
    *((kind, "assistant") for kind in ("call", "call without an id")),
    *(
        (kind, role)
        for kind in ("response", "response without an id", "failed response")
        for role in ("user", "tool")
    ),
}
KEEP_ALL = ("openai", "responses", "gemini", "emulated")
HAS_A_PLACE = {
    *((wire, kind, "user") for wire in KEEP_ALL for kind in ("image", "sound", "file", "address")),
    *(("anthropic", kind, "user") for kind in ("image", "file", "address")),
    *((wire, "response with an image", "tool") for wire in (*KEEP_ALL, "anthropic")),
    *(
        (wire, kind, "assistant")
        for wire in (*KEEP_ALL, "anthropic")
        for kind in ("Gemini's own", "OpenAI's own", "Anthropic's own")
    ),
    ("anthropic", "Anthropic's own", "user"),
    ("openai", "OpenAI's own", "user"),
    ("gemini", "Gemini's own", "user"),
    ("gemini", "response of nobody", "tool"),
}


def on_openai(messages: list[Message]) -> str:
    return OpenAIEncoder("m", official=False).body(ModelRequest(messages)).decode()


def on_responses(messages: list[Message]) -> str:
    return ResponsesEncoder("m", official=False).body(ModelRequest(messages)).decode()


def on_gemini(messages: list[Message]) -> str:
    encoder = GeminiEncoder(ids=True, signed=False)
    return encoder.body(ModelRequest(messages)).decode()


def on_anthropic(messages: list[Message]) -> str:
    return AnthropicEncoder("claude-opus-5-5").body(ModelRequest(messages)).decode()


def on_aistudio(messages: list[Message]) -> str:
    request = ModelRequest(paired(messages), tools=TOOLS)
    check_request(request)
    fresh, begun = plan_of(request.messages, None), said_turns(request.messages[:2])
    said = [
        " ".join(plan.texts)
        if isinstance(plan, CallAnswers)
        else f"{plan.text} {plan.system} {b' '.join(image.data for image in plan.images).decode()}"
        for plan in (fresh, plan_of(request.messages, begun))
    ]
    assert (MARK in said[0]) == (MARK in said[1])
    return said[0]


async def asked(messages: list[Message], wrap: Callable[[ScriptedModel], Any]) -> str:
    inner = ScriptedModel(["{}", "x", "x"])
    async with wrap(inner).stream(ModelRequest(messages, tools=TOOLS)) as events:
        async for _ in events:
            pass
    return " ".join(on_openai(list(request.messages)) for request in inner.requests)


async def on_text(messages: list[Message]) -> str:
    return await asked(messages, EmulatedModel)


async def on_local(messages: list[Message]) -> str:
    return await asked(messages, lambda inner: StepsModel(inner, EmulatedModel(inner)))


FAKES: dict[str, Any] = {
    "openai": FakeOpenAI,
    "responses": FakeResponses,
    "gemini": FakeGemini,
    "anthropic": FakeAnthropic,
}
WIRES: dict[str, Callable[[list[Message]], Any]] = {
    "openai": on_openai,
    "responses": on_responses,
    "gemini": on_gemini,
    "anthropic": on_anthropic,
    "aistudio": on_aistudio,
    "emulated": on_text,
    "local": on_local,
}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_part_is_in_the_request_or_refused(wire: str, kind: str) -> None:
    """In a message of every role, alone and with words beside it."""
    for role in get_args(Role):
        await is_in_the_request_or_refused(wire, role, kind, ())
        await is_in_the_request_or_refused(wire, role, kind, (Text("words"),))


async def is_in_the_request_or_refused(
    wire: str, role: Role, kind: str, beside: tuple[AnyPart, ...]
) -> None:
    messages = [
        Message.user("hi"),
        Message.assistant(FunctionCall("f", "{}", "c1")),
        Message(role, (*beside, PARTS[kind])),
    ]
    try:
        sent = WIRES[wire](messages)
        sent = sent if isinstance(sent, str) else await sent
    except (ConfigError, ModelError):
        assert (kind, role) not in NEVER_REFUSED
        assert (wire, kind, role) not in HAS_A_PLACE
        return
    if (wire, kind) in LABELLED:
        assert "[image/png, 10 bytes]" in sent
        return
    left_out = (kind, role) in LEFT_OUT and wire != "gemini"
    assert (MARK in sent or BYTES in sent) != left_out
    assert "words" in sent or not beside


@pytest.mark.parametrize(
    ("role", "kind", "said"),
    [
        ("user", "call", "a call of 'f' in a message of the role 'user'"),
        ("system", "response", "a response of 'f' in a message of the role 'system'"),
        ("assistant", "response", "a response of 'f' in a message of the role 'assistant'"),
        ("user", "thought", "a part of type Thought in a message of the role 'user'"),
        ("user", "Gemini's own", "a part of gemini (executableCode.code) in a message"),
        ("tool", "response of nobody", "the response of 'g' answers no earlier call"),
        ("user", "address of a film", "needs video/mp4 as bytes"),
    ],
)
def test_an_error_names_the_message_and_the_part(role: Role, kind: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        on_openai([Message.user("hi"), Message(role, (Text("a"), PARTS[kind]))])
    assert str(caught.value).startswith("messages[1]")
    assert said in str(caught.value)


# Which call a response answers.


def matched(*messages: Message) -> list[str]:
    return [each.id for message in paired(messages) for each in message.responses]


def calls(*pairs: tuple[str, str]) -> Message:
    return Message.assistant(*(FunctionCall(name, "{}", call_id) for name, call_id in pairs))


def response(name: str, id: str = "") -> FunctionResponse:
    return Part.from_function_response(name, {"output": 1}, id=id)


def test_responses_answer_calls_by_name_and_order() -> None:
    turn = calls(("f", "a"), ("g", "b"), ("f", "c"))
    assert matched(turn, Message.user(response("g"), response("f"), response("f"))) == [
        "b",
        "a",
        "c",
    ]


def test_a_given_id_is_never_assigned_to_another_call() -> None:
    turn = calls(("f", "a"), ("f", "b"))
    assert matched(turn, Message.tool([response("f"), response("f", "a")])) == ["b", "a"]
    assert matched(turn, Message.tool([response("f")]), Message.tool([response("f", "a")])) == [
        "b",
        "a",
    ]


def test_each_turn_has_its_own_responses() -> None:
    history = [
        calls(("f", "a")),
        Message.user(response("f")),
        calls(("f", "b")),
        Message.user(response("f")),
    ]
    assert matched(*history) == ["a", "b"]
    unanswered = [calls(("f", "a")), calls(("f", "b")), Message.user(response("f"))]
    assert matched(*unanswered) == ["b"]


def test_a_call_s_id_in_the_place_of_the_name_is_understood() -> None:
    (_, answer) = paired([calls(("f", "a")), Message.user(response("a"))])
    assert (answer.responses[0].name, answer.responses[0].id) == ("f", "a")


def test_calls_without_ids_get_one_that_their_responses_share() -> None:
    turn = Message.assistant(FunctionCall("f"), FunctionCall("f"))
    asked, answer = paired([turn, Message.user(response("f"), response("f"))])
    assert asked.calls[0].id != asked.calls[1].id
    assert [each.id for each in answer.responses] == [each.id for each in asked.calls]
    assert answer.role == "tool"


def test_a_conversation_in_order_is_left_as_it_is() -> None:
    history = (Message.user("x"), calls(("f", "a")), Message.tool([response("f", "a")]))
    assert all(one is other for one, other in zip(paired(history), history, strict=True))


# The history of seed 003, step 7.


@pytest.mark.parametrize("wire", FAKES)
@pytest.mark.parametrize("mode", ["native", "emulated"])
@pytest.mark.parametrize("form", ["messages", "dicts"])
def test_a_history_with_the_roles_model_and_user_is_answered(
    wire: str, mode: Any, form: str
) -> None:
    prompt = "What's the weather like in Boston?"
    function_call_part = Part.from_function_call("get_weather", {"location": "Boston, MA"})
    history = [
        Message("user", [Part.from_text(prompt)]),  # pyright: ignore[reportArgumentType]
        Message("model", [function_call_part]),  # pyright: ignore[reportArgumentType]
        Message("user", [Part.from_function_response("get_weather", {"result": "22 C"})]),  # pyright: ignore[reportArgumentType]
    ]
    if form == "dicts":
        roles = ("user", "model", "user")
        history: Any = [
            {"role": role, "parts": list(message.parts)}
            for role, message in zip(roles, history, strict=True)
        ]
    with FAKES[wire](["It is 22 degrees."]) as fake:
        client = Client(f"{wire}/m", base_url=fake.base_url, api_key="k")
        assert client.generate(history, mode=mode).text == "It is 22 degrees."
        client.close()
    body = fake.requests[0].body
    assert "22 C" in str(body)
    if (wire, mode) == ("openai", "native"):
        made, result = body["messages"][1]["tool_calls"][0], body["messages"][2]
        assert (result["role"], result["tool_call_id"]) == ("tool", made["id"])


def test_other_names_of_roles_and_parts_are_read() -> None:
    assert Message("model", "hi") == Message.assistant("hi")  # pyright: ignore[reportArgumentType]
    assert Message("function", [response("f")]) == Message.tool([response("f")])  # pyright: ignore[reportArgumentType]
    assert Message("developer", ["a", "b"]) == Message.system("a", "b")  # pyright: ignore[reportArgumentType]
    assert Message.from_dict({"role": "model", "parts": [{"type": "text", "text": "hi"}]}) == (
        Message.assistant("hi")
    )
    with pytest.raises(ValueError, match="unknown role 'wizard' of a message"):
        Message("wizard", ())  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"parts\[1\] of a message is not a part: 7"):
        Message("user", ["a", 7])  # pyright: ignore[reportArgumentType]


def test_a_follow_up_takes_results_without_ids() -> None:
    client = Client(ScriptedModel([several(call("f"), call("f")), "done"]))
    turn = client.generate("?", tools=[TOOLS[0]])
    messages = turn.follow_up([response("f"), response("f")])
    assert [each.id for each in messages[-1].responses] == [each.id for each in turn.calls]
    assert client.generate(messages).text == "done"
    with pytest.raises(ConfigError, match="results without a pending call: g"):
        turn.follow_up([response("g"), response("f")])


def test_results_without_ids_answer_the_calls_before_them() -> None:
    model = ScriptedModel(["done"])
    client = Client(model)
    history = [Message.user("?"), calls(("f", "a"), ("f", "b"))]
    reply = client.generate([*history, response("f"), response("f")])
    assert reply.text == "done"
    assert [each.id for each in model.requests[0].messages[-1].responses] == ["a", "b"]
