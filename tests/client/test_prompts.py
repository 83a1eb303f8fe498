"""The types of a prompt, and the messages that it becomes."""

from typing import Any

import pytest
from tests.conftest import MakeClient, requests_of

from windlass import ConfigError, FunctionResponse, InlineData, Message, Part, Text, tool
from windlass.client.options import messages_from
from windlass.model import ToolChoice, tool_choice_from
from windlass.testing import call

IMAGE = InlineData(b"\x89PNG", "image/png")


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ("Hi", [Message.user("Hi")]),
        (Text("Hi"), [Message.user("Hi")]),
        (Message.assistant("Hi"), [Message.assistant("Hi")]),
        (["Look:", IMAGE], [Message.user("Look:", IMAGE)]),
        ([Message.user("a"), "b", IMAGE], [Message.user("a"), Message.user("b", IMAGE)]),
        ({"role": "user", "content": "Hi"}, [Message.user("Hi")]),
        ({"role": "user", "content": {"text": "Hi"}}, [Message.user("Hi")]),
        (
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            [Message.system("Be brief."), Message.user("Hi")],
        ),
        (
            [
                {"role": "user", "parts": [{"text": "a"}]},
                {"role": "model", "parts": [{"text": "b"}]},
            ],
            [Message.user("a"), Message.assistant("b")],
        ),
        (
            ["a", {"role": "assistant", "content": "b"}, "c"],
            [Message.user("a"), Message.assistant("b"), Message.user("c")],
        ),
    ],
)
def test_a_prompt_is_a_short_form_of_a_conversation(prompt: Any, messages: list[Message]) -> None:
    assert list(messages_from(prompt, None)) == messages


def test_results_on_their_own_are_results_and_not_the_users_words() -> None:
    result = Part.from_function_response("f", {"output": 1}, id="a")
    assert messages_from([result], None) == (Message.tool([result]),)


def test_an_openai_history_with_tools_is_read_whole() -> None:
    history = [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    messages = messages_from(history, None)
    assert [call.name for call in messages[1].calls] == ["f", "g"]
    assert messages[2] == Message.tool(
        [FunctionResponse("f", {"output": "1"}, "a"), FunctionResponse("g", {"output": "2"}, "b")]
    )


def test_a_system_text_comes_first_unless_the_conversation_has_its_own() -> None:
    assert messages_from("Hi", "Be brief.")[0] == Message.system("Be brief.")
    own = [Message.system("Be long."), Message.user("Hi")]
    assert list(messages_from(own, "Be brief.")) == own


@pytest.mark.parametrize("prompt", [{"role": "user"}, {"role": "wizard", "content": "x"}, [{}]])
def test_a_wrong_message_is_refused_with_a_message(prompt: Any) -> None:
    with pytest.raises(ConfigError):
        messages_from(prompt, None)


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ("any", ToolChoice("required")),
        ("get_weather", ToolChoice("required", ("get_weather",))),
        (ToolChoice("auto", ("f",)), ToolChoice("auto", ("f",))),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("required", ("f",))),
    ],
)
def test_every_form_of_tool_choice_is_read(given: Any, choice: ToolChoice) -> None:
    assert tool_choice_from(given) == choice


@pytest.mark.no_wire("the service refuses unknown fields", "responses", "gemini")
async def test_settings_and_extra_fields_reach_the_model(client_of: MakeClient) -> None:
    client = client_of(["x"], temperature=0.5, extra={"a": 1})
    await client.generate("?", max_tokens=9, stop="END", top_k=3, seed=1, top_p=0.9)
    request = requests_of(client)[0]
    settings = request.settings
    assert (settings.temperature, settings.max_tokens, settings.stop) == (0.5, 9, ("END",))
    assert (settings.top_k, settings.seed, settings.top_p) == (3, 1, 0.9)
    assert request.extra == {"a": 1}


async def test_an_option_of_a_call_overrides_the_clients(client_of: MakeClient) -> None:
    @tool
    def f() -> int:
        return 1

    client = client_of([call("f"), "x"], max_rounds=0, system="A", tools=[f])
    reply = await client.generate("?", max_rounds=1, system="B")
    assert (len(reply.results), reply.messages[0].text) == (1, "B")
