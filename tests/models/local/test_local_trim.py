"""A conversation that is too long: what is removed, what stays, and what is logged."""

from windlass.content import Message
from windlass.models.local.model import NOTICE, shortened

RESULTS = {"windlass": {"results": True}}


def user(text: str) -> Message:
    return Message.user(text)


def said(text: str) -> Message:
    return Message.assistant(text)


def result(text: str) -> Message:
    return Message("user", Message.user(text).parts, RESULTS)


def texts(messages: tuple[Message, ...] | None) -> list[str]:
    assert messages is not None
    return [message.text.removeprefix(f"{NOTICE}\n\n") for message in messages]


SYSTEM = Message.system("be kind")
CHAT = [SYSTEM]
for number in range(6):
    CHAT += [user(f"question {number} {'x' * 88}"), said(f"answer {number} {'y' * 90}")]
CHAT.append(user("last"))


def test_the_oldest_exchanges_are_dropped_and_the_system_message_stays() -> None:
    kept = texts(shortened(CHAT, tokens=1200, room=1000))
    assert kept[0] == "be kind"
    assert kept[1].startswith("question 2")
    assert kept[-1] == "last"
    assert len(kept) == len(CHAT) - 4


def test_the_first_message_left_tells_that_others_were_left_out() -> None:
    kept = shortened(CHAT, tokens=1200, room=1000)
    assert kept is not None
    assert [message.text.startswith(NOTICE) for message in kept[:3]] == [False, True, False]


def test_the_next_turn_begins_with_the_same_words() -> None:
    longer = [*CHAT, said("z"), user("and now?")]
    kept, next_kept = texts(shortened(CHAT, 1190, 1000)), texts(shortened(longer, 1210, 1000))
    assert next_kept[: len(kept)] == kept


def test_a_call_is_dropped_together_with_its_result() -> None:
    chat = [user("q" * 100), said("c" * 100), result("r" * 100), said("a" * 100), user("last")]
    assert texts(shortened(chat, tokens=404, room=390)) == ["last"]


def test_steps_of_the_last_question_are_dropped_before_the_question() -> None:
    chat = [
        *(user("question"), said("call 1" * 20), result("result 1" * 20)),
        *(said("call 2"), result("result 2")),
    ]
    assert texts(shortened(chat, tokens=300, room=250)) == ["question", "call 2", "result 2"]


def test_a_conversation_that_the_model_began_is_sent_as_the_users() -> None:
    chat = [said("welcome " * 50), said("still here"), user("last")]
    kept = shortened(chat, tokens=300, room=200)
    assert texts(kept) == ["last"]


def test_the_last_question_alone_cannot_be_shortened() -> None:
    assert shortened([SYSTEM, user("x" * 1000)], tokens=1000, room=500) is None
    assert shortened([SYSTEM], tokens=1000, room=500) is None
