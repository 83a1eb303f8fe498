"""Compares two processes of the gateway with one, in requests per second.

    make bench ARGS="--only processes"

The load (wrk) and the upstream (nginx, with fixed answers) share the cores with the gateway, which
limits the gain on two cores. If a request takes `g` CPU seconds in the gateway and `l` in the load
and the upstream, one process answers at most `1 / g` requests per second, and two processes at most
`2 / (g + l)`. This benchmark prints the ratio of the two. It also prints the ratio with the `g` of
two processes, which is larger, because busy cores share caches and memory.
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
from gateway_servers import KEY, free_port, running_server
from report import Verdict

MIN_RATIO = 1.8
CONCURRENCY = 64
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
    """A request to the gateway, and the answers of the upstream.

    The upstream answers a request of 10,000 bytes or more with `last`, and a smaller one with
    `first`.
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
        print("wrk or nginx is not installed: apt-get install wrk nginx-light")
        return []
    return [verdict for title, case in CASES.items() for verdict in compare(title, case, quick)]


def compare(title: str, case: Case, quick: bool) -> list[Verdict]:
    """Measures one process and two processes in this case, and prints the figures."""
    seconds, samples = (3, 2) if quick else (10, 5)
    rates: dict[str, list[float]] = {name: [] for name in SERVERS}
    costs: dict[str, list[float]] = {name: [] for name in SERVERS}
    other_costs: list[float] = []
    with fixed_upstream(case) as (root, upstream), ExitStack() as stack:
        servers = {name: stack.enter_context(running_server(name, root)) for name in SERVERS}
        for number in range(-1, samples):  # the first sample warms up
            for name, server in servers.items():
                assert server is not None
                before = all_cpu_seconds(server.pid)
                others_before = all_cpu_seconds(upstream) + wrk_seconds()
                requests, seconds_taken = load(case, server.port, 1 if number < 0 else seconds)
                if number >= 0:
                    rates[name].append(requests / seconds_taken)
                    costs[name].append((all_cpu_seconds(server.pid) - before) / requests)
                    other_costs.append(
                        (all_cpu_seconds(upstream) + wrk_seconds() - others_before) / requests
                    )
    print(f"\n{f'{title}, {CONCURRENCY} concurrent':<40}{'req/s':>10}{'CPU ms':>10}")
    for name, label in SERVERS.items():
        cost = median(costs[name]) * 1e3
        print(f"  {label:<38}{median(rates[name]):>10.0f}{cost:>10.3f}")
    print(f"  {'load and upstream':<48}{median(other_costs) * 1e3:>10.3f}")
    ratio = median(rates["two_processes"]) / median(rates["windlass"])
    idle_bound, busy_bound = (
        2 * median(costs["windlass"]) / (median(costs[name]) + median(other_costs))
        for name in SERVERS
    )
    print(f"  two processes are {ratio:.2f}x as fast as one")
    print(f"  maximum on two cores: {idle_bound:.2f}x")
    print(f"  maximum with the CPU of a request on busy cores: {busy_bound:.2f}x")
    return [Verdict(f"one process, {title}", 1 / ratio, 1 / MIN_RATIO, "x two processes")]


def load(case: Case, port: int, seconds: int) -> tuple[int, float]:
    """Returns the number of answered requests, and the seconds that they took."""
    contender = gateway.CONTENDERS["windlass"]
    body = gateway.body(contender, case.scenario)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA.format(body=body, key=KEY))
        script.flush()
        address = f"http://127.0.0.1:{port}{gateway.PATHS['chat']}"
        command = ["wrk", "-t1", f"-c{CONCURRENCY}", f"-d{seconds}s", "--timeout", "60s"]
        command += ["-s", script.name, address]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"the gateway did not answer all requests:\n{output}")
    match = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m)", output)
    assert match, output
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0}[match[3]]
    return int(match[1]), float(match[2]) * unit


@contextmanager
def fixed_upstream(case: Case) -> Iterator[tuple[str, int]]:
    """Runs an upstream with fixed answers. Yields its address and its process id."""
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
    """Returns the CPU seconds of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_seconds(pid) + sum(cpu_seconds(int(child)) for child in children)


def wrk_seconds() -> float:
    """Returns the CPU seconds of all loads so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
