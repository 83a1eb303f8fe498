"""What one method of one address takes and answers, in short words. Pure."""

from typing import get_args

from msgspec import Struct

from windlass.gateway.openapi.words import ref
from windlass.settings import Mode
from windlass.wires.fields import JsonObject

__all__ = [
    "ALWAYS",
    "EVENT_STREAM",
    "GUARDED",
    "JSON",
    "MODE_WORDS",
    "STARTING",
    "WAITED_FOR",
    "WITH_BODY",
    "Operation",
    "json_answer",
    "parameter",
]

ALWAYS = (405, 431, 500)
GUARDED = (401, 403, *ALWAYS)
WITH_BODY = (400, 408, 413, 415)
STARTING = (404, 429, 503, *WITH_BODY, *GUARDED)
WAITED_FOR = (409, 422, 502, 504)
"""What a run can fail with while its client waits for it."""

MODE_WORDS: JsonObject = {"type": "string", "enum": list(get_args(Mode))}
EVENT_STREAM = "text/event-stream"
JSON = "application/json"


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one address."""

    id: str
    says: str
    answer: JsonObject
    """By content type."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: str | None = None
    """The name of its schema."""
    parameters: tuple[JsonObject, ...] = ()
    problems: tuple[int, ...] = GUARDED
    more: JsonObject = {}
    """Answers that are no problem, by status."""
    guarded: bool = True


def json_answer(name: str) -> JsonObject:
    return {JSON: {"schema": ref(name)}}


def parameter(name: str, place: str, says: str, schema: JsonObject) -> JsonObject:
    required = place == "path"
    return {"name": name, "in": place, "required": required, "description": says, "schema": schema}
