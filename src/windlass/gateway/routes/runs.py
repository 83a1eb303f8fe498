"""`/v1/runs`: starts, lists, follows, approves, stops, exports and deletes runs."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import StorageError
from windlass.events import RunEvent, event_to_json_bytes
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
from windlass.gateway.routes.run_list import listed_runs, read_query
from windlass.gateway.runs.lookup import Decision, FoundRun, KeptHere, KnownHere
from windlass.gateway.runs.run import run_fields
from windlass.jsontext import by_size
from windlass.loop.history import History
from windlass.runs.event_log import PAGE_BYTES, Follower
from windlass.runs.export import exported
from windlass.wires.body import read_as
from windlass.wires.chat.write_events import HEARTBEAT
from windlass.wires.errors import Problem


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
        if isinstance(run, KnownHere):
            run = await self._run(request)
            if isinstance(run, KeptHere):  # its log failed in the meantime
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
            run = KeptHere(await durable.find(run.id, exchange_of(request.scope).owner), durable)
        events = await run.events()
        history = History(events)
        messages = history.reply().messages if history.started else ()
        name = f'attachment; filename="{run.id}.json"'
        fields = exported(run.record, events, messages)
        return json_response(fields, headers={"content-disposition": name})

    async def delete(self, request: Request) -> Response:
        run = await self._run(request)
        is_open = isinstance(run, KeptHere) and run.open
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
