"""`mode`, from the client down to the wire: native, emulated, auto."""

from pathlib import Path
from typing import Any

import pytest

from windlass import Client, TextDelta
from windlass.settings import Mode
from windlass.testing import (
    FakeOpenAI,
    Gate,
    ScriptedModel,
    Turn,
    call,
    refuse,
    say,
    slow,
    tool_results,
)

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def text_only(body: dict[str, Any]) -> Turn | Any:
    """A server that refuses tools, because its model has no function calling."""
    if "tools" in body:
        return refuse(400, "this model does not support tools")
    return say("It is sunny.") if "sunny in Paris" in str(body["messages"]) else say(CALL)


def native(body: dict[str, Any]) -> Turn:
    return say("It is sunny.") if tool_results(body) else call("get_weather", city="Paris")


@pytest.mark.parametrize("live", [False, True])
def test_auto_falls_back_to_emulated_and_remembers(
    live: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeOpenAI(text_only) as fake, Client("openai/m", base_url=fake.base_url) as client:
        for _ in range(2):
            if live:
                with client.stream("Weather in Paris?", tools=[get_weather]) as stream:
                    text = "".join(e.text for e in stream if isinstance(e, TextDelta))
                reply = stream.reply
                assert "tool_call" not in text
            else:
                reply = client.generate("Weather in Paris?", tools=[get_weather])
            assert (reply.text, reply.mode) == ("It is sunny.", "emulated")
            assert reply.results[0].output == "sunny in Paris"
    refused = [request for request in fake.requests if "tools" in request.body]
    assert len(refused) == 1
    assert "falling back to emulated" in caplog.text


def test_auto_stays_native_if_that_works() -> None:
    with FakeOpenAI(native) as fake, Client("openai/m", base_url=fake.base_url) as client:
        reply = client.generate("Weather in Paris?", tools=[get_weather])
    assert (reply.text, reply.mode) == ("It is sunny.", "native")


def test_native_mode_never_falls_back() -> None:
    with FakeOpenAI(text_only) as fake, Client("openai/m", base_url=fake.base_url) as client:
        with pytest.raises(Exception, match="does not support tools"):
            client.generate("?", tools=[get_weather], mode="native")
        assert len(fake.requests) == 1


def test_the_mode_can_be_chosen_for_one_call() -> None:
    with FakeOpenAI(text_only) as fake, Client("openai/m", base_url=fake.base_url) as client:
        reply = client.generate("Weather in Paris?", tools=[get_weather], mode="emulated")
        assert (reply.text, reply.mode) == ("It is sunny.", "emulated")
        assert not any("tools" in request.body for request in fake.requests)


def test_the_environment_sets_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCTION_CALLING_MODE", "emulated")
    with FakeOpenAI(text_only) as fake, Client("openai/m", base_url=fake.base_url) as client:
        assert client.generate("Weather in Paris?", tools=[get_weather]).mode == "emulated"
        assert not any("tools" in request.body for request in fake.requests)


def test_a_reply_of_native_mode_reports_it_in_every_verb(tmp_path: Path) -> None:
    with FakeOpenAI(native) as fake:
        for log in (None, tmp_path / "runs.db"):
            with Client("openai/m", base_url=fake.base_url, mode="native", log=log) as client:
                assert client.generate("?", tools=[get_weather]).mode == "native"
                with client.stream("?", tools=[get_weather]) as stream:
                    list(stream)
                assert stream.reply.mode == "native"
                assert client.start("?", tools=[get_weather]).result().mode == "native"
                assert client.chat(tools=[get_weather]).send("?").mode == "native"
                assert [run.result().mode for run in client.runs() if log] in ([], ["native"] * 4)


def test_without_tools_and_with_a_model_of_ones_own_the_mode_is_native() -> None:
    with Client(ScriptedModel(["Hi.", "Hi."])) as client:
        assert client.generate("?").mode == "native"
        assert client.generate("?", mode="native").mode == "native"


def test_a_run_without_a_whole_turn_has_no_mode() -> None:
    modes: tuple[Mode, ...] = ("native", "emulated")
    for mode in modes:
        with Client(ScriptedModel([slow(say("Hi there"), Gate(), after=1)]), mode=mode) as client:
            with client.stream("?", tools=[get_weather]) as stream:
                next(stream)
            assert stream.reply.mode is None
