"""Measures the parser: its throughput compared with `json.loads`, and the CPU of a token."""

import json
import time
from collections.abc import Callable
from statistics import median

from windlass.emulation.parser import Parser, render_calls

ARGUMENTS = {
    "path": "notes.txt",
    "content": 'a line of text with "quotes" and \\ slashes\n' * 2_000,
}
PROSE = "The quick brown fox jumps over the lazy dog, and there is no tool call. " * 1_500
SHORT_CALLS = render_calls([("get_weather", {"city": "Paris"})] * 20)
TOKEN = 4
"""The average number of characters in a token."""

TEXTS = {
    "plain text": PROSE,
    "one long argument": render_calls([("write_file", ARGUMENTS)]),
    "many short calls": "\n".join([SHORT_CALLS] * 50),
}


def parse(text: str, size: int) -> None:
    parser = Parser(None)
    for start in range(0, len(text), size):
        parser.feed(text[start : start + size])
    parser.finish()


def cpu(work: Callable[[], object], samples: int) -> float:
    samples_taken: list[float] = []
    for _ in range(samples):
        started_at = time.process_time()
        work()
        samples_taken.append(time.process_time() - started_at)
    return median(samples_taken)


def show(quick: bool) -> None:
    samples = 3 if quick else 15
    print(f"\n{'parser':26s}{'MB/s':>10s}{'us/token':>10s}{'json.loads, MB/s':>18s}")
    for name, text in TEXTS.items():
        written, size = json.dumps(text), len(text.encode())
        whole = cpu(lambda text=text: parse(text, len(text)), samples)
        tokens = cpu(lambda text=text: parse(text, TOKEN), samples)
        floor = cpu(lambda written=written: json.loads(written), samples)
        per_token = tokens / (len(text) / TOKEN)
        print(
            f"  {name:24s}{size / whole / 1e6:10.1f}{per_token * 1e6:10.2f}"
            f"{size / floor / 1e6:18.1f}"
        )
