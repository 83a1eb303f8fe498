"""The tools that a key may use: those of its models, and those of workers that these may use."""

from collections.abc import AsyncIterator

from msgspec import Struct

from windlass.content import FunctionDeclaration
from windlass.gateway.exchange import Exchange
from windlass.gateway.gateway import Gateway
from windlass.gateway.problems import Problem, Refused
from windlass.gateway.served import ServedModel
from windlass.models.fields import JsonObject
from windlass.tool import Tool
from windlass.toolsets.mcp.names import SEPARATOR

__all__ = ["OfferedTool", "offered_tool", "offered_tools"]

OURS = "gateway"


class OfferedTool(Struct):
    """A tool, where it lives, and who offers it."""

    tool: Tool
    origin: str
    """`gateway`, `mcp:SERVER` or `worker:SESSION`."""
    models: list[ServedModel]

    def fields(self) -> JsonObject:
        """What is told of it."""
        declared = self.tool.declaration
        assert isinstance(declared, FunctionDeclaration)
        return {
            "name": self.tool.name,
            "object": "tool",
            "description": declared.description,
            "parameters": declared.parameters,
            "approve": self.tool.options.approve,
            "idempotent": self.tool.options.idempotent,
            "models": [served.name for served in self.models],
            "origin": self.origin,
        }


async def offered_tools(gateway: Gateway, exchange: Exchange) -> dict[str, OfferedTool]:
    """Each by its name; of two with one name, that of the first model. Raises `Refused`."""
    session = gateway.sessions.named(exchange)
    found: dict[str, OfferedTool] = {}
    for name in gateway.catalog.names(exchange.key):
        served = gateway.catalog.models[name]
        async for tool, origin in _tools_of(gateway, served, session):
            known = found.setdefault(tool.name, OfferedTool(tool, origin, []))
            if known.origin == origin and served not in known.models:
                known.models.append(served)
    return found


async def offered_tool(gateway: Gateway, exchange: Exchange, name: str) -> OfferedTool:
    """Raises `Refused` (404) if this key has no such tool."""
    found = (await offered_tools(gateway, exchange)).get(name)
    if found is None:
        message = f"The tool {name[:200]!r} does not exist, or this key may not use it."
        raise Refused(Problem(404, message, "tool_not_found", "name"))
    return found


async def _tools_of(
    gateway: Gateway, served: ServedModel, session: str
) -> AsyncIterator[tuple[Tool, str]]:
    """As a run of this model would have them: the gateway's own stand before those of workers."""
    if not served.config.function_calling:
        return
    ours = await gateway.catalog.tools_of(served)
    for tool in ours:
        if isinstance(tool.declaration, FunctionDeclaration):
            yield tool, _home(tool.name, gateway)
    names = {tool.name for tool in ours}
    for each, tools in (await gateway.sessions.by_session(served, session)).items():
        for tool in tools:
            if tool.name not in names:
                yield tool, f"worker:{each}"


def _home(name: str, gateway: Gateway) -> str:
    server, separator, _ = name.partition(SEPARATOR)
    return f"mcp:{server}" if separator and server in gateway.config.mcp else OURS
