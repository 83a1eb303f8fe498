"""Threads that work until the process has exited, and in a forked child."""

import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from windlass import threads
from windlass.jsontext import offloaded
from windlass.threads import DaemonThreads


def test_a_job_has_a_result_or_an_error() -> None:
    pool = DaemonThreads(2, "test")
    assert pool.submit(int, "7").result(10) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "seven").result(10)
    pool.shutdown()


def test_no_more_threads_start_than_are_needed_or_allowed() -> None:
    pool = DaemonThreads(2, "some name")
    first = pool.submit(threading.get_ident)
    first.result(10)
    pool.submit(int).result(10)
    both, barrier = [], threading.Barrier(3)
    for _ in range(2):
        both.append(pool.submit(barrier.wait))
    waiting = pool.submit(threading.current_thread)
    assert not waiting.done()
    barrier.wait(60)
    assert waiting.result(10).name in ("some name_0", "some name_1")
    pool.shutdown()


def test_a_shutdown_waits_for_its_jobs_and_a_later_job_starts_a_thread() -> None:
    pool = DaemonThreads(1, "test")
    gate = threading.Event()
    jobs = [pool.submit(gate.wait), pool.submit(int, "1")]
    gate.set()
    pool.shutdown()
    assert [job.done() for job in jobs] == [True, True]
    assert pool.submit(int, "2").result(10) == 2
    pool.shutdown()


def test_a_shutdown_may_cancel_the_jobs_that_wait() -> None:
    pool = DaemonThreads(1, "test")
    gate, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait()

    running, waiting = pool.submit(wait), pool.submit(int)
    begun.wait(60)
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    running.result(10)
    with pytest.raises(CancelledError):
        waiting.result(10)


async def test_large_work_is_done_in_one_thread() -> None:
    first = await offloaded(threading.get_ident)
    assert first == await offloaded(threading.get_ident) != threading.get_ident()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    script = """
import os
from windlass.threads import DaemonThreads
pool = DaemonThreads(1, "test")
pool.submit(int).result(10)
child = os.fork()
assert pool.submit(int, "3").result(10) == 3
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_usable_cores_follow_the_affinity_and_the_quota_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(threads, "QUOTA_FILE", quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert threads.available_cores() == 3
    for text, cores in (("max 100000", 3), ("150000 100000", 2), ("10000 100000", 1)):
        quota.write_text(text)
        assert threads.available_cores() == cores, text
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.available_cores() == 1
