"""The official openai SDK with the loop of its documentation, async and sync."""

import json
from typing import Any

import openai

from .common import DECLARATION, PROMPT, get_weather, get_weather_plain


def tool_message(call_id: str, result: dict[str, object]) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(result)}


class OpenAIAsync:
    def __init__(self, base_url: str) -> None:
        self.client = openai.AsyncOpenAI(base_url=base_url, api_key="x")

    async def answer(self, model: str, plain: bool) -> str:
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        while True:
            completion = await self.client.chat.completions.create(
                model=model, messages=messages, tools=[DECLARATION]
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message)
            for call in message.tool_calls:
                assert call.type == "function"
                arguments = json.loads(call.function.arguments)
                result = get_weather_plain(**arguments) if plain else await get_weather(**arguments)
                messages.append(tool_message(call.id, result))

    async def stream(self, model: str) -> str:
        parts: list[str] = []
        chunks = await self.client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": PROMPT}],
            tools=[DECLARATION],
            stream=True,
        )
        async for chunk in chunks:
            for choice in chunk.choices:
                if choice.delta.content:
                    parts.append(choice.delta.content)
        return "".join(parts)

    async def close(self) -> None:
        await self.client.close()


class OpenAISync:
    def __init__(self, base_url: str) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key="x")

    def answer(self, model: str) -> str:
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        while True:
            completion = self.client.chat.completions.create(
                model=model, messages=messages, tools=[DECLARATION]
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message)
            for call in message.tool_calls:
                assert call.type == "function"
                result = get_weather_plain(**json.loads(call.function.arguments))
                messages.append(tool_message(call.id, result))

    def stream(self, model: str) -> str:
        parts: list[str] = []
        chunks = self.client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": PROMPT}],
            tools=[DECLARATION],
            stream=True,
        )
        for chunk in chunks:
            for choice in chunk.choices:
                if choice.delta.content:
                    parts.append(choice.delta.content)
        return "".join(parts)

    def close(self) -> None:
        self.client.close()
