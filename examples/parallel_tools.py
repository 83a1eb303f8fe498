"""Calls of one turn run in parallel, and results keep the order of the calls."""

import asyncio

from windlass import AsyncClient, tool
from windlass.testing import ScriptedModel, call, calls

PAGES = ("one", "two", "three", "four")


class Library:
    """Counts how many readers are active at the same time."""

    def __init__(self) -> None:
        self.readers = self.most_readers = 0

    @tool
    async def fetch(self, page: str) -> str:
        """Fetches a page slowly."""
        self.readers += 1
        self.most_readers = max(self.most_readers, self.readers)
        await asyncio.sleep(0.1)
        self.readers -= 1
        return f"page {page}"


async def main() -> None:
    library = Library()
    script = [calls(*(call("fetch", page=page) for page in PAGES)), "I have them all."]
    async with AsyncClient(ScriptedModel(script), tools=[library.fetch]) as client:
        reply = await client.generate("Fetch four pages.")
    print([result.output for result in reply.results])
    print(f"{library.most_readers} at once; {reply.text}")


if __name__ == "__main__":
    asyncio.run(main())
