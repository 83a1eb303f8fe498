"""Tries a model on a variant of the page: a conversation whose answers are known.

`try_model` asks for a call, sends its result, asks twice more in the same chat and once in a new
one. Every answer must be exactly what the page shows; otherwise the model must fail with an error
that names the cause.
"""

import re
from typing import Any, Literal

from msgspec import Struct

from windlass.content import FunctionCall, FunctionDeclaration, FunctionResponse, Message
from windlass.errors import ModelError
from windlass.events import TextDelta, ToolCallEnded
from windlass.model import Model, ModelRequest
from windlass.testing.aistudio.fake import FakeAIStudio
from windlass.testing.aistudio.variants import PageVariant
from windlass.testing.script import call, say, think

WEATHER = FunctionDeclaration(
    "get_weather",
    "The weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
REPORT = """\
## Weather in Paris

It is **sunny**, with *light* winds from the `north_west`:

- Morning
  - 12 degrees
- Evening

1. Take a hat.
2. See [the map](https://example.com/map).

| Time | Degrees |
| --- | --- |
| 9:00 | 12 |
| 18:00 | 19 |

> Forecasts can be wrong.

```python
def degrees(hour):
    return 12 if hour < 12 else 19
```"""
ROME = "Rome is sunny, too."
STILL = "Still sunny, as I said."
HELLO = "Hello to you."

SCRIPT = (
    think("The user asks about Paris.", call("get_weather", city="Paris")),
    REPORT,
    ROME,
    STILL,
    say(HELLO),
)
"""What the page's model answers, in order."""

_NAMES_THE_CAUSE = re.compile(r"the (elements?|switch) '\w+'|covers the page|: <\w")


class TrialResult(Struct, frozen=True):
    """How a trial ended: all answers were right, an error named the cause, or neither."""

    kind: Literal["answered", "error", "wrong"]
    detail: str = ""


def reset(fake: FakeAIStudio, variant: PageVariant) -> None:
    """Makes the replica serve this variant from now on."""
    fake.change(**variant.options)
    fake.requests.clear()
    fake.saves.clear()


async def try_model(model: Model, fake: FakeAIStudio) -> TrialResult:
    """Has the conversation of `SCRIPT` with the model. Its page must show `fake`."""
    try:
        return await _converse(model, fake)
    except ModelError as problem:
        if _NAMES_THE_CAUSE.search(problem.message):
            return TrialResult("error", problem.message)
        return TrialResult("wrong", f"an error without a cause: {problem.message}")


async def _converse(model: Model, fake: FakeAIStudio) -> TrialResult:
    messages = [Message.user("What is the weather in Paris?")]
    text, calls = await _turn(model, messages)
    if [(each.name, each.arguments) for each in calls] != [("get_weather", {"city": "Paris"})]:
        return TrialResult("wrong", f"expected a call, read {calls!r} and {text!r}")
    if text:
        return TrialResult("wrong", f"expected no text beside the call, read {text!r}")
    result = FunctionResponse("get_weather", {"output": "sunny in Paris"}, calls[0].id)
    messages += [Message.assistant(calls[0]), Message.tool([result])]
    for asked, wanted in (
        (None, REPORT),
        ("And in Rome?", ROME),
        ("And in Rome?", STILL),
    ):
        if asked is not None:
            messages.append(Message.user(asked))
        text, calls = await _turn(model, messages)
        if (text, calls) != (wanted, []):
            return TrialResult("wrong", f"expected {wanted!r}, read {text!r} and {calls!r}")
        messages.append(Message.assistant(text))
    text, calls = await _turn(model, [Message.user("Hello")])
    if (text, calls) != (HELLO, []):
        return TrialResult("wrong", f"expected {HELLO!r}, read {text!r} and {calls!r}")
    return _sent(fake)


async def _turn(model: Model, messages: list[Message]) -> tuple[str, list[FunctionCall]]:
    text, calls = "", list[FunctionCall]()
    async with model.stream(ModelRequest(tuple(messages), (WEATHER,))) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, ToolCallEnded):
                calls.append(event.call)
    return text, calls


def _sent(fake: FakeAIStudio) -> TrialResult:
    """Whether the page's model was asked what the caller asked, with the declared function."""
    bodies: list[Any] = [request.body for request in fake.requests]
    if len(bodies) != len(SCRIPT):
        return TrialResult("wrong", f"the page ran {len(bodies)} requests instead of {len(SCRIPT)}")
    answers = [answer["response"] for answer in bodies[1]["answers"]]
    if answers != ['{"output":"sunny in Paris"}']:
        return TrialResult("wrong", f"the page got the results {answers!r}")
    for body in bodies:
        names = [each["name"] for each in body["declarations"]]
        if names != ["get_weather"] or not body["switches"]["function_calling"]:
            return TrialResult("wrong", f"the page had the functions {names!r}")
    return TrialResult("answered")
