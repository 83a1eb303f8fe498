"""One operation of the OpenAPI document: a method of a path. Pure."""

from typing import get_args

from msgspec import Struct

from windlass.gateway.openapi.words import ref
from windlass.settings import Mode
from windlass.wires.fields import JsonObject

ALWAYS = (405, 431, 500)
GUARDED = (401, 403, *ALWAYS)
WITH_BODY = (400, 408, 413, 415)
STARTING = (404, 429, 503, *WITH_BODY, *GUARDED)
WAITING = (409, 422, 502, 504)
"""The statuses of a run that fails while its client waits for it."""

MODE_SCHEMA: JsonObject = {"type": "string", "enum": list(get_args(Mode))}
EVENT_STREAM = "text/event-stream"
JSON = "application/json"


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    id: str
    summary: str
    answer: JsonObject
    """The schemas of the response by content type."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: str | None = None
    """The name of the request body's schema."""
    parameters: tuple[JsonObject, ...] = ()
    problems: tuple[int, ...] = GUARDED
    more: JsonObject = {}
    """Further responses that are no errors, by status."""
    guarded: bool = True
    """Whether the operation needs a key."""


def json_answer(name: str) -> JsonObject:
    return {JSON: {"schema": ref(name)}}


def parameter(name: str, place: str, description: str, schema: JsonObject) -> JsonObject:
    required = {"name": name, "in": place, "required": place == "path"}
    return {**required, "description": description, "schema": schema}
