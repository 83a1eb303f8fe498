"""Processes that fork while they have a log open."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.forked import ROOT

from windlass.messaging.embedded import NatsServer
from windlass.runs.sqlite import SQLiteLog

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"), pytest.mark.process]

BEGIN = """
    import os, select, signal, sys, threading
    from windlass import Client, WindlassError
    from windlass.testing import Gate, ScriptedModel, slow

    path = sys.argv[1]

    def client_here(*script):
        return Client(ScriptedModel(list(script) or ["hi"] * 1000), log=path)

    def said(*words):
        os.write(1, (" ".join(map(str, words)) + "\\n").encode())

    def in_fork(work):
        child = os.fork()
        if not child:
            try:
                work()
            except BaseException as error:
                said(repr(error))
                os._exit(1)
            os._exit(0)
        return child

    def wait_for(child):
        assert os.waitpid(child, 0)[1] == 0

    class Signal:
        def __init__(self):
            self.reads, self.writes = os.pipe()

        def give(self):
            os.write(self.writes, b"x")

        def wait(self):
            assert os.read(self.reads, 1) == b"x"
"""


@contextlib.contextmanager
def started(code: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    script = textwrap.dedent(BEGIN) + textwrap.dedent(code)
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(code: str, *arguments: object) -> list[str]:
    """The output of the program and its forks, when all of them have exited."""
    with started(code, *arguments) as process:
        return process.communicate()[0].splitlines()


def kept_in(path: Path) -> list[str]:
    """The ids of the ended runs in a whole file."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    query = "SELECT id FROM runs WHERE reason = 'answer' ORDER BY id"
    ids = [run_id for (run_id,) in connection.execute(query)]
    connection.close()
    return ids


def test_a_child_keeps_its_runs_when_the_parent_closes_the_file(path: Path) -> None:
    """SQLite deletes the journal when the last process leaves: it must see the child."""
    lines = lines_of(
        """
        client = client_here()
        client.generate("go")
        opened, closed = Signal(), Signal()

        def work():
            own = client_here()
            own.generate("go")
            opened.give()
            closed.wait()
            for _ in range(5):
                own.generate("go")
            said(len(own.runs()))

        child = in_fork(work)
        opened.wait()
        client.close()
        closed.give()
        wait_for(child)
        """,
        path,
    )
    assert lines == ["7"]
    assert len(kept_in(path)) == 7


def test_a_parent_keeps_its_runs_when_the_child_closes_the_file(path: Path) -> None:
    lines = lines_of(
        """
        client = client_here()
        client.generate("go")

        def work():
            with client_here() as own:
                own.generate("go")

        for _ in range(3):
            wait_for(in_fork(work))
            client.generate("go")
        said(len(client.runs()))
        os._exit(0)
        """,
        path,
    )
    assert lines == ["7"]
    assert len(kept_in(path)) == 7


def test_parents_and_children_that_write_at_once_lose_nothing(path: Path) -> None:
    """The parent forks while it writes; the children fork too, and leave in any order."""
    lines = lines_of(
        """
        client = client_here()
        over = threading.Event()

        def write(client):
            said(client.generate("go").run_id)

        def write_on():
            while not over.is_set():
                write(client)

        def work(depth):
            own = client_here()
            write(own)
            grandchild = in_fork(lambda: work(depth - 1)) if depth else None
            for _ in range(10):
                write(own)
            own.close()
            if grandchild:
                wait_for(grandchild)

        write(client)
        writing = threading.Thread(target=write_on)
        writing.start()
        children = [in_fork(lambda: work(1)) for _ in range(3)]
        for child in children:
            wait_for(child)
        over.set()
        writing.join()
        """,
        path,
    )
    assert len(lines) > 6 * 11
    assert sorted(lines) == kept_in(path)


