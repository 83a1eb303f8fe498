"""`/v1/runs`: runs that are started, followed from anywhere, stopped and decided about."""

import asyncio
import re
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.events import event_to_json
from windlass.gateway.answer import completion_fields
from windlass.gateway.chat import SSE_HEADERS, ask
from windlass.gateway.chunks import HEARTBEAT
from windlass.gateway.exchange import (
    Receive,
    Scope,
    Send,
    disconnected,
    exchange_of,
    no_content,
    query_number,
    read_body,
)
from windlass.gateway.gateway import Gateway
from windlass.gateway.problems import Problem, Refused, bad_request
from windlass.gateway.run import GatewayRun
from windlass.jsontext import decode_json, encode_json
from windlass.models.fields import JsonObject
from windlass.runs.log import Follower

__all__ = ["RunEvents", "RunRoutes"]

_FIELD = re.compile(r"(?:field |at )`(?:\$\.)?(\w+)")
"""What msgspec's errors say of the field that is wrong."""


class Decision(Struct, forbid_unknown_fields=True):
    """The body of `approve`."""

    call_id: str
    approved: bool = True
    arguments: dict[str, Any] | None = None
    reason: str | None = None


class RunRoutes:
    """Endpoints that answer with a run, or a list of them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def start_or_list(self, request: Request) -> Response:
        return await (self.start(request) if request.method == "POST" else self.list(request))

    async def start(self, request: Request) -> Response:
        """The same body as a chat completion's; the answer is the run, at once."""
        asked = await ask(self._gateway, request.scope, request.receive)
        exchange = exchange_of(request.scope)
        run = await self._gateway.start(asked, exchange, request.receive, live=True)
        return _json(run_fields(run), 202, {"location": f"/v1/runs/{run.id}"})

    async def list(self, request: Request) -> Response:
        exchange = exchange_of(request.scope)
        runs = [run for run in self._gateway.runs.all() if run.owner == exchange.owner]
        return _json({"object": "list", "data": [run_fields(run) for run in reversed(runs)]})

    async def show(self, request: Request) -> Response:
        return _json(run_fields(self._run(request), whole=True))

    async def stop(self, request: Request) -> Response:
        run = self._run(request)
        await run.run.stop()
        return _json(run_fields(run, whole=True))

    async def approve(self, request: Request) -> Response:
        run = self._run(request)
        most = self._gateway.config.limits.max_body_bytes
        body = await read_body(request.scope, request.receive, most)
        try:
            decision = msgspec.convert(decode_json(body), Decision)
        except (ValueError, msgspec.ValidationError) as error:
            field = _FIELD.search(str(error))
            raise bad_request(
                f"The body is not a decision: {error}", field[1] if field else None
            ) from None
        if not run.run.approve(
            decision.call_id,
            decision.approved,
            arguments=decision.arguments,
            reason=decision.reason,
        ):
            message = f"No call {decision.call_id[:100]!r} of this run waits for a decision."
            raise Refused(Problem(409, message, "nothing_to_approve", "call_id"))
        return _json(run_fields(run))

    def _run(self, request: Request) -> GatewayRun:
        return self._gateway.find(request.path_params["run_id"], exchange_of(request.scope))


class RunEvents:
    """`GET /v1/runs/{id}/events`: every event after a number, then each as it comes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        run = self._gateway.find(request.path_params["run_id"], exchange_of(scope))
        after = query_number(request.query_params.get("after"), "after")
        after = query_number(request.headers.get("last-event-id"), "Last-Event-ID") or after
        headers = [*SSE_HEADERS, (b"x-windlass-run-id", run.id.encode())]
        known = len(run.run.log.recorded())
        if after >= known and run.run.log.ended:
            # Browsers come back for more until they are told that there is none.
            return await no_content(send)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if request.method == "HEAD":
            return await send({"type": "http.response.body", "body": b""})
        events = run.run.events(min(after, known))
        gone = asyncio.create_task(disconnected(receive))
        gone.add_done_callback(lambda _: events.wake())
        try:
            await self._follow(events, gone, send)
        finally:
            gone.cancel()

    async def _follow(self, events: Follower, gone: asyncio.Task[None], send: Send) -> None:
        heartbeat = self._gateway.config.server.heartbeat
        while not gone.done():
            batch = await events.some(heartbeat)
            more = not (batch and batch[-1].done)
            data = b"".join(
                b"id: %d\nevent: %s\ndata: %s\n\n"
                % (event.seq, str(event.__struct_config__.tag).encode(), event_to_json(event))
                for event in batch
            )
            body = {"type": "http.response.body", "body": data or HEARTBEAT, "more_body": more}
            await send(body)
            if not more:
                return


def run_fields(run: GatewayRun, *, whole: bool = False) -> JsonObject:
    """What is told of a run: with `whole`, its answer too."""
    ended = run.task.done()
    fields: JsonObject = {
        "id": run.id,
        "object": "run",
        "created": run.head.created,
        "model": run.head.model,
        "status": "running",
        "phase": run.run.phase,
        "mode": run.mode,
        "events": len(run.run.log.recorded()),
    }
    if not ended:
        return fields
    fields["stop_reason"] = run.run.stop_reason
    problem = run.problem()
    fields["status"] = "ended" if problem is None else "failed"
    if problem is not None:
        fields["error"] = decode_json(problem.to_json())["error"]
    elif whole:
        fields["response"] = completion_fields(run.head, run.reply, run.call_ids)
    return fields


def _json(fields: JsonObject, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode_json(fields), status, headers, "application/json")
