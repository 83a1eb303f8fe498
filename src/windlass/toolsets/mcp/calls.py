"""Calls of an MCP server's tools: progress, timeouts, elicitation, and conversion of results."""

import asyncio
import base64
import binascii
import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypeAlias, TypeVar, assert_never, cast

import jsonschema_rs
import mcp_types as types
from mcp import MCPError
from mcp.client._input_required import InputRequiredRoundsExceededError
from pydantic import ValidationError

from windlass.content import (
    FunctionCall,
    FunctionResponse,
    InlineData,
    Part,
    PrivateText,
    Schema,
)
from windlass.errors import ConfigError, ToolError
from windlass.jsontext import compact_json
from windlass.tool.signature import ApprovalOutcome as Decision
from windlass.tool.signature import ToolContext
from windlass.toolsets.mcp.connection import (
    REMEDIES,
    McpConnection,
    ServerDown,
    ServerKeeper,
    run_in_background,
)
from windlass.toolsets.mcp.options import ServerOptions
from windlass.toolsets.mcp.pins import Pin
from windlass.toolsets.mcp.sampling import (
    SamplingBudget,
    messages_of,
    sampling_call,
    sampling_result,
)

T = TypeVar("T")

log = logging.getLogger("windlass.mcp")

MAX_LOG_CHARS = 2_000
"""The maximum length of a server's log message in a run's log."""


def elicit_call(tool: str, params: types.ElicitRequestParams) -> FunctionCall:
    """The server's question as a call for the approver: a form with its defaults."""
    shown: dict[str, Any] = {"message": params.message}
    match params:
        case types.ElicitRequestURLParams():
            shown["url"] = params.url
        case types.ElicitRequestFormParams():
            shown["answer"] = _defaults(params.requested_schema)
            shown["schema"] = params.requested_schema
    return Part.from_function_call(f"{tool}:question", shown)


def elicit_result(
    params: types.ElicitRequestParams, approved: bool, arguments: dict[str, Any] | None
) -> types.ElicitResult:
    """The response to the server. An accepted form must match its schema."""
    if not approved:
        return types.ElicitResult(action="decline")
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    schema = params.requested_schema
    content = {**_defaults(schema), **_form_answers(arguments or {})}
    if not _matches(content, schema):
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=content)


def change_call(tool: str, was: Pin, now: Pin) -> FunctionCall:
    """A tool's changed description as a call that an approver can decide about."""
    shown: dict[str, Any] = {"message": f"The description of {tool} has changed. Use the new one?"}
    if was.description != now.description:
        shown["was"], shown["now"] = was.description, now.description
    if was.parameters != now.parameters:
        shown["parameters_were"], shown["parameters_now"] = was.parameters, now.parameters
    return Part.from_function_call(f"{tool}:changed", shown)


def _form_answers(arguments: dict[str, Any]) -> dict[str, Any]:
    """The form: `arguments`, or the field `answer` of the call that the approver edited."""
    answer = arguments.get("answer")
    if "message" in arguments and isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    return arguments


def _defaults(schema: Schema) -> dict[str, Any]:
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    return {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, dict) and "default" in field
    }


def _matches(content: dict[str, Any], schema: Schema) -> bool:
    try:
        return jsonschema_rs.is_valid(schema, content)
    except ValueError:  # the server's schema is invalid: accept everything
        return True


ResultItem: TypeAlias = "str | dict[str, Any] | InlineData"


def value_of(result: types.CallToolResult) -> object:
    """The tool's value: its structured content, else its single item, else a list of its items.

    Raises `ToolError` with the tool's message if the tool reports a failure.
    """
    items = [_item(block) for block in result.content]
    if result.is_error:
        words = "\n".join(item for item in items if isinstance(item, str))
        raise ToolError(words or "the tool failed without a message")
    if result.structured_content is not None:
        media = tuple(item for item in items if isinstance(item, InlineData))
        if not media:
            return result.structured_content
        value = _without_media(result.structured_content, _labels(result.content))
        return FunctionResponse("", {"output": value}, parts=media)
    if len(items) == 1:
        return items[0]
    return items or ""


def _labels(content: Sequence[types.ContentBlock]) -> dict[str, str]:
    """The texts that replace media, by the base64 of the media."""
    media = [
        block for block in content if isinstance(block, types.ImageContent | types.AudioContent)
    ]
    return {block.data: f"[{block.mime_type}]" for block in media}


def _without_media(value: Any, labels: dict[str, str]) -> Any:
    """The value without the base64 of media, which are parts already."""
    match value:
        case str():
            return labels.get(value, value)
        case list():
            items = cast("list[Any]", value)
            return [_without_media(item, labels) for item in items]
        case dict():
            fields = cast("dict[str, Any]", value)
            return {name: _without_media(item, labels) for name, item in fields.items()}
        case _:
            return value