def test_a_process_of_multiprocessing_uses_the_file_of_its_parent(path: Path) -> None:
    lines = lines_of(
        """
        import multiprocessing

        def work(number):
            with client_here() as own:
                return own.generate("go").run_id

        client = client_here()
        said(client.generate("go").run_id)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for run_id in pool.map(work, range(4)):
                said(run_id)
        said(client.generate("go").run_id)
        """,
        path,
    )
    assert len(lines) == 6
    assert sorted(lines) == kept_in(path)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open")
def test_a_child_resumes_the_runs_of_its_parent_when_that_is_killed_and_not_before(
    path: Path,
) -> None:
    lines = lines_of(
        """
        gate = Gate()
        client = client_here(slow("never", gate))
        said(client.start("go").id)
        gate.reached.block()

        def work():
            own = client_here()
            said(own.resume())
            parent = os.pidfd_open(os.getppid())
            signal.pidfd_send_signal(parent, signal.SIGKILL)
            select.select([parent], [], [])  # until it has ended
            [run] = own.resume()
            said(run.id, run.result().text)
            own.close()

        os.waitpid(in_fork(work), 0)
        """,
        path,
    )
    run_id = lines[0]
    assert lines[1:] == ["[]", f"{run_id} hi"]
    assert kept_in(path) == [run_id]


async def test_a_child_that_lives_does_not_hold_the_runs_of_a_killed_parent(path: Path) -> None:
    code = """
        gate = Gate()
        client = client_here(slow("never", gate))
        run = client.start("go")
        gate.reached.block()
        child = in_fork(lambda: (said(run.id), sys.stdin.read()))
        os.waitpid(child, 0)
    """
    with started(code, path) as process:
        assert process.stdout is not None
        run_id = process.stdout.readline().strip()
        log = SQLiteLog(path)
        assert await log.claim() == []
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert [record.id for record in await log.claim()] == [run_id]
        await log.aclose()


def test_a_child_that_exits_or_closes_does_not_affect_the_active_runs_of_its_parent(
    path: Path,
) -> None:
    lines = lines_of(
        """
        def close():
            client.close()

        def exit_in_order():
            with client_here() as own:
                own.generate("go")
            sys.exit(0)

        def leave_stream():
            stream.__exit__(None, None, None)

        def ask_for_the_run():
            for ask in (run.stop, run.result):
                try:
                    ask()
                except WindlassError as error:
                    said(str(error).replace(run.id, "it"))

        gates = [Gate(), Gate()]
        client = client_here(*(slow("late", gate) for gate in gates))
        run, stream = client.start("go"), client.stream("go")
        stream.__enter__()
        for gate in gates:
            gate.reached.block()
        for work in (close, leave_stream, ask_for_the_run, exit_in_order):
            child = os.fork()
            if not child:
                work()
                sys.exit(0)
            wait_for(child)
        for gate in gates:
            gate.open()
        said(run.result().text, "".join(stream.text_deltas()))
        """,
        path,
    )
    told = "it is a run of the parent process: a fork cannot use it"
    assert lines == [told, told, "late late"]
    assert len(kept_in(path)) == 3


def test_a_child_forked_during_a_write_is_refused_and_so_are_its_own_children(path: Path) -> None:
    lines = lines_of(
        """
        from windlass.runs.sqlite import SQLiteLog, connection
        import asyncio

        connection.FORK_SECONDS = 0.0
        log = SQLiteLog(path)
        writing, written = threading.Event(), threading.Event()

        def write(connection):
            writing.set()
            written.wait()

        def ask():
            with client_here() as own:
                try:
                    own.generate("go")
                except WindlassError as error:
                    said(error)

        def work():
            ask()
            wait_for(in_fork(ask))

        async def main():
            await log.list()
            task = asyncio.create_task(log._write(write))
            await asyncio.to_thread(writing.wait)
            wait_for(in_fork(work))
            written.set()
            await task
            await log.aclose()
            wait_for(in_fork(lambda: said(client_here().generate("go").text)))

        asyncio.run(main())
        """,
        path,
    )
    refusal = (
        f"{path} was in use when this process was forked, so SQLite cannot open it here: "
        "close the client before the fork, or start the process with spawn"
    )
    assert lines == [refusal, refusal, "hi"]
    assert len(kept_in(path)) == 1


