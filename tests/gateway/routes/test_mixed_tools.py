"""The gateway's tools and the client's in one conversation: each runs its own, and nothing
is lost.

The fake services refuse a history in which a call has no answer, answers are out of order, or a
signature is missing. So every accepted request is a check.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.support.serving import Serving, config_of
from tests.support.talking import Body, Scripts, asking, client_of, function, joined, streamed

from windlass import tool
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.runs.hidden_turns import NO_RESULT
from windlass.models import create_model
from windlass.testing import FakeGemini, FakeOpenAI, call, calls, say, think
from windlass.wires.gemini.messages import PLACEHOLDER_SIGNATURE

WEB, WEB_HASH = new_key()
OTHER, OTHER_HASH = new_key()
TARGETS = {"openai": "openai/gpt-test", "gemini": "gemini/gemini-3-flash"}

wires = pytest.mark.parametrize("wire", list(TARGETS))
streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def serving(scripts: Scripts) -> Iterator[Serving]:
    with FakeOpenAI(scripts) as openai, FakeGemini(scripts) as gemini:
        fakes = {"openai": openai, "gemini": gemini}
        models = {
            wire: create_model(TARGETS[wire], base_url=fake.base_url, api_key="k")
            for wire, fake in fakes.items()
        }
        config = config_of(
            *(ModelConfig(name=wire, target=TARGETS[wire], tools=("lookup",)) for wire in fakes),
            keys=(KeyConfig(name="web", hash=WEB_HASH), KeyConfig(name="other", hash=OTHER_HASH)),
        )
        with Serving(config, models=models, tools=[lookup]) as serving:
            yield serving


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[httpx2.Client]:
    with client_of(serving, WEB) as client:
        yield client


def everything(message: Body) -> Body:
    return message


def bare(message: Body) -> Body:
    """The message after a client that drops all fields that it does not know."""
    kept = [
        {"id": made["id"], "type": "function", "function": made["function"]}
        for made in message.get("tool_calls") or []
    ]
    return {
        "role": "assistant",
        "content": message["content"],
        **({"tool_calls": kept} if kept else {}),
    }


remembering = pytest.mark.parametrize("remember", [everything, bare])


class Agent:
    """A client with the tool `ring`, which it runs itself until the model has its answer."""

    def __init__(
        self,
        client: httpx2.Client,
        wire: str,
        prompt: str,
        *,
        stream: bool = False,
        remember: Callable[[Body], Body] = bare,
    ) -> None:
        self.client, self.wire, self.stream, self.remember = client, wire, stream, remember
        self.body = asking(prompt, model=wire, tools=[function("ring")])

    @property
    def messages(self) -> list[Body]:
        return self.body["messages"]

    def ask(self) -> list[Body]:
        """Asks for the next turn of the model, and returns its calls of client tools."""
        if self.stream:
            chunks = streamed(self.client, self.body)
            assert "error" not in chunks[-1], chunks[-1]
            message = joined(chunks)
        else:
            response = self.client.post("/v1/chat/completions", json=self.body)
            assert response.status_code == 200, response.text
            message = response.json()["choices"][0]["message"]
        self.messages.append(self.remember(message))
        return message.get("tool_calls") or []

    def answer(self, asked: list[Body]) -> None:
        for made in asked:
            times = json.loads(made["function"]["arguments"])["times"]
            rang = {"role": "tool", "tool_call_id": made["id"], "content": f"rang {times}"}
            self.messages.append(rang)

    def run(self) -> str:
        """Continues to the model's answer."""
        while asked := self.ask():
            assert {made["function"]["name"] for made in asked} == {"ring"}
            self.answer(asked)
        return self.messages[-1]["content"]


def told(body: Body) -> list[tuple[Any, ...]]:
    """The calls and results that a service received, in order."""
    if "contents" in body:
        return [fact for turn in body["contents"] for part in turn["parts"] for fact in _told(part)]
    facts: list[tuple[Any, ...]] = []
    names: dict[str, str] = {}
    for message in body["messages"]:
        for made in message.get("tool_calls") or []:
            names[made["id"]] = made["function"]["name"]
            arguments = json.loads(made["function"]["arguments"])
            facts.append((made["function"]["name"], *arguments.values()))
        if message["role"] == "tool":
            facts.append(("->", names[message["tool_call_id"]], message["content"]))
    return facts


def _told(part: Body) -> Iterator[tuple[Any, ...]]:
    if made := part.get("functionCall"):
        yield (made["name"], *made["args"].values())
    if answered := part.get("functionResponse"):
        yield ("->", answered["name"], *answered["response"].values())


def signatures(body: Body) -> list[str | None]:
    """The signature of each call that Gemini received."""
    parts = [part for turn in body["contents"] for part in turn["parts"]]
    return [part.get("thoughtSignature") for part in parts if "functionCall" in part]


