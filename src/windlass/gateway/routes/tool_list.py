"""The tools that a key may use: those of its models and of their workers."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from windlass.content import FunctionDeclaration
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Exchange
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.tools.sessions import sessions_of
from windlass.tool import Tool
from windlass.toolsets.mcp.names import SEPARATOR
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

GATEWAY_ORIGIN = "gateway"


class OfferedTool(Struct):
    """A tool with its origin and the models that offer it."""

    tool: Tool
    origin: str
    """`gateway`, `mcp:SERVER` or `worker:SESSION`."""
    models: list[ServedModel]

    def fields(self) -> JsonObject:
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


async def offered_tools(
    gateway: Gateway, exchange: Exchange, only: str | None = None
) -> dict[str, OfferedTool]:
    """The tools of this key by name; with `only`, just the tool of that name.

    If two tools have the same name, the tool of the first model wins. Raises `Refused` if the
    request names a session that its key may not use, or the gateway has no workers.
    """
    session = gateway.sessions.named(exchange)
    catalog = gateway.catalog
    models = [catalog.models[name] for name in catalog.names(exchange.key)]
    models = [served for served in models if served.config.function_calling]
    sessions = [name for served in models for name in sessions_of(served, session)]
    remote = await gateway.sessions.by_session(sessions)
    found: dict[str, OfferedTool] = {}
    for served in models:
        workers = {name: remote.get(name, ()) for name in sessions_of(served, session)}
        for tool, origin in await _tools_of(gateway, served, workers, only):
            known = found.get(tool.name)
            if known is None:
                found[tool.name] = OfferedTool(tool, origin, [served])
            elif known.origin == origin and served not in known.models:
                known.models.append(served)
    return found


async def offered_tool(gateway: Gateway, exchange: Exchange, name: str) -> OfferedTool:
    """The tool of that name. Raises `Refused` (404) if this key has none."""
    found = (await offered_tools(gateway, exchange, name)).get(name)
    if found is None:
        message = f"The tool {name[:200]!r} does not exist, or this key may not use it."
        raise Refused(Problem(404, message, "tool_not_found", "name"))
    return found


async def _tools_of(
    gateway: Gateway,
    served: ServedModel,
    workers: Mapping[str, Iterable[Tool]],
    only: str | None,
) -> list[tuple[Tool, str]]:
    """The tools and origins that a run of this model gets; the gateway's own take precedence."""
    own = _selected(await gateway.catalog.tools_of(served), only)
    names = {tool.name for tool in own}
    tools = [
        (tool, _origin(tool.name, gateway))
        for tool in own
        if isinstance(tool.declaration, FunctionDeclaration)
    ]
    for session, remote in workers.items():
        tools += [(tool, f"worker:{session}") for tool in _selected(remote, only, names)]
    return tools


def _selected(tools: Iterable[Tool], only: str | None, taken: Collection[str] = ()) -> list[Tool]:
    return [tool for tool in tools if only in (None, tool.name) and tool.name not in taken]


def _origin(name: str, gateway: Gateway) -> str:
    server, separator, _ = name.partition(SEPARATOR)
    return f"mcp:{server}" if separator and server in gateway.config.mcp else GATEWAY_ORIGIN
