"""Measures a gateway with many stored runs: idle CPU, latencies, expiry during traffic, readers.

    python bench/stored_runs.py                 100,000 runs, about five minutes
    python bench/stored_runs.py --quick         10,000 runs, one minute

To measure another version of Windlass, set PYTHONPATH to its `src`.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gateway_load import cpu_seconds
from gateway_servers import (
    Place,
    Server,
    accepts_connections,
    free_port,
    resident_mb,
    running_process,
)
from processes import upstream

from windlass.content import Message, Usage
from windlass.events import RoundStarted, RunEnded, RunStarted, TextDelta, TurnEnded
from windlass.runs.records import RunRecord
from windlass.runs.sqlite import SQLiteLog

DAY = 86_400.0
OLD, KEPT_DAYS = 40 * DAY, 30
OLD_SHARE = 0.75
CONCURRENCY = 500
TOKENS = 20
CHAT_RUNS = 10
"""The number of runs of a chat. Every tenth run belongs to a chat."""
READERS = 200
BACKLOG = 40_000
"""The number of events of the run that slow readers read: about 4 MB."""
ORIGIN = {"kind": "gateway", "request": {"model": "fast", "messages": []}, "tools": ["weather"]}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
CONFIG = """
[models.fast]
target = "openai/tokens-20"
base_url = "{upstream}"
api_key_env = "BENCH_KEY"
mode = "native"
[models.long]
target = "openai/tokens-{backlog}"
base_url = "{upstream}"
api_key_env = "BENCH_KEY"
mode = "native"
[models.paced]
target = "openai/paced-1000000"
base_url = "{upstream}"
api_key_env = "BENCH_KEY"
mode = "native"
{runs}
"""


class Answer(NamedTuple):
    status: int
    seconds: float
    body: Any


async def populate(path: Path, runs: int) -> None:
    """Stores ended runs. The first three quarters of them ended 40 days ago."""
    now = time.time()
    old = int(runs * OLD_SHARE)
    clock = [0.0]
    log = SQLiteLog(path, clock=lambda: clock[0])

    async def store_run(number: int) -> None:
        run_id = f"run_{number * 7919 % 10**9:024x}"
        clock[0] = now - (OLD if number < old else DAY) + number * 0.1
        chat = f"chat_{number // (10 * CHAT_RUNS)}" if number % 10 == 0 else ""
        record = RunRecord(
            id=run_id, model="fast", created=clock[0], chat=chat, title="Weather", origin=ORIGIN
        )
        run = log.begin(record)
        run.append(RunStarted(run_id, "fast", (Message.user("What is the weather in Paris?"),)))
        run.append(RoundStarted(1, "awaiting_model_call"))
        for token in range(TOKENS):
            run.append(TextDelta(f" w{token}"))
        run.append(TurnEnded("stop", Usage(100, 20, 120)))
        run.append(RunEnded("answer", Usage(100, 20, 120), 1))
        assert run.settled is not None
        await run.settled()

    for start in range(0, runs, CONCURRENCY):
        await asyncio.gather(*map(store_run, range(start, min(runs, start + CONCURRENCY))))
    await log.aclose()


@contextmanager
def gateway(upstream_url: str, database: Path | None, keep_days: int = 3650) -> Iterator[Server]:
    runs = "" if database is None else f'[runs]\npath = "{database}"\nkeep_days = {keep_days}\n'
    text = CONFIG.format(upstream=upstream_url, runs=runs, backlog=BACKLOG)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), free_port(), upstream_url)
        config = place.file("windlass.toml", text)
        command = [sys.executable, "-m", "windlass", "serve", "--config", config]
        with running_process([*command, "--port", str(place.port)], place) as child:
            if not accepts_connections(child, place.port):
                raise SystemExit((place.folder / "output").read_text()[-2000:])
            yield Server(place.port, child.pid)


def ask(server: Server, path: str, body: object = None, seconds: float = 300.0) -> Answer:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", data, {"content-type": "application/json"}
    )
    started_at = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            answer = Answer(response.status, 0.0, json.loads(response.read()))
    except urllib.error.HTTPError as error:
        answer = Answer(error.code, 0.0, error.read())
    return answer._replace(seconds=time.perf_counter() - started_at)


def complete(server: Server, **fields: object) -> Answer:
    return ask(server, "/v1/chat/completions", {"model": "fast", "messages": QUESTION, **fields})


def show(title: str, *values: str) -> None:
    print(f"  {title:<58}{''.join(f'{value:>14}' for value in values)}", flush=True)


def show_idle(server: Server, seconds: float) -> None:
    before = cpu_seconds(server.pid)
    time.sleep(seconds)
    share = (cpu_seconds(server.pid) - before) / seconds
    show(f"idle, over {seconds:g} s: share of a core", f"{share:.1%}")


def show_latencies(server: Server, runs: int) -> None:
    print(f"  {'':<58}{'wall ms':>14}{'CPU ms':>14}")
    chat = f"chat_{(runs - 1) // (10 * CHAT_RUNS)}"
    requests: dict[str, Callable[[], Answer]] = {
        "list, 20 runs": lambda: ask(server, "/v1/runs?limit=20"),
        "list, status=running": lambda: ask(server, "/v1/runs?status=running"),
        "list, status=failed": lambda: ask(server, "/v1/runs?status=failed"),
        "list, a model without runs": lambda: ask(server, "/v1/runs?model=none"),
        "list of chats, 20": lambda: ask(server, "/v1/chats?limit=20"),
        "a completion": lambda: complete(server),
        "a chat message": lambda: complete(server, chat_id=chat),
    }
    for title, request in requests.items():
        request()
        walls, cpus = list[float](), list[float]()
        for _ in range(5):
            before = cpu_seconds(server.pid)
            answer = request()
            if answer.status != 200:
                raise SystemExit(f"{title}: {answer}")
            walls.append(answer.seconds)
            cpus.append(cpu_seconds(server.pid) - before)
        show(title, f"{median(walls) * 1e3:.1f}", f"{median(cpus) * 1e3:.1f}")


def show_expiry(upstream_url: str, path: Path, runs: int) -> None:
    """Measures completions at two gateways on the file, while one of them deletes expired runs."""
    expired_count = int(runs * OLD_SHARE)
    with ExitStack() as stack:
        others = stack.enter_context(gateway(upstream_url, path))
        complete(others)
        started_at = time.perf_counter()
        expiring = stack.enter_context(gateway(upstream_url, path, KEPT_DAYS))
        answers_by_gateway: dict[str, list[Answer]] = {
            "the gateway that expires": [],
            "the other gateway": [],
        }
        done = threading.Event()

        def traffic(server: Server, answers: list[Answer]) -> None:
            while not done.is_set():
                answers.append(complete(server))
                done.wait(0.05)

        threads = [
            threading.Thread(target=traffic, args=arguments)
            for arguments in zip((expiring, others), answers_by_gateway.values(), strict=True)
        ]
        for thread in threads:
            thread.start()
        wait_until_expired(path)
        seconds, cpu = time.perf_counter() - started_at, cpu_seconds(expiring.pid)
        done.set()
        for thread in threads:
            thread.join()
    show(
        f"expiry of {expired_count:,} runs, during traffic: s, CPU s",
        f"{seconds:.1f}",
        f"{cpu:.1f}",
    )
    print(f"  {'':<58}{'requests':>14}{'errors':>14}{'median ms':>14}{'longest ms':>14}")
    for name, answers in answers_by_gateway.items():
        errors = sum(answer.status != 200 for answer in answers)
        walls = [answer.seconds * 1e3 for answer in answers]
        show(name, f"{len(answers)}", f"{errors}", f"{median(walls):.0f}", f"{max(walls):.0f}")


def wait_until_expired(path: Path) -> None:
    """Waits until the old runs are deleted and their space in the file is released."""
    connection = sqlite3.connect(path, timeout=60)
    with contextlib.closing(connection):
        while True:
            time.sleep(0.5)
            (old,) = connection.execute(
                "SELECT count(*) FROM runs WHERE created < ?", (time.time() - KEPT_DAYS * DAY,)
            ).fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if not old and free < 1_000:
                return


def show_readers(upstream_url: str) -> None:
    print(f"  {f'{READERS} slow readers, from the first event':<58}{'events':>14}{'MB more':>14}")
    with tempfile.TemporaryDirectory() as folder:
        with gateway(upstream_url, Path(folder, "ended.db")) as server:
            read_slowly("of an ended run in SQLite", server, "long")
        with gateway(upstream_url, None) as server:
            read_slowly("of an ended run in memory", server, "long")
        with gateway(upstream_url, Path(folder, "active.db")) as server:
            read_slowly("of an active run in SQLite", server, "paced", BACKLOG // 2)


def read_slowly(title: str, server: Server, model: str, min_events: int | None = None) -> None:
    run_id = ask(server, "/v1/runs", {"model": model, "messages": QUESTION}).body["id"]
    while True:
        time.sleep(0.5)
        run = ask(server, f"/v1/runs/{run_id}").body
        if run["status"] == "ended" or (min_events is not None and run["events"] >= min_events):
            break
    before = resident_mb(server.pid)
    request = f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with ExitStack() as stack:
        for _ in range(READERS):
            reader = stack.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(request)
            reader.recv(100)
        max_mb = 0.0
        for _ in range(10):
            time.sleep(0.5)
            max_mb = max(max_mb, resident_mb(server.pid) - before)
    show(title, f"{run['events']:,}", f"{max_mb:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="store 10,000 runs")
    parser.add_argument("--runs", type=int, help="the number of stored runs")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=["latency", "expiry", "readers"],
        help="measure only these parts",
    )
    options = parser.parse_args()
    bench(options.quick, options.runs, options.only)


def bench(quick: bool, runs: int | None = None, only: list[str] | None = None) -> None:
    runs = runs or (10_000 if quick else 100_000)
    wanted = only or ["latency", "expiry", "readers"]
    with tempfile.TemporaryDirectory() as folder, upstream() as url:
        print(f"\na gateway with {runs:,} stored runs", flush=True)
        path = Path(folder, "runs.db")
        if set(wanted) != {"readers"}:
            asyncio.run(populate(path, runs))
            size = path.stat().st_size / 2**20
            show("the file, MB", f"{size:.0f}")
        if "latency" in wanted:
            copy = shutil.copyfile(path, Path(folder, "latency.db"))
            with gateway(url, copy) as server:
                time.sleep(3)
                show_idle(server, 20 if quick else 65)
                show_latencies(server, runs)
        if "expiry" in wanted:
            show_expiry(url, path, runs)
        if "readers" in wanted:
            show_readers(url)


if __name__ == "__main__":
    main()
