"""Exit codes: one table with the code and the text of each way in which a run ends. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from windlass.events import StopReason

ANSWERED = 0
FAILED = 1
WRONG_USAGE = 2
INCOMPLETE = 3
INTERRUPTED = 130
"""Ctrl-C: 128 and the number of the signal, as shells report it."""


class Ending(NamedTuple):
    code: int
    text: str = ""
    """Why there is no full answer; empty if there is one."""
    option: str = ""
    """The option that sets the limit, if a limit ended the run."""


ENDINGS: dict[StopReason, Ending] = {
    "answer": Ending(ANSWERED),
    "calls": Ending(INCOMPLETE, "the model called a tool that only the caller can run"),
    "max_rounds": Ending(INCOMPLETE, "the round limit was reached", "--max-rounds"),
    "budget": Ending(INCOMPLETE, "a budget of tokens or cost was used up", "--max-tokens-total"),
    "repetition": Ending(INCOMPLETE, "the model kept repeating a call that keeps failing"),
    "length": Ending(INCOMPLETE, "the model's output limit cut the answer"),
    "content_filter": Ending(INCOMPLETE, "the provider withheld the answer"),
    "malformed_call": Ending(INCOMPLETE, "the provider could not read its own model's call"),
    "deadline": Ending(INCOMPLETE, "the time limit of the run was reached", "--timeout"),
    "stopped": Ending(INCOMPLETE, "the run was stopped"),
    "error": Ending(FAILED, "the run failed"),
}
"""What every command reports and returns for a run with this stop reason."""


def exit_code(reason: StopReason) -> int:
    return ENDINGS[reason].code


def explanation(reason: StopReason, options: Collection[str] = ()) -> str:
    """Why there is no full answer, with the option that changes it if the command has it."""
    ending = ENDINGS[reason]
    hint = f"; {ending.option} sets it" if ending.option in options else ""
    return f"{ending.text}{hint}"


def ending_text(reason: StopReason, error: str | None = None, options: Collection[str] = ()) -> str:
    """The line that reports a run without a full answer; empty if there is one."""
    text = explanation(reason, options)
    if reason == "error":
        return f"{text}: {error}" if error else text
    return f"no full answer: {reason}: {text}" if text else ""
