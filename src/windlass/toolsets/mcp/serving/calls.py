"""One call of an MCP client: its request, its questions, its progress and log messages."""

import asyncio
import contextvars
import copy
import logging
import warnings
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol, TypeAlias, cast, get_args

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from windlass.content import FunctionCall, FunctionResponse
from windlass.jsontext import compact_json
from windlass.tool import Tool

Request: TypeAlias = ServerRequestContext[Any, Any]
Send: TypeAlias = Callable[[], Awaitable[None]]

APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "description": "Whether it may run."}},
    "required": ["approve"],
}
QUESTION = ":question"
"""The suffix of the name of a call that is a question of a tool."""
_LEVELS: dict[int, types.LoggingLevel] = {
    logging.CRITICAL: "critical",
    logging.ERROR: "error",
    logging.WARNING: "warning",
    logging.INFO: "info",
    logging.DEBUG: "debug",
}
SEVERITIES: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""The levels of MCP, from the lowest."""
_OWN_LOGGERS = ("windlass", "mcp", "asyncio", "uvicorn", "httpx")


class ServedCall:
    """A call of an MCP client. Entering it sends progress and log messages, in order."""

    def __init__(
        self,
        context: Request,
        params: types.CallToolRequestParams,
        least: types.LoggingLevel = "info",
    ) -> None:
        """`least` is the lowest level of log messages for a client with a handshake."""
        self.context, self.params = context, params
        self._least = SEVERITIES.index(least)
        self.result: types.Result | None = None
        """The result of a tool that returns MCP's own."""
        self.error: MCPError | None = None
        """The error of a tool that raises MCP's own."""
        self._queue: asyncio.Queue[Send | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._sent = 0.0

    @property
    def arguments(self) -> str:
        return compact_json(self.params.arguments or {})

    @property
    def is_modern(self) -> bool:
        """Whether questions are results, which the client answers by repeating the call."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def can_ask(self) -> bool:
        """Whether the client can ask its user."""
        capabilities = self.context.session.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    def report(self, fraction: float | None, message: str | None, data: Any) -> None:
        """Sends progress. Takes the arguments of `ToolContext.progress`, in the event loop."""
        if fraction is not None:
            self._progress(fraction, 1.0, message)
            return
        # MCP requires an increasing number: a report without one gets the next.
        known = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        number = known.get("progress")
        self._sent = float(number) if isinstance(number, int | float) else self._sent + 1
        self._progress(self._sent, None, message)

    def _progress(self, done: float, total: float | None, message: str | None) -> None:
        async def send() -> None:
            await self.context.session.report_progress(done, total, message)

        self._queue.put_nowait(send)

    def log(self, level: types.LoggingLevel, text: str, logger: str | None) -> None:
        """Sends a log message. May be called from any thread."""
        context = self.context
        if not self.is_modern and SEVERITIES.index(level) < self._least:
            return  # in newer versions, each request says what it wants

        async def send() -> None:
            session: Any = context.session
            with warnings.catch_warnings():
                # Deprecated in 2026-07-28, where a request must ask for it.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                sending = session.send_log_message(
                    level, text, logger, related_request_id=context.request_id
                )
            await sending

        self._loop.call_soon_threadsafe(self._queue.put_nowait, send)

    async def ask(self, question: FunctionCall) -> "UserDecision":
        """Asks the user of a client with a handshake. Denied if the client cannot ask."""
        if self.is_modern or not self.can_ask:
            return UserDecision(approved=False)
        params = question_of(question)
        session, related = self.context.session, self.context.request_id
        if isinstance(params, types.ElicitRequestURLParams):
            result = await session.elicit_url(
                params.message, params.url, params.elicitation_id or question.id, related
            )
        else:
            result = await session.elicit_form(params.message, params.requested_schema, related)
        return answer_of(question, result)

    async def __aenter__(self) -> "ServedCall":
        self._task = asyncio.create_task(self._relay())
        self._token = _call.set(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _call.reset(self._token)
        await asyncio.sleep(0)  # log messages of other threads
        self._queue.put_nowait(None)
        if isinstance(error, asyncio.CancelledError):
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _relay(self) -> None:
        while (send := await self._queue.get()) is not None:
            await send()


_call: contextvars.ContextVar[ServedCall | None] = contextvars.ContextVar(
    "mcp_served_call", default=None
)


def current_call() -> tuple[Request, types.CallToolRequestParams] | None:
    """The MCP request that the tool is answering; None outside a `ToolServer`."""
    call = _call.get()
    return None if call is None else (call.context, call.params)


class ToolHost(Protocol):
    """Provides the tools of a server, and runs their calls."""

    async def tools(self, context: Request) -> list[Tool]:
        """The tools that this request may use."""
        ...

    async def run(
        self, tool: Tool, call: ServedCall
    ) -> FunctionResponse | types.InputRequiredResult:
        """Runs a call. Raises `ToolError`, for the model, and `MCPError`, for the client."""
        ...

    async def resources(self, context: Request) -> list[types.Resource]:
        """The stored results that this request may read."""
        ...

    async def read(self, context: Request, uri: str) -> FunctionResponse | None:
        """The stored result at this address; None if there is none."""
        ...

    def version(self) -> object:
        """A value that changes when the tools change."""
        ...


class ClientLog(logging.Handler):
    """Sends the log messages of a running tool to the client that called it."""

    def emit(self, record: logging.LogRecord) -> None:
        call = _call.get()
        if call is None or record.name.partition(".")[0] in _OWN_LOGGERS:
            return
        levels: list[types.LoggingLevel] = [
            name for least, name in _LEVELS.items() if record.levelno >= least
        ]
        call.log(levels[0] if levels else "debug", record.getMessage(), record.name)


def captured(tool: Tool, call: ServedCall) -> Tool:
    """The tool, changed so that the call receives MCP results and errors of its function."""
    function: Any = tool.function
    made = copy.copy(tool)

    def keep(value: Any) -> Any:
        if isinstance(value, types.Result):
            call.result = value
        return value

    async def run_async(**arguments: Any) -> Any:
        try:
            return keep(await function(**arguments))
        except MCPError as error:
            call.error = error
            raise

    def run(**arguments: Any) -> Any:
        try:
            return keep(function(**arguments))
        except MCPError as error:
            call.error = error
            raise

    vars(made)["function"] = run_async if tool.is_async else run
    return made


class UserDecision:
    """The decision of a client's user."""

    def __init__(self, *, approved: bool, arguments: dict[str, Any] | None = None) -> None:
        self.approved, self.arguments = approved, arguments


def question_of(call: FunctionCall) -> types.ElicitRequestParams:
    """The question for the user of a client: a tool's own question, or whether a call may run."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    message, url, schema = (arguments.get(name) for name in ("message", "url", "schema"))
    if call.name.endswith(QUESTION) and isinstance(message, str):
        if isinstance(url, str):
            return types.ElicitRequestURLParams(message=message, url=url, elicitation_id=call.id)
        if isinstance(schema, dict):
            form = cast("dict[str, Any]", schema)
            return types.ElicitRequestFormParams(message=message, requested_schema=form)
    text = f"Run {call.name} with {compact_json(arguments)[:2000]}?"
    return types.ElicitRequestFormParams(message=text, requested_schema=APPROVAL_SCHEMA)


def answer_of(call: FunctionCall, result: types.ElicitResult) -> UserDecision:
    """The decision that a user's answer to `question_of` means."""
    if result.action != "accept":
        return UserDecision(approved=False)
    params = question_of(call)
    if isinstance(params, types.ElicitRequestURLParams):
        return UserDecision(approved=True)
    content = cast("dict[str, Any]", result.content or {})
    if call.name.endswith(QUESTION) and params.requested_schema != APPROVAL_SCHEMA:
        return UserDecision(approved=True, arguments=content)
    return UserDecision(approved=content.get("approve") is True)
