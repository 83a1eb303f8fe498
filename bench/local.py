"""Measures the embedded models: choosing tools, calling none, and whole tasks.

    make bench-local                               everything, for the default model
    python bench/local.py smol                     for the small one
    python bench/local.py qwen --method native     llama.cpp's own tools= in place of the profile
    python bench/local.py qwen --fresh mine.json   your own prompts
    python bench/local.py qwen --output            answers with a type
    python bench/local.py qwen --quick --show      eight offered tools only, and what went wrong
    python bench/local.py qwen --only steps        only the tasks whose second call needs the first

A file of your own has the parts `one_tool`, `no_tool` and `tasks`, as in `local_cases.Cases`:

    {"one_tool": [{"prompt": "Weather in Rome?", "tool": "get_weather",
                   "arguments": {"city": "Rome"}}],
     "no_tool": ["Good evening!"],
     "tasks": [{"prompt": "2 * 21?", "tools": ["calculate"], "answer": ["42"]}]}

docs/internals/local-model.md has a copy of the figures.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from local_cases import BEFORE, OWN, PARTS, Asked, Cases, Looped, cases_from, chosen
from local_methods import METHODS
from local_output import LOOKUPS, ORDERS, Order, get_order
from local_tools import TOOLS, is_right, offered
from msgspec import Struct

from windlass import AsyncClient, OutputInvalid
from windlass.models.local.weights import WeightsProgress
from windlass.reply import Reply

Case = TypeVar("Case")


class Row(Struct, frozen=True):
    """One line of the table."""

    what: str
    figure: str
    of: int
    seconds: float


class Bench:
    """Asks one model everything, by one method. With `show`, failures are printed."""

    def __init__(self, client: AsyncClient, cases: Cases, show: bool) -> None:
        self._client, self._cases, self._show = client, cases, show

    async def rows(self, counts: Sequence[int]) -> AsyncGenerator[Row]:
        cases = self._cases
        for count in counts if cases.one_tool else ():
            yield await self._choosing(count)
        if cases.no_tool:
            what = "no call needed, 8 offered: none made"
            yield await self._row(what, cases.no_tool, self._leaves_tools_alone)
        for calls in sorted({len(task.tools) for task in cases.tasks if not task.chained}):
            tasks = [task for task in cases.tasks if len(task.tools) == calls and not task.chained]
            yield await self._row(f"whole loop, calls: {calls}", tasks, self._does)
        if chained := [task for task in cases.tasks if task.chained]:
            yield await self._row("whole loop, two steps", chained, self._does)

    async def output_rows(self) -> AsyncGenerator[Row]:
        """Answers with a type: alone, and after the call of a tool."""
        yield await self._row("a valid object", ORDERS, self._fills)
        yield await self._row("a call, then a valid object", LOOKUPS, self._looks_up)

    async def _fills(self, prompt: str) -> tuple[bool]:
        return (await self._object(prompt, tools=[]) is not None,)

    async def _looks_up(self, prompt: str) -> tuple[bool]:
        reply = await self._object(prompt, tools=[get_order])
        called = reply is not None and [each.name for each in reply.results] == ["get_order"]
        return (called,)

    async def _object(self, prompt: str, tools: Sequence[Any]) -> Reply | None:
        """The reply with a valid object; None if there is none."""
        try:
            reply = await self._client.generate(
                prompt, tools=tools, output=Order, output_retries=0, max_tokens=600
            )
        except OutputInvalid as problem:
            if self._show:
                print(f"  {prompt!r}: {problem} {problem.text!r}", file=sys.stderr, flush=True)
            return None
        self._judge(reply.has_output and len(reply.results) == len(tools), prompt, reply)
        return reply if reply.has_output else None

    async def _choosing(self, count: int) -> Row:
        async def named(asked: Asked) -> tuple[bool, ...]:
            return await self._chooses(asked, count)

        what = f"one call, {count} offered: name/arguments"
        return await self._row(what, self._cases.one_tool, named)

    async def _row(
        self, what: str, cases: Sequence[Case], ask: Callable[[Case], Awaitable[tuple[bool, ...]]]
    ) -> Row:
        began = time.perf_counter()
        verdicts = [await ask(case) for case in cases]
        seconds = (time.perf_counter() - began) / len(cases)
        figure = "/".join(str(sum(each)) for each in zip(*verdicts, strict=True))
        return Row(what, figure, len(cases), seconds)

    async def _chooses(self, asked: Asked, count: int) -> tuple[bool, bool]:
        """Whether the name is right, and the arguments too. One call too many is wrong."""
        reply = await self._client.generate(
            asked.prompt, tools=offered(asked.tool, count), execute_tools=False, max_tokens=200
        )
        named = [call.name for call in reply.calls] == [asked.tool]
        right = named and _arguments_are_right(asked, reply)
        self._judge(right, asked.prompt, reply)
        return named, right

    async def _leaves_tools_alone(self, prompt: str) -> tuple[bool]:
        reply = await self._client.generate(prompt, tools=TOOLS, execute_tools=False, max_tokens=60)
        self._judge(not reply.calls, prompt, reply)
        return (not reply.calls,)

    async def _does(self, task: Looped) -> tuple[bool]:
        reply = await self._client.generate(task.prompt, tools=TOOLS, max_tokens=200)
        done = _is_done(task, reply)
        self._judge(done, task.prompt, reply)
        return (done,)

    def _judge(self, right: bool, prompt: str, reply: Reply) -> None:
        if self._show and not right:
            calls = [f"{call.name}({call.json})" for call in reply.calls]
            results = [f"{one.name}: {one.text}" for one in reply.results]
            print(f"  {prompt!r}: {calls} {results} {reply.text!r}", file=sys.stderr, flush=True)


def _arguments_are_right(asked: Asked, reply: Reply) -> bool:
    arguments = reply.calls[0].arguments
    if asked.arguments is None:
        return True
    return isinstance(arguments, dict) and is_right(asked.arguments, arguments)


def _is_done(task: Looped, reply: Reply) -> bool:
    """Whether exactly the expected tools ran, and the answer contains their results."""
    used = sorted(result.name for result in reply.results)
    said = all(re.search(rf"(?<![\d.])({each})", reply.text) for each in task.answer)
    return used == sorted(task.tools) and said


async def measure(
    model: str,
    method: str,
    cases: Cases,
    counts: Sequence[int],
    *,
    own: bool,
    show: bool,
    output: bool,
) -> None:
    """Prints the table for one model and one method, each line as soon as it is known."""
    kind, client_of = METHODS[method]
    local = kind(model)
    await local.load(_shown)
    before = BEFORE.get(model, {}) if method == "profile" and own else {}
    print("| | right | before | of | seconds each |\n|---|---|---|---|---|", flush=True)
    async with client_of(local) as client:
        bench = Bench(client, cases, show)
        async with aclosing(bench.output_rows() if output else bench.rows(counts)) as rows:
            async for row in rows:
                was = before.get(row.what, "")
                figures = f"{row.figure} | {was} | {row.of} | {row.seconds:.1f}"
                print(f"| {row.what} | {figures} |", flush=True)


def _shown(progress: WeightsProgress) -> None:
    if progress.done == progress.total:
        print(f"{progress.stage}: done", file=sys.stderr)


def main() -> None:
    description, _, epilog = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", default="qwen", help="qwen, smol, or a GGUF file")
    parser.add_argument("--method", choices=METHODS, default="profile", help="how it is asked")
    parser.add_argument("--fresh", type=Path, metavar="FILE", help="your own prompts, as JSON")
    parser.add_argument("--output", action="store_true", help="answers with a type")
    parser.add_argument("--quick", action="store_true", help="only with eight offered tools")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="only these parts")
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    options = parser.parse_args()
    cases = cases_from(options.fresh, [each.name for each in TOOLS]) if options.fresh else OWN
    if options.only:
        cases = chosen(cases, options.only)
    counts = (8,) if options.quick else (1, 3, 8)
    measured = measure(
        options.model,
        options.method,
        cases,
        counts,
        own=options.fresh is None,
        show=options.show,
        output=options.output,
    )
    asyncio.run(measured)


if __name__ == "__main__":
    main()
