"""Approval of tools on the command line: `--approve`, or a question in the terminal."""

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

ApprovalAnswer = Literal["yes", "no", "ask"]
ANSWERS: tuple[ApprovalAnswer, ...] = ("yes", "no", "ask")

_TERMINAL = Path("/dev/tty")


def approval_hook(answer: ApprovalAnswer | None) -> ApprovalHook:
    """The hook for `--approve`. Without it, asks on a terminal and denies elsewhere.

    Raises `ConfigError` for `ask` without a terminal.
    """
    match answer:
        case "yes":
            return lambda call: True
        case "no":
            return _denied("approvals are off: --approve no")
        case "ask" if not _can_ask():
            raise ConfigError("--approve ask needs a terminal; use yes or no")
        case None if not _can_ask():
            return _denied("it needs approval, and there is no terminal to ask; see --approve")
        case _:
            return _Asker()


class _Asker:
    """Asks about one call at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, call: FunctionCall) -> Approval:
        with self._lock, _terminal() as (questions, answers):
            # One line: arguments of a model must not look like another question.
            questions.write(f"Run {visible(call.name)} {one_line(call.json)}? [y/N] ")
            questions.flush()
            answer = answers.readline().strip().lower()
        return Approval(answer in ("y", "yes"), reason="the user said no")


def _denied(reason: str) -> ApprovalHook:
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
    """Where to ask and where to read: stdin may contain the prompt."""
    if sys.stdin.isatty():
        yield sys.stderr, sys.stdin
        return
    with _TERMINAL.open() as answers:
        yield sys.stderr, answers