def test_another_file_can_be_used_in_a_child_that_was_forked_during_a_write(path: Path) -> None:
    lines = lines_of(
        """
        from windlass.runs.sqlite import connection

        connection.FORK_SECONDS = 0.0
        inherited = connection.ThreadConnection(connection.Path(path))
        inherited.get(lambda: connection.sqlite3.connect(path))

        def work():
            global path
            path += "-other"
            said(client_here().generate("go").text)

        with inherited:
            wait_for(in_fork(work))
        """,
        path,
    )
    assert lines == ["hi"]


@pytest.fixture
async def nats() -> AsyncIterator[str]:
    async with NatsServer() as server:
        yield server.url


JETSTREAM = """
    from windlass.runs.jetstream import JetStreamLog

    def client_here(*script):
        return Client(ScriptedModel(list(script) or ["hi"] * 1000), log=JetStreamLog(path))
"""


def test_a_child_uses_nats_with_its_own_client_and_not_with_that_of_its_parent(nats: str) -> None:
    lines = lines_of(
        textwrap.dedent(JETSTREAM)
        + textwrap.dedent(
            """
            gate = Gate()
            client = client_here("hi", slow("late", gate))
            client.generate("go")
            run = client.start("go")
            gate.reached.block()

            def work():
                with client_here() as own:
                    said(own.generate("go").text, len(own.runs()), own.resume())
                for ask in (client.runs, lambda: client.generate("go")):
                    try:
                        said(ask())
                    except WindlassError as error:
                        said(error)
                client.close()
                sys.exit(0)

            child = os.fork()
            if not child:
                work()
            wait_for(child)
            gate.open()
            said(run.result().text, len(client.runs()))
            client.close()
            """
        ),
        nats,
    )
    refusal = (
        "the run log's connection to NATS was opened before this process was forked: "
        "create a new client here, with a new log"
    )
    assert lines == ["hi 3 []", refusal, refusal, "late 3"]


def test_a_log_in_nats_that_was_made_before_the_fork_has_another_keeper_in_the_child(
    nats: str,
) -> None:
    lines = lines_of(
        textwrap.dedent(JETSTREAM)
        + textwrap.dedent(
            """
            gate = Gate()
            client = client_here(slow("late", gate))
            begun = Signal()

            def work():
                begun.wait()
                said(client.resume())
                client.close()

            child = in_fork(work)
            run = client.start("go")
            gate.reached.block()
            begun.give()
            wait_for(child)
            gate.open()
            said(run.result().text)
            client.close()
            """
        ),
        nats,
    )
    assert lines == ["[]", "late"]


def test_the_limits_of_gateways_that_were_forked_after_they_were_made_count_for_all(
    nats: str,
) -> None:
    lines = lines_of(
        """
        import asyncio
        from windlass.gateway.config import RunsConfig
        from windlass.gateway.limits.fleet import fleet_counter
        from windlass.runs.jetstream import JetStreamLog

        log = JetStreamLog(path)
        counter = fleet_counter(RunsConfig(nats=(path,)), log)
        taken, tried = Signal(), Signal()

        async def take(wait, then):
            await asyncio.to_thread(wait)
            said(await counter.acquire("x", 1))
            await asyncio.to_thread(then)  # its lease is kept meanwhile
            await counter.aclose()
            await log.aclose()

        def first():
            asyncio.run(take(lambda: None, lambda: (taken.give(), tried.wait())))

        def second():
            asyncio.run(take(taken.wait, tried.give))

        for child in (in_fork(first), in_fork(second)):
            wait_for(child)
        """,
        nats,
    )
    assert lines == ["True", "False"]
