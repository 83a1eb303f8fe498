"""The floor: a minimal loop on aiohttp. It encodes each message once and sends its bytes again."""

import json

import aiohttp
import msgspec.json

from .common import DECLARATION, PROMPT, get_weather, get_weather_plain

BODY = b'{"model":%s,"messages":[%s],"tools":%s}'
encode, decode = msgspec.json.encode, msgspec.json.decode


class Floor:
    def __init__(self, base_url: str) -> None:
        self.url = f"{base_url}/chat/completions"
        self.tools = encode([DECLARATION])
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"Authorization": "Bearer x", "Content-Type": "application/json"},
        )

    async def answer(self, model: str, plain: bool) -> str:
        messages = [encode({"role": "user", "content": PROMPT})]
        while True:
            data = BODY % (encode(model), b",".join(messages), self.tools)
            async with self.session.post(self.url, data=data) as response:
                response.raise_for_status()
                message = decode(await response.read())["choices"][0]["message"]
            calls = message.get("tool_calls")
            if not calls:
                return message["content"]
            messages.append(encode(message))
            for call in calls:
                arguments = decode(call["function"]["arguments"])
                result = get_weather_plain(**arguments) if plain else await get_weather(**arguments)
                content = encode(result).decode()
                reply = {"role": "tool", "tool_call_id": call["id"], "content": content}
                messages.append(encode(reply))

    async def stream(self, model: str) -> str:
        messages = [{"role": "user", "content": PROMPT}]
        request = {"model": model, "messages": messages, "tools": [DECLARATION], "stream": True}
        parts: list[str] = []
        async with self.session.post(self.url, data=encode(request)) as response:
            response.raise_for_status()
            async for line in response.content:
                if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                    for choice in json.loads(line[6:])["choices"]:
                        if text := choice["delta"].get("content"):
                            parts.append(text)
        return "".join(parts)

    async def close(self) -> None:
        await self.session.close()
