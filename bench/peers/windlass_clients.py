"""Windlass, async and sync, with one client for each model, as in a real program."""

from windlass import AsyncClient, Client
from windlass.events import TextDelta

from .common import PROMPT, get_weather, get_weather_plain

MAX_ROUNDS = 1000


class WindlassAsync:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.clients: dict[str, AsyncClient] = {}

    def client(self, model: str) -> AsyncClient:
        if model not in self.clients:
            name = f"openai/{model}"
            self.clients[model] = AsyncClient(name, base_url=self.base_url, api_key="x")
        return self.clients[model]

    async def answer(self, model: str, plain: bool) -> str:
        tool = get_weather_plain if plain else get_weather
        client = self.client(model)
        reply = await client.generate(PROMPT, tools=[tool], max_rounds=MAX_ROUNDS)
        return reply.text

    async def stream(self, model: str) -> str:
        parts: list[str] = []
        async with self.client(model).stream(PROMPT, tools=[get_weather]) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    parts.append(event.text)
        return "".join(parts)

    async def close(self) -> None:
        for client in self.clients.values():
            await client.aclose()


class WindlassSync:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.clients: dict[str, Client] = {}

    def client(self, model: str) -> Client:
        if model not in self.clients:
            name = f"openai/{model}"
            self.clients[model] = Client(name, base_url=self.base_url, api_key="x")
        return self.clients[model]

    def answer(self, model: str) -> str:
        client = self.client(model)
        reply = client.generate(PROMPT, tools=[get_weather_plain], max_rounds=MAX_ROUNDS)
        return reply.text

    def stream(self, model: str) -> str:
        parts: list[str] = []
        with self.client(model).stream(PROMPT, tools=[get_weather_plain]) as stream:
            for event in stream:
                if isinstance(event, TextDelta):
                    parts.append(event.text)
        return "".join(parts)

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
