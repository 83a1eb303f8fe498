"""`/mcp`: the gateway's tools for MCP clients. Each call is a run.

The protocol with sessions does not let a lost connection cancel a call. But a program that has
exited cancels nothing, and no later connection could get the result. So the gateway stops the runs
of a session when it has had no connection for some seconds.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from windlass.content import FunctionCall, FunctionResponse, new_call_id
from windlass.errors import ConfigError, RunNotFound
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RunEnded,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
)
from windlass.gateway.config.tool_loading import mcp_extras
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Exchange, Receive, Scope, Send, exchange_of
from windlass.gateway.http.errors import Refused
from windlass.gateway.routes.runs import NewestRuns
from windlass.gateway.routes.tools import OfferedTool, offered_tools
from windlass.gateway.runs.run import GatewayRun
from windlass.settings import state_directory
from windlass.tool import Tool
from windlass.toolsets.mcp.oauth import derived_key
from windlass.toolsets.mcp.serving.calls import Request, ServedCall, answer_of, question_of
from windlass.toolsets.mcp.serving.prompts import PromptFolder
from windlass.toolsets.mcp.serving.results import RESULT_URI, result_resource
from windlass.toolsets.mcp.serving.server import ToolServer

log = logging.getLogger("windlass.gateway")

WIRE = "mcp"
REFUSED = -32000
"""The error code of a request that the gateway refuses."""
MAX_RUNS = 50
"""How many of the newest runs are searched for results."""
MAX_WAITING = 1000
"""The maximum number of calls that wait for their users; some clients never return to a call."""
NOT_WAITING = "The call does not wait for an answer any more."
_STATE = "windlass-run:"
"""The start of the state of a call that waits for an answer of its user."""


class GatewayTools:
    """The tools of a gateway. A request gets the tools of its key's models."""

    def __init__(self, gateway: Gateway, *, every: bool = False) -> None:
        """With `every`, a request without a key also gets tools that no model offers."""
        self._gateway, self._every = gateway, every
        self._waiting: dict[str, ServedCall] = {}
        """The first calls of runs that wait for their users, by run id."""

    async def tools(self, context: Request) -> list[Tool]:
        return [offered.tool for offered in (await self._offered(context)).values()]

    def version(self) -> object:
        return self._gateway.registry.servers.version()

    async def run(
        self, tool: Tool, call: ServedCall
    ) -> FunctionResponse | types.InputRequiredResult:
        """Runs a call, or continues the run that waited for its user. Raises `MCPError`."""
        state = call.params.request_state or ""
        if state.startswith(_STATE):
            run, after = await self._continued(state.removeprefix(_STATE), tool, call)
        else:
            run, after = await self._started(tool, call), 0
        request = call.context.request
        try:
            with session_of(request.scope if request else {}).calling(run):
                return await self._answer(run, call, after)
        except asyncio.CancelledError:
            await run.stop()
            raise

    async def resources(self, context: Request) -> list[types.Resource]:
        gateway, found = self._gateway, list[types.Resource]()
        for run in await NewestRuns(gateway, exchange_in(context).owner).page(MAX_RUNS):
            summary = await gateway.summaries.of(run)
            for call in summary.calls if summary else ():
                if call.outcome == "ok":
                    uri = RESULT_URI.format(run_id=run.id, call_id=call.call_id)
                    found.append(result_resource(uri, call.name))
        return found

    async def read(self, context: Request, uri: str) -> FunctionResponse | None:
        run_id, found, call_id = uri.removeprefix("windlass://runs/").partition("/results/")
        if not found or not uri.startswith("windlass://runs/"):
            return None
        try:
            run = await self._gateway.find(run_id, exchange_in(context).owner)
            events = await run.recorded()
        except RunNotFound:
            return None
        ends = (event for event in events if isinstance(event, ToolRunEnded))
        return next((end.response for end in ends if end.response.id == call_id), None)

    async def _offered(self, context: Request) -> dict[str, OfferedTool]:
        exchange = exchange_in(context)
        try:
            found = await offered_tools(self._gateway, exchange)
        except Refused as refused:
            raise _error(refused) from None
        registry = self._gateway.registry
        if self._every and exchange.key is None and registry.models:
            first = next(iter(registry.models.values()))
            for name, tool in registry.tools.items():
                found.setdefault(name, OfferedTool(tool, "gateway", [first]))
        return found

    async def _started(self, tool: Tool, call: ServedCall) -> GatewayRun:
        gateway, exchange = self._gateway, exchange_in(call.context)
        offered = (await self._offered(call.context)).get(tool.name)
        if offered is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {tool.name}")
        asked = FunctionCall(tool.name, call.arguments, new_call_id())
        try:
            await gateway.admission.count(exchange.key)
            return await gateway.start_call(asked, tool, offered.models[0], exchange, WIRE)
        except Refused as refused:
            raise _error(refused) from None

    async def _continued(self, state: str, tool: Tool, call: ServedCall) -> tuple[GatewayRun, int]:
        """The waiting run, with the answers of the call, and the number of its last read event."""
        run_id, _, after = state.partition(":")
        try:
            run = self._gateway.runs.get(run_id)
        except RunNotFound:
            return await self._repeated(run_id, tool, call)
        owner = exchange_in(call.context).owner
        if not isinstance(run, GatewayRun) or run.owner != owner or not after.isdigit():
            raise MCPError(types.INVALID_PARAMS, NOT_WAITING)
        for event in run.log.recorded():
            if isinstance(event, ApprovalRequested):
                given = (call.params.input_responses or {}).get(event.call.id)
                if isinstance(given, types.ElicitResult):
                    answer = answer_of(event.call, given)
                    run.approve(event.call.id, answer.approved, arguments=answer.arguments)
        return run, int(after)

    async def _repeated(self, run_id: str, tool: Tool, call: ServedCall) -> tuple[GatewayRun, int]:
        """A new run for a call that waited for its approval when the gateway was stopped.

        The tool of such a call had not started. Other calls of an earlier process cannot be
        continued, nor calls of a run that still waits in another gateway.
        """
        try:
            stored = await self._gateway.find(run_id, exchange_in(call.context).owner)
            events = await stored.recorded()
        except RunNotFound:
            events = ()
        questions = [event.call for event in events if isinstance(event, ApprovalRequested)]
        decided = any(isinstance(event, ApprovalResolved | ToolRunStarted) for event in events)
        ended = bool(questions) and any(isinstance(event, RunEnded) for event in events)
        given = (call.params.input_responses or {}).get(questions[0].id) if questions else None
        waited = ended and not decided and _is_same(questions[0], call)
        if not waited or not isinstance(given, types.ElicitResult):
            raise MCPError(types.INVALID_PARAMS, NOT_WAITING)
        run = await self._started(tool, call)
        async for event in run.events():
            if isinstance(event, ApprovalRequested):
                answer = answer_of(event.call, given)
                run.approve(event.call.id, answer.approved, arguments=answer.arguments)
                return run, event.seq
        return run, 0

    async def _answer(
        self, run: GatewayRun, call: ServedCall, after: int
    ) -> FunctionResponse | types.InputRequiredResult:
        """The result of the run's call, or the question that the client must answer first."""
        asking: set[asyncio.Task[None]] = set()
        response: FunctionResponse | None = None
        try:
            async for event in run.events(after):
                match event:
                    case ToolRunProgress():
                        call.report(event.progress, event.message, event.data)
                    case ApprovalRequested() if call.is_modern and call.can_ask:
                        self._wait(run, call)
                        return _question(run, event)
                    case ApprovalRequested() if call.can_ask:
                        asking.add(asyncio.create_task(_ask(run, call, event.call)))
                    case ApprovalRequested():
                        call.report(None, f"The run {run.id} waits for approval.", None)
                    case ToolRunEnded():
                        response = event.response
                    case RunEnded():
                        break
                    case _:
                        pass
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        first = self._waiting.pop(run.id, None)
        if first is not None:
            call.result, call.error = first.result, first.error
        if response is None:
            await asyncio.wait([run.task])
            problem = run.problem()
            raise MCPError(REFUSED, problem.message if problem else "The call did not run.")
        return response

    def _wait(self, run: GatewayRun, call: ServedCall) -> None:
        self._waiting.setdefault(run.id, call)
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]


