"""`/v1/runs`: starts, lists, follows, approves, stops, exports and deletes runs."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, get_args

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import RunNotFound
from windlass.events import Phase, RunEvent, StopReason, event_to_json_bytes
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    Receive,
    Scope,
    Send,
    any_json_response,
    exchange_of,
    json_response,
    no_content,
    query_number,
    read_body,
)
from windlass.gateway.http.errors import Refused
from windlass.gateway.openapi.operations import (
    GUARDED,
    LIMIT,
    MODE_PARAMETER,
    SESSION_PARAMETER,
    STARTING,
    WITH_BODY,
    EventStream,
    ModeJson,
    Operation,
    OtherAnswer,
    Paths,
    QueryNumber,
    RequestParameter,
    path_parameter,
)
from windlass.gateway.routes.completions import read_chat_request
from windlass.gateway.routes.following import FollowedLog, followed
from windlass.gateway.routes.wire import SSE_HEADERS
from windlass.gateway.runs.chats import is_title
from windlass.gateway.runs.lookup import (
    ActiveRun,
    Decision,
    FoundRun,
    PersistedRun,
    RunStatus,
    fields_of,
    found_run,
)
from windlass.gateway.runs.run_json import FAILED_REASONS, run_fields
from windlass.gateway.runs.summaries import text_of_run
from windlass.jsontext import by_size, encode_any_json, offloaded
from windlass.loop.history import History
from windlass.runs.control import StoredRun
from windlass.runs.encoding import are_large
from windlass.runs.event_log import PAGE_BYTES
from windlass.runs.export import Export, exported
from windlass.runs.records import RunRecord
from windlass.wires.body import read_as
from windlass.wires.chat.types import ChatCompletion, ChatCompletionRequest, RunEventJson
from windlass.wires.chat.write_events import HEARTBEAT
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.fields import Count, Json, JsonObject

MAX_LISTED = 1_000
"""The default and the maximum of `limit`."""
MAX_PAGE = 16 * MAX_LISTED
"""The maximum number of runs in one read of the log. Pages grow up to it."""
ALL_REASONS: frozenset[StopReason] = frozenset(get_args(StopReason))
REASONS: dict[str, frozenset[StopReason]] = {
    "any": ALL_REASONS,
    "running": frozenset(),
    "ended": ALL_REASONS - FAILED_REASONS,
    "failed": FAILED_REASONS,
}
"""The stop reasons of each status."""
YIELD_EVERY = 500
"""The event loop gets control after this number of runs."""


class ToolTotalsJson(Json):
    calls: Count
    failures: Count
    seconds: float


class RunSummaryJson(Json):
    """Figures of a run so far."""

    seconds: float
    rounds: Count
    input_tokens: Count
    output_tokens: Count
    tools: dict[str, ToolTotalsJson]


class RunErrorJson(Json):
    message: str
    type: str
    param: NotRequired[str | None]


class RunJson(Json):
    id: str
    object: Literal["run"]
    created: Count
    ended: Count | None
    model: str
    status: RunStatus
    phase: Phase
    mode: ModeJson | None
    """Null if it is unknown."""
    events: Count
    """The number of events so far."""
    title: str
    """The first words of the prompt."""
    chat_id: str | None
    """The stored chat that the run belongs to."""
    stop_reason: NotRequired[StopReason | None]
    error: NotRequired[RunErrorJson]
    response: NotRequired[ChatCompletion]
    summary: NotRequired[RunSummaryJson]


class RunListJson(Json):
    object: Literal["list"]
    data: list[RunJson]


class RunDeletedJson(Json):
    id: str
    object: Literal["run.deleted"]
    deleted: Literal[True]


_RUN_ID = path_parameter("run_id", "The run's id.")
_LAST_READ = "The number of the last event that the client has; the later ones are sent."
_SINCE = "Only runs that started at this time or later, in Unix seconds."
_UNTIL = "Only runs that started before this time, in Unix seconds."
PATHS: Paths = {
    "/v1/runs": {
        "post": Operation(
            id="startRun",
            summary="Starts a run in the background. The body is that of a chat completion.",
            body=ChatCompletionRequest,
            parameters=(MODE_PARAMETER, SESSION_PARAMETER),
            status=202,
            answer=RunJson,
            headers=("Location",),
            problems=(409, *STARTING),
        ),
        "get": Operation(
            id="listRuns",
            summary="Lists the runs of this key, newest first.",
            parameters=(
                LIMIT,
                RequestParameter(
                    "before",
                    "query",
                    "The id of a run; only runs that started before it are listed.",
                ),
                RequestParameter("status", "query", "Only runs with this status.", RunStatus),
                RequestParameter(
                    "reason", "query", "Only runs that ended for this reason.", StopReason
                ),
                RequestParameter("model", "query", "Only runs of this model."),
                RequestParameter(
                    "tool", "query", "Only runs that called this tool, of the newest 1,000."
                ),
                RequestParameter(
                    "q",
                    "query",
                    "Only runs whose title contains this text; the case does not matter.",
                ),
                RequestParameter(
                    "text",
                    "query",
                    "Only runs whose prompt, answer, arguments or results contain this text, of the"
                    " newest 1,000; the case does not matter.",
                ),
                RequestParameter("since", "query", _SINCE, QueryNumber),
                RequestParameter("until", "query", _UNTIL, QueryNumber),
                RequestParameter(
                    "summary", "query", "Whether to include the summary of each run.", bool
                ),
            ),
            answer=RunListJson,
            problems=(400, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}": {
        "get": Operation(
            id="getRun",
            summary="Returns a run; after its end, with its answer.",
            parameters=(_RUN_ID,),
            answer=RunJson,
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteRun",
            summary="Deletes a run that has ended.",
            parameters=(_RUN_ID,),
            answer=RunDeletedJson,
            problems=(404, 409, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}/events": {
        "get": Operation(
            id="followRun",
            summary="Streams the events of a run: the stored ones, then new ones as they occur.",
            parameters=(
                _RUN_ID,
                RequestParameter("after", "query", _LAST_READ, QueryNumber),
                RequestParameter("Last-Event-ID", "header", _LAST_READ, QueryNumber),
            ),
            stream=EventStream((RunEventJson,)),
            headers=("X-Windlass-Run-Id",),
            problems=(400, 404, *GUARDED),
            more={204: OtherAnswer("The run has ended and has no later events.")},
        )
    },
    "/v1/runs/{run_id}/stop": {
        "post": Operation(
            id="stopRun",
            summary="Stops a run and its tools. A run that has ended does not change.",
            parameters=(_RUN_ID,),
            answer=RunJson,
            problems=(404, *GUARDED),
            more={
                202: OtherAnswer(
                    "The stop is stored; the run's process has not acted on it yet.", RunJson
                )
            },
        )
    },
    "/v1/runs/{run_id}/approve": {
        "post": Operation(
            id="decideCall",
            summary="Approves or rejects a call that waits for approval. Returns 409 if the call"
            " already has a decision or a result.",
            parameters=(_RUN_ID,),
            body=Decision,
            answer=RunJson,
            problems=(404, 409, *WITH_BODY, *GUARDED),
        )
    },
    "/v1/runs/{run_id}/export": {
        "get": Operation(
            id="exportRun",
            summary="Returns a run as one file, with its messages and its events.",
            parameters=(_RUN_ID,),
            answer=Export,
            headers=("Content-Disposition",),
            problems=(404, *GUARDED),
        )
    },
}


class RunRoutes:
    """Endpoints that return a run or a list of runs."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def start_or_list(self, request: Request) -> Response:
        return await (self.start(request) if request.method == "POST" else self.list(request))

    async def show_or_delete(self, request: Request) -> Response:
        return await (self.delete(request) if request.method == "DELETE" else self.show(request))

    async def start(self, request: Request) -> Response:
        """Starts a background run from the body of a chat completion and returns the run."""
        chat_request = await read_chat_request(self._gateway, request.scope, request.receive)
        exchange = exchange_of(request.scope)
        chat_request = replace(chat_request, live=True, background=True)
        run = await self._gateway.start(chat_request, exchange, request.receive)
        await run.settled()
        return json_response(run_fields(run.state()), 202, {"location": f"/v1/runs/{run.id}"})

    async def list(self, request: Request) -> Response:
        owner, query = exchange_of(request.scope).owner, read_query(request.query_params)
        data = await listed_runs(self._gateway, owner, query)
        return json_response({"object": "list", "data": data})

    async def show(self, request: Request) -> Response:
        return await any_json_response(await fields_of(await self._run(request)))

    async def stop(self, request: Request) -> Response:
        run = await self._run(request)
        await run.stop()
        if isinstance(run, ActiveRun):
            run = await self._run(request)
            if isinstance(run, PersistedRun):  # its log failed in the meantime
                await run.stop()
        fields = await fields_of(await self._run(request))
        # 202: the stop is stored, and the run's process has not acted on it yet.
        return await any_json_response(fields, 202 if fields["status"] == "running" else 200)

    async def approve(self, request: Request) -> Response:
        run = await self._run(request)
        limits = self._gateway.config.limits
        body = await read_body(request.scope, request.receive, limits.max_body_bytes)
        decision = await by_size(
            len(body), read_as, Decision, body, "a decision", limits.max_json_depth
        )
        if not await run.approve(decision):
            message = f"Call {decision.call_id[:100]!r} of this run is not waiting for approval."
            raise Refused(Problem(409, message, "nothing_to_approve", "call_id"))
        return json_response(await fields_of(run, whole=False))

    async def export(self, request: Request) -> Response:
        """Sends the whole run as a file to download."""
        run, service = await self._run(request), self._gateway.service
        if service.control is not None:  # the log has the complete run, if it is stored
            with contextlib.suppress(RunNotFound):
                record = await service.record(run.id, exchange_of(request.scope).owner)
                run = PersistedRun(StoredRun(record, service.control))
        events = await run.recorded()
        body = await offloaded(_export, run.record, events)
        headers = {"content-disposition": f'attachment; filename="{run.id}.json"'}
        return Response(body, headers=headers, media_type="application/json")

    async def delete(self, request: Request) -> Response:
        run = await self._run(request)
        is_open = isinstance(run, PersistedRun) and run.open
        if is_open or (await fields_of(run, whole=False))["status"] == "running":
            message = "The run is still active. Stop it first."
            raise Refused(Problem(409, message, "run_in_progress"))
        await self._gateway.forget(run.id)
        return json_response({"id": run.id, "object": "run.deleted", "deleted": True})

    async def _run(self, request: Request) -> FoundRun:
        run_id = request.path_params["run_id"]
        return await self._gateway.find(run_id, exchange_of(request.scope).owner)


