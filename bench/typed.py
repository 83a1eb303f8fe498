"""Measures the CPU that `output=` adds to a run, blocking and streamed.

With and without it, a scripted model answers with the same JSON text of ten fields.
"""

import asyncio
import time
from typing import Any, Literal

from pydantic import BaseModel
from report import Verdict

from windlass import AsyncClient
from windlass.testing import ScriptedModel, say

MAX_MILLISECONDS = 0.1
RUNS = 200
"""The runs in a sample. The fastest sample counts, because other processes only add time."""


class Report(BaseModel):
    """Ten fields of common types."""

    id: int
    title: str
    author: str
    kind: Literal["note", "alert", "summary"]
    score: float
    urgent: bool
    tags: list[str]
    city: str | None = None
    replies: int = 0
    text: str = ""


TEXT = Report(
    id=7,
    title="The harbour",
    author="Ada",
    kind="note",
    score=0.75,
    urgent=False,
    tags=["sea", "rope"],
    city="Bristol",
    replies=2,
    text="Low tide is at noon. " * 5,
).model_dump_json()


async def sample(options: dict[str, Any], *, live: bool) -> float:
    """Returns the CPU milliseconds of one run."""
    model = ScriptedModel(lambda request: say(TEXT))
    async with AsyncClient(model) as client:
        started_at = time.process_time()
        for _ in range(RUNS):
            if live:
                async with client.stream("?", **options) as stream:
                    async for _ in stream:
                        pass
            else:
                await client.generate("?", **options)
            model.requests.clear()
        return (time.process_time() - started_at) / RUNS * 1e3


def show(quick: bool) -> list[Verdict]:
    samples = 5 if quick else 20
    verdicts: list[Verdict] = []
    print(f"\n{'typed output, CPU ms/run':26s}{'text':>12s}{'typed':>12s}{'added':>12s}")
    for name, live in {"blocking": False, "streamed": True}.items():
        best = {"text": float("inf"), "typed": float("inf")}
        for _ in range(samples):
            for kind in best:
                options = {"output": Report} if kind == "typed" else {}
                best[kind] = min(best[kind], asyncio.run(sample(options, live=live)))
        added = best["typed"] - best["text"]
        print(f"  {name:24s}{best['text']:12.3f}{best['typed']:12.3f}{added:12.3f}")
        verdicts.append(Verdict(f"typed output, {name}: added CPU", added, MAX_MILLISECONDS, " ms"))
    return verdicts
