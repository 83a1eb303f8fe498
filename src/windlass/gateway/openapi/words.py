"""Builders of JSON Schemas. Pure."""

from typing import Any

from windlass.wires.fields import JsonObject

SCHEMAS_PATH = "#/components/schemas/"

TEXT: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
NUMBER: JsonObject = {"type": "number"}
FLAG: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}


def ref(name: str) -> JsonObject:
    return {"$ref": f"{SCHEMAS_PATH}{name}"}


def list_of(item: JsonObject, **more: Any) -> JsonObject:
    return {"type": "array", "items": item, **more}


def one_of(*values: Any) -> JsonObject:
    return {"enum": list(values)}


def any_of(*schemas: JsonObject) -> JsonObject:
    return {"anyOf": list(schemas)}


def or_null(schema: JsonObject, description: str = "") -> JsonObject:
    return {**_described(description), **any_of(schema, {"type": "null"})}


def an_object(required: JsonObject, description: str = "", /, **optional: JsonObject) -> JsonObject:
    """An object, which may have further fields: later versions can add some."""
    return {
        **_described(description),
        "type": "object",
        "properties": {**required, **optional},
        **({"required": list(required)} if required else {}),
    }


def _described(description: str) -> JsonObject:
    return {"description": description} if description else {}
