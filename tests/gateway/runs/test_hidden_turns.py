"""Turns that a client has seen only in part: kept within limits, and restored completely."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.content import (
    AnyPart,
    FunctionCall,
    FunctionResponse,
    Message,
    Text,
    Thought,
    Usage,
    is_own_call_id,
    new_call_id,
)
from windlass.gateway.runs.hidden_turns import NO_RESULT, HiddenTurn, HiddenTurns, hidden_turn
from windlass.reply import Calls, Reply, RoundRecord
from windlass.wires.calls import CallIds

HELLO = Message.user("Hello")


class Clock:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Conversation:
    """The model's conversation and the client's view of it."""

    def __init__(self, turns: HiddenTurns, owner: str = "web") -> None:
        self.turns, self.owner = turns, owner
        self.whole: list[Message] = []
        self.seen: list[Message] = []

    def user(self, text: str = "Go on.") -> None:
        self.whole.append(Message.user(text))
        self.seen.append(Message.user(text))

    def turn(
        self,
        parts: tuple[AnyPart, ...],
        *,
        theirs: str = "client_",
        rounds: tuple[Message, ...] = (),
        order: Any = lambda calls: calls,
    ) -> None:
        """A run that ends with calls of client tools. The client sends the results in `order`."""
        said = Message("assistant", parts)
        ours = tuple(answer(c) for c in said.calls if not c.name.startswith(theirs))
        pending = [call for call in said.calls if call.name.startswith(theirs)]
        ids = CallIds()
        asked = len(self.whole)
        self.whole += [*rounds, said]
        kept = hidden_turn(reply(self.whole, said, ours, pending), asked, ids)
        if kept is not None:
            self.turns.keep(self.owner, kept)
        shown = [FunctionCall(c.name, c.json, ids.outward(c.id)) for c in pending]
        answered = order(pending)
        self.seen.append(Message("assistant", (*([Text(said.text)] if said.text else []), *shown)))
        if answered:
            renamed = [FunctionCall(c.name, c.json, ids.outward(c.id)) for c in answered]
            self.seen.append(Message.tool(map(answer, renamed)))
        self.whole.append(
            Message.tool(
                answer(c) if c not in pending or c in answered else unanswered(c)
                for c in said.calls
            )
        )

    def restored(self, owner: str | None = None) -> list[Message]:
        owner = self.owner if owner is None else owner
        return list(self.turns.restored(owner, self.seen))


def answer(call: FunctionCall) -> FunctionResponse:
    return FunctionResponse(call.name, {"output": f"{call.name} says {call.json}"}, call.id)


def unanswered(call: FunctionCall) -> FunctionResponse:
    return FunctionResponse(call.name, {"error": NO_RESULT}, call.id)


def reply(
    messages: list[Message],
    said: Message,
    shown: tuple[FunctionResponse, ...],
    pending: list[FunctionCall],
) -> Reply:
    record = RoundRecord(1, said, "tool_calls", Usage(), shown=shown)
    return Reply(
        text=said.text,
        messages=tuple(messages),
        rounds=(record,),
        usage=Usage(),
        stop_reason="calls",
        calls=Calls.of(said.calls, {}),
        results=shown,
        pending=Calls.of(pending, {}),
    )


def kept(name: str, size: int = 1) -> HiddenTurn:
    """A turn with one call of a client tool; the client knows it as `name`."""
    call = FunctionCall("client_f", "{}", "inner")
    said = Message("assistant", (Thought("x" * size, "signed"), call))
    return HiddenTurn((said,), (), {name: "inner"})


def sent_back(name: str) -> list[Message]:
    call = FunctionCall("client_f", "{}", name)
    return [HELLO, Message("assistant", (call,)), Message.tool([answer(call)])]


def knows(turns: HiddenTurns, name: str, owner: str = "web") -> bool:
    return list(turns.restored(owner, sent_back(name))) != sent_back(name)


def test_the_oldest_turn_is_dropped_when_there_are_too_many() -> None:
    turns = HiddenTurns(max_turns=2)
    for name in ("a", "b", "c"):
        turns.keep("web", kept(name))
    assert [knows(turns, name) for name in ("a", "b", "c")] == [False, True, True]


def test_the_oldest_turns_are_dropped_when_all_are_too_large() -> None:
    turns = HiddenTurns(max_bytes=3000)
    for name in ("a", "b", "c"):
        turns.keep("web", kept(name, 1000))
    assert [knows(turns, name) for name in ("a", "b", "c")] == [False, True, True]
    turns.keep("web", kept("d", 5000))
    assert not any(knows(turns, name) for name in ("a", "b", "c", "d"))
    turns.keep("web", kept("e", 1000))
    assert knows(turns, "e"), "a turn that was too large takes no room when it is gone"


def test_a_turn_is_dropped_after_its_time_limit() -> None:
    clock = Clock()
    turns = HiddenTurns(keep_seconds=60, clock=clock)
    turns.keep("web", kept("a"))
    clock.now += 40
    turns.keep("web", kept("b"))
    assert knows(turns, "a")
    clock.now += 20
    assert [knows(turns, name) for name in ("a", "b")] == [False, True]
    clock.now += 40
    assert not knows(turns, "b")


def test_an_id_that_is_kept_again_belongs_to_the_new_turn() -> None:
    turns = HiddenTurns(max_turns=2)
    for name in ("a", "b", "a", "c"):
        turns.keep("web", kept(name))
    assert [knows(turns, name) for name in ("a", "b", "c")] == [True, False, True]


def test_another_key_restores_nothing() -> None:
    turns = HiddenTurns()
    turns.keep("web", kept("a"))
    assert knows(turns, "a")
    assert not knows(turns, "a", owner="other")
    assert not knows(turns, "a", owner="")


def test_a_turn_without_hidden_parts_is_not_stored() -> None:
    said = (Text("Let me see."), FunctionCall("client_f", "{}", new_call_id()))
    plain = Message("assistant", said)
    assert hidden_turn(reply([HELLO, plain], plain, (), list(plain.calls)), 1, CallIds()) is None


def test_a_turn_is_kept_for_the_ids_that_the_model_gave_its_calls() -> None:
    plain = Message("assistant", (FunctionCall("client_f", "{}", "call_0"),))
    kept = hidden_turn(reply([HELLO, plain], plain, (), list(plain.calls)), 1, CallIds())
    assert kept is not None
    assert list(kept.ids.values()) == ["call_0"]


@pytest.mark.parametrize(
    "said",
    [
        (Thought("Hm."), FunctionCall("client_f", "{}", "c")),
        (FunctionCall("client_f", "{}", "c", "signed"),),
        (Text("Hm.", "signed"), FunctionCall("client_f", "{}", "c")),
        (FunctionCall("client_f", "{}", "c", extra={"openai": {"custom": 1}}),),
    ],
    ids=["a thought", "a signed call", "a signed text", "a field of the provider's own"],
)
def test_a_turn_with_fields_that_a_client_may_drop_is_stored(said: tuple[AnyPart, ...]) -> None:
    message = Message("assistant", said)
    found = hidden_turn(reply([HELLO, message], message, (), list(message.calls)), 1, CallIds())
    assert found is not None
    assert found.messages == (message,)


def test_an_edited_call_is_not_restored() -> None:
    turns = HiddenTurns()
    turns.keep("web", kept("a"))
    for changed in (FunctionCall("client_f", '{"x":1}', "a"), FunctionCall("client_g", "{}", "a")):
        edited = [HELLO, Message("assistant", (changed,)), Message.tool([answer(changed)])]
        assert list(turns.restored("web", edited)) == edited


def test_reformatted_arguments_are_not_an_edit() -> None:
    turns = HiddenTurns()
    call = FunctionCall("client_f", '{"a": 1, "b": [2]}', "inner")
    turns.keep(
        "web", HiddenTurn((Message("assistant", (Thought("Hm."), call)),), (), {"a": "inner"})
    )
    sent = FunctionCall("client_f", '{"b":[2],"a":1}', "a")
    whole = turns.restored("web", [HELLO, Message("assistant", (sent,)), Message.tool([])])
    assert whole[1].calls == (call,)


def test_ids_that_are_not_unique_are_replaced_for_the_client() -> None:
    ids, others = CallIds(), CallIds()
    assert is_own_call_id(ids.outward("call_0"))
    assert ids.outward("call_0") == ids.outward("call_0")
    assert ids.outward("call_0") != ids.outward("call_1")
    assert ids.outward("call_0") != others.outward("call_0")
    unique = "call_8f3hKLm29xQw7TzB4nVc"
    assert ids.outward(unique) == others.outward(unique) == unique


# Random conversations, and any behaviour of the client.

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
signatures = st.none() | st.sampled_from(["c2ln", "bmVk"])
counters = st.sampled_from(["gateway_f", "gateway_g", "client_f", "client_g"])


@st.composite
def spoken(draw: st.DrawFn) -> tuple[AnyPart, ...]:
    """A turn with at least one call of a client tool. Ids count from 0, as on some servers."""
    names = [*draw(st.lists(counters, max_size=4)), "client_h"]
    parts: list[AnyPart] = [
        FunctionCall(name, f'{{"n":{draw(st.integers(0, 3))}}}', f"call_{place}", draw(signatures))
        for place, name in enumerate(draw(st.permutations(names)))
    ]
    for kind in draw(st.lists(st.sampled_from([Text, Thought]), max_size=2)):
        place = draw(st.integers(0, len(parts)))
        parts.insert(place, kind(draw(texts), draw(signatures)))
    return tuple(parts)


@st.composite
def earlier_rounds(draw: st.DrawFn) -> tuple[Message, ...]:
    """Earlier rounds of the same run."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 2))):
        call = FunctionCall("gateway_f", "{}", "call_0", draw(signatures))
        messages += [Message("assistant", (call,)), Message.tool([answer(call)])]
    return tuple(messages)


