"""The OpenAPI document: assembled from the operations of the route families, and their types."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import Struct
from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonRef
from typing_extensions import is_typeddict

from windlass.events import Event, RunEvent
from windlass.gateway.openapi.operations import EventStream, Operation, Paths
from windlass.wires.chat.types import ErrorJson
from windlass.wires.fields import JsonObject

INFO: JsonObject = {
    "title": "Windlass gateway",
    "version": "1",
    "description": "Models with server tools, over several APIs, and the runs behind them.",
}
SECURITY_SCHEMES: JsonObject = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
ANY_KEY: list[JsonObject] = [{"bearer": []}, {"apiKey": []}, {}]
"""The accepted forms of a key. A gateway without keys accepts the last entry, which is empty."""

PROBLEMS: dict[int, str] = {
    400: "The request is invalid; `param` names the field.",
    401: "The key is missing or invalid.",
    403: "The request comes from a web page of another origin, or the key may not use the session.",
    404: "No such resource exists, or this key may not use it.",
    405: "Method not allowed; the header `Allow` lists the methods of the path.",
    408: "The body or the upstream's answer did not arrive in time.",
    409: "The call is not waiting for approval, the tool needs approval, a run is still active, or"
    " the upstream reported a conflict.",
    413: "The body is too large.",
    415: "The content type of the body is not JSON.",
    422: "The upstream could not process the request.",
    424: "An MCP server of the request cannot be reached.",
    429: "Too many requests or runs.",
    431: "The headers are too large.",
    500: "The gateway failed, a tool limit was reached, or native function calling failed.",
    502: "The upstream failed.",
    503: "The gateway or the upstream is overloaded, or the gateway is shutting down.",
    504: "The run or the upstream took too long.",
}
PROBLEM_HEADERS: dict[int, str] = {405: "Allow", 429: "Retry-After", 503: "Retry-After"}
JSON = "application/json"
TEXT: JsonObject = {"type": "string"}
WITH_STRUCTS = ConfigDict(arbitrary_types_allowed=True)


def _reference(kind: str, name: str) -> JsonObject:
    return {"$ref": f"#/components/{kind}/{name}"}


HEADERS: JsonObject = {
    "X-Request-Id": {"schema": TEXT},
    "X-Windlass-Run-Id": {
        "description": "The id of the run; `GET /v1/runs/{run_id}` returns the run.",
        "schema": TEXT,
    },
    "X-Function-Calling-Mode": {
        "description": "The function calling mode that was used.",
        "schema": _reference("schemas", "Mode"),
    },
    "Retry-After": {
        "description": "Seconds to wait before a retry.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Content-Disposition": {"schema": TEXT},
    "Location": {"schema": TEXT},
    "Allow": {"schema": TEXT},
}


def document_of(paths: Paths) -> JsonObject:
    """The document of these operations, in OpenAPI 3.1."""
    operations = [operation for methods in paths.values() for operation in methods.values()]
    schemas = _Schemas(kind for operation in operations for kind in _types_of(operation))
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": {
            path: {name: _operation(operation, schemas) for name, operation in methods.items()}
            for path, methods in paths.items()
        },
        "components": {
            "schemas": schemas.components,
            "headers": HEADERS,
            "responses": {str(status): _problem(status, ErrorJson, schemas) for status in PROBLEMS},
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _types_of(operation: Operation) -> Iterator[Any]:
    """The types of all JSON in an operation."""
    yield from (parameter.type for parameter in operation.parameters)
    yield from (other.answer for other in operation.more.values())
    yield from operation.stream.kinds if operation.stream else ()
    yield from (operation.body, operation.answer, operation.error)


def _operation(operation: Operation, schemas: "_Schemas") -> JsonObject:
    described: JsonObject = {
        "operationId": operation.id,
        "summary": operation.summary,
        "security": ANY_KEY if operation.guarded else [],
    }
    if operation.parameters:
        described["parameters"] = [
            {
                "name": parameter.name,
                "in": parameter.place,
                "required": parameter.place == "path",
                "description": parameter.description,
                "schema": schemas.of(parameter.type),
            }
            for parameter in operation.parameters
        ]
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": schemas.content(operation.body)}
    responses: dict[int, JsonObject] = {
        operation.status: {
            "description": operation.summary,
            "headers": _headers("X-Request-Id", *operation.headers),
            "content": _answers(operation, schemas),
        },
        **{
            status: _reference("responses", str(status))
            if operation.error is ErrorJson
            else _problem(status, operation.error, schemas)
            for status in operation.problems
        },
        **{
            status: {"description": other.description, **_content(other.answer, schemas)}
            for status, other in operation.more.items()
        },
    }
    described["responses"] = {str(status): responses[status] for status in sorted(responses)}
    return described


def _answers(operation: Operation, schemas: "_Schemas") -> JsonObject:
    content = _content(operation.answer, schemas).get("content", {})
    if operation.stream is not None:
        content["text/event-stream"] = {"schema": _event_stream(operation.stream, schemas)}
    return {**content, **{kind: {"schema": TEXT} for kind in operation.texts}}


def _content(kind: Any, schemas: "_Schemas") -> JsonObject:
    return {} if kind is None else {"content": schemas.content(kind)}


def _event_stream(stream: EventStream, schemas: "_Schemas") -> JsonObject:
    """The schema of one server-sent event."""
    kinds = {"anyOf": [schemas.of(kind) for kind in stream.kinds]}
    data = {**TEXT, "contentMediaType": JSON, "contentSchema": kinds}
    if stream.last is not None:
        data = {"anyOf": [{"enum": [stream.last]}, data]}
    fields = {"data": data, "event": TEXT, "id": TEXT}
    return {"type": "object", "properties": fields, "required": ["data"]}


def _problem(status: int, error: Any, schemas: "_Schemas") -> JsonObject:
    names = ("X-Request-Id", *filter(None, [PROBLEM_HEADERS.get(status)]))
    return {
        "description": PROBLEMS[status],
        "headers": _headers(*names),
        "content": schemas.content(error),
    }


def _headers(*names: str) -> JsonObject:
    return {name: _reference("headers", name) for name in names}


class _Schemas:
    """The schemas of types: structs by msgspec, everything else by pydantic."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        types: dict[int, Any] = {id(kind): kind for kind in (*kinds, ErrorJson) if kind is not None}
        adapters = {key: _adapter(kind) for key, kind in types.items()}
        self._schemas, made = TypeAdapter.json_schemas(
            [(key, "validation", adapter) for key, adapter in adapters.items()],
            ref_template="#/components/schemas/{model}",
            schema_generator=_Generator,
        )
        structs = [kind for kind in types.values() if _is_struct(kind)]
        self.components: JsonObject = {**made.get("$defs", {}), **_struct_schemas(structs)}

    def of(self, kind: Any) -> JsonObject:
        return self._schemas[id(kind), "validation"]

    def content(self, kind: Any) -> JsonObject:
        return {JSON: {"schema": self.of(kind)}}


