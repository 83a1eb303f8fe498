"""Execute the calls of one turn in parallel. The results are in the order of the calls."""

import asyncio

from windlass import AsyncClient, tool
from windlass.testing import ScriptedModel, call, calls

PAGES = ("one", "two", "three", "four")


class Library:
    """Counts how many pages are being fetched at the same time."""

    def __init__(self) -> None:
        self.active = self.max_active = 0

    @tool
    async def fetch(self, page: str) -> str:
        """Fetches a page slowly."""
        self.active += 1
        self.max_active = max(self.max_active, self.active)
        await asyncio.sleep(0.1)
        self.active -= 1
        return f"page {page}"


async def main() -> None:
    library = Library()
    script = [calls(*(call("fetch", page=page) for page in PAGES)), "I have them all."]
    async with AsyncClient(ScriptedModel(script), tools=[library.fetch]) as client:
        reply = await client.generate("Fetch four pages.")
    print([result.output for result in reply.results])
    print(f"{library.max_active} at the same time; {reply.text}")


if __name__ == "__main__":
    asyncio.run(main())
