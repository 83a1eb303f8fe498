"""Scripts that do not close their clients: `python unclosed_clients.py NAME BASE_URL`."""

import asyncio
import os
import signal
import sys
import threading
import time
from typing import Any

from windlass import AsyncClient, Client, TextDelta, tool

URL = ""
kept: list[Any] = []
"""Objects that live until the interpreter clears its modules."""


def client(**options: Any) -> Client:
    given: dict[str, Any] = {"base_url": URL, "api_key": "sk-test", **options}
    return Client("openai/gpt-test", **given)


@tool
def wait_for_ever() -> str:
    """Never returns."""
    threading.Event().wait()
    return ""


@tool
async def sleep_for_ever() -> str:
    """Never returns either."""
    await asyncio.Event().wait()
    return ""


def one() -> None:
    client().generate("Hi")


def several() -> None:
    for _ in range(8):
        client().generate("Hi")


def several_kept() -> None:
    for _ in range(8):
        kept.append(client())
        kept[-1].generate("Hi")


def half_collected() -> None:
    clients = [client() for _ in range(8)]
    for each in clients:
        each.generate("Hi")
    kept.extend(clients[::2])


def closed_and_unclosed() -> None:
    clients = [client() for _ in range(8)]
    for number, each in enumerate(clients):
        each.generate("Hi")
        if number % 2:
            each.close()
    threading.Thread(target=clients[0].close).start()


def stream_half_read() -> None:
    for _ in range(4):
        stream = client().stream("slow").__enter__()
        kept.append(stream)
        next(event for event in stream if isinstance(event, TextDelta))


def stream_half_read_and_dropped() -> None:
    for _ in range(4):
        stream = client().stream("slow").__enter__()
        next(event for event in stream if isinstance(event, TextDelta))


def text_half_read() -> None:
    with client().stream("slow") as stream:
        kept.append(stream.text_deltas())
        next(kept[-1])
        raise SystemExit


def background() -> None:
    each = client(tools=[wait_for_ever, sleep_for_ever])
    kept.append(each)
    for prompt in ("slow", "wait_for_ever", "sleep_for_ever", "Hi"):
        run = each.start(prompt)
        kept.append(run)
        for event in each.subscribe(run.id):
            if type(event).__name__ in ("TextDelta", "ToolRunStarted"):
                break


def background_just_begun() -> None:
    each = client()
    for _ in range(8):
        each.start("Hi")


def background_with_a_log() -> None:
    each = client(log="runs.db")
    each.chat().send("Hi")
    each.start("slow")
    each.start("Hi")


def in_threads() -> None:
    def ask() -> None:
        for _ in range(4):
            client().generate("Hi")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()


def in_daemon_threads() -> None:
    begun = threading.Barrier(5)

    def ask() -> None:
        each = client()
        begun.wait()
        while True:
            each.generate("Hi")

    for _ in range(4):
        threading.Thread(target=ask, daemon=True).start()
    begun.wait()


def interrupted() -> None:
    each = client()
    kept.append(each)
    for prompt in ("Hi", "slow"):
        try:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            while True:
                each.generate(prompt)
        except KeyboardInterrupt:
            pass


def interrupted_stream() -> None:
    try:
        with client().stream("slow") as stream:
            for event in stream:
                if isinstance(event, TextDelta):
                    os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass


def asynchronous() -> None:
    async def ask() -> None:
        clients = [AsyncClient("openai/gpt-test", base_url=URL, api_key="k") for _ in range(4)]
        await asyncio.gather(*(each.generate("Hi") for each in clients))
        await asyncio.gather(*(each.aclose() for each in (*clients[:2], *clients[:2])))
        stream = clients[3].stream("slow")
        await stream.__aenter__()
        kept.append(stream)

    asyncio.run(ask())


def forked() -> None:
    several_kept()
    child = os.fork()
    several_kept()
    if child:
        os.waitpid(child, 0)


def thread_that_outlives_main() -> None:
    def ask() -> None:
        threading.main_thread().join()
        client(base_url=URL.replace("127.0.0.1", "localhost")).generate("Hi")

    threading.Thread(target=ask).start()


@tool
def large() -> list[str]:
    """Returns a result that is encoded in a worker thread."""
    return ["x" * 100] * 2_000


def thread_with_a_log_that_outlives_main() -> None:
    each = client(log="runs.db", tools=[large])
    kept.append(each)
    each.generate("large")

    def ask() -> None:
        threading.main_thread().join()
        for _ in range(2):
            each.generate("large")
            assert each.runs()
            time.sleep(0.3)  # looks for orders of other processes meanwhile

    threading.Thread(target=ask).start()


def forked_with_a_log() -> None:
    each = client(log="runs.db", tools=[large])
    each.generate("large")
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
    else:
        kept.append(client(log="runs.db", tools=[large]))
        kept[-1].generate("large")


def both() -> None:
    one()
    asynchronous()
    several()


SCRIPTS = (
    one,
    several,
    several_kept,
    half_collected,
    closed_and_unclosed,
    stream_half_read,
    stream_half_read_and_dropped,
    text_half_read,
    background,
    background_just_begun,
    background_with_a_log,
    in_threads,
    in_daemon_threads,
    thread_that_outlives_main,
    thread_with_a_log_that_outlives_main,
    interrupted,
    interrupted_stream,
    forked,
    forked_with_a_log,
    asynchronous,
    both,
)

if __name__ == "__main__":
    name, URL = sys.argv[1:]
    next(script for script in SCRIPTS if script.__name__ == name)()