MIXED = calls(
    call("lookup", city="Oslo", signature="bWl4ZWQ="),
    call("ring", times=1),
    call("lookup", city="Kyiv"),
    call("ring", times=2),
    text="Let me see. ",
    thoughts="Hm.",
)
MIXED_TOLD = [
    ("lookup", "Oslo"),
    ("ring", 1),
    ("lookup", "Kyiv"),
    ("ring", 2),
    ("->", "lookup", "sunny in Oslo"),
    ("->", "ring", "rang 1"),
    ("->", "lookup", "sunny in Kyiv"),
    ("->", "ring", "rang 2"),
]


@wires
@streaming
@remembering
def test_a_conversation_with_several_rounds_reaches_the_model_completely(
    client: httpx2.Client,
    scripts: Scripts,
    wire: str,
    stream: bool,
    remember: Callable[[Body], Body],
) -> None:
    prompt = scripts.prompt(
        call("lookup", city="Rome", signature="Zmlyc3Q="),
        MIXED,
        call("lookup", city="Lima", signature="dGhpcmQ="),
        calls(call("ring", times=3, signature="Zm91cnRo"), call("lookup", city="Bonn")),
        call("ring", times=4, signature="ZmlmdGg="),
        "It rang, and it is sunny.",
    )
    agent = Agent(client, wire, prompt, stream=stream, remember=remember)
    assert agent.run() == "It rang, and it is sunny."
    last = scripts.requests[prompt][-1]
    assert told(last) == [
        ("lookup", "Rome"),
        ("->", "lookup", "sunny in Rome"),
        *MIXED_TOLD,
        ("lookup", "Lima"),
        ("->", "lookup", "sunny in Lima"),
        ("ring", 3),
        ("lookup", "Bonn"),
        ("->", "ring", "rang 3"),
        ("->", "lookup", "sunny in Bonn"),
        ("ring", 4),
        ("->", "ring", "rang 4"),
    ]
    if wire == "gemini":
        signed = [signature for signature in signatures(last) if signature]
        assert signed == ["Zmlyc3Q=", "bWl4ZWQ=", "dGhpcmQ=", "Zm91cnRo", "ZmlmdGg="]


@streaming
def test_a_signature_that_the_client_drops_is_restored(
    client: httpx2.Client, scripts: Scripts, stream: bool
) -> None:
    prompt = scripts.prompt(call("ring", times=1, signature="b3du"), "It rang.")
    assert Agent(client, "gemini", prompt, stream=stream).run() == "It rang."
    assert signatures(scripts.requests[prompt][-1]) == ["b3du"]


@streaming
def test_thoughts_are_restored_in_their_place(
    client: httpx2.Client, scripts: Scripts, stream: bool
) -> None:
    prompt = scripts.prompt(think("Ring it.", call("ring", times=1, signature="b3du")), "Done.")
    Agent(client, "gemini", prompt, stream=stream).run()
    turn = scripts.requests[prompt][-1]["contents"][1]
    assert [part.get("text") for part in turn["parts"] if part.get("thought")] == ["Ring it."]


@wires
@streaming
def test_the_client_does_not_see_calls_of_server_tools(
    client: httpx2.Client, scripts: Scripts, wire: str, stream: bool
) -> None:
    agent = Agent(client, wire, scripts.prompt(MIXED), stream=stream, remember=everything)
    assert [json.loads(c["function"]["arguments"]) for c in agent.ask()] == [
        {"times": 1},
        {"times": 2},
    ]
    assert "lookup" not in json.dumps(agent.messages[-1])
    assert agent.messages[-1]["content"] == "Let me see. "