def _question(run: GatewayRun, event: ApprovalRequested) -> types.InputRequiredResult:
    request = types.ElicitRequest(params=question_of(event.call))
    return types.InputRequiredResult(
        input_requests={event.call.id: request}, request_state=f"{_STATE}{run.id}:{event.seq}"
    )


def _is_same(asked: FunctionCall, call: ServedCall) -> bool:
    """Whether a client has repeated the call that its user has approved."""
    return asked.name == call.params.name and asked.arguments == (call.params.arguments or {})


async def _ask(run: GatewayRun, call: ServedCall, question: FunctionCall) -> None:
    answer = await call.ask(question)
    run.approve(question.id, answer.approved, arguments=answer.arguments)


def exchange_in(context: Request) -> Exchange:
    """The HTTP exchange of a request; over stdio, one without a key."""
    if context.request is None:
        return Exchange({"headers": []})
    return exchange_of(context.request.scope)


def _error(refused: Refused) -> MCPError:
    problem = refused.problem
    data = {"status": problem.status, "code": problem.code, "retryAfter": problem.retry_after}
    given = {name: value for name, value in data.items() if value is not None}
    return MCPError(REFUSED, problem.message, given)


def bind_session(scope: Scope, owner: str) -> None:
    """Binds a session to the key that opens it: the SDK compares the users."""
    scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[]))


