"""Collects the tests once and runs them in forked processes: `--forks 4`.

Imports and collection take ten seconds. A forked worker has both already, while every worker of
pytest-xdist would repeat them. Workers ask for whole files, because the tests of a file share a
gateway or a browser; `tests/support/scheduling.py` chooses the file.
"""

import contextlib
import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import coverage
import pytest
from tests.support.scheduling import Files


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("windlass").addoption(
        "--forks", type=int, default=0, help="run the tests in this many forked processes"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.forks or option.collectonly or not session.items:
        return None
    if session.testsfailed and not option.continue_on_collection_errors:
        return None  # pytest ends the session with a message
    Workers(session).run(option.forks)
    return True


@dataclass
class Worker:
    """A worker, as the main process sees it."""

    number: int
    process: BaseProcess
    tests: list[int] = field(default_factory=list[int])
    """The assigned tests that it has not reported yet."""


class Workers:
    """The workers, in the main process: assigns files, and passes their reports to pytest."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        self._files = Files(session.items)
        self._workers: dict[Connection, Worker] = {}
        self._failures: list[str] = []

    def run(self, count: int) -> None:
        self._files.workers = count
        try:
            for number in range(count):
                self._start(number)
            while self._workers:
                for channel in wait(list(self._workers)):
                    assert isinstance(channel, Connection)
                    self._hear(channel)
        except BaseException:
            self._stop()  # Ctrl-C, which the workers have received too
            for worker in self._workers.values():
                worker.process.join()
            raise
        if self._failures:
            raise pytest.UsageError("; ".join(self._failures))
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _start(self, number: int) -> None:
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        process = context.Process(target=_work, args=(self._session, number, theirs))
        sys.stdout.flush()
        sys.stderr.flush()
        process.start()
        theirs.close()
        assert isinstance(ours, Connection)
        self._workers[ours] = Worker(number, process)

    def _hear(self, channel: Connection) -> None:
        worker = self._workers[channel]
        try:
            message = channel.recv()
        except (EOFError, ConnectionResetError):
            del self._workers[channel]
            self._ended(worker)
            return
        if message is None:
            with contextlib.suppress(OSError):  # it was stopped while it asked, and has ended
                channel.send(self._next(worker))
            return
        test, reports, recorded = message
        worker.tests.remove(test)
        self._pass_on(self._session.items[test], reports)
        for values in recorded:
            self._hook.pytest_warning_recorded.call_historic(kwargs=values)
        if self._session.shouldfail or self._session.shouldstop:
            self._stop()

    def _next(self, worker: Worker) -> list[int] | None:
        if self._session.shouldfail or self._session.shouldstop:
            return None
        tests = self._files.next(worker.number)
        worker.tests += tests or []
        return tests

    def _pass_on(self, item: pytest.Item, reports: list[dict[str, Any]]) -> None:
        config = self._session.config
        self._hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in reports:
            report = self._hook.pytest_report_from_serializable(config=config, data=data)
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _stop(self) -> None:
        """Makes the workers exit after their current test."""
        for channel in self._workers:
            try:
                channel.send(None)
            except OSError:  # it has ended
                continue

    def _ended(self, worker: Worker) -> None:
        """Reports the test at which a worker exited, and gives its other tests to a new one."""
        worker.process.join()
        stopping = self._session.shouldfail or self._session.shouldstop
        code = worker.process.exitcode
        if code == 0 and (stopping or not worker.tests):
            return
        what = f"a worker exited with {code}"
        if not worker.tests:
            self._failures.append(what)
            return
        test, *left = worker.tests
        item = self._session.items[test]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", what, "call")
        self._hook.pytest_runtest_logreport(report=report)
        if not stopping:
            self._files.put_back(left)
            self._start(worker.number)


class Record:
    """The reports of a worker's plugins about the current test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.reports: list[dict[str, Any]] = []
        self.warnings: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(
            self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        )

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        about = warning_message
        shown = warnings.WarningMessage(
            str(about.message), about.category, about.filename, about.lineno
        )
        self.warnings.append(
            {"warning_message": shown, "when": when, "nodeid": nodeid, "location": location}
        )


def _work(session: pytest.Session, number: int, channel: Connection) -> None:
    """Runs a worker until there are no more tests."""
    _separate(session.config, number)
    record = Record(session.config)
    session.config.pluginmanager.unregister(name="terminalreporter")
    session.config.pluginmanager.register(record)
    record.warnings = []  # it has just received those that the main process knows
    tests = _given(channel)
    test = next(tests, None)
    while test is not None:
        following = next(tests, None)
        item = session.items[test]
        nextitem = None if following is None else session.items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        channel.send((test, record.reports, record.warnings))
        record.reports, record.warnings = [], []
        if channel.poll():  # the main process stops the run
            break
        test = following
    session._setupstate.teardown_exact(None)
    if measured := coverage.Coverage.current():
        measured.stop()
        measured.save()


def _given(channel: Connection) -> Iterator[int]:
    """Yields the tests that the main process assigns, one file at a time."""
    while True:
        channel.send(None)
        tests = channel.recv()
        if tests is None:
            return
        yield from tests


def _separate(config: pytest.Config, number: int) -> None:
    """Opens the worker's own files in place of those that pytest opened before the fork."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # pyright: ignore[reportAttributeAccessIssue]
    factory._basetemp = factory.mktemp(f"worker-{number}-")
