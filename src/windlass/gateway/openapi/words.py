"""Short words for JSON Schemas. Pure."""

from typing import Any

from windlass.wires.fields import JsonObject

__all__ = [
    "COUNT",
    "FLAG",
    "NUMBER",
    "OBJECT",
    "PLACE",
    "TEXT",
    "WHOLE",
    "any_of",
    "an_object",
    "list_of",
    "one_of",
    "or_null",
    "ref",
]

PLACE = "#/components/schemas/"

TEXT: JsonObject = {"type": "string"}
WHOLE: JsonObject = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
NUMBER: JsonObject = {"type": "number"}
FLAG: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}


def ref(name: str) -> JsonObject:
    return {"$ref": f"{PLACE}{name}"}


def list_of(item: JsonObject, **more: Any) -> JsonObject:
    return {"type": "array", "items": item, **more}


def one_of(*values: Any) -> JsonObject:
    return {"enum": list(values)}


def any_of(*schemas: JsonObject) -> JsonObject:
    return {"anyOf": list(schemas)}


def or_null(schema: JsonObject, says: str = "") -> JsonObject:
    return {**_described(says), **any_of(schema, {"type": "null"})}


def an_object(required: JsonObject, says: str = "", **optional: JsonObject) -> JsonObject:
    """Fields beside these are allowed: both sides may know more than is said here."""
    return {
        **_described(says),
        "type": "object",
        "properties": {**required, **optional},
        **({"required": list(required)} if required else {}),
    }


def _described(says: str) -> JsonObject:
    return {"description": says} if says else {}
