"""`/v1/tools`: the tools that a key may use, their last calls, and manual calls."""

import functools
from collections import defaultdict
from collections.abc import Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import disconnected, exchange_of, json_response, read_body
from windlass.gateway.http.errors import SHUTTING_DOWN, Refused
from windlass.gateway.routes.run_list import NewestRuns
from windlass.gateway.routes.tool_list import OfferedTool, offered_tool, offered_tools
from windlass.gateway.tools.call_summary import CallSummary
from windlass.gateway.tools.manual_calls import HandCall
from windlass.jsontext import by_size
from windlass.wires.body import read_as
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

MAX_RUNS = 200
"""How many of the newest runs are searched for calls."""
MAX_CALLS = 20
"""How many of a tool's calls are shown."""


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
            answer = await gateway.hand_calls.run(
                offered.tool, call, model=model, owner=exchange.owner, gone=gone
            )
        finally:
            leave()
        return json_response(answer)


async def _calls_of(gateway: Gateway, owner: str) -> dict[str, list[CallSummary]]:
    """The calls of this key's newest runs and its manual calls, by tool name."""
    calls: dict[str, list[CallSummary]] = defaultdict(list)
    for run in await NewestRuns(gateway, owner).page(MAX_RUNS):
        summary = await gateway.summaries.of(run)
        for call in summary.calls if summary else ():
            if call.outcome is not None:
                calls[call.name].append(call)
    for call in gateway.hand_calls.of(owner):
        calls[call.name].append(call)
    return calls


def _fields(tool: OfferedTool, calls: Iterable[CallSummary]) -> JsonObject:
    newest = sorted(calls, key=lambda call: call.time, reverse=True)
    summary = {
        "count": len(newest),
        "failures": sum(call.failed for call in newest),
        "last": [_call_fields(call) for call in newest[:MAX_CALLS]],
    }
    return {**tool.fields(), "calls": summary}


def _call_fields(call: CallSummary) -> JsonObject:
    fields = msgspec.structs.asdict(call)
    del fields["name"]
    return fields
