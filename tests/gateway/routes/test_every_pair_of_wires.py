"""Every wire that clients speak, over every wire of a model: nothing is lost between them.

What a wire cannot express is listed here and in docs/wires.md.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from tests.support.ingress import INGRESSES, PIXEL, RING, Failure, Ingress, Seen
from tests.support.messages_gateway import lookup
from tests.support.serving import Serving, config_of
from tests.support.talking import client_of

from windlass import InlineData, tool
from windlass.gateway.config import ModelConfig
from windlass.models import create_model
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    Step,
    Turn,
    call,
    calls,
    cut,
    refuse,
    say,
    think,
)
from windlass.testing.script import Refuse, Stepper
from windlass.testing.upstream import FakeUpstream

pytestmark = pytest.mark.sweep

Body = dict[str, Any]
FAKES: dict[str, Any] = {
    "openai/gpt-test": FakeOpenAI,
    "responses/gpt-test": FakeResponses,
    "anthropic/claude-opus-4-5": FakeAnthropic,
    "gemini/gemini-2.5-flash": FakeGemini,
}
EMULATED = "emulated"
UPSTREAMS = [*(target.partition("/")[0] for target in FAKES), EMULATED]

ingresses = pytest.mark.parametrize("ingress", INGRESSES.values(), ids=lambda each: each.name)
upstreams = pytest.mark.parametrize("upstream", UPSTREAMS)
forms = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@tool
def picture() -> InlineData:
    """Takes a picture."""
    return InlineData(base64.b64decode(PIXEL), "image/png")


class Pairs:
    """One gateway over one fake of each service."""

    def __init__(self) -> None:
        self._stepper: Stepper[Body] = Stepper(())
        self.fakes: dict[str, FakeUpstream] = {}
        for target, fake in FAKES.items():
            self.fakes[target.partition("/")[0]] = fake(self._step)
        self.fakes[EMULATED] = FakeOpenAI(self._step)
        self.received: list[Body] = []

    def _step(self, body: Body) -> Any:
        self.received.append(body)
        return self._stepper.next(body)

    def serving(self) -> Serving:
        targets = {target.partition("/")[0]: target for target in FAKES}
        targets[EMULATED] = "openai/gpt-test"
        configs = [
            ModelConfig(
                name=name,
                target=target,
                tools=("lookup", "picture"),
                mode="emulated" if name == EMULATED else "native",
            )
            for name, target in targets.items()
        ]
        models = {
            name: create_model(target, base_url=self.fakes[name].base_url, api_key="k")
            for name, target in targets.items()
        }
        return Serving(config_of(*configs), models=models, tools=[lookup, picture])

    def plays(self, *steps: Step) -> None:
        self._stepper = Stepper(steps)
        self.received.clear()


@pytest.fixture(scope="module")
def pairs() -> Iterator[Pairs]:
    pairs = Pairs()
    for fake in pairs.fakes.values():
        fake.__enter__()
    yield pairs
    for fake in pairs.fakes.values():
        fake.__exit__(None, None, None)


@pytest.fixture(scope="module")
def http(pairs: Pairs) -> Iterator[httpx2.Client]:
    with pairs.serving() as serving, client_of(serving) as client:
        yield client


def called(upstream: str, *made: tuple[str, Body]) -> Turn:
    """A turn with calls, as text if the model has no function calling."""
    if upstream != EMULATED:
        return calls(*(call(name, arguments) for name, arguments in made))
    texts = [json.dumps({"name": name, "arguments": given}) for name, given in made]
    return say("\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts))


def asked(
    http: httpx2.Client, ingress: Ingress, model: str, said: Any, streamed: bool, **wanted: Any
) -> Seen:
    path, body = ingress.request(model, said, stream=streamed, **wanted)
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return ingress.read_stream(answer.content) if streamed else ingress.read(answer.json())


@forms
@ingresses
@upstreams
def test_text(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays(say("Hello, wörld."))
    seen = asked(http, ingress, upstream, [ingress.user("Hi, thére.")], streamed)
    assert (seen.text, seen.calls, seen.finish) == ("Hello, wörld.", [], "stop")
    assert "Hi, thére." in json.dumps(pairs.received[0], ensure_ascii=False)


@forms
@ingresses
@upstreams
def test_thoughts(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays(think("Let me see.", "Hello."))
    seen = asked(http, ingress, upstream, [ingress.user("Hi.")], streamed)
    assert (seen.thoughts, seen.text) == ("Let me see.", "Hello.")


@forms
@ingresses
@upstreams
def test_two_parallel_calls(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    made = [("ring", {"times": 1}), ("ring", {"times": 2})]
    pairs.plays(called(upstream, *made), "Done.")
    first = ingress.user("Ring.")
    seen = asked(http, ingress, upstream, [first], streamed, tools=[RING])
    assert (seen.calls, seen.finish) == (made, "calls")
    said = [first, *ingress.results(seen, ["rang once", "rang twice"])]
    assert asked(http, ingress, upstream, said, streamed, tools=[RING]).text == "Done."
    request = json.dumps(pairs.received[-1])
    assert request.count("rang once") == request.count("rang twice") == 1


@forms
@ingresses
@upstreams
def test_a_client_call_and_a_server_call_in_one_turn(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    both = [("lookup", {"city": "Rome"}), ("ring", {"times": 1})]
    pairs.plays(called(upstream, *both), "Done.")
    first = ingress.user("Ring.")
    seen = asked(http, ingress, upstream, [first], streamed, tools=[RING])
    assert (seen.calls, seen.finish) == ([("ring", {"times": 1})], "calls")
    said = [first, *ingress.results(seen, ["rang once"])]
    assert asked(http, ingress, upstream, said, streamed, tools=[RING]).text == "Done."
    request = json.dumps(pairs.received[-1])
    assert request.count("rang once") == request.count("sunny in Rome") == 1


@forms
@ingresses
@upstreams
def test_the_text_of_all_rounds_of_server_tools(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    rome = called(upstream, ("lookup", {"city": "Rome"}))
    pairs.plays(replace(rome, text=f"Looking it up. {rome.text}"), "It is sunny.")
    seen = asked(http, ingress, upstream, [ingress.user("Rome?")], streamed)
    assert seen.text.split() == ["Looking", "it", "up.", "It", "is", "sunny."]
    assert (seen.calls, seen.finish) == ([], "stop")


@forms
@ingresses
@upstreams
def test_an_image(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays("A picture.")
    asked(http, ingress, upstream, [ingress.user("What is this?", image=True)], streamed)
    assert PIXEL in json.dumps(pairs.received[0])


@forms
@ingresses
@upstreams
def test_an_image_of_a_tool(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays(called(upstream, ("picture", {})), "Nice.")
    assert asked(http, ingress, upstream, [ingress.user("Take it.")], streamed).text == "Nice."
    assert PIXEL in json.dumps(pairs.received[-1])


@forms
@ingresses
@upstreams
def test_structured_output(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays('{"sky": "clear"}')
    seen = asked(http, ingress, upstream, [ingress.user("Sky?")], streamed, schema=True)
    assert json.loads(seen.text) == {"sky": "clear"}
    assert "sky" in json.dumps(pairs.received[0])


@forms
@ingresses
@upstreams
@pytest.mark.parametrize(
    ("finish", "seen_as"), [("length", "length"), ("content_filter", "refusal")]
)
def test_how_a_turn_ends(
    pairs: Pairs,
    http: httpx2.Client,
    ingress: Ingress,
    upstream: str,
    finish: str,
    seen_as: str,
    streamed: bool,
) -> None:
    pairs.plays(say("Half of", finish=finish))
    seen = asked(http, ingress, upstream, [ingress.user("Hi.")], streamed)
    assert seen.finish == seen_as


# Errors.


@ingresses
@upstreams
def test_a_cut_stream_is_an_error_in_the_stream(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    pairs.plays(cut(say("One two three four five six."), after=3))
    path, body = ingress.request(upstream, [ingress.user("Hi.")], stream=True)
    answer = http.post(path, json=body)
    assert answer.status_code == 200
    assert "One " in answer.text
    assert "stream" in ingress.stream_error(answer.content).message


def failed(answer: httpx2.Response, ingress: Ingress, status: int) -> Failure:
    """The error of an answer. Responses streams have begun, so that it is in the stream."""
    if answer.status_code == 200:
        assert ingress.name == "responses"
        return ingress.stream_error(answer.content)
    assert answer.status_code == status, answer.text
    return ingress.error(answer.json())


@forms
@ingresses
@upstreams
def test_a_rate_limit(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays(*[refuse(429, "Slow down.", retry_after=700)] * 5)
    path, body = ingress.request(upstream, [ingress.user("Hi.")], stream=streamed)
    answer = http.post(path, json=body)
    assert "Slow down." in failed(answer, ingress, 429).message
    if answer.status_code == 429:
        assert answer.headers["retry-after"] == "700"


TOO_LONG: dict[str, Refuse] = {
    "openai": refuse(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in"
        " 9000 tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
    ),
    "responses": refuse(
        400,
        "This model's maximum prompt length is 8192 but the request contains 9000 tokens.",
        code="context_length_exceeded",
    ),
    "anthropic": refuse(400, "prompt is too long: 9000 tokens > 8192 maximum"),
    "gemini": refuse(
        400, "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."
    ),
    EMULATED: refuse(400, "request (9000 tokens) exceeds the available context size (8192 tokens)"),
}
"""How each service refuses a prompt that is too long."""
TOO_LONG_SEEN: dict[str, Failure | str] = {
    "chat": "context_length_exceeded",
    "responses": "context_length_exceeded",
    "messages": Failure("invalid_request_error", "prompt is too long: 9000 tokens > 8192 maximum"),
    "gemini": Failure(
        "INVALID_ARGUMENT",
        "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
    ),
}
"""What the clients of each wire act on: a code, or words."""


@forms
@ingresses
@upstreams
def test_a_prompt_that_is_too_long(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str, streamed: bool
) -> None:
    pairs.plays(TOO_LONG[upstream])
    path, body = ingress.request(upstream, [ingress.user("Hi.")], stream=streamed)
    failure = failed(http.post(path, json=body), ingress, 400)
    expected = TOO_LONG_SEEN[ingress.name]
    assert expected in (failure, failure.code)
    assert "9000" in failure.message


@ingresses
@upstreams
def test_a_prompt_that_is_too_long_after_a_round_of_server_tools(
    pairs: Pairs, http: httpx2.Client, ingress: Ingress, upstream: str
) -> None:
    rome = called(upstream, ("lookup", {"city": "Rome"}))
    pairs.plays(replace(rome, text=f"Looking it up. {rome.text}"), TOO_LONG[upstream])
    path, body = ingress.request(upstream, [ingress.user("Hi.")], stream=True)
    answer = http.post(path, json=body)
    assert answer.status_code == 200
    failure = ingress.stream_error(answer.content)
    assert TOO_LONG_SEEN[ingress.name] in (failure, failure.code)