@wires
def test_results_may_come_in_another_order(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    prompt = scripts.prompt(MIXED, "Done.")
    agent = Agent(client, wire, prompt)
    agent.answer(agent.ask()[::-1])
    assert agent.ask() == []
    assert told(scripts.requests[prompt][-1]) == MIXED_TOLD


@wires
def test_a_call_without_a_result_gets_an_error_result(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    prompt = scripts.prompt(MIXED, "Done.")
    agent = Agent(client, wire, prompt)
    agent.answer(agent.ask()[1:])
    assert agent.ask() == []
    facts = told(scripts.requests[prompt][-1])
    assert NO_RESULT in facts[5][2]
    assert facts[:5] + facts[6:] == MIXED_TOLD[:5] + MIXED_TOLD[6:]


@wires
def test_a_user_message_without_results_is_answered(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    agent = Agent(client, wire, scripts.prompt(MIXED))
    agent.ask()
    prompt = scripts.prompt("Never mind, then.")
    agent.messages.append({"role": "user", "content": prompt})
    assert agent.run() == "Never mind, then."
    facts = told(scripts.requests[prompt][-1])
    assert [fact[1] for fact in facts[4:]] == ["lookup", "ring", "lookup", "ring"]
    assert NO_RESULT in facts[5][2]


@wires
def test_the_clients_version_of_an_edited_call_is_used(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    prompt = scripts.prompt(MIXED, "Done.")
    agent = Agent(client, wire, prompt)
    asked = agent.ask()
    asked[0]["function"]["arguments"] = '{"times":7}'
    agent.messages[-1]["tool_calls"] = bare({"content": "", "tool_calls": asked})["tool_calls"]
    agent.answer(asked)
    assert agent.ask() == []
    last = scripts.requests[prompt][-1]
    assert told(last) == [
        ("ring", 7),
        ("ring", 2),
        ("->", "ring", "rang 7"),
        ("->", "ring", "rang 2"),
    ]
    if wire == "gemini":
        assert signatures(last)[0] == PLACEHOLDER_SIGNATURE


@wires
def test_a_conversation_with_dropped_turns_continues_with_the_clients_messages(
    serving: Serving,
    client: httpx2.Client,
    scripts: Scripts,
    monkeypatch: pytest.MonkeyPatch,
    wire: str,
) -> None:
    prompt = scripts.prompt(MIXED, "Done.")
    agent = Agent(client, wire, prompt)
    agent.answer(agent.ask())
    monkeypatch.setattr(serving.gateway.turns, "_keep_seconds", -1.0)
    assert agent.ask() == []
    assert told(scripts.requests[prompt][-1]) == [
        ("ring", 1),
        ("ring", 2),
        ("->", "ring", "rang 1"),
        ("->", "ring", "rang 2"),
    ]


@wires
def test_another_key_does_not_get_the_rest_of_a_turn(
    serving: Serving, client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    prompt = scripts.prompt(MIXED, "Theirs.", "Mine.")
    agent = Agent(client, wire, prompt)
    agent.answer(agent.ask())
    with client_of(serving, OTHER) as stranger:
        response = stranger.post("/v1/chat/completions", json=agent.body)
    assert response.json()["choices"][0]["message"]["content"] == "Theirs."
    assert "sunny" not in json.dumps(scripts.requests[prompt][-1])
    assert agent.run() == "Mine."
    assert told(scripts.requests[prompt][-1]) == MIXED_TOLD


@streaming
def test_call_ids_that_start_from_0_do_not_mix_conversations(
    client: httpx2.Client, scripts: Scripts, stream: bool
) -> None:
    agents: list[Agent] = []
    prompts: list[str] = []
    for city in ("Rome", "Oslo"):
        turns = [
            calls(
                call("lookup", city=f"{city} {n}", id="call_0"), call("ring", times=n, id="call_1")
            )
            for n in (1, 2)
        ]
        prompts.append(scripts.prompt(*turns, f"Done with {city}."))
        agents.append(Agent(client, "openai", prompts[-1], stream=stream))
    for _ in range(2):
        asked = [agent.ask() for agent in agents]
        for agent, made in zip(agents, asked, strict=True):
            agent.answer(made)
    assert [agent.run() for agent in agents] == ["Done with Rome.", "Done with Oslo."]
    for prompt, city in zip(prompts, ("Rome", "Oslo"), strict=True):
        assert told(scripts.requests[prompt][-1]) == [
            ("lookup", f"{city} 1"),
            ("ring", 1),
            ("->", "lookup", f"sunny in {city} 1"),
            ("->", "ring", "rang 1"),
            ("lookup", f"{city} 2"),
            ("ring", 2),
            ("->", "lookup", f"sunny in {city} 2"),
            ("->", "ring", "rang 2"),
        ]


@wires
@streaming
def test_a_whole_conversation_is_replayed_with_each_of_its_turns_whole(
    client: httpx2.Client, scripts: Scripts, wire: str, stream: bool
) -> None:
    agent = Agent(client, wire, scripts.prompt(MIXED, "First answer."), stream=stream)
    agent.run()
    prompt = scripts.prompt(MIXED, say("Second answer."))
    agent.messages.append({"role": "user", "content": prompt})
    assert agent.run() == "Second answer."
    assert told(scripts.requests[prompt][-1]) == MIXED_TOLD * 2


@wires
@streaming
def test_a_client_tool_overrides_a_server_tool_of_the_same_name(
    client: httpx2.Client,
    scripts: Scripts,
    caplog: pytest.LogCaptureFixture,
    wire: str,
    stream: bool,
) -> None:
    agent = Agent(client, wire, scripts.prompt(call("lookup", city="Rome")), stream=stream)
    # A list of tools that was seen before is not read, nor warned of, again.
    agent.body["tools"] = [function("lookup"), function(f"only_{wire}_{stream}")]
    [asked] = agent.ask()
    assert asked["function"] == {"name": "lookup", "arguments": '{"city":"Rome"}'}
    [warning] = [record for record in caplog.records if vars(record).get("tool") == "lookup"]
    assert (warning.levelname, warning.name) == ("WARNING", "windlass.gateway")
    assert "client tool replaces" in warning.getMessage()
