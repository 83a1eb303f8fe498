"""Measures the AI Studio model: the cost of setting up tools, and the delay at the end of a turn.

    python bench/run.py --only aistudio            measure everything, in about two minutes
    python bench/run.py --only aistudio --quick    take fewer samples

The page is the local replica, in a real Chromium. docs/internals/aistudio.md has the figures.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from windlass import AsyncClient, Message, tool
from windlass.content import FunctionDeclaration
from windlass.model import ModelRequest
from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.browser import Browser
from windlass.models.aistudio.config import BrowserConfig, browser_config
from windlass.settings import FunctionCallingSettings
from windlass.testing import Gate, call, say, slow, tool_results
from windlass.testing.aistudio import FakeAIStudio

TURNS = 20
PAGES = 8
WEATHER = FunctionDeclaration(
    "get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}}
)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


class Bench:
    """Creates models on replicas of the page, all in one browser, and measures them."""

    def __init__(self, browser: Browser, config: BrowserConfig, quick: bool) -> None:
        self._browser, self._config, self._samples = browser, config, 2 if quick else 7
        self._stack = ExitStack()

    def model(self, script: Any, *, pages: int = 1, **settings: Any) -> AIStudioModel:
        fake = self._stack.enter_context(FakeAIStudio(script))
        return AIStudioModel(
            "gemini-2.5-flash",
            config=BrowserConfig(fake.url, self._config.profile, self._config.program, pages=pages),
            settings=FunctionCallingSettings(**settings),
            browser=lambda _: self._browser,
        )

    def close(self) -> None:
        self._stack.close()

    async def run_seconds(self, **settings: Any) -> tuple[float, int]:
        """Executes a run of many turns. Returns the seconds of a turn and the number of set-ups."""
        model = self.model(_agent(TURNS), **settings)
        client = AsyncClient(model, mode="native")
        started_at = time.perf_counter()
        await client.generate("Weather?", tools=[get_weather], max_rounds=TURNS + 1)
        return (time.perf_counter() - started_at) / TURNS, model.orchestrator.setups

    async def seconds_to_the_end(self, step: Callable[[Gate], Any], *, tools: bool) -> float:
        """Returns the seconds from the page's last character, or its call, to the last event."""
        gates = [Gate() for _ in range(self._samples)]
        model = self.model([step(gate) for gate in gates])
        request = ModelRequest([Message.user("Hi")], (WEATHER,) if tools else ())
        samples: list[float] = []
        for gate in gates:
            request_task = asyncio.create_task(_drained(model, request))
            await gate.reached.wait()
            await asyncio.sleep(0.3)  # until the page has drawn the earlier turns
            started_at = time.perf_counter()
            gate.open()
            await request_task
            samples.append(time.perf_counter() - started_at)
        return median(samples)

    async def together_seconds(self) -> tuple[float, float]:
        """Returns the seconds of one conversation with a tool, and of one on each page at once."""
        model = self.model(_weather, pages=PAGES)
        client = AsyncClient(model, mode="native")

        async def ask() -> None:
            await client.generate("Weather?", tools=[get_weather])

        await asyncio.gather(*(ask() for _ in range(PAGES)))  # opens the pages
        started_at = time.perf_counter()
        await ask()
        alone = time.perf_counter() - started_at
        started_at = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(PAGES)))
        return alone, time.perf_counter() - started_at


def _agent(turns: int) -> list[Any]:
    return [*(call("get_weather", city=f"City {number}") for number in range(turns - 1)), "Sunny."]


def _weather(request: dict[str, Any]) -> Any:
    return say("It is sunny.") if tool_results(request) else call("get_weather", city="Paris")


async def _drained(model: AIStudioModel, request: ModelRequest) -> None:
    async with model.stream(request) as events:
        async for _ in events:
            pass


async def measure(quick: bool) -> list[tuple[str, str]]:
    """Returns the rows of the table: the name of each measurement, and its figure."""
    with tempfile.TemporaryDirectory() as profile:
        config = browser_config({"WINDLASS_AISTUDIO_PROFILE": profile})
        browser = Browser(BrowserConfig(config.url, Path(profile), config.program))
        bench = Bench(browser, config, quick)
        try:
            return await _rows(bench)
        finally:
            await browser.aclose()
            bench.close()


async def _rows(bench: Bench) -> list[tuple[str, str]]:
    cached, once = await bench.run_seconds()
    uncached, often = await bench.run_seconds(cache_enabled=False, clear_between_requests=False)
    text = await bench.seconds_to_the_end(
        lambda gate: slow(say("A b."), gate, after=1), tools=False
    )
    after = await bench.seconds_to_the_end(
        lambda gate: slow(say("A b."), gate, after=1), tools=True
    )
    called = await bench.seconds_to_the_end(
        lambda gate: slow(call("get_weather", city="Paris"), gate), tools=True
    )
    alone, together = await bench.together_seconds()
    return [
        (f"a turn of a {TURNS}-turn run, tools set up {once} time", f"{cached:.2f} s"),
        (f"without the cache, tools set up {often} times", f"{uncached:.2f} s"),
        ("last character to last event, without tools", f"{text:.2f} s"),
        ("last character to last event, with tools", f"{after:.2f} s"),
        ("call to last event", f"{called:.2f} s"),
        ("one conversation with a tool", f"{alone:.2f} s"),
        (f"{PAGES} conversations at once, on {PAGES} pages", f"{together:.2f} s"),
    ]


def show(quick: bool) -> None:
    print("\nThe AI Studio page, replica in Chromium")
    if browser_config({}).program is None:
        print("  skipped: Chromium is not installed (apt-get install chromium)")
        return
    rows: Sequence[tuple[str, str]] = asyncio.run(measure(quick))
    for title, figure in rows:
        print(f"  {title:<52}{figure:>10}")
