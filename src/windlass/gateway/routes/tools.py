"""`/v1/tools`: the tools that a key may use, their last calls, and manual calls."""

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, NotRequired, cast

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypeAliasType

from windlass.content import FileData, FunctionDeclaration, InlineData
from windlass.events import Outcome
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    Exchange,
    any_json_response,
    disconnected,
    exchange_of,
    json_response,
    read_body,
)
from windlass.gateway.http.errors import SHUTTING_DOWN, Refused
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.openapi.operations import (
    GUARDED,
    SESSION_PARAMETER,
    STARTING,
    Operation,
    Paths,
    path_parameter,
)
from windlass.gateway.routes.runs import NewestRuns
from windlass.gateway.tools.calls import CallSummary, HandCall
from windlass.gateway.tools.sessions import HEADER as SESSION_HEADER
from windlass.gateway.tools.sessions import sessions_of
from windlass.jsontext import by_size
from windlass.tool import Tool
from windlass.toolsets.mcp.options import SEPARATOR
from windlass.wires.body import read_as
from windlass.wires.errors import Problem
from windlass.wires.fields import Count, Field, Json

GATEWAY_ORIGIN = "gateway"
MAX_RUNS = 200
"""How many of the newest runs are searched for calls."""
MAX_CALLS = 20
"""How many of a tool's calls are shown."""
OutcomeJson = TypeAliasType("OutcomeJson", Outcome)


class LastCallJson(Json):
    run_id: str | None
    """Null for a manual call."""
    call_id: str
    time: float
    seconds: float
    outcome: OutcomeJson
    arguments: dict[str, Any] | str
    response: dict[str, Any] | None
    """Shortened if it is long."""
    by_hand: bool


class ToolCallsJson(Json):
    """The calls of this key: its newest 200 runs and its manual calls."""

    count: Count
    failures: Count
    last: Annotated[list[LastCallJson], Field(max_length=MAX_CALLS)]


class ToolJson(Json):
    name: str
    object: Literal["tool"]
    description: str
    parameters: dict[str, Any]
    """A JSON Schema."""
    approve: bool
    """Whether each call needs approval."""
    idempotent: bool
    models: list[str]
    """The models that offer the tool."""
    origin: str
    """`gateway`, `mcp:SERVER` or `worker:SESSION`."""
    calls: ToolCallsJson


class ToolListJson(Json):
    object: Literal["list"]
    data: list[ToolJson]


class ToolProgressJson(Json):
    time: float
    progress: float | None
    message: str | None
    data: Any


class ToolAnswerJson(Json):
    call_id: str
    name: str
    outcome: OutcomeJson
    response: dict[str, Any]
    parts: list[InlineData | FileData]
    seconds: float
    effect_unknown: bool
    progress: list[ToolProgressJson]
    crashed: NotRequired[bool]
    """Whether the tool crashed; its traceback is in the gateway's log."""


_TOOL_NAME = path_parameter("name", "The tool's name.")
PATHS: Paths = {
    "/v1/tools": {
        "get": Operation(
            id="listTools",
            summary="Lists the tools of the models that this key may use.",
            parameters=(SESSION_PARAMETER,),
            answer=ToolListJson,
            problems=(400, 404, *GUARDED),
        )
    },
    "/v1/tools/{name}": {
        "get": Operation(
            id="getTool",
            summary="Returns one tool with its last calls.",
            parameters=(_TOOL_NAME, SESSION_PARAMETER),
            answer=ToolJson,
            problems=(400, 404, *GUARDED),
        )
    },
    "/v1/tools/{name}/call": {
        "post": Operation(
            id="callTool",
            summary="Runs a tool and returns its result, by the same rules as for a model's call.",
            parameters=(_TOOL_NAME, SESSION_PARAMETER),
            body=HandCall,
            answer=ToolAnswerJson,
            problems=(409, *STARTING),
        )
    },
}


class OfferedTool(Struct):
    """A tool with its origin and the models that offer it."""

    tool: Tool
    origin: str
    """`gateway`, `mcp:SERVER` or `worker:SESSION`."""
    models: list[ServedModel]

    def fields(self, calls: ToolCallsJson) -> ToolJson:
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
            "calls": calls,
        }


