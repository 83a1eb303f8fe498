"""`/v1/runs`: starts, lists, follows, approves, stops, exports and deletes runs."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import get_args

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEvent, StopReason, event_to_json_bytes
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    Receive,
    Scope,
    Send,
    disconnected,
    exchange_of,
    json_response,
    no_content,
    query_number,
    read_body,
)
from windlass.gateway.http.errors import Refused
from windlass.gateway.routes.completions import SSE_HEADERS, read_chat_request
from windlass.gateway.runs.lookup import (
    ActiveRun,
    Decision,
    FoundRun,
    PersistedRun,
    RunStatus,
    found_run,
)
from windlass.gateway.runs.run import run_fields
from windlass.jsontext import by_size
from windlass.loop.history import History
from windlass.runs.event_log import PAGE_BYTES, Follower
from windlass.runs.export import exported
from windlass.runs.records import RunRecord
from windlass.wires.body import read_as
from windlass.wires.chat.write_events import HEARTBEAT
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.fields import JsonObject

MAX_LISTED = 1_000
"""The default and the maximum of `limit`."""
MAX_PAGE = 16 * MAX_LISTED
"""The largest number of runs that one read of the log returns; pages grow up to it."""
YIELD_EVERY = 500
"""The event loop gets control after this number of runs."""


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
        run = await self._gateway.start(
            chat_request, exchange, request.receive, live=True, background=True
        )
        await run.settled()
        return json_response(run_fields(run), 202, {"location": f"/v1/runs/{run.id}"})

    async def list(self, request: Request) -> Response:
        owner, query = exchange_of(request.scope).owner, read_query(request.query_params)
        data = await listed_runs(self._gateway, owner, query)
        return json_response({"object": "list", "data": data})

    async def show(self, request: Request) -> Response:
        return json_response(await (await self._run(request)).fields())

    async def stop(self, request: Request) -> Response:
        run = await self._run(request)
        await run.stop()
        if isinstance(run, ActiveRun):
            run = await self._run(request)
            if isinstance(run, PersistedRun):  # its log failed in the meantime
                await run.stop()
        fields = await (await self._run(request)).fields()
        # 202: the stop is stored, and the run's process has not acted on it yet.
        return json_response(fields, 202 if fields["status"] == "running" else 200)

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
        return json_response(await run.fields(whole=False))

    async def export(self, request: Request) -> Response:
        """Sends the whole run as a file to download."""
        run, durable = await self._run(request), self._gateway.durable
        if durable is not None:  # the log has the complete run
            run = PersistedRun(
                await durable.find(run.id, exchange_of(request.scope).owner), durable
            )
        events = await run.events()
        history = History(events)
        messages = history.reply().messages if history.started else ()
        name = f'attachment; filename="{run.id}.json"'
        fields = exported(run.record, events, messages)
        return json_response(fields, headers={"content-disposition": name})

    async def delete(self, request: Request) -> Response:
        run = await self._run(request)
        is_open = isinstance(run, PersistedRun) and run.open
        if is_open or (await run.fields(whole=False))["status"] == "running":
            message = "The run is still active. Stop it first."
            raise Refused(Problem(409, message, "run_in_progress"))
        await self._gateway.forget(run.id)
        return json_response({"id": run.id, "object": "run.deleted", "deleted": True})

    async def _run(self, request: Request) -> FoundRun:
        run_id = request.path_params["run_id"]
        return await self._gateway.find(run_id, exchange_of(request.scope).owner)


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
        gone = asyncio.create_task(disconnected(receive))
        gone.add_done_callback(lambda _: events.wake())
        self._gateway.followers.add(events)
        try:
            await self._follow(events, gone, send)
        finally:
            self._gateway.followers.discard(events)
            gone.cancel()

    async def _follow(self, events: Follower, gone: asyncio.Task[None], send: Send) -> None:
        """Sends one page at a time, so that a slow client uses the memory of one page only."""
        heartbeat = self._gateway.config.server.heartbeat
        more = True
        while more and not gone.done():
            drained = self._gateway.drained
            try:
                batch = await events.some(0.0 if drained else heartbeat)
                # On shutdown another gateway resumes the run, and the client reconnects there.
                more = not (events.over or (drained and not batch))
            except StorageError:
                batch, more = [], False
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
            await send(_body_message(page, more=more))


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
    summary: bool = False

    @property
    def filters(self) -> bool:
        """Whether the query has any filter."""
        return any((self.status, self.reason, self.model, self.tool, self.q))

    def matches(self, run: JsonObject) -> bool:
        """Whether the run's fields match all filters except `tool`."""
        return (
            self.status in ("", run["status"])
            and self.reason in ("", run.get("stop_reason"))
            and self.model in ("", run["model"])
            and self.q.casefold() in run["title"].casefold()
        )


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

    def __init__(
        self, gateway: Gateway, owner: str, before: str = "", *, running: bool = False
    ) -> None:
        """Starts after the run `before`; `running` leaves out runs that the log has as ended."""
        self._gateway, self._owner, self._running = gateway, owner, running
        self._before = before
        self._last: RunRecord | None = None
        """The last run of the previous page."""
        self._rest: Iterator[FoundRun] | None = None

    async def page(self, size: int) -> list[FoundRun]:
        """The next `size` runs; a shorter page is the last.

        Raises `RunNotFound` if the run `before` does not exist.
        """
        runs = self._gateway.runs.all()
        here = {run.id: found_run(run) for run in runs if run.owner == self._owner}
        durable = self._gateway.durable
        if durable is None:
            if self._rest is None:
                self._rest = self._remaining([*here.values()][::-1])
            return list(islice(self._rest, size))
        if self._before:
            self._last = await durable.find(self._before, self._owner)
            self._before = ""
        records = await durable.log.list(
            owner=self._owner, open=self._running or None, before=self._last, limit=size
        )
        if records:
            self._last = records[-1]
        return [here.get(record.id) or PersistedRun(record, durable) for record in records]

    def _remaining(self, runs: Sequence[FoundRun]) -> Iterator[FoundRun]:
        ids = [run.id for run in runs]
        if self._before and self._before not in ids:
            raise RunNotFound(f"run {self._before!r} not found")
        return iter(runs[ids.index(self._before) + 1 :] if self._before else runs)


async def listed_runs(gateway: Gateway, owner: str, query: RunQuery) -> list[JsonObject]:
    """The runs that match the query, as JSON. Raises `InvalidRequest` for an unknown `before`."""
    size = MAX_LISTED if query.filters else query.limit
    newest = NewestRuns(gateway, owner, query.before, running=query.status == "running")
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
        # The filter `tool` reads the events of each run, so it looks at the first page only.
        if len(runs) < size or query.tool:
            return listed
        size = min(2 * size, MAX_PAGE)


async def _matching_fields(gateway: Gateway, run: FoundRun, query: RunQuery) -> JsonObject | None:
    """The run as JSON; None if it does not match the query."""
    fields = await run.fields(whole=False)
    if not query.matches(fields):
        return None
    if query.tool or query.summary:
        summary = await gateway.summaries.of(run)
        if summary is None or (query.tool and not summary.calls_tool(query.tool)):
            return None
        if query.summary:
            fields["summary"] = summary.fields()
    return fields
