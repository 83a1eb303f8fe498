"""The tools of workers over HTTP: listed with their session, and called manually."""

import asyncio
from typing import Any

from tests.gateway.tools.test_remote_gateway import in_session, serving
from tests.support.asgi import post, request
from tests.support.remote_tools import get_weather

from windlass import tool
from windlass.gateway import App
from windlass.worker import Worker


@tool
def greet() -> str:
    """Greets."""
    return "hello"


async def tools_of(app: App, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    answer = await request(app, "GET", "/v1/tools", headers=headers)
    return {each["name"]: each for each in answer.json["data"]}


async def test_a_worker_s_tool_is_reported_with_its_session(nats: str, session: str) -> None:
    async with (
        Worker([get_weather], nats=nats, session=session),
        serving(nats, "Fine.", sessions=(session,)) as app,
    ):
        [weather] = (await tools_of(app)).values()
    assert (weather["name"], weather["origin"]) == ("get_weather", f"worker:{session}")
    assert weather["models"] == ["m"]


async def test_a_request_may_name_a_session_to_see_and_call_its_tools(
    nats: str, session: str
) -> None:
    async with (
        Worker([greet], nats=nats, session=session),
        serving(nats, "Fine.") as app,
        asyncio.timeout(20),
    ):
        assert await tools_of(app) == {}
        path, here = "/v1/tools/greet/call", in_session(session)
        assert (await post(app, {}, path)).status == 404
        assert list(await tools_of(app, here)) == ["greet"]
        answer = await post(app, {}, path, headers=[here])
    assert (answer.json["outcome"], answer.json["response"]) == ("ok", {"output": "hello"})
