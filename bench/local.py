"""What the embedded models can do: choosing tools, leaving them alone, and whole tasks.

    make bench-local                     everything, for the default model
    python bench/local.py smol           for the small one
    python bench/local.py qwen --quick   eight offered tools only
    python bench/local.py qwen --show    also what went wrong

The figures stand beside those that the profile was chosen by; docs/local.md has a copy.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Iterable, Sequence

from local_cases import LOOPS, NO_TOOL, ONE_TOOL, TOOLS, Asked, Looped, is_right, offered
from msgspec import Struct

from windlass import AsyncClient
from windlass.loop.reply import Reply
from windlass.models.local.weights import Progress

FLOORS: dict[str, dict[str, str]] = {
    "qwen": {"1": "18/18", "3": "17/16", "8": "19/18", "none": "10", "one": "7", "two": "5"},
    "smol": {"1": "16/14", "3": "10/10", "8": "15/14", "none": "2", "one": "-", "two": "-"},
}
"""What each profile measured when it was chosen, on other prompts of the same kinds."""


class Row(Struct, frozen=True):
    """One line of the table."""

    what: str
    figure: str
    of: int
    floor: str
    seconds: float


class Bench:
    """Asks one model everything. With `show`, what went wrong is printed as it goes."""

    def __init__(self, model: str, show: bool) -> None:
        self._client = AsyncClient(f"local/{model}")
        self._floors = FLOORS.get(model, {})
        self._show = show

    async def rows(self, quick: bool) -> list[Row]:
        await self._client.model.load(_shown)  # type: ignore[attr-defined]
        counts = (8,) if quick else (1, 3, 8)
        rows = [await self._choosing(count) for count in counts]
        rows.append(await self._leaving())
        one = [task for task in LOOPS if len(task.tools) == 1]
        two = [task for task in LOOPS if len(task.tools) == 2]
        rows.append(await self._looping("one", one))
        rows.append(await self._looping("two", two))
        return rows

    async def _choosing(self, count: int) -> Row:
        names = arguments = 0
        began = time.perf_counter()
        for asked in ONE_TOOL:
            reply = await self._client.generate(
                asked.prompt, tools=offered(asked.tool, count), execute_tools=False
            )
            name, right = _judged(asked, reply)
            names, arguments = names + name, arguments + right
            if not right:
                self._wrong(asked.prompt, reply)
        took = time.perf_counter() - began
        what = f"one call, {count} offered: name/arguments"
        return Row(what, f"{names}/{arguments}", 20, self._floors.get(str(count), "-"), took / 20)

    async def _leaving(self) -> Row:
        right, began = 0, time.perf_counter()
        for prompt in NO_TOOL:
            reply = await self._client.generate(
                prompt, tools=TOOLS, execute_tools=False, max_tokens=60
            )
            right += not reply.calls
            if reply.calls:
                self._wrong(prompt, reply)
        took = time.perf_counter() - began
        floor = self._floors.get("none", "-")
        return Row("no call needed, 8 offered: none made", str(right), 10, floor, took / 10)

    async def _looping(self, kind: str, tasks: Sequence[Looped]) -> Row:
        right, began = 0, time.perf_counter()
        for task in tasks:
            reply = await self._client.generate(task.prompt, tools=TOOLS, max_tokens=200)
            done = _is_done(task, reply)
            right += done
            if not done:
                self._wrong(task.prompt, reply)
        took = time.perf_counter() - began
        floor = self._floors.get(kind, "-")
        what = f"whole loop, {kind} call{'s' if kind == 'two' else ''}"
        return Row(what, str(right), len(tasks), floor, took / len(tasks))

    def _wrong(self, prompt: str, reply: Reply) -> None:
        if self._show:
            calls = [f"{call.name}({call.json})" for call in reply.calls]
            results = [f"{one.name}: {one.text}" for one in reply.results]
            print(f"  {prompt!r}: {calls} {results} {reply.text!r}", file=sys.stderr, flush=True)


def _judged(asked: Asked, reply: Reply) -> tuple[bool, bool]:
    """Whether the name is right, and whether the arguments are too. One call too many is wrong."""
    if len(reply.calls) != 1 or reply.calls[0].name != asked.tool:
        return False, False
    arguments = reply.calls[0].arguments
    return True, isinstance(arguments, dict) and is_right(asked.arguments, arguments)


def _is_done(task: Looped, reply: Reply) -> bool:
    """Whether the tools were used, no other, and the answer says what they said."""
    used = sorted(result.name for result in reply.results)
    said = all(re.search(rf"(?<![\d.])({each})", reply.text) for each in task.answer)
    return sorted(set(task.tools)) == sorted(set(used)) and len(used) >= len(task.tools) and said


def _shown(progress: Progress) -> None:
    if progress.done == progress.total:
        print(f"{progress.stage}: done", file=sys.stderr)


def _table(rows: Iterable[Row]) -> str:
    lines = ["| | right | of | floor | seconds each |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row.what} | {row.figure} | {row.of} | {row.floor} | {row.seconds:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?", default="qwen", help="qwen, smol, or a GGUF file")
    parser.add_argument("--quick", action="store_true", help="only with eight offered tools")
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    options = parser.parse_args()
    print(_table(asyncio.run(Bench(options.model, options.show).rows(options.quick))))


if __name__ == "__main__":
    main()
