"""Turns that a client has seen only in part, kept until it sends its results. No I/O.

A client that runs its own tools only sees the calls of these tools. The rest of the turn (server
tool calls and their results, signed thoughts, earlier rounds) is kept here under the ids of the
client's calls. It is put back into the conversation when the client sends its results.
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
from windlass.request import inherited
from windlass.wires.calls import CallIds
from windlass.wires.errors import InvalidRequest

NO_RESULT = "The caller gave no result for this call."


class HiddenTurn(Struct, frozen=True):
    """The messages of a run whose last turn waits for client tools."""

    messages: tuple[Message, ...]
    """All messages after the request; the last one has the client's calls."""
    answers: tuple[FunctionResponse, ...]
    """The gateway's results for that turn."""
    ids: dict[str, str]
    """Maps the call ids that the client knows to those of the turn."""


def hidden_turn(reply: Reply, input_count: int, ids: CallIds) -> HiddenTurn | None:
    """The hidden turn of a run with `input_count` input messages; None if nothing is hidden."""
    messages = reply.messages[input_count:]
    if not reply.pending or not messages:
        return None
    answers = reply.rounds[-1].shown
    known = {ids.outward(call.id): call.id for call in reply.pending}
    renamed = any(outer != inner for outer, inner in known.items())
    if len(messages) == 1 and not answers and not renamed and _is_plain(messages[0]):
        return None
    return HiddenTurn(messages, answers, known)


def seen_by_client(reply: Reply, input_count: int, ids: CallIds) -> tuple[Message, ...]:
    """The conversation that the client has seen: only the client's calls of a waiting turn."""
    if not reply.pending:
        return reply.messages
    turn = reply.messages[-1]
    calls = [replace(call, id=ids.outward(call.id)) for call in reply.pending]
    texts = [part for part in turn.parts if isinstance(part, Text)]
    return (*reply.messages[:input_count], Message("assistant", (*texts, *calls)))


def continued(stored: Sequence[Message], messages: Sequence[Message]) -> tuple[Message, ...]:
    """A stored conversation with new messages, which may contain results for its last turn.

    New system messages replace those at the start of the stored conversation. Raises
    `InvalidRequest` for a result without a call.
    """
    stored, messages = _with_new_instructions(inherited(stored), messages)
    calls = {call.id: call for message in (*stored, *messages) for call in message.calls}
    last = {call.id for call in stored[-1].calls} if stored else set[str]()
    if messages and messages[0].calls and messages[0].calls[0].id in last:
        messages = messages[1:]  # the client has repeated the turn that it answers
    return (*stored, *(_named(message, calls) for message in messages))


def _with_new_instructions(
    stored: Sequence[Message], messages: Sequence[Message]
) -> tuple[Sequence[Message], Sequence[Message]]:
    new = list(takewhile(_is_system, messages))
    if not new:
        return stored, messages
    return (*new, *dropwhile(_is_system, stored)), messages[len(new) :]


def _is_system(message: Message) -> bool:
    return message.role == "system"


def _named(message: Message, calls: Mapping[str, FunctionCall]) -> Message:
    """The message with the tool names of its results, which come from their calls."""
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
    """Hidden turns by owner and call id. Limits their number, size and age; drops the oldest."""

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
        """The conversation, with its known hidden turns restored."""
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
            _drop_repeated_rounds(whole, turn)
            whole += turn.messages
            whole.append(_answered(turn, {result.id: result for result in results}))
        return tuple(whole)

    def _turn(self, owner: str, message: Message) -> HiddenTurn | None:
        if message.role != "assistant" or not (calls := message.calls):
            return None
        numbers = (self._by_call.get((owner, call.id)) for call in calls)
        number = next((each for each in numbers if each is not None), None)
        if number is None:
            return None
        turn = self._turns[number][1]
        return turn if _same_calls(turn, calls) else None

    def _forget(self) -> None:
        oldest = self._clock() - self._keep_seconds
        while self._turns:
            number = next(iter(self._turns))
            owner, turn, kept_at, size = self._turns[number]
            full = len(self._turns) > self._max_turns or self._bytes > self._max_bytes
            if kept_at > oldest and not full:
                break
            del self._turns[number]
            self._bytes -= size
            for call_id in turn.ids:
                if self._by_call.get((owner, call_id)) == number:
                    del self._by_call[owner, call_id]


def _same_calls(turn: HiddenTurn, calls: Sequence[FunctionCall]) -> bool:
    """Whether the client's calls equal those of the turn: the client may have edited them.

    A client that is shown the calls of server tools may repeat them.
    """
    known = {call.id: call for call in turn.messages[-1].calls}
    for call in calls:
        own = known.get(turn.ids.get(call.id, ""))
        if own is None and _is_repeated(call, turn):
            continue
        if own is None or own.name != call.name or not _same_arguments(own, call):
            return False
    return True


def _drop_repeated_rounds(whole: list[Message], turn: HiddenTurn) -> None:
    """Removes the earlier rounds of the turn's run, if the client has repeated them."""
    while len(whole) > 1 and whole[-1].role == "tool" and (calls := whole[-2].calls):
        if not all(_is_repeated(call, turn) for call in calls):
            return
        del whole[-2:]


def _is_repeated(call: FunctionCall, turn: HiddenTurn) -> bool:
    """Whether the turn's run made this call of a server tool. Its id depends on the wire."""
    pending = set(turn.ids.values())
    return any(
        own.name == call.name and own.id not in pending and own.arguments == call.arguments
        for message in turn.messages
        for own in message.calls
    )


def _same_arguments(own: FunctionCall, sent: FunctionCall) -> bool:
    """Whether the arguments are equal, or the client has only added some.

    Claude Code sends a call back with the defaults of its missing arguments.
    """
    known, given = own.arguments, sent.arguments
    if not known or isinstance(known, str) or isinstance(given, str):
        return known == given
    return all(name in given and given[name] == value for name, value in known.items())


def _answered(turn: HiddenTurn, results: Mapping[str, FunctionResponse]) -> Message:
    """The results of the whole turn, in call order: those of the gateway and of the client."""
    own = {answer.id: answer for answer in turn.answers}
    outward = {inner: outer for outer, inner in turn.ids.items()}
    answers: list[FunctionResponse] = []
    for call in turn.messages[-1].calls:
        given = results.get(outward.get(call.id, ""))
        if call.id in own:
            answers.append(own[call.id])
        elif given is not None:
            answers.append(replace(given, id=call.id, name=call.name))
        else:
            answers.append(FunctionResponse(call.name, {"error": NO_RESULT}, call.id))
    return Message.tool(answers)
