"""What a run gives back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from windlass.content import FunctionCall, FunctionResponse, Message, Usage, paired
from windlass.errors import ConfigError
from windlass.events import FinishReason, StopReason
from windlass.loop.results import ToolAnswer, capped
from windlass.tool import Tool

__all__ = ["Calls", "Reply", "RoundRecord"]

_SHOWN = 60
"""Characters of the text in a reply's `repr`."""


class Calls(tuple[FunctionCall, ...]):  # noqa: SLOT001 - it carries an attribute
    """Calls that remember the tools they were offered, so that they can be run by themselves."""

    tools: Mapping[str, Tool]

    @classmethod
    def of(cls, calls: Iterable[FunctionCall], tools: Mapping[str, Tool]) -> "Calls":
        made = cls(calls)
        made.tools = tools
        return made


class RoundRecord(Struct, frozen=True):
    """One request to the model and what became of its calls."""

    number: int
    message: Message
    finish: FinishReason
    usage: Usage
    answers: tuple[ToolAnswer, ...] = ()
    shown: tuple[FunctionResponse, ...] = ()
    """The answers as the model is given them: long ones without their middle."""
    about: dict[str, Any] = {}
    """What the service says of the whole answer, such as `system_fingerprint`."""
    logprobs: dict[str, Any] | None = None
    """Of the tokens of its text, if they were asked for."""


class Reply(Struct, frozen=True):
    """The end of a run: the answer, and how it came about."""

    text: str
    messages: tuple[Message, ...]
    """The conversation, ready to be sent again: what was asked, every turn, every result."""
    rounds: tuple[RoundRecord, ...]
    usage: Usage
    """The whole run summed; each round has its own."""
    stop_reason: StopReason
    calls: Calls
    """Every call that the model made, in order."""
    results: tuple[FunctionResponse, ...]
    """Every answer that Windlass gave, in call order and whole."""
    pending: Calls
    """The calls that wait for the caller's answer."""
    run_id: str = ""
    model: str = ""
    max_result_chars: int = 50_000

    def __repr__(self) -> str:
        """Short: messages may hold whole files."""
        start = self.text if len(self.text) <= _SHOWN else f"{self.text[: _SHOWN - 3]}..."
        return (
            f"Reply({start!r}, stop_reason={self.stop_reason!r},"
            f" tokens={self.usage.total_tokens}, rounds={len(self.rounds)})"
        )

    @property
    def mode(self) -> str | None:
        """How the model was offered its tools, `native` or `emulated`; None if no turn is whole."""
        marks = [record.message.extra.get("windlass", {}).get("mode") for record in self.rounds]
        if marked := next((mode for mode in reversed(marks) if mode), None):
            return marked
        # Every whole turn of an emulated model is marked; one that broke off is `other`.
        return "native" if any(record.finish != "other" for record in self.rounds) else None

    @property
    def thoughts(self) -> str:
        return "".join(record.message.thoughts for record in self.rounds)

    def follow_up(
        self, results: Iterable[FunctionResponse] | Mapping[str, object] = ()
    ) -> tuple[Message, ...]:
        """The conversation with the pending calls answered, in call order, as the next prompt.

        `results` are responses, or values by call id. Raises `ConfigError` for a call that is left
        without an answer, and for an answer without a call.
        """
        if not self.pending:
            return self.messages
        limit = self.max_result_chars
        given = {
            call_id: capped(response, limit)
            for call_id, response in _by_id(results, self.pending).items()
        }
        if self.rounds:
            given.update({response.id: response for response in self.rounds[-1].shown})
        turn = self.messages[-1].calls
        if missing := [call.id for call in turn if call.id not in given]:
            raise ConfigError(f"these calls have no result: {', '.join(missing)}")
        return (*self.messages, Message.tool(given[call.id] for call in turn))


def _by_id(
    results: Iterable[FunctionResponse] | Mapping[str, object], pending: Sequence[FunctionCall]
) -> dict[str, FunctionResponse]:
    names = {call.id: call.name for call in pending}
    if isinstance(results, Mapping):
        values = cast("Mapping[str, object]", results)
        given = {
            call_id: FunctionResponse(names.get(call_id, ""), {"output": value}, call_id)
            for call_id, value in values.items()
        }
    else:
        # Without ids, results answer the calls of their names in order.
        _, answered = paired([Message("assistant", tuple(pending)), Message.tool(results)])
        given = {response.id or response.name: response for response in answered.responses}
    if unknown := given.keys() - names.keys():
        raise ConfigError(f"no call is waiting for these results: {', '.join(sorted(unknown))}")
    return given