class _Generator(GenerateJsonSchema):
    """Schemas without titles, which refer to structs by name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def typed_dict_schema(self, schema: Any) -> JsonObject:
        made = super().typed_dict_schema(schema)
        made.pop("title", None)
        return made

    def is_instance_schema(self, schema: Any) -> JsonObject:
        return _reference("schemas", schema["cls"].__name__)

    def get_schema_from_definitions(self, json_ref: JsonRef) -> JsonObject | None:
        known = json_ref in self.json_to_defs_refs  # not the structs
        return super().get_schema_from_definitions(json_ref) if known else None

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removesuffix("Json")


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    # A typed dictionary has its own configuration, and accepts no other.
    return TypeAdapter(kind, config=None if is_typeddict(kind) else WITH_STRUCTS)


def _struct_schemas(structs: Iterable[type[Struct]]) -> JsonObject:
    """The schemas of these structs and of all events."""
    kinds: tuple[type[Event], ...] = get_args(RunEvent)
    template = _reference("schemas", "{name}")["$ref"]
    _, made = msgspec.json.schema_components((*kinds, *structs), ref_template=template)
    events = {kind.__name__: _as_sent(made[kind.__name__], kind) for kind in kinds}
    tags = {str(kind.__struct_config__.tag): template.format(name=kind.__name__) for kind in kinds}
    any_event = {
        "oneOf": [{"$ref": place} for place in tags.values()],
        "discriminator": {"propertyName": "event", "mapping": tags},
    }
    return {**made, **events, "RunEvent": any_event}


def _as_sent(schema: Mapping[str, Any], kind: type[Event]) -> JsonObject:
    """Adds the fields that are constant for each kind of event, as clients receive them."""
    constant = {"type": {"enum": [kind.type]}, "done": {"enum": [kind.done]}}
    return {
        **schema,
        "properties": {**schema["properties"], **constant},
        "required": [*schema["required"], *constant, "seq", "time"],
    }