def requires_task(tool: types.Tool) -> bool:
    """Whether the tool runs only as a task, which is not supported."""
    return tool.execution is not None and tool.execution.task_support == "required"


def _item(block: types.ContentBlock) -> ResultItem:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _medium(block.data, block.mime_type)
        case types.ResourceLink():
            return _link(block)
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return {"uri": str(resource.uri), "text": resource.text}
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _medium(resource.blob, resource.mime_type or "application/octet-stream")
        case types.EmbeddedResource():
            raise ToolError("the tool returned an embedded resource of an unknown type")
        case _:
            assert_never(block)


def _medium(data: str, mime_type: str) -> InlineData:
    try:
        return InlineData(base64.b64decode(data, validate=True), mime_type)
    except (binascii.Error, ValueError):
        raise ToolError(f"the tool returned {mime_type} data that is not valid base64") from None


def _link(link: types.ResourceLink) -> dict[str, Any]:
    """The link as an object. A model's provider cannot fetch a resource of the server."""
    known = {
        "uri": str(link.uri),
        "name": link.name,
        "description": link.description,
        "mimeType": link.mime_type,
    }
    return {name: value for name, value in known.items() if value is not None}


class _RunningCall:
    """A running call: its timeout, the context of its run, and what happened to its request."""

    def __init__(self, tool: str, context: ToolContext, home: asyncio.AbstractEventLoop) -> None:
        self.tool, self._context, self.home = tool, context, home
        self.run: object = context.run_id or self
        """Identifies the run. A call outside a run counts as its own run."""
        self.clock = asyncio.timeout(None)
        self._seconds = 0.0
        self.connection: McpConnection | None = None
        self.status = 0
        """The status of the HTTP response that refused the request."""
        self.refused = False
        """Whether the request could not be sent: the tool did not run."""
        self.abandoned_at = 0.0

    def restart_timeout(self, seconds: float | None = None) -> None:
        """Restarts the timeout."""
        self._seconds = self._seconds if seconds is None else seconds
        self.clock.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.restart_timeout()
        fraction = progress / total if total else None
        data = None if total else {"progress": progress}
        self._context.report(fraction, message, data)

    def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        """Adds a log message of the server to the run's log."""
        said = params.data if isinstance(params.data, str) else compact_json(params.data)
        message = said[:MAX_LOG_CHARS]
        data = {"log": {"level": params.level, "logger": params.logger}}
        self._context.report(None, message, data)

    async def ask(self, question: FunctionCall) -> Decision:
        """Asks the approver. Call it in the run's event loop."""
        return await self._context.ask(question)


