"""Options under the names of other libraries: refused, with a suggestion."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from windlass import AsyncClient, Client, ConfigError, tool
from windlass.client.options import CALL_OPTIONS, ELSEWHERE, RENAMED, ClientOptions, RunOptions
from windlass.testing import ScriptedModel

any_tool: Any = tool
any_client: Any = Client
VERBS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "generate": lambda client, options: client.generate("?", **options),
    "stream": lambda client, options: client.stream("?", **options).__enter__(),
    "start": lambda client, options: client.start("?", **options),
    "chat": lambda client, options: client.chat(**options),
    "execute": lambda client, options: client.execute([], **options),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "name",
    [
        "turn_limit",
        "max_turns",
        "max_iterations",
        "maxToolRounds",
        "max_tool_rounds",
        "maximum_remote_calls",
        "recursion_limit",
        "max_steps",
        "maxRounds",
        "max_round",
        "max_turn",
    ],
)
def test_every_other_name_for_the_round_limit_suggests_max_rounds(verb: str, name: str) -> None:
    with Client(ScriptedModel([])) as client, pytest.raises(ConfigError) as caught:
        VERBS[verb](client, {name: 5})
    assert str(caught.value) == f"there is no option {name!r}; did you mean 'max_rounds'?"


@pytest.mark.parametrize("name", RENAMED)
def test_every_renamed_option_exists_here(name: str) -> None:
    known = {*ClientOptions.__annotations__, *RunOptions.__annotations__, *CALL_OPTIONS}
    assert name not in known
    assert RENAMED[name] in known
    with pytest.raises(ConfigError, match=f"did you mean '{RENAMED[name]}'"):
        any_client("openai/m", api_key="k", **{name: 1})


@pytest.mark.parametrize("name", CALL_OPTIONS)
def test_the_type_of_an_answer_belongs_to_one_call(name: str) -> None:
    said = f"there is no option {name!r}; did you mean {name!r} of generate, stream, start or send?"
    with pytest.raises(ConfigError) as caught:
        any_client(ScriptedModel([]), **{name: int})
    assert str(caught.value) == said
    with Client(ScriptedModel([])) as client, pytest.raises(ConfigError) as caught:
        cast("Any", client).chat(**{name: int})
    assert str(caught.value) == said


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_option_of_another_library_is_explained(name: str) -> None:
    assert name not in RunOptions.__annotations__
    with Client(ScriptedModel([])) as client, pytest.raises(ConfigError) as caught:
        cast("Any", client).generate("?", **{name: True})
    assert str(caught.value) == f"there is no option {name!r}: {ELSEWHERE[name]}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"messages": []}, "pass them as the prompt"),
        ({"contents": "x"}, "pass them as the prompt"),
        ({"prompt": "x", "stream": True}, r"use client.stream\(...\)"),
        ({"prompt": "x", "functions": []}, "did you mean 'tools'"),
        ({"prompt": "x", "auto_execute_tools": True}, "did you mean 'execute_tools'"),
        ({"prompt": "x", "system_prompt": "x"}, "did you mean 'system'"),
        ({"prompt": "x", "instructions": "x"}, "did you mean 'system'"),
        ({"prompt": "x", "base_url": "x"}, "'base_url' of the client"),
        ({"prompt": "x", "api_base": "x"}, "'base_url' of the client"),
        ({"prompt": "x", "temprature": 1}, "did you mean 'temperature'"),
        ({"prompt": "x", "qqqqq": 1}, r"there is no option 'qqqqq'$"),
        ({}, "the prompt is empty"),
    ],
)
async def test_an_unknown_option_suggests_a_known_one(options: Any, said: str) -> None:
    async with AsyncClient(ScriptedModel([])) as client:
        with pytest.raises(ConfigError, match=said):
            await client.generate(**options)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("max_retries", "retries"), ("requires_approval", "approve"), ("timeut", "timeout")],
)
def test_an_unknown_option_of_a_tool_suggests_a_known_one(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"@tool has no option {name!r}; did you mean {meant!r}"):
        any_tool(**{name: 1})
