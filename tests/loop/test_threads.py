"""Sync functions in threads: parallel without a small cap, abandoned without harm."""

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import weakref

import pytest

from windlass.loop import threads
from windlass.loop.threads import in_thread

number: contextvars.ContextVar[int] = contextvars.ContextVar("number")


async def test_a_function_runs_in_a_thread_with_its_arguments():
    assert await in_thread(divmod, 7, 2) == (3, 1)
    assert await in_thread(dict, function=1, args=2) == {"function": 1, "args": 2}
    assert await in_thread(threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("raised", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
async def test_an_exception_is_raised_to_the_caller(raised: BaseException):
    def fail() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        await in_thread(fail)
    assert caught.value is raised


async def test_a_stop_iteration_is_a_runtime_error_as_in_a_coroutine():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(next, iter(()))


async def test_the_context_is_copied():
    number.set(1)

    def change() -> int:
        seen = number.get()
        number.set(2)
        return seen

    assert await in_thread(change) == 1
    assert number.get() == 1


async def test_many_calls_run_at_the_same_time():
    everybody = threading.Barrier(100, timeout=20)
    await asyncio.gather(*(in_thread(everybody.wait) for _ in range(100)))


async def test_idle_threads_are_used_again():
    before = threading.active_count()
    for _ in range(50):
        await in_thread(int)
    assert threading.active_count() <= before + 2


async def test_an_abandoned_call_neither_blocks_nor_delivers():
    started, release, done = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait(60)
        done.set()

    tasks = [asyncio.create_task(in_thread(hang)) for _ in range(20)]
    await in_thread(started.wait, 20)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert await in_thread(int, 5) == 5
    release.set()
    assert await in_thread(done.wait, 20)


async def test_results_are_not_kept_by_idle_threads():
    class Thing: ...

    thing = await in_thread(Thing)
    gone = weakref.ref(thing)
    del thing
    await in_thread(int)
    assert gone() is None


def test_it_works_from_loops_in_several_threads():
    results: list[int] = []

    def loop(n: int) -> None:
        results.append(asyncio.run(in_thread(int, n)))

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))


def test_a_closed_loop_does_not_break_the_thread():
    release = threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(in_thread(release.wait, 20))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    release.set()
    assert asyncio.run(in_thread(int, 3)) == 3


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=30
    )


@pytest.mark.process
def test_a_hanging_thread_does_not_keep_the_interpreter_alive():
    result = run_python(
        "import asyncio, threading\n"
        "from windlass.loop.threads import in_thread\n"
        "started = threading.Event()\n"
        "def hang():\n"
        "    started.set()\n"
        "    threading.Event().wait()\n"
        "async def main():\n"
        "    task = asyncio.create_task(in_thread(hang))\n"
        "    await in_thread(started.wait)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
        "print('end')\n"
    )
    assert (result.stdout, result.returncode) == ("end\n", 0), result.stderr


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own():
    result = run_python(
        "import asyncio, os\n"
        "from windlass.loop.threads import in_thread\n"
        "asyncio.run(in_thread(int, 1))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(asyncio.run(in_thread(int, 7)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert result.stdout == "7\n", result.stderr


@pytest.mark.process
def test_calls_above_the_maximum_number_of_threads_wait():
    result = run_python(
        "import asyncio, threading\n"
        "from windlass.loop import threads\n"
        "threads._MAX_THREADS = 3\n"
        "threads._MAX_IDLE = 2\n"
        "running, most, lock = 0, 0, threading.Lock()\n"
        "def work():\n"
        "    global running, most\n"
        "    with lock:\n"
        "        running += 1\n"
        "        most = max(most, running)\n"
        "    for _ in range(1000): pass\n"
        "    with lock:\n"
        "        running -= 1\n"
        "    return 1\n"
        "async def main():\n"
        "    for _ in range(20):\n"
        "        calls = (threads.in_thread(work) for _ in range(50))\n"
        "        assert sum(await asyncio.gather(*calls)) == 50\n"
        "        await asyncio.sleep(0.02)\n"
        "asyncio.run(main())\n"
        "assert most <= 3, most\n"
        "print(len(threads._pool._jobs), threads._pool._idle, threads._pool._threads)\n"
    )
    assert result.stdout == "0 2 2\n", result.stderr


@pytest.mark.process
def test_few_idle_threads_stay_after_many_calls_at_once():
    result = run_python(
        "import asyncio, threading, time\n"
        "from windlass.loop.threads import in_thread\n"
        "async def main():\n"
        "    everybody = threading.Barrier(200, timeout=20)\n"
        "    await asyncio.gather(*(in_thread(everybody.wait) for _ in range(200)))\n"
        "    for _ in range(1000):\n"
        "        if threading.active_count() <= 33: break\n"
        "        await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
        "print(threading.active_count())\n"
    )
    assert result.stdout == "33\n", result.stderr


async def test_calls_that_end_at_any_time_all_return_their_results():
    def wait(number: int) -> int:
        for _ in range(number % 40 * 20):  # ends before, while or after the caller begins to wait
            pass
        return number

    for _ in range(20):
        results = await asyncio.gather(*(in_thread(wait, number) for number in range(200)))
        assert results == list(range(200))


async def test_a_call_whose_thread_cannot_start_is_not_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    called: list[int] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            await in_thread(called.append, 1)
    assert await in_thread(called.append, 2) is None
    assert called == [2]