class _CallingRun:
    """The run that caused a request of the server, with the calls that can have caused it."""

    def __init__(self, calls: Sequence[_RunningCall], label: str) -> None:
        self._calls, self._label = calls, label

    @property
    def tool(self) -> str:
        """The name of the asking tool, or of the server if several tools can be asking."""
        tools = {call.tool for call in self._calls}
        return tools.pop() if len(tools) == 1 else self._label

    async def ask(self, question: FunctionCall) -> Decision:
        """Asks the approver of the run."""
        return await self.at_home(self._calls[-1].ask(question))

    def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        self._calls[-1].logged(params)

    @property
    def run(self) -> object:
        return self._calls[-1].run

    async def at_home(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits the work in the event loop of the run, and pauses the timeouts of its calls."""
        for call in self._calls:
            call.clock.reschedule(None)
        try:
            home = self._calls[-1].home
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))
        finally:
            for call in self._calls:
                with contextlib.suppress(RuntimeError):  # the call has ended
                    call.restart_timeout()


class _NotRun(Exception):
    """The call did not reach the tool, so it can be sent again."""


_current: contextvars.ContextVar[_RunningCall | None] = contextvars.ContextVar(
    "mcp_call", default=None
)
"""The call in whose stream a message arrived."""
_possible: contextvars.ContextVar[tuple[_RunningCall, ...]] = contextvars.ContextVar(
    "mcp_possible_calls", default=()
)
"""The calls that were unanswered when a message arrived."""


class McpCalls:
    """The running calls of one server. Runs on the background loop."""

    def __init__(self, server: ServerOptions, *, supervisor: ServerKeeper | None = None) -> None:
        self._server = server
        self._running: list[_RunningCall] = []
        self._abandoned: list[_RunningCall] = []
        """Cancelled and timed-out calls, which the server can still be busy with."""
        self._budget = SamplingBudget(server.sampling_tokens)
        self.supervisor = supervisor or ServerKeeper(server, self)

    async def call(
        self,
        name: str,
        tool: str,
        arguments: dict[str, Any],
        context: ToolContext,
        home: asyncio.AbstractEventLoop,
    ) -> object:
        """The value of a call. `name` is the server's name for the tool. Raises `ToolError`."""
        call = _RunningCall(tool, context, home)
        with self._tracked(call):
            try:
                return await self._answer(call, name, arguments)
            except _NotRun:
                return await self._answer(call, name, arguments)

    async def _answer(self, call: _RunningCall, name: str, arguments: dict[str, Any]) -> object:
        connection = call.connection = await self._connection()
        call.clock = asyncio.timeout(None)
        try:
            async with call.clock:
                call.restart_timeout(self._server.timeout)
                result = await connection.client.call_tool(
                    name, arguments, progress_callback=call.progressed
                )
        except asyncio.CancelledError:
            self._abandon(call)
            raise
        except (MCPError, TimeoutError, ValidationError, RuntimeError) as error:
            await self._handle_failure(error, call, connection)
            raise self._tool_error(error, call) from None
        if _size(result) > self._server.max_result_bytes:
            limit = self._server.max_result_bytes
            raise ToolError(f"The result of {call.tool} is larger than {limit} bytes.")
        return value_of(result)

    async def _connection(self) -> McpConnection:
        try:
            return await self.supervisor.connection()
        except ServerDown as down:
            # The rest of the reason has addresses and paths; it is logged.
            reason = str(down).partition(":")[0]
            raise ToolError(
                f"The MCP server {self.supervisor.label!r} is not available: it {reason}."
                " The tool was not run.",
                retryable=True,
            ) from None
        except ConfigError as error:
            log.warning("%s", error)
            raise ToolError(
                f"The MCP server {self.supervisor.label!r} is not available. The tool was not run.",
                retryable=True,
            ) from None

    async def _handle_failure(
        self, error: Exception, call: _RunningCall, connection: McpConnection
    ) -> None:
        """Restarts or checks the server. Raises `_NotRun` if the call can be sent again."""
        match error:
            case MCPError() if call.refused:
                call.refused = False
                self.supervisor.lost(connection)
                raise _NotRun from None
            case MCPError(code=types.CONNECTION_CLOSED):
                self.supervisor.lost(connection)
            case MCPError() if connection.forgotten:
                self.supervisor.lost(connection)
                raise _NotRun from None
            case TimeoutError():
                self._abandon(call)
                self.supervisor.check(connection)
            case _:
                pass

    def _tool_error(self, error: Exception, call: _RunningCall) -> Exception:
        """The error of a failed call, for the model."""
        whose = f"The MCP server {self.supervisor.label!r}"
        match error:
            case MCPError() if call.status in REMEDIES:
                return ToolError(
                    f"{whose} refused the call with HTTP {call.status}:"
                    f" {REMEDIES[call.status]}. The tool was not run. Its operator can"
                    f" {self._server.credentials_remedy}."
                )
            case MCPError(code=types.CONNECTION_CLOSED):
                words = f"{whose} exited during the call, effect unknown."
                return ToolError(words, retryable=True)
            case MCPError() if call.status:
                return ToolError(
                    f"{whose} answered HTTP {call.status}: {error.message}, effect unknown."
                )
            case MCPError():
                return ToolError(f"{whose} refused the call: {error.message}")
            case TimeoutError() if call.clock.expired():
                return ToolError(
                    f"{call.tool} returned no result and reported no progress for"
                    f" {self._server.timeout:g} seconds and was cancelled, effect unknown."
                )
            case ValidationError():
                return ToolError(f"{whose} sent a result that violates MCP.")
            case InputRequiredRoundsExceededError():
                return ToolError(f"{whose} asked for input too many times.")
            case RuntimeError():  # raised by the SDK for output that violates the tool's schema
                return ToolError(f"{call.tool}: {error}")
            case _:
                return error

    def received(self) -> None:
        """Records which calls can have caused a message, because some of them may end soon."""
        _possible.set((*self._running, *self._still_abandoned()))

    def responded(self, status: int) -> None:
        """Records the status of a call's refused request."""
        call = _current.get()
        if call is not None:
            call.status = status

    def refused(self) -> None:
        """Records that a call's request was not sent."""
        call = _current.get()
        if call is not None:
            call.refused = True

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Passes the server's question to the approver of the run that caused it."""
        origin = self._origin()
        if origin is None:
            log.warning(
                "declined a question of MCP server %r: it does not say which of several runs it is"
                " for",
                self.supervisor.label,
            )
            return types.ElicitResult(action="decline")
        decision = await origin.ask(elicit_call(origin.tool, params))
        return elicit_result(params, decision.approved, decision.arguments)

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Answers the server's request for a model, for the run that caused it."""
        origin, sampler = self._origin(), self._server.sampling
        if origin is None or sampler is None:
            return _no_sample("the request belongs to no run that is known")
        limit = min(params.max_tokens, self._budget.left(origin.run))
        if limit < 1:
            return _no_sample("the run has no tokens left for it")
        try:
            messages = messages_of(params)
        except ValueError as error:
            return _no_sample(str(error))
        decision = await origin.ask(sampling_call(origin.tool, messages, limit))
        if not decision.approved:
            return _no_sample("the user declined it")
        sampled = await origin.at_home(sampler(messages, limit))
        self._budget.spend(origin.run, sampled.tokens)
        return sampling_result(sampled)

    async def read_resource(self, uri: str) -> object:
        """The content of a resource. Raises `ToolError`."""
        connection = await self._connection()
        try:
            async with asyncio.timeout(self._server.timeout):
                result = await connection.client.read_resource(uri)
        except (MCPError, TimeoutError, ValidationError, RuntimeError) as error:
            reason = error.message if isinstance(error, MCPError) else "it did not answer"
            raise ToolError(f"The resource {uri} cannot be read: {reason}") from None
        blocks: list[types.ContentBlock] = [
            types.EmbeddedResource(resource=content) for content in result.contents
        ]
        return value_of(types.CallToolResult(content=blocks))

    async def log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        """Adds a log message to the log of the run that caused it."""
        origin = self._origin()
        # Servers of version 2025-11-25 can ignore the level that the client asks for.
        if origin is not None and params.level != "debug":
            origin.logged(params)
        said = PrivateText(str(params.data)[:MAX_LOG_CHARS])
        log.debug("%s: %s: %s", self.supervisor.label, params.level, said)

    def _origin(self) -> _CallingRun | None:
        """The run that a message belongs to; None if several runs are possible, or no run.

        Over stdio, a server with a handshake does not report which call its request is for.
        """
        call = _current.get()
        if call is not None:
            return _CallingRun([call], self.supervisor.label) if call in self._running else None
        possible = _possible.get()
        running = [call for call in possible if call in self._running]
        if not running or len({call.run for call in possible}) > 1:
            return None
        return _CallingRun(running, self.supervisor.label)

    def _abandon(self, call: _RunningCall) -> None:
        call.abandoned_at = time.monotonic()
        self._abandoned.append(call)

    def _still_abandoned(self) -> Sequence[_RunningCall]:
        """The abandoned calls that a server still runs if it ignores cancellation."""
        if self._abandoned:
            oldest = time.monotonic() - self._server.timeout
            current = self.supervisor.current
            self._abandoned = [
                call
                for call in self._abandoned
                if call.connection is current and call.abandoned_at > oldest
            ]
        return self._abandoned

    @contextlib.contextmanager
    def _tracked(self, call: _RunningCall) -> Generator[None]:
        token = _current.set(call)
        self._running.append(call)
        try:
            yield
        finally:
            self._running.remove(call)
            _current.reset(token)


def _no_sample(reason: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"No answer of a model: {reason}.")


def _size(result: types.CallToolResult) -> int:
    """The approximate size of a result."""
    size = 0
    for block in result.content:
        match block:
            case types.TextContent():
                size += len(block.text)
            case types.ImageContent() | types.AudioContent():
                size += len(block.data)
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                size += len(resource.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                size += len(resource.blob)
            case _:
                pass
    return size


class ReadResource:
    """The function of the tool that reads a server's resources."""

    def __init__(self, calls: McpCalls, outer: str) -> None:
        self.__name__ = outer
        self._calls = calls

    async def __call__(self, uri: str) -> object:
        return await run_in_background(self._calls.read_resource(uri))


class ServerFunction:
    """The function of a server's tool: it runs when the model calls the tool."""

    def __init__(
        self,
        calls: McpCalls,
        name: str,
        outer: str,
        *,
        change: tuple[Pin, Pin] | None,
        accept: Callable[[str, Pin], None],
        output_schema: Schema | None = None,
    ) -> None:
        """`change` is the first and the current pin, if the description has changed."""
        self.__name__ = outer
        self.output_schema = output_schema
        self._calls, self._name, self._outer = calls, name, outer
        self._change, self._accept = change, accept

    # The name of the context parameter must not clash with an argument of a server's tool.
    async def __call__(self, /, windlass_context: ToolContext, **arguments: Any) -> object:
        if self._change is not None:
            await self._ask_about(*self._change, windlass_context)
        home = asyncio.get_running_loop()
        return await run_in_background(
            self._calls.call(self._name, self._outer, arguments, windlass_context, home)
        )

    async def _ask_about(self, was: Pin, now: Pin, context: ToolContext) -> None:
        decision = await context.ask(change_call(self._outer, was, now))
        if not decision.approved:
            reason = f": {decision.reason}" if decision.reason else ""
            raise ToolError(
                f"{self._outer} has changed since it was approved, and the new version is not"
                f" approved{reason}."
            )
        self._accept(self._name, now)
        self._change = None
