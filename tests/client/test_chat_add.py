"""`chat.add`: messages that are added manually, in memory and in a log."""

from pathlib import Path
from typing import Any

import pytest

from windlass import (
    AsyncClient,
    Client,
    ConfigError,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Message,
    Part,
)
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    ScriptedModel,
    call,
    calls,
)

DECLARED = FunctionDeclaration(
    "ask_user", "Asks.", {"type": "object", "properties": {"what": {"type": "string"}}}
)


def get_weather(city: str) -> str:
    return f"sunny in {city}"


def shown(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [
        (m.role, m.text or ", ".join([*(c.name for c in m.calls), *(r.text for r in m.responses)]))
        for m in messages
    ]


def test_turns_are_added_by_role_as_texts_calls_and_results() -> None:
    model = ScriptedModel(["It is 22 degrees."])
    chat = Client(model).chat()
    chat.add("What's the weather in Boston?", role="user")
    chat.add([Part.from_function_call("get_weather", {"city": "Boston"})], role="model")
    chat.add([Part.from_function_response("get_weather", {"result": "22"})], role="user")
    assert shown(chat.messages) == [
        ("user", "What's the weather in Boston?"),
        ("assistant", "get_weather"),
        ("tool", '{"result":"22"}'),
    ]
    assert chat.messages[2].responses[0].id == chat.messages[1].calls[0].id
    assert chat.send().text == "It is 22 degrees."
    assert shown(chat.messages)[-1] == ("assistant", "It is 22 degrees.")


@pytest.mark.parametrize(
    ("item", "role", "added"),
    [
        ("Hi", None, Message.user("Hi")),
        ("Hello.", "model", Message.assistant("Hello.")),
        ("Hello.", "assistant", Message.assistant("Hello.")),
        ("Be brief.", "system", Message.system("Be brief.")),
        (["a", Part.from_text("b")], None, Message.user("a", "b")),
        (["a", "b"], "model", Message.assistant("a", "b")),
        (InlineData(b"x", "image/png"), None, Message.user(InlineData(b"x", "image/png"))),
        (Message.assistant("x"), None, Message.assistant("x")),
        ({"role": "assistant", "content": "x"}, None, Message.assistant("x")),
        ({"role": "model", "parts": [{"text": "x"}]}, None, Message.assistant("x")),
    ],
)
async def test_every_form_of_a_prompt_can_be_added(item: Any, role: str, added: Message) -> None:
    async with AsyncClient(ScriptedModel([])) as client:
        chat = client.chat()
        assert await chat.add(item, role) is chat
        assert chat.messages == (added,)


def test_several_messages_are_added_at_once() -> None:
    chat = Client(ScriptedModel([])).chat()
    chat.add([Message.user("a"), Message.assistant("b")]).add("c")
    assert shown(chat.messages) == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_calls_without_a_role_are_the_assistants() -> None:
    chat = Client(ScriptedModel([])).chat()
    chat.add("?").add([Part.from_function_call("f"), Part.from_function_call("g")])
    assert shown(chat.messages)[-1] == ("assistant", "f, g")


FAKES: dict[str, Any] = {
    "openai": FakeOpenAI,
    "responses": FakeResponses,
    "gemini": FakeGemini,
    "anthropic": FakeAnthropic,
}


@pytest.mark.parametrize("wire", FAKES)
def test_manual_results_are_added_and_answered(wire: str) -> None:
    script = [calls(call("get_weather", city="Rome"), call("get_weather", city="Oslo")), "Sunny."]
    with FAKES[wire](script) as fake:
        client = Client(f"{wire}/m", base_url=fake.base_url, api_key="k")
        chat = client.chat(tools=[get_weather], execute_tools=False)
        turn = chat.send("Weather?")
        chat.add(client.execute(turn.pending))
        assert chat.send().text == "Sunny."
        client.close()
    assert shown(chat.messages)[2] == ("tool", "sunny in Rome, sunny in Oslo")


@pytest.mark.parametrize("verb", ["add", "send", "stream"])
def test_results_of_the_caller_join_those_of_windlass_in_call_order(verb: str) -> None:
    turn = calls(call("ask_user", what="a"), call("get_weather", city="Rome"))
    model = ScriptedModel([turn, "Sunny."])
    chat = Client(model).chat(tools=[get_weather, DECLARED])
    reply = chat.send("?")
    result = FunctionResponse("ask_user", {"output": "yes"}, reply.pending[0].id)
    if verb == "add":
        assert chat.add(result).send().text == "Sunny."
    elif verb == "send":
        assert chat.send([result]).text == "Sunny."
    else:
        with chat.stream([result]) as stream:
            list(stream)
    assert shown(chat.messages)[2] == ("tool", "yes, sunny in Rome")


def test_a_question_while_calls_have_no_result_is_refused() -> None:
    chat = Client(ScriptedModel([call("ask_user", what="a")])).chat(tools=[DECLARED])
    chat.send("?")
    with pytest.raises(ConfigError, match=r"these calls have no result: ask_user \(call_"):
        chat.send("Well?")


@pytest.mark.parametrize("added", [(), ("Hello.", "model")])
def test_there_must_be_something_to_answer(added: Any) -> None:
    chat = Client(ScriptedModel(["x"])).chat()
    if added:
        chat.add(*added)
    with pytest.raises(ConfigError, match="there is nothing to answer"):
        chat.send()


@pytest.mark.parametrize(
    ("item", "role", "said"),
    [
        ("x", "wizard", "unknown role 'wizard'"),
        (Message.user("x"), "user", "a message has its own role"),
        ({"role": "user", "content": "x"}, "user", "a message has its own role"),
        ((), "user", "role= needs a text or parts"),
        ((), None, "the prompt is empty"),
        (7, None, "a prompt cannot contain a int"),
    ],
)
def test_an_invalid_addition_is_refused_and_changes_nothing(
    item: Any, role: str | None, said: str
) -> None:
    chat = Client(ScriptedModel([])).chat()
    with pytest.raises(ConfigError, match=said):
        chat.add(item, role)
    assert chat.messages == ()


def test_additions_to_a_chat_with_a_log_are_stored(tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    with Client(ScriptedModel(["Hello."]), log=log) as client:
        chat = client.chat()
        chat.send("Hi")
        chat.add("Remember: I am Ada.").add("I will.", role="model")
    with Client(ScriptedModel(["You are Ada."]), log=log) as client:
        again = client.chat(id=chat.id)
        assert again.messages == chat.messages
        assert again.send("Who am I?").text == "You are Ada."
        assert len(client.runs()) == 2
        again.add("Thanks.")
    with Client(ScriptedModel([]), log=log) as client:
        assert shown(client.chat(id=chat.id).messages)[-2:] == [
            ("assistant", "You are Ada."),
            ("user", "Thanks."),
        ]
        assert client.resume() == []


async def test_manual_results_are_added_to_a_chat_that_is_found_again(tmp_path: Path) -> None:
    log = tmp_path / "runs.db"
    turn = calls(call("ask_user", what="a"), call("get_weather", city="Rome"))
    async with AsyncClient(ScriptedModel([turn]), log=log) as client:
        chat = client.chat(tools=[get_weather, DECLARED])
        reply = await chat.send("?")
    async with AsyncClient(ScriptedModel(["Sunny."]), log=log) as client:
        again = client.chat(id=chat.id, tools=[get_weather, DECLARED])
        await again.add(FunctionResponse("ask_user", {"output": "yes"}))
        assert (await again.send()).text == "Sunny."
        assert again.messages[2].responses[0].id == reply.pending[0].id
        assert shown(again.messages)[2] == ("tool", "yes, sunny in Rome")
