"""Search in the text of chats and runs. Pure."""

import re
from collections.abc import Iterable, Sequence

from windlass.content import FunctionCall, FunctionResponse, Message, Text
from windlass.events import RunEvent, RunStarted
from windlass.jsontext import compact_json
from windlass.runs.export import exported_rounds

BEFORE_CHARS, AFTER_CHARS = 20, 80
"""How many characters an excerpt shows before and after a match."""
_SPACE = re.compile(r"\s")


def text_of_messages(messages: Iterable[Message]) -> str:
    """The text that a person sees in a conversation: prompts, answers, arguments and results."""
    return "\n".join(
        text for message in messages if message.role != "system" for text in _texts(message)
    )


def _texts(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case Text(text=text):
                yield text
            case FunctionCall(name=name, json=json):
                yield f"{name} {json}"
            case FunctionResponse(response=response):
                yield compact_json(response)
            case _:
                continue


def text_of_run(events: Sequence[RunEvent]) -> str:
    """The prompt of a run, and everything that its model and tools wrote."""
    started = events[0] if events and isinstance(events[0], RunStarted) else None
    texts = [text_of_messages(started.messages)] if started else []
    for each in exported_rounds(events):
        texts += [each.text, each.thoughts]
        for call in each.calls:
            texts += [call.name, compact_json(call.arguments), compact_json(call.response)]
    return "\n".join(texts)


def excerpt(text: str, wanted: str) -> str | None:
    """The text around the first match, on one line; None if there is none.

    `wanted` is casefolded.
    """
    at = text.casefold().find(wanted)
    if at < 0:
        return None
    # Casefolding may change the length, so the place is approximate in some scripts.
    start, end = max(0, at - BEFORE_CHARS), at + len(wanted) + AFTER_CHARS
    if start and (space := _SPACE.search(text, start, at)):
        start = space.end()  # the excerpt begins with a whole word
    words = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{words}{'…' if end < len(text) else ''}"
