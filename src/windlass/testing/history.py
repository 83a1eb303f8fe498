"""A strict provider's rules: every call is answered once, in order, straight after its turn."""

from collections.abc import Sequence

from windlass.content import FunctionCall, Message
from windlass.errors import ModelError

__all__ = ["check_history"]


def check_history(messages: Sequence[Message]) -> None:
    """Raises `ModelError` with status 400 at the first breach."""
    if not messages:
        raise _refused("there are no messages")
    asked: tuple[FunctionCall, ...] = ()
    for place, message in enumerate(messages):
        if message.responses or message.role == "tool":
            _check_answers(place, message, asked)
        elif asked:
            raise _refused(f"message {place} must answer the calls {_names(asked)}")
        if message.calls and message.role != "assistant":
            raise _refused(f"message {place} has calls, and its role is {message.role}")
        asked = message.calls
    if asked:
        raise _refused(f"the calls {_names(asked)} of the last message have no answer")


def _check_answers(place: int, message: Message, asked: tuple[FunctionCall, ...]) -> None:
    if message.role != "tool" or len(message.responses) != len(message.parts):
        raise _refused(f"message {place}: answers stand alone in a message with the role tool")
    wanted = [(made.id, made.name) for made in asked]
    given = [(answer.id, answer.name) for answer in message.responses]
    if wanted != given:
        raise _refused(f"message {place} answers {given}, and the calls before it are {wanted}")


def _names(asked: tuple[FunctionCall, ...]) -> str:
    return ", ".join(f"{made.name} ({made.id})" for made in asked)


def _refused(message: str) -> ModelError:
    return ModelError(message, status=400, code="invalid_history")
