"""Which step of a script answers which request."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from windlass.testing.script import Fault, Script, Step, Turn, say

__all__ = ["ScriptExhausted", "Stepper"]

_Request = TypeVar("_Request")


class ScriptExhausted(AssertionError):
    """More requests came than the script has steps."""


class Stepper(Generic[_Request]):
    """Hands out a script's steps, one to a request, to any number of threads."""

    def __init__(self, script: Script[_Request]) -> None:
        self._answer = script if callable(script) else None
        self._steps: Iterator[Step] = iter(()) if callable(script) else _steps(script)
        self._lock = threading.Lock()
        self._taken = 0

    def next(self, request: _Request) -> Turn | Fault | Exception:
        """The step for this request. Raises `ScriptExhausted`."""
        step = self._next_listed() if self._answer is None else self._answer(request)
        if isinstance(step, str):
            return say(step)
        if not isinstance(cast("Any", step), Turn | Fault | Exception):
            raise TypeError(f"a step is a turn, a string, a fault or an exception, not {step!r}")
        return step

    def _next_listed(self) -> Step:
        with self._lock:
            try:
                step = next(self._steps)
            except StopIteration:
                raise ScriptExhausted(
                    f"the script has {self._taken} steps and this is request {self._taken + 1}"
                ) from None
            self._taken += 1
            return step


def _steps(script: Iterable[Step] | Step) -> Iterator[Step]:
    if isinstance(script, str | Turn | Fault | Exception):
        while True:
            yield script
    yield from script