def tool_server(gateway: Gateway, *, name: str = "windlass", every: bool = False) -> ToolServer:
    """The MCP server of a gateway, for any transport. Raises `ConfigError`."""
    from windlass import __version__

    config = gateway.config
    folder = config.prompts
    return ToolServer(
        GatewayTools(gateway, every=every),
        name=name,
        version=__version__,
        prompts=PromptFolder(config.base / folder) if folder else None,
        extras=mcp_extras(config.tool_modules, config.base),
        owner_of=lambda context: exchange_in(context).owner or None,
        state_key=_state_key(gateway),
    )


def _state_key(gateway: Gateway) -> bytes | None:
    """The key for the state of waiting calls. If they are stored, it survives a restart."""
    if gateway.service.log is None:
        return None
    try:
        return derived_key(state_directory(), b"mcp request state")
    except ConfigError as error:
        log.warning("MCP calls that wait for an approval do not survive a restart: %s", error)
        return None


class McpEndpoint:
    """Serves the gateway's tools over streamable HTTP. It starts with the first request."""

    def __init__(self, gateway: Gateway, server: ToolServer) -> None:
        self._gateway = gateway
        self._manager = StreamableHTTPSessionManager(
            server, max_request_body_size=gateway.config.limits.max_body_bytes
        )
        self._sessions = McpSessions()
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._ready.wait()
        if owner := exchange_of(scope).owner:
            bind_session(scope, owner)
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        with self._sessions.connection(scope):
            if _only_listens(scope):
                async with self._until_drained(receive) as receive:
                    await self._manager.handle_request(scope, receive, send)
            else:
                await self._manager.handle_request(scope, receive, send)

    async def aclose(self) -> None:
        """Ends all sessions."""
        self._stop.set()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._stop.wait()

    @contextlib.asynccontextmanager
    async def _until_drained(self, receive: Receive) -> AsyncGenerator[Receive]:
        """A `receive` that ends an open stream when the gateway shuts down."""
        drained = asyncio.create_task(self._gateway.on_drained.wait())

        async def receive_or_end() -> Any:
            received = asyncio.ensure_future(receive())
            try:
                await asyncio.wait((received, drained), return_when=asyncio.FIRST_COMPLETED)
                return await received if received.done() else {"type": "http.disconnect"}
            finally:
                received.cancel()

        try:
            yield receive_or_end
        finally:
            drained.cancel()


def _only_listens(scope: Scope) -> bool:
    """Whether the request is a stream of notifications, which stays open until one side ends it."""
    headers = scope["headers"]
    return scope["method"] == "GET" or (b"mcp-method", b"subscriptions/listen") in headers


def endpoint(gateway: Gateway, server: ToolServer | None) -> McpEndpoint:
    """The endpoint of a running gateway. Raises `ConfigError`."""
    return McpEndpoint(gateway, server or tool_server(gateway))


GONE_SECONDS = 5.0
"""How long a session with calls may be without a connection."""
_HEADER = b"mcp-session-id"
_SESSION = "windlass.mcp_session"


class McpSession:
    """The open connections of one session, and its running calls."""

    def __init__(self, forget: Callable[[], object]) -> None:
        """`forget` is called when it has neither connections nor calls."""
        self._forget = forget
        self._connections = 0
        self._runs: set[GatewayRun] = set()
        self._waiting: asyncio.Task[None] | None = None

    @contextmanager
    def calling(self, run: GatewayRun) -> Generator[None]:
        self._runs.add(run)
        try:
            yield
        finally:
            self._runs.discard(run)
            self._forget_unused()

    def connected(self) -> None:
        self._connections += 1
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def disconnected(self) -> None:
        self._connections -= 1
        if self._runs and not self._connections:
            self._waiting = asyncio.create_task(self._stop_later())
        self._forget_unused()

    def _forget_unused(self) -> None:
        if not self._connections and not self._runs:
            self._forget()

    async def _stop_later(self) -> None:
        await asyncio.sleep(GONE_SECONDS)
        for run in list(self._runs):
            log.info("run stopped: its MCP client disconnected", extra={"run_id": run.id})
            await run.stop()


class McpSessions:
    """The sessions of an endpoint, by their ids."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, McpSession] = {}

    @contextmanager
    def connection(self, scope: Scope) -> Generator[None]:
        """Counts a request of a session, if it names one."""
        name = next((value for header, value in scope["headers"] if header == _HEADER), None)
        if name is None:
            yield
            return
        session = self._sessions.get(name)
        if session is None:
            session = McpSession(lambda: self._sessions.pop(name, None))
            self._sessions[name] = session
        scope[_SESSION] = session
        session.connected()
        try:
            yield
        finally:
            session.disconnected()


def session_of(scope: Scope) -> McpSession:
    """The session of a request; an empty one if it has none."""
    return scope.get(_SESSION) or McpSession(lambda: None)
