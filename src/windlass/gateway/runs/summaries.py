"""Summaries of runs (rounds, tokens, calls), and searches in the text of runs and chats."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from windlass.content import FunctionCall, FunctionResponse, Message, Text, Usage
from windlass.errors import RunNotFound
from windlass.events import RunEvent, RunStarted
from windlass.gateway.runs.lookup import FoundRun
from windlass.gateway.tools.calls import CallSummary, cut_arguments, cut_response
from windlass.jsontext import compact_json, encode_json
from windlass.runs.export import ExportedCall, ExportedRound, exported_rounds
from windlass.wires.fields import JsonObject


class RunSummary(Struct, frozen=True, kw_only=True):
    """The summary of a run so far."""

    ended: bool
    seconds: float
    rounds: int
    usage: Usage
    calls: tuple[CallSummary, ...]

    def fields(self) -> JsonObject:
        """The fields for clients."""
        tools: dict[str, JsonObject] = {}
        for call in self.calls:
            totals = tools.setdefault(call.name, {"calls": 0, "failures": 0, "seconds": 0.0})
            totals["calls"] += 1
            totals["failures"] += call.failed
            totals["seconds"] += call.seconds
        return {
            "seconds": self.seconds,
            "rounds": self.rounds,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "tools": tools,
        }

    def calls_tool(self, name: str) -> bool:
        return any(call.name == name for call in self.calls)


class Summaries:
    """Computes summaries, and caches those of ended runs, up to a size; drops the oldest used."""

    def __init__(self, max_bytes: int = 32 * 2**20) -> None:
        """`max_bytes` limits the approximate size of the cache; a run may have many calls."""
        self._max_bytes, self._bytes = max_bytes, 0
        self._cache: dict[str, tuple[RunSummary, int]] = {}

    async def of(self, run: FoundRun) -> RunSummary | None:
        """None if the run was deleted meanwhile."""
        known = self._cache.pop(run.id, None)
        if known is not None:
            self._cache[run.id] = known  # now the most recently used
            return known[0]
        try:
            summary = summary_of(run.id, await run.recorded())
        except RunNotFound:
            return None
        if summary.ended:
            self._add(run.id, summary)
        return summary

    def forget(self, run_id: str) -> None:
        if (known := self._cache.pop(run_id, None)) is not None:
            self._bytes -= known[1]

    def _add(self, run_id: str, summary: RunSummary) -> None:
        self.forget(run_id)  # another request may have read it at the same time
        size = len(encode_json(summary))
        self._cache[run_id] = (summary, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self.forget(next(iter(self._cache)))


def summary_of(run_id: str, events: Sequence[RunEvent]) -> RunSummary:
    """The summary of these events."""
    rounds = exported_rounds(events)
    return RunSummary(
        ended=bool(events) and events[-1].done,
        seconds=max(0.0, events[-1].time - events[0].time) if events else 0.0,
        rounds=sum(not each.superseded for each in rounds),
        usage=sum((each.usage for each in rounds), Usage()),
        calls=tuple(_calls(run_id, rounds)),
    )


def _calls(run_id: str, rounds: Iterable[ExportedRound]) -> Iterable[CallSummary]:
    for each in rounds:
        for call in each.calls:
            yield CallSummary(
                run_id=run_id,
                call_id=call.id,
                name=call.name,
                time=call.started or call.ended or each.started,
                seconds=call.seconds,
                outcome=call.outcome,
                arguments=cut_arguments(call.arguments),
                response=_response(call),
            )


def _response(call: ExportedCall) -> JsonObject | None:
    if call.response is None:
        return None
    return cut_response(FunctionResponse(call.name, call.response, call.id))


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