@given(st.data())
def test_a_restored_conversation_equals_the_original(data: st.DataObject) -> None:
    turns = HiddenTurns()
    conversations = [Conversation(turns), Conversation(turns), Conversation(turns, "other")]
    for conversation in conversations:
        conversation.user(data.draw(texts))
    for _ in range(data.draw(st.integers(1, 4))):
        conversation = data.draw(st.sampled_from(conversations))
        conversation.turn(
            # A thought makes the turn a hidden one.
            (Thought("Hm."), *data.draw(spoken())),
            rounds=data.draw(earlier_rounds()),
            order=lambda calls: data.draw(st.permutations(calls))[
                : data.draw(st.integers(0, len(calls)))
            ],
        )
        if data.draw(st.booleans()):
            conversation.user(data.draw(texts))
    for conversation in conversations:
        restored = conversation.restored()
        assert restored == conversation.whole
        for before, message in pairwise(restored):
            if message.role == "tool":
                assert [call.id for call in before.calls] == [r.id for r in message.responses]


# Clients of the Responses API see the calls of server tools, and repeat them.


def _server_call(city: str, id: str) -> FunctionCall:
    return FunctionCall("weather", f'{{"city": "{city}"}}', id)


def test_rounds_and_calls_of_the_server_that_a_client_repeats_are_not_doubled() -> None:
    turns = HiddenTurns()
    first, second = _server_call("Paris", "s1"), _server_call("Rome", "s2")
    own = FunctionCall("client_note", "{}", new_call_id())
    early = (Message("assistant", (first,)), Message.tool([answer(first)]))
    said = Message("assistant", (own, second))
    run = (HELLO, *early, said)
    kept = hidden_turn(reply(list(run), said, (answer(second),), [own]), 1, CallIds())
    assert kept is not None
    turns.keep("web", kept)
    shown = [replace(first, id="mcp_1_0"), replace(second, id="mcp_1_2")]
    seen = [
        HELLO,
        Message("assistant", (shown[0],)),
        Message.tool([answer(shown[0])]),
        Message("assistant", (own, shown[1])),
        Message.tool([answer(own), answer(shown[1])]),
    ]
    whole = turns.restored("web", seen)
    assert whole == (*run, Message.tool([answer(own), answer(second)]))


def test_a_round_of_another_call_stays() -> None:
    """Only calls that the run made are repetitions of it."""
    turns = HiddenTurns()
    made, other = _server_call("Paris", "s1"), _server_call("Oslo", "mcp_0_0")
    own = FunctionCall("client_note", "{}", new_call_id())
    said = Message("assistant", (made, own))
    kept = hidden_turn(reply([HELLO, said], said, (answer(made),), [own]), 1, CallIds())
    assert kept is not None
    turns.keep("web", kept)
    round_before = (Message("assistant", (other,)), Message.tool([answer(other)]))
    seen = [HELLO, *round_before, Message("assistant", (own,)), Message.tool([answer(own)])]
    whole = turns.restored("web", seen)
    assert whole == (HELLO, *round_before, said, Message.tool([answer(made), answer(own)]))