def _export(record: RunRecord, events: Sequence[RunEvent]) -> bytes:
    history = History(events)
    messages = history.reply().messages if history.started else ()
    return encode_any_json(exported(record, events, messages))


class RunEvents:
    """`GET /v1/runs/{id}/events`: the stored events after a number, then new ones as they occur."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        run = await self._gateway.find(request.path_params["run_id"], exchange_of(scope).owner)
        after = query_number(request.query_params.get("after"), "after")
        after = query_number(request.headers.get("last-event-id"), "Last-Event-ID") or after
        events = run.follow(after)
        if events is None:
            # 204 makes a browser's EventSource stop reconnecting.
            return await no_content(send)
        headers = [*SSE_HEADERS, (b"x-windlass-run-id", run.id.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if request.method == "HEAD":
            return await send({"type": "http.response.body", "body": b""})
        async with followed(self._gateway, events, receive) as log:
            return await _send_events(log, send)


async def _send_events(log: FollowedLog, send: Send) -> None:
    """Sends one page at a time, so that a slow client uses the memory of one page only."""
    while log.has_more and not log.client_gone:
        batch = await log.batch()
        pieces: list[bytes] = []
        size = 0
        for event in batch:
            if size >= PAGE_BYTES:
                page = b"".join(pieces)
                pieces, size = [], 0
                await send(_body_message(page, more=True))
            pieces.append(_sse_message(event))
            size += len(pieces[-1])
        page = b"".join(pieces) or HEARTBEAT
        del batch, pieces  # frees their memory while a slow client reads
        await send(_body_message(page, more=log.has_more))


def _sse_message(event: RunEvent) -> bytes:
    name = str(event.__struct_config__.tag).encode()
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, name, event_to_json_bytes(event))


def _body_message(data: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": more}


class RunQuery(Struct, frozen=True, kw_only=True):
    """The query of a list of runs. An empty field means no filter."""

    limit: int = MAX_LISTED
    before: str = ""
    """The list starts after this run, usually the last one of the previous list."""
    status: str = ""
    reason: str = ""
    model: str = ""
    tool: str = ""
    """A tool that the run has called."""
    q: str = ""
    """A part of the title; the case does not matter."""
    text: str = ""
    """A part of the prompt, the answer, the arguments or the results; without case."""
    since: int = 0
    until: int = 0
    """The times between which a run started; 0 means no limit."""
    summary: bool = False

    @property
    def reads_events(self) -> bool:
        """Whether a filter reads the events of each run."""
        return bool(self.tool or self.text)

    @property
    def reasons(self) -> frozenset[StopReason] | None:
        """The reasons that match `status` and `reason`; None if both are empty."""
        if not self.status and not self.reason:
            return None
        return frozenset(
            each for each in REASONS[self.status or "any"] if self.reason in ("", each)
        )

    def matches(self, run: JsonObject) -> bool:
        """Whether the run's fields match all filters except `tool` and `text`."""
        return (
            self.status in ("", run["status"])
            and self.reason in ("", run.get("stop_reason"))
            and self.model in ("", run["model"])
            and self.q.casefold() in run["title"].casefold()
            and run["created"] >= self.since
            and (not self.until or run["created"] < self.until)
        )


