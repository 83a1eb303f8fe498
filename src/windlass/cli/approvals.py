"""Who says yes to a tool that asks first, when a command runs it."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from windlass.cli.output import one_line, visible
from windlass.content import FunctionCall
from windlass.errors import ConfigError
from windlass.loop.approval import Approval, ApprovalHook

Answering = Literal["yes", "no", "ask"]
ANSWERS: tuple[Answering, ...] = ("yes", "no", "ask")

_TERMINAL = Path("/dev/tty")


def approval_hook(answering: Answering | None) -> ApprovalHook:
    """The hook for the answer that was given; without one, a person is asked if one is there.

    Raises `ConfigError` if somebody is to be asked and there is no terminal.
    """
    match answering:
        case "yes":
            return lambda call: True
        case "no":
            return _refused("approvals are off: --approve no")
        case "ask" if not _can_ask():
            raise ConfigError("--approve ask needs a terminal; without one it is yes or no")
        case None if not _can_ask():
            return _refused("it needs an approval, and there is nobody to ask; see --approve")
        case _:
            return _Asker()


class _Asker:
    """Asks one question at a time, however many tools wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, call: FunctionCall) -> Approval:
        with self._lock, _terminal() as (questions, answers):
            # One line: what a model puts into arguments must not look like another question.
            questions.write(f"Run {visible(call.name)} {one_line(call.json)}? [y/N] ")
            questions.flush()
            said = answers.readline().strip().lower()
        return Approval(said in ("y", "yes"), reason="the user said no")


def _refused(reason: str) -> ApprovalHook:
    return lambda call: Approval(False, reason=reason)


def _can_ask() -> bool:
    if not sys.stderr.isatty():
        return False
    try:
        with _terminal():
            return True
    except OSError:
        return False


@contextmanager
def _terminal() -> Generator[tuple[TextIO, TextIO]]:
    """Where to ask and where to read: stdin may have been the prompt."""
    if sys.stdin.isatty():
        yield sys.stderr, sys.stdin
        return
    with _TERMINAL.open() as answers:
        yield sys.stderr, answers
