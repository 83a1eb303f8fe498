"""Sampling: a server's request for a model's answer, with an approval and a budget. Pure."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import mcp_types as types

from windlass.content import FunctionCall, Message, Part

MAX_TRACKED_RUNS = 1_000
"""How many of the latest runs have their tokens counted."""


class Sampled(NamedTuple):
    """A model's answer."""

    text: str
    model: str
    tokens: int
    """The tokens that it cost."""


Sampler: TypeAlias = Callable[[tuple[Message, ...], int], Awaitable[Sampled]]
"""Asks a model: takes the messages and the maximum number of tokens of the answer."""


def messages_of(params: types.CreateMessageRequestParams) -> tuple[Message, ...]:
    """The conversation of a request. Raises `ValueError` for content other than text."""
    messages = [Message.system(params.system_prompt)] if params.system_prompt else []
    for each in params.messages:
        blocks: list[Any] = each.content if isinstance(each.content, list) else [each.content]
        texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
        if len(texts) != len(blocks):
            raise ValueError("sampling supports only text content")
        text = "\n".join(texts)
        messages.append(Message.user(text) if each.role == "user" else Message.assistant(text))
    return tuple(messages)


def sampling_call(tool: str, messages: tuple[Message, ...], max_tokens: int) -> FunctionCall:
    """The request as a call for the approver, who sees what the model would be asked."""
    shown = [{"role": message.role, "text": message.text} for message in messages]
    return Part.from_function_call(
        f"{tool}:sampling", {"messages": shown, "max_tokens": max_tokens}
    )


def sampling_result(sampled: Sampled) -> types.CreateMessageResult:
    return types.CreateMessageResult(
        role="assistant",
        content=types.TextContent(text=sampled.text),
        model=sampled.model,
        stop_reason="endTurn",
    )


class SamplingBudget:
    """Counts the tokens that a server's requests cost in each run."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._used: dict[object, int] = {}

    def left(self, run: object) -> int:
        return max(0, self._max_tokens - self._used.get(run, 0))

    def spend(self, run: object, tokens: int) -> None:
        self._used[run] = self._used.pop(run, 0) + tokens
        if len(self._used) > MAX_TRACKED_RUNS:
            del self._used[next(iter(self._used))]
