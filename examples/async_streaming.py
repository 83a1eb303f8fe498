"""Stream with `async`: two models answer at the same time."""

import asyncio
from typing import Any

from demo_tools import TOOLS
from upstream import QUESTION, models

from windlass import AsyncClient


async def ask(model: dict[str, Any]) -> str:
    async with AsyncClient(**model) as client, client.stream(QUESTION, tools=TOOLS) as stream:
        text = [delta async for delta in stream.text_deltas()]
    return f"{stream.reply.model}: {''.join(text)}"


async def main() -> None:
    with models() as available:
        for line in await asyncio.gather(*map(ask, available)):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
