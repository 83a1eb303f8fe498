"""A gateway with some tools, and requests for them."""

from typing import Any

from tests.support.asgi import Answer, post, request
from tests.support.restarting import Place
from tests.support.serving import config_of
from tests.support.talking import Body

from windlass import ToolError, tool
from windlass.gateway.config import McpConfig, ModelConfig
from windlass.testing import call, calls

erased: list[str] = []


@tool(idempotent=True)
def lookup(city: str) -> str:
    """Looks a city up."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return f"sunny in {city}"


@tool(approve=True)
def erase(path: str) -> str:
    """Erases a file."""
    erased.append(path)
    return f"erased {path}"


@tool
def files__read(path: str) -> str:
    """Reads a file of a server."""
    return path


TOOLS = (lookup, erase, files__read)
ONE = ModelConfig(name="one", target="scripted/model", tools=("lookup", "erase", "files__read"))
TWO = ModelConfig(name="two", target="scripted/model", tools=("lookup",))
BARE = ModelConfig(name="bare", target="scripted/model", tools=("erase",), function_calling=False)
SERVED = config_of(ONE, TWO, BARE, mcp={"files": McpConfig(name="files", command="serve")})


def script(request: Any) -> Any:
    """Calls `lookup` as the prompt says, and then answers."""
    last = request.messages[-1]
    if last.role == "tool":
        return "Done."
    return calls(*(call("lookup", city=city) for city in last.text.split()))


async def tools_of(place: Place, *headers: tuple[bytes, bytes]) -> dict[str, Body]:
    answer = await request(place.app, "GET", "/v1/tools", headers=headers)
    assert answer.json["object"] == "list"
    return {each["name"]: each for each in answer.json["data"]}


async def by_hand(place: Place, name: str, *headers: tuple[bytes, bytes], **body: Any) -> Answer:
    return await post(place.app, body, f"/v1/tools/{name}/call", headers=headers)
