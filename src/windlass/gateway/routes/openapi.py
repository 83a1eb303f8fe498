"""`/openapi.json`: the document of all route families."""

import functools
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.gateway.openapi.operations import Operation, Paths
from windlass.gateway.routes import (
    chats,
    completions,
    conversations,
    gemini,
    info,
    messages,
    responses,
    runs,
    tools,
)
from windlass.jsontext import encode_json, offloaded
from windlass.wires.fields import JsonObject

FAMILIES = (completions, messages, responses, conversations, gemini, runs, chats, tools, info)
"""The route modules; each describes its endpoints in `PATHS`."""
PATHS: Paths = {
    **{path: methods for family in FAMILIES for path, methods in family.PATHS.items()},
    "/openapi.json": {
        "get": Operation(id="openapi", summary="Returns this document.", answer=dict[str, Any])
    },
}


@functools.cache
def openapi_document() -> JsonObject:
    """The document of the gateway's endpoints."""
    # Imported here: it needs pydantic, and most gateways never serve the document.
    from windlass.gateway.openapi.document import document_of

    return document_of(PATHS)


@functools.cache
def _encoded() -> bytes:
    return encode_json(openapi_document())


async def show_openapi(request: Request) -> Response:
    # The first call derives all schemas, which takes a third of a second.
    return Response(await offloaded(_encoded), media_type="application/json")
