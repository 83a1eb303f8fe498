"""The floor of the gateway's benchmark: a minimal pass-through that does not parse requests.

For `bench-tool` it asks the upstream twice, the second time with a tool's result.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

URL = f"{os.environ['BENCH_UPSTREAM']}/v1/chat/completions"
HEADERS = {"Authorization": "Bearer x", "Content-Type": "application/json"}
MESSAGES = b'"messages":['
TOOL_ROUND = (
    b'{"role":"assistant","tool_calls":[{"id":"call_0","type":"function","function":'
    b'{"name":"get_weather","arguments":"{\\"city\\": \\"city 0\\"}"}}]},'
    b'{"role":"tool","tool_call_id":"call_0","content":"{\\"celsius\\":21}"},'
)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[dict[str, object]]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=HEADERS) as session:
        yield {"session": session}


async def completions(request: Request) -> Response:
    session: aiohttp.ClientSession = request.state.session
    body = await request.body()
    if b"bench-tool" in body:
        async with session.post(URL, data=body) as first:
            await first.read()
        body = body.replace(MESSAGES, MESSAGES + TOOL_ROUND, 1)
    answer = await session.post(URL, data=body)
    if answer.content_type == "text/event-stream":
        return StreamingResponse(passed(answer), media_type="text/event-stream")
    async with answer:
        return Response(await answer.read(), media_type="application/json")


async def passed(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with answer:
        async for piece in answer.content.iter_any():
            yield piece


app = Starlette(
    routes=[Route("/v1/chat/completions", completions, methods=["POST"])], lifespan=lifespan
)
