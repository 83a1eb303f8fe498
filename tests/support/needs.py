"""Marks of tests that need other processes or weights, and the guard of `make quick`.

A test is marked `process` if it starts one (a browser, a NATS server, a command, a fork), `weights`
if it loads a model of this machine, `measures` if it measures time or memory over large input,
`sweep` if it repeats a behaviour over many combinations or random inputs, and `sdk` if it imports a
provider's SDK, which takes seconds. A test that uses one of `PROCESS_FIXTURES` is marked
automatically. `make quick` skips all of them; a test that starts a process or loads weights without
its mark fails there.
"""

import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from windlass.models.local import engine

MARKS = ("process", "weights", "measures", "sweep", "sdk")
PROCESS_FIXTURES = frozenset({"nats_server", "guarded_server", "browser", "chromium", "stage"})

_MARKS_OF_A_FILE = re.compile(
    rf"^pytestmark = (?:IN_ONE_BROWSER|(?:.+\n)*?.*\bpytest\.mark\.(?:{'|'.join(MARKS)})\b)",
    re.MULTILINE,
)

STARTS_A_PROCESS = frozenset(
    {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
)


class NotQuick(BaseException):
    """A test starts a process or loads weights.

    It is no `Exception`, so the tested code cannot catch it by accident.
    """


def mark_by_fixtures(items: list[pytest.Item]) -> None:
    """Marks the tests that use a fixture which starts a process."""
    for item in items:
        if PROCESS_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)


def is_quick(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(name) for name in MARKS)


def has_quick_tests(path: Path) -> bool:
    """Whether a file has a test without a mark. A file without one is not imported."""
    return _MARKS_OF_A_FILE.search(path.read_text("utf-8")) is None


class Guard:
    """Fails each test that starts a process or loads weights."""

    def __init__(self) -> None:
        self._tried: list[str] = []
        self._is_on = False
        self._imported_runtime = engine._imported
        engine._imported = self._runtime
        platform.processor()  # asks the command `uname` once; the openai SDK wants to know it
        sys.addaudithook(self._audit)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False
            tried, self._tried = self._tried, []
        if tried:
            pytest.fail(f"{tried[0]}: mark the test, see tests/support/needs.py", pytrace=False)

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._is_on and event in STARTS_A_PROCESS:
            self._refuse(f"{event} {str(arguments[:1])[:80]} starts a process")

    def _runtime(self) -> NoReturn:
        self._imported_runtime()
        self._refuse("llama.cpp loads weights")

    def _refuse(self, what: str) -> NoReturn:
        self._tried.append(what)
        raise NotQuick(what)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        with self._watching():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        with self._watching():
            return (yield)
