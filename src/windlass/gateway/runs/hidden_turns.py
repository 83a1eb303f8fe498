"""Turns of which a client has seen only its own part, kept until it answers. No I/O.

A client that has tools of its own is shown the calls of those alone. What the model said and the
gateway did besides (its own calls and their results, signed thoughts, rounds before) stands here
under the ids of the calls, and goes back in its place when the client sends its results.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile, takewhile

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import (
    FunctionCall,
    FunctionResponse,
    Message,
    Text,
)
from windlass.reply import Reply
from windlass.wires.call_ids import CallIds
from windlass.wires.errors import InvalidRequest

__all__ = [
    "HiddenTurn",
    "HiddenTurns",
    "continued",
    "hidden_turn",
    "seen_by_client",
]

NO_RESULT = "The caller gave no result for this call."


class HiddenTurn(Struct, frozen=True):
    """The end of a run whose last turn waits for the client."""

    messages: tuple[Message, ...]
    """All that came after the request; the last is the turn with the client's calls."""
    answers: tuple[FunctionResponse, ...]
    """The gateway's own answers to that turn."""
    ids: dict[str, str]
    """The turn's call ids by those that the client knows."""


def hidden_turn(reply: Reply, asked: int, ids: CallIds) -> HiddenTurn | None:
    """What to keep of a run that began with `asked` messages; None if the client has it all."""
    messages = reply.messages[asked:]
    if not reply.pending or not messages:
        return None
    answers = reply.rounds[-1].shown
    known = {ids.outward(call.id): call.id for call in reply.pending}
    renamed = any(outer != inner for outer, inner in known.items())
    if len(messages) == 1 and not answers and not renamed and _is_plain(messages[0]):
        return None
    return HiddenTurn(messages, answers, known)


def seen_by_client(reply: Reply, asked: int, ids: CallIds) -> tuple[Message, ...]:
    """The conversation as the run's client has it: of a turn that waits, its own calls alone."""
    if not reply.pending:
        return reply.messages
    turn = reply.messages[-1]
    calls = [replace(call, id=ids.outward(call.id)) for call in reply.pending]
    texts = [part for part in turn.parts if isinstance(part, Text)]
    return (*reply.messages[:asked], Message("assistant", (*texts, *calls)))


def continued(kept: Sequence[Message], messages: Sequence[Message]) -> tuple[Message, ...]:
    """A stored conversation with what comes next, which may answer calls of its last turn.

    Instructions that come with it take the place of those that the conversation began with.
    Raises `Refused` for an answer to a call that nobody has made.
    """
    kept, messages = _newly_instructed(kept, messages)
    calls = {call.id: call for message in (*kept, *messages) for call in message.calls}
    made = {call.id for call in kept[-1].calls} if kept else set[str]()
    if messages and messages[0].calls and messages[0].calls[0].id in made:
        messages = messages[1:]  # the client has sent along the turn that it answers
    return (*kept, *(_named(message, calls) for message in messages))


def _newly_instructed(
    kept: Sequence[Message], messages: Sequence[Message]
) -> tuple[Sequence[Message], Sequence[Message]]:
    new = list(takewhile(_instructs, messages))
    if not new:
        return kept, messages
    return (*new, *dropwhile(_instructs, kept)), messages[len(new) :]


def _instructs(message: Message) -> bool:
    return message.role == "system"


def _named(message: Message, calls: Mapping[str, FunctionCall]) -> Message:
    """An answer's tool is that of its call."""
    if message.role != "tool" or all(answer.name for answer in message.responses):
        return message
    answers: list[FunctionResponse] = []
    for answer in message.responses:
        if not answer.name and answer.id not in calls:
            raise InvalidRequest(f"messages: no earlier call has the id {answer.id!r}", "messages")
        answers.append(replace(answer, name=answer.name or calls[answer.id].name))
    return Message("tool", tuple(answers), message.extra)


def _is_plain(message: Message) -> bool:
    return message.extra.keys() <= {"windlass"} and all(
        isinstance(part, Text | FunctionCall) and part.signature is None and not part.extra
        for part in message.parts
    )


class HiddenTurns:
    """Bounded by number, size and age: the oldest go first. A turn is its key's alone."""

    def __init__(
        self,
        *,
        max_turns: int = 10_000,
        max_bytes: int = 64 * 2**20,
        keep_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_turns, self._max_bytes = max_turns, max_bytes
        self._keep_seconds, self._clock = keep_seconds, clock
        self._turns: dict[int, tuple[str, HiddenTurn, float, int]] = {}
        self._by_call: dict[tuple[str, str], int] = {}
        self._bytes = self._count = 0

    def keep(self, owner: str, turn: HiddenTurn) -> None:
        size = len(msgspec.json.encode(turn, enc_hook=str))
        self._count += 1
        self._bytes += size
        self._turns[self._count] = (owner, turn, self._clock(), size)
        for call_id in turn.ids:
            self._by_call[owner, call_id] = self._count
        self._forget()

    def knows(self, owner: str, call_id: str) -> bool:
        return (owner, call_id) in self._by_call

    def restored(self, owner: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The conversation with every turn whole again that is known here."""
        if not self._turns:
            return tuple(messages)
        self._forget()
        whole: list[Message] = []
        rest = list(reversed(messages))
        while rest:
            message = rest.pop()
            turn = self._turn(owner, message)
            if turn is None:
                whole.append(message)
                continue
            results = rest.pop().responses if rest and rest[-1].role == "tool" else ()
            whole += turn.messages
            whole.append(_answered(turn, {result.id: result for result in results}))
        return tuple(whole)

    def _turn(self, owner: str, message: Message) -> HiddenTurn | None:
        if message.role != "assistant" or not (calls := message.calls):
            return None
        number = self._by_call.get((owner, calls[0].id))
        if number is None:
            return None
        turn = self._turns[number][1]
        return turn if _same_calls(turn, calls) else None

    def _forget(self) -> None:
        oldest = self._clock() - self._keep_seconds
        while self._turns:
            number = next(iter(self._turns))
            owner, turn, kept, size = self._turns[number]
            crowded = len(self._turns) > self._max_turns or self._bytes > self._max_bytes
            if kept > oldest and not crowded:
                break
            del self._turns[number]
            self._bytes -= size
            for call_id in turn.ids:
                if self._by_call.get((owner, call_id)) == number:
                    del self._by_call[owner, call_id]


def _same_calls(turn: HiddenTurn, calls: Sequence[FunctionCall]) -> bool:
    """Whether the client's calls are the turn's: one that was edited is the client's own now."""
    said = {call.id: call for call in turn.messages[-1].calls}
    for call in calls:
        ours = said.get(turn.ids.get(call.id, ""))
        if ours is None or ours.name != call.name or ours.arguments != call.arguments:
            return False
    return True


def _answered(turn: HiddenTurn, results: Mapping[str, FunctionResponse]) -> Message:
    """The answers to the whole turn, in call order: the gateway's own and the client's."""
    ours = {answer.id: answer for answer in turn.answers}
    outward = {inner: outer for outer, inner in turn.ids.items()}
    answers: list[FunctionResponse] = []
    for call in turn.messages[-1].calls:
        given = results.get(outward.get(call.id, ""))
        if call.id in ours:
            answers.append(ours[call.id])
        elif given is not None:
            answers.append(replace(given, id=call.id, name=call.name))
        else:
            answers.append(FunctionResponse(call.name, {"error": NO_RESULT}, call.id))
    return Message.tool(answers)