class ToolRoutes:
    """Endpoints that list, show and call tools."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, request: Request) -> Response:
        exchange = exchange_of(request.scope)
        tools = await offered_tools(self._gateway, exchange)
        calls = await _calls_of(self._gateway, exchange.owner)
        data = [_fields(tool, calls[name]) for name, tool in tools.items()]
        return json_response({"object": "list", "data": data})

    async def show(self, request: Request) -> Response:
        exchange, name = exchange_of(request.scope), request.path_params["name"]
        tool = await offered_tool(self._gateway, exchange, name)
        return json_response(_fields(tool, (await _calls_of(self._gateway, exchange.owner))[name]))

    async def call(self, request: Request) -> Response:
        """Runs the tool and returns its result. A client that disconnects cancels the call."""
        gateway, exchange = self._gateway, exchange_of(request.scope)
        await gateway.admission.count(exchange.key)
        offered = await offered_tool(gateway, exchange, request.path_params["name"])
        limits = gateway.config.limits
        body = await read_body(request.scope, request.receive, limits.max_body_bytes)
        call = await by_size(len(body), read_as, HandCall, body, "a call", limits.max_json_depth)
        if offered.tool.options.approve and not call.approved:
            message = 'This tool needs approval: send "approved": true.'
            raise Refused(Problem(409, message, "approval_needed", "approved"))
        model = offered.models[0].config
        exchange.model = model.name
        gone = functools.partial(disconnected, request.receive)
        leave = await gateway.admission.enter(exchange.key, model, gone)
        try:
            if gateway.draining:  # the shutdown began while the request was queued
                raise Refused(SHUTTING_DOWN)
            answer = await gateway.manual_calls.run(
                offered.tool, call, model=model, owner=exchange.owner, disconnected=gone
            )
        finally:
            leave()
        return await any_json_response(answer)


async def offered_tools(
    gateway: Gateway, exchange: Exchange, only: str | None = None
) -> dict[str, OfferedTool]:
    """The tools of this key by name; with `only`, the tool of that name.

    If two tools have the same name, the tool of the first model wins. Raises `Refused` if the
    request names a session that its key may not use, or the gateway has no workers.
    """
    session = exchange.header(SESSION_HEADER)
    gateway.sessions.check_key(exchange.key, session)
    catalog = gateway.registry
    models = [catalog.models[name] for name in catalog.names(exchange.key)]
    models = [served for served in models if served.config.function_calling]
    sessions = [name for served in models for name in sessions_of(served, session)]
    remote = await gateway.sessions.by_session(sessions)
    found: dict[str, OfferedTool] = {}
    for served in models:
        workers = {name: remote.get(name, ()) for name in sessions_of(served, session)}
        own = await gateway.registry.tools_of(served, exchange.owner)
        for tool, origin in _tools_of(gateway, own, workers, only):
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


def _tools_of(
    gateway: Gateway,
    offered: Iterable[Tool],
    workers: Mapping[str, Iterable[Tool]],
    only: str | None,
) -> list[tuple[Tool, str]]:
    """The tools of a run of this model, with their origins. The gateway's own take precedence."""
    own = _selected(offered, only)
    names = {tool.name for tool in own}
    tools = [
        (tool, _origin(tool.name, gateway))
        for tool in own
        if isinstance(tool.declaration, FunctionDeclaration)
    ]
    for session, remote in workers.items():
        tools += [(tool, f"worker:{session}") for tool in _selected(remote, only, names)]
    return tools


async def _calls_of(gateway: Gateway, owner: str) -> dict[str, list[CallSummary]]:
    """The calls of this key's newest runs and its manual calls, by tool name."""
    calls: dict[str, list[CallSummary]] = defaultdict(list)
    for run in await NewestRuns(gateway, owner).page(MAX_RUNS):
        summary = await gateway.summaries.of(run)
        for call in summary.calls if summary else ():
            if call.outcome is not None:
                calls[call.name].append(call)
    for call in gateway.manual_calls.of(owner):
        calls[call.name].append(call)
    return calls


def _fields(tool: OfferedTool, calls: Iterable[CallSummary]) -> ToolJson:
    newest = sorted(calls, key=lambda call: call.time, reverse=True)
    return tool.fields(
        {
            "count": len(newest),
            "failures": sum(call.failed for call in newest),
            "last": [_call_fields(call) for call in newest[:MAX_CALLS]],
        }
    )


def _call_fields(call: CallSummary) -> LastCallJson:
    fields = msgspec.structs.asdict(call)
    del fields["name"]
    return cast("LastCallJson", fields)


def _selected(tools: Iterable[Tool], only: str | None, taken: Collection[str] = ()) -> list[Tool]:
    return [tool for tool in tools if only in (None, tool.name) and tool.name not in taken]


def _origin(name: str, gateway: Gateway) -> str:
    server, separator, _ = name.partition(SEPARATOR)
    return f"mcp:{server}" if separator and server in gateway.config.mcp else GATEWAY_ORIGIN
