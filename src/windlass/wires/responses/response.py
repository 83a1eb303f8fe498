"""The response object: its fixed fields, its status and its errors. Pure."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from windlass.content import Usage
from windlass.events import StopReason
from windlass.jsontext import encode_json
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject
from windlass.wires.openai_errors import error_fields

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class ResponseHead(Struct, frozen=True):
    """The fields of a response that never change."""

    id: str
    created_at: int
    """The time of the run's first event, so that every reader sees the same."""
    model: str
    echo: JsonObject
    """`ResponseOptions.echo`."""


class ResponseEnd(Struct, frozen=True):
    """How a response ends."""

    status: Status
    incomplete: str | None = None
    """The reason of an incomplete response."""
    failure: Problem | None = None


RESPONSE_ENDS: dict[StopReason, ResponseEnd] = {
    "answer": ResponseEnd("completed"),
    "calls": ResponseEnd("completed"),
    "max_rounds": ResponseEnd("completed"),
    "budget": ResponseEnd("completed"),  # Codex repeats an incomplete response, which spends more
    "repetition": ResponseEnd("completed"),
    "length": ResponseEnd("incomplete", "max_output_tokens"),
    "content_filter": ResponseEnd("incomplete", "content_filter"),
    "malformed_call": ResponseEnd("failed"),
    "deadline": ResponseEnd("failed"),
    "stopped": ResponseEnd("cancelled"),
    "error": ResponseEnd("failed"),
}
"""How a response ends, by the stop reason of its run."""

END_EVENTS: dict[Status, str] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    # The protocol has no event of this name for a cancelled response.
    "cancelled": "response.incomplete",
}
"""The last event of a stream."""

_UNKNOWN_FAILURE = "The run failed."
QUOTA = "insufficient_quota"
_CODEX_CODES = frozenset(
    {
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_prompt",
        "rate_limit_exceeded",
        "server_is_overloaded",
        "slow_down",
        "usage_not_included",
    }
)
"""The codes that clients act on. Codex retries after any other code."""


def failure_of(problem: Problem) -> JsonObject:
    """The `error` of a failed response, with a code and words that Codex reads."""
    code, message = problem.code or "", problem.message or _UNKNOWN_FAILURE
    if problem.status == 402 or problem.type == QUOTA:
        code = QUOTA  # of a used up budget: Codex does not repeat the request
    elif code not in _CODEX_CODES:
        match problem.status:
            case 429:
                code = "rate_limit_exceeded"
            case 503 | 529:
                code = "server_is_overloaded"
            case 400 | 413 | 422:
                code = code or "invalid_prompt"
            case _:
                code = code or "server_error"
    if code == "rate_limit_exceeded" and problem.retry_after and "try again in" not in message:
        message = f"{message.rstrip('.')}. Please try again in {problem.retry_after:g}s."
    return {"code": code, "message": message}


def error_event_fields(problem: Problem) -> JsonObject:
    """The fields of an `error` event: flat for OpenAI's SDK, nested for Open Responses."""
    flat: JsonObject = {**failure_of(problem), "param": problem.param}
    return {**flat, "error": {"type": error_fields(problem)["type"], **flat}}


def error_frame(status: int, error: JsonObject) -> bytes:
    """A refused request on a WebSocket, which stays usable. Open Responses requires a code."""
    code = error["code"] or error["type"]
    return encode_json({"type": "error", "status": status, "error": {**error, "code": code}})


def item_page(
    items: Sequence[JsonObject],
    *,
    after: str | None = None,
    limit: int = 20,
    newest_first: bool = True,
) -> JsonObject:
    """One page of items as a list object; `after` is the id of the last item of the page before."""
    ordered = list(reversed(items)) if newest_first else list(items)
    ids = [item["id"] for item in ordered]
    start = ids.index(after) + 1 if after in ids else 0
    page = ordered[start : start + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + limit < len(ordered),
    }


def usage_fields(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thought_tokens},
        "total_tokens": usage.total_tokens,
    }


class ResponseObject:
    """Writes the response object. The fields that never change are encoded once."""

    __slots__ = ("_after", "_before")

    def __init__(self, head: ResponseHead) -> None:
        self._before = b'{"id":%s,"object":"response","created_at":%d,"model":%s,' % (
            encode_json(head.id),
            head.created_at,
            encode_json(head.model),
        )
        self._after = encode_json(head.echo)[1:]

    def write(
        self,
        status: Status,
        output: bytes,
        *,
        usage: Usage | None = None,
        completed_at: int | None = None,
        ending: ResponseEnd | None = None,
    ) -> bytes:
        """The response as JSON; `output` are the items with commas between them."""
        reason = ending.incomplete if ending else None
        failure = ending.failure if ending else None
        fields: JsonObject = {
            "status": status,
            "completed_at": completed_at,
            "error": failure_of(failure) if failure else None,
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": usage_fields(usage) if usage else None,
        }
        changing = encode_json(fields)[1:-1]
        return b"".join((self._before, changing, b',"output":[', output, b"],", self._after))