ALL_RUNS = RunQuery()


def read_query(parameters: Mapping[str, str]) -> RunQuery:
    """Parses the query string. Raises `InvalidRequest` with the name of the parameter."""
    return RunQuery(
        limit=read_limit(parameters),
        before=parameters.get("before", ""),
        status=_choice(parameters, "status", get_args(RunStatus)),
        reason=_choice(parameters, "reason", get_args(StopReason)),
        model=parameters.get("model", ""),
        tool=parameters.get("tool", ""),
        q=parameters.get("q", ""),
        text=parameters.get("text", "").casefold(),
        since=query_number(parameters.get("since"), "since") or 0,
        until=query_number(parameters.get("until"), "until") or 0,
        summary=_choice(parameters, "summary", ("true", "false")) == "true",
    )


def read_limit(parameters: Mapping[str, str]) -> int:
    """The `limit` of a list, at most `MAX_LISTED`. Raises `InvalidRequest`."""
    return min(query_number(parameters.get("limit"), "limit") or MAX_LISTED, MAX_LISTED)


def _choice(parameters: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = parameters.get(name, "")
    if value and value not in choices:
        raise InvalidRequest(f"{name}: must be {', '.join(choices[:-1])} or {choices[-1]}", name)
    return value


class NewestRuns:
    """Reads the runs of a key in pages, newest first: those of this process and of the log."""

    def __init__(self, gateway: Gateway, owner: str, query: RunQuery = ALL_RUNS) -> None:
        """Leaves out stored runs that do not match the query. Other runs are not filtered."""
        self._gateway, self._owner, self._query = gateway, owner, query
        self._last: RunRecord | None = None
        """The last stored run of the previous page."""
        self._first_time = math.inf
        """Stored runs that started after this time belong to an earlier page."""
        self._unstored: deque[tuple[float, FoundRun]] | None = None
        """The runs that only this process has, with the times of their starts."""

    async def page(self, size: int) -> list[FoundRun]:
        """The next `size` runs; a shorter page is the last.

        Raises `RunNotFound` if the run `before` does not exist.
        """
        if self._unstored is None:
            self._unstored = await self._begin()
        records = await self._stored(size)
        merged: list[FoundRun] = []
        while len(merged) < size and (records or self._unstored):
            is_stored_next = records and (
                not self._unstored or records[0][1].created >= self._unstored[0][0]
            )
            if is_stored_next:
                run, self._last = records.popleft()
                merged.append(run)
            else:
                merged.append(self._unstored.popleft()[1])
        return merged

    async def _begin(self) -> deque[tuple[float, FoundRun]]:
        """The runs that are not stored, from the start of the list."""
        service, before = self._gateway.service, self._query.before
        runs = [
            run
            for run in reversed(service.active.all())
            if run.owner == self._owner and (service.log is None or not run.stored)
        ]
        ids = [run.id for run in runs]
        if before in ids:
            start = ids.index(before)
            self._first_time = runs[start].record.created
            runs = runs[start + 1 :]
        elif before:
            self._last = await service.record(before, self._owner)
        timed = [(run.record.created, found_run(run)) for run in runs]
        latest = math.inf if self._last is None else self._last.created
        return deque(each for each in timed if each[0] < latest)

    async def _stored(self, size: int) -> deque[tuple[FoundRun, RunRecord]]:
        """The next `size` stored runs with their records."""
        query, last = self._query, self._last
        running = query.status == "running" and not query.reason
        listed: deque[tuple[FoundRun, RunRecord]] = deque()
        while True:
            found = await self._gateway.service.newest(
                owner=self._owner,
                open=True if running else None,
                reasons=None if running else query.reasons,
                model=query.model or None,
                title=query.q or None,
                before=last,
                limit=size,
            )
            listed.extend(
                (found_run(run), record)
                for run, record in found
                if record.created <= self._first_time and not is_title(record)
            )
            if len(listed) >= size or len(found) < size:
                return listed
            last = found[-1][1]


async def listed_runs(gateway: Gateway, owner: str, query: RunQuery) -> list[JsonObject]:
    """The runs that match the query, as JSON. Raises `InvalidRequest` for an unknown `before`."""
    size = MAX_LISTED if query.reads_events else query.limit
    newest = NewestRuns(gateway, owner, query)
    listed: list[JsonObject] = []
    while True:
        try:
            runs = await newest.page(size)
        except RunNotFound:
            message = f"before: run {query.before[:100]!r} does not exist"
            raise InvalidRequest(message, "before") from None
        for number, run in enumerate(runs):
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            fields = await _matching_fields(gateway, run, query)
            if fields is not None:
                listed.append(fields)
            if len(listed) == query.limit:
                return listed
        # A filter that reads events is applied to the first page only.
        is_last = len(runs) < size or query.reads_events
        # Runs are in the order of their starts, so all later ones are older.
        if is_last or runs[-1].record.created < query.since:
            return listed
        size = min(2 * size, MAX_PAGE)


async def _matching_fields(gateway: Gateway, run: FoundRun, query: RunQuery) -> JsonObject | None:
    """The run as JSON; None if it does not match the query."""
    fields = await fields_of(run, whole=False)
    if not query.matches(fields):
        return None
    if query.text and not await _contains(run, query.text):
        return None
    if query.tool or query.summary:
        summary = await gateway.summaries.of(run)
        if summary is None or (query.tool and not summary.calls_tool(query.tool)):
            return None
        if query.summary:
            fields["summary"] = summary.fields()
    return fields


async def _contains(run: FoundRun, wanted: str) -> bool:
    """Whether the text of the run contains this text, which is casefolded."""
    try:
        events = await run.recorded()
    except RunNotFound:  # deleted meanwhile
        return False
    await asyncio.sleep(0)  # a search reads up to 1,000 runs
    small = isinstance(events, list | tuple) and not are_large(events)
    text = text_of_run(events) if small else await offloaded(text_of_run, events)
    return wanted in text.casefold()
