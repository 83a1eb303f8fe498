"""A conversation made shorter, where the model's context has no room for all of it. Pure.

The system's words stay, and the last question with its last step. What goes is the oldest: whole
exchanges first, then earlier steps of the last one; a call never goes without its result.
"""

from collections.abc import Sequence
from itertools import chain
from math import ceil

from windlass.content import Message, Text

__all__ = ["NOTICE", "shortened"]

NOTICE = "(Earlier messages were left out here: there was no room for them.)"
_STEPS = 4


def shortened(messages: Sequence[Message], tokens: int, room: int) -> tuple[Message, ...] | None:
    """The messages without the oldest ones, so that `tokens` become at most `room`, or nearly.

    More is left out than must be, in steps of a quarter of the room: the next turns then begin with
    the same words, which the runtime has already read. None if there is nothing to leave out.
    """
    step = max(1, room // _STEPS)
    excess = ceil((tokens - room) / step) * step
    per_byte = tokens / max(1, sum(map(_size, messages)))
    head, units = _units(messages)
    kept, left_out = list(units), 0.0
    while left_out < excess and (index := _first_droppable(kept)) is not None:
        left_out += per_byte * sum(map(_size, kept.pop(index).messages))
    if len(kept) == len(units):
        return None
    return (*head, *_noticed(list(chain.from_iterable(unit.messages for unit in kept))))


class _Unit:
    """Messages that stay or go together."""

    def __init__(self, first: Message, *, stays: bool = False) -> None:
        self.messages, self.stays = [first], stays


def _units(messages: Sequence[Message]) -> tuple[list[Message], list[_Unit]]:
    head = 0
    while head < len(messages) and _is_said_ahead(messages[head]):
        head += 1
    rest = messages[head:]
    questions = [index for index, message in enumerate(rest) if _is_question(message)]
    last = questions[-1] if questions else 0
    units: list[_Unit] = []
    for index, message in enumerate(rest):
        if index == last:
            units.append(_Unit(message, stays=True))
        elif not units or _begins_unit(message, in_last=index > last):
            units.append(_Unit(message))
        else:
            units[-1].messages.append(message)
    if units:
        units[-1].stays = True
    return list(messages[:head]), units


def _begins_unit(message: Message, *, in_last: bool) -> bool:
    return message.role == "assistant" if in_last else _is_question(message)


def _is_said_ahead(message: Message) -> bool:
    """Whether it belongs to every conversation: the system's words, and examples."""
    return message.role == "system" or bool(message.extra.get("windlass", {}).get("example"))


def _is_question(message: Message) -> bool:
    """Whether the user speaks. Results go to a model without function calling in the same role."""
    return message.role == "user" and not message.extra.get("windlass", {}).get("results")


def _first_droppable(units: list[_Unit]) -> int | None:
    return next((index for index, unit in enumerate(units) if not unit.stays), None)


def _noticed(messages: list[Message]) -> list[Message]:
    """Said in the first message that is left, if it is the user's: roles are to alternate."""
    first = messages[0]
    if first.role != "user":
        return [Message.user(NOTICE), *messages]
    text = f"{NOTICE}\n\n{first.text}"
    others = (part for part in first.parts if not isinstance(part, Text))
    return [Message("user", (Text(text), *others), first.extra), *messages[1:]]


def _size(message: Message) -> int:
    return len(message.text.encode("utf-8", "replace"))
