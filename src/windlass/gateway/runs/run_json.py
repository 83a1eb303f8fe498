"""A run as JSON, for the runs API: the same for an active run, a finished one and a stored one."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from windlass.events import Phase, RunEvent, StopReason
from windlass.gateway.http.errors import MALFORMED_CALL
from windlass.jsontext import offloaded
from windlass.loop.history import History
from windlass.reply import Reply
from windlass.runs.encoding import are_large
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord
from windlass.settings import Mode
from windlass.wires.calls import CallIds
from windlass.wires.chat.read_request import WIRE
from windlass.wires.chat.write_events import (
    DEFAULT_FORM,
    CompletionHead,
    Form,
    completion_fields,
)
from windlass.wires.errors import Problem, error_fields
from windlass.wires.fields import JsonObject


class RunState(Struct, frozen=True, kw_only=True):
    """The current state of a run."""

    record: RunRecord
    phase: Phase
    mode: Mode | None = None
    done: bool = False
    problem: Problem | None = None
    """Why a finished run has no answer."""


def head_of(record: RunRecord) -> CompletionHead:
    """The head of the run's answer as a chat completion."""
    return CompletionHead(
        f"chatcmpl-{record.id.removeprefix('run_')}", int(record.created), record.model
    )


def form_of(origin: Origin) -> Form:
    """The form of the run's answer as a chat completion, which its request may have chosen."""
    return msgspec.convert(origin.answer, Form) if origin.wire == WIRE else DEFAULT_FORM


def run_fields(state: RunState) -> JsonObject:
    """The fields of a run, without its response."""
    record = state.record
    fields: JsonObject = {
        "id": record.id,
        "object": "run",
        "created": int(record.created),
        "ended": None if record.ended is None else int(record.ended),
        "model": record.model,
        "status": "running",
        "phase": state.phase,
        "mode": state.mode,
        "events": record.events,
        "title": record.title,
        "chat_id": record.chat or None,
    }
    if not state.done:
        return fields
    fields |= {"status": "ended", "stop_reason": record.reason}
    if state.problem is not None:
        fields |= {"status": "failed", "error": error_fields(state.problem)}
    return fields


async def reply_of(events: Sequence[RunEvent]) -> Reply:
    """The reply of an ended run; that of a large run is made off the event loop."""
    is_small = isinstance(events, list | tuple) and not are_large(events)
    return _reply(events) if is_small else await offloaded(_reply, events)


def _reply(events: Sequence[RunEvent]) -> Reply:
    return History(events).reply()


def response_fields(record: RunRecord, reply: Reply, ids: CallIds, form: Form) -> JsonObject:
    """The response of an ended run, as a chat completion."""
    return completion_fields(head_of(record), reply, ids, form)


FAILED_REASONS: frozenset[StopReason] = frozenset({"error", "deadline", "malformed_call"})
"""The stop reasons of runs with the status `failed`."""


def stored_problem(record: RunRecord) -> Problem | None:
    """Why an ended run failed, according to its record; None if it has an answer."""
    match record.reason:
        case "error":
            return Problem(500, record.error or "The run failed.", "run_failed")
        case "deadline":
            return Problem(504, "The run exceeded its time limit.", "run_timeout")
        case "malformed_call":
            return MALFORMED_CALL
        case _:
            return None
