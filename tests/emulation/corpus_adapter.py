"""An adapter of `windlass.parse` for the shared corpus: it returns only calls that can run."""

from collections.abc import Iterable
from typing import Any

from windlass.emulation.parse import parse as windlass_parse
from windlass.emulation.parser import FORMATS


def parse(chunks: Iterable[str], tools: list[Any], hint: str | None = None) -> dict[str, Any]:
    parsed = windlass_parse(chunks, tools, hint if hint in FORMATS else "auto")
    calls = [
        {"name": call.name, "arguments": call.arguments} for call in parsed.calls if not call.error
    ]
    return {"content": parsed.content, "calls": calls, "reasoning": parsed.thoughts}
