"""Requests a second of two processes of the gateway, beside one.

    make bench ARGS="--only processes"

The load (wrk) and the upstream (nginx, with fixed answers) share the cores with the gateway. On two
cores they bound the gain: if a request costs the gateway `g` and them `l`, one process answers at
most `1 / g` requests a second and two answer `2 / (g + l)`. This bound is printed, too. A second
bound takes the `g` of two processes, which is larger: busy cores share caches and memory.
"""

import json
import re
import resource
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import gateway
from gateway_load import cpu_seconds
from gateway_servers import KEY, free_port, served
from report import Verdict

MIN_RATIO = 1.8
AT_ONCE = 64
SERVERS = {"windlass": "one process", "two_processes": "two processes"}
NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  map $content_length $asked {{ ~^..... last; default first; }}
  server {{
    listen 127.0.0.1:{port};
    root {folder};
    error_page 405 =200 /$asked;  # a file answers GET only
    location / {{ default_type {kind}; try_files /$asked =404; }}
  }}
}}
"""
LUA = """\
wrk.method = "POST"
wrk.body = [[{body}]]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {key}"
"""
TEXT = "It is sunny in Oslo. " * 5
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def answer(**message: object) -> str:
    """A chat completion."""
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    fields = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "bench"}
    return json.dumps({**fields, "choices": [choice], "usage": USAGE})


EVENTS = [
    *({"choices": [{"index": 0, "delta": {"content": f"word {n} "}}]} for n in range(100)),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE},
]
STREAM = "".join(f"data: {json.dumps({'id': 'chatcmpl-1', **event})}\n\n" for event in EVENTS)
CALL = {"name": "search_notes", "arguments": {"words": "Oslo", "limit": 300}}
NATIVE_CALL = {
    "id": "call-1",
    "type": "function",
    "function": {**CALL, "arguments": json.dumps(CALL["arguments"])},
}
JSON, SSE = "application/json", "text/event-stream"


class Case(NamedTuple):
    """What is asked of the gateway, and what the upstream answers.

    A request of 10,000 bytes or more gets `last`, a smaller one `first`.
    """

    scenario: gateway.Scenario
    kind: str
    first: str
    last: str = ""


PROMPT = "My notes of the last days. " * 150  # 4 kB; the result of the tool adds 6 kB
TOOL = gateway.SCENARIOS["tool"]._replace(prompt=PROMPT)
CASES = {
    "one answer": Case(gateway.SCENARIOS["answer"], JSON, answer(content=TEXT)),
    "100 tokens": Case(gateway.SCENARIOS["burst"], SSE, f"{STREAM}data: [DONE]\n\n"),
    "one tool": Case(TOOL, JSON, answer(tool_calls=[NATIVE_CALL]), answer(content=TEXT)),
    "one tool, called as text": Case(
        TOOL._replace(script="text"),
        JSON,
        answer(content=f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>"),
        answer(content=TEXT),
    ),
}


def show(quick: bool) -> list[Verdict]:
    if not (shutil.which("wrk") and shutil.which("nginx")):
        print("wrk or nginx is absent: apt-get install wrk nginx-light")
        return []
    return [verdict for title, case in CASES.items() for verdict in compared(title, case, quick)]


def compared(title: str, case: Case, quick: bool) -> list[Verdict]:
    """Two processes beside one, in this case."""
    seconds, samples = (3, 2) if quick else (10, 5)
    rates: dict[str, list[float]] = {name: [] for name in SERVERS}
    costs: dict[str, list[float]] = {name: [] for name in SERVERS}
    others: list[float] = []
    with fixed_upstream(case) as (root, upstream), ExitStack() as stack:
        found = {name: stack.enter_context(served(name, root)) for name in SERVERS}
        for number in range(-1, samples):  # the first sample warms up
            for name, server in found.items():
                assert server is not None
                before = all_cpu_seconds(server.pid)
                other = all_cpu_seconds(upstream) + wrk_seconds()
                requests, took = load(case, server.port, 1 if number < 0 else seconds)
                if number >= 0:
                    rates[name].append(requests / took)
                    costs[name].append((all_cpu_seconds(server.pid) - before) / requests)
                    others.append((all_cpu_seconds(upstream) + wrk_seconds() - other) / requests)
    print(f"\n{f'{title}, {AT_ONCE} at once':<40}{'req/s':>10}{'CPU ms':>10}")
    for name, label in SERVERS.items():
        cost = median(costs[name]) * 1e3
        print(f"  {label:<38}{median(rates[name]):>10.0f}{cost:>10.3f}")
    print(f"  {'load and upstream':<48}{median(others) * 1e3:>10.3f}")
    ratio = median(rates["two_processes"]) / median(rates["windlass"])
    alone, busy = (
        2 * median(costs["windlass"]) / (median(costs[name]) + median(others)) for name in SERVERS
    )
    print(f"  two processes are {ratio:.2f}x as fast as one; at most {alone:.2f}x on two cores,")
    print(f"  and {busy:.2f}x at the CPU that a request takes while both are busy")
    return [Verdict(f"one process, {title}", 1 / ratio, 1 / MIN_RATIO, "x two processes")]


def load(case: Case, port: int, seconds: int) -> tuple[int, float]:
    """The number of answered requests, and the time that they took."""
    who = gateway.CONTENDERS["windlass"]
    body = gateway.body(who, case.scenario)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA.format(body=body, key=KEY))
        script.flush()
        address = f"http://127.0.0.1:{port}{gateway.PATHS['chat']}"
        command = ["wrk", "-t1", f"-c{AT_ONCE}", f"-d{seconds}s", "--timeout", "60s"]
        command += ["-s", script.name, address]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"the gateway did not answer all requests:\n{said}")
    found = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m)", said)
    assert found, said
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0}[found[3]]
    return int(found[1]), float(found[2]) * unit


@contextmanager
def fixed_upstream(case: Case) -> Iterator[tuple[str, int]]:
    """The address and the process of an upstream with fixed answers, until it is stopped."""
    with tempfile.TemporaryDirectory() as folder:
        port, config = free_port(), Path(folder, "nginx.conf")
        Path(folder, "first").write_text(case.first)
        Path(folder, "last").write_text(case.last)
        Path(folder).chmod(0o755)  # for the user of nginx's worker
        config.write_text(NGINX.format(folder=folder, port=port, kind=case.kind))
        with subprocess.Popen(["nginx", "-c", str(config), "-p", folder]) as child:
            root = f"http://127.0.0.1:{port}"
            try:
                wait_for(root)
                yield root, child.pid
            finally:
                child.terminate()


def wait_for(address: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(address).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"{address} does not answer")


def all_cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_seconds(pid) + sum(cpu_seconds(int(child)) for child in children)


def wrk_seconds() -> float:
    """The CPU time of all loads so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
