"""Writes the page about the types of each wire: the fields that the gateway reads and writes."""

from collections.abc import Iterator
from typing import Any

from scripts.reference import markdown
from scripts.reference.http_api import fields_table, shape

from windlass.gateway.routes.openapi import openapi_document

WIRES = {
    "Chat completions": ("/v1/chat/completions", "../gateway.md"),
    "Responses": ("/v1/responses", "../responses.md"),
    "Messages": ("/v1/messages", "../messages.md"),
    "Gemini": ("/v1beta/models", "../gemini-api.md"),
}
REST = "Runs, chats and tools"


def _names(value: Any) -> Iterator[str]:
    """Returns the schemas that a part of the document refers to."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "$ref" and "/schemas/" in each:
                yield each.rpartition("/")[2]
            else:
                yield from _names(each)
    elif isinstance(value, list):
        for each in value:
            yield from _names(each)


def by_wire(whole: dict[str, Any]) -> dict[str, list[str]]:
    """Returns each schema once, under the first wire that uses it, in the order of use."""
    known, seen = whole["components"]["schemas"], set[str]()
    found: dict[str, list[str]] = {}
    for title, (prefix, _) in {**WIRES, REST: ("/", "")}.items():
        names: list[str] = []
        waiting = [
            name
            for path, methods in whole["paths"].items()
            if path.startswith(prefix)
            for name in _names(methods)
        ]
        while waiting:
            name = waiting.pop(0)
            if name not in seen:
                seen.add(name)
                names.append(name)
                waiting += _names(known[name])
        found[title] = names
    return found


def _schema(name: str, schema: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    yield f"### `{name}`\n"
    if text := schema.get("description"):
        yield f"{text}\n"
    yield fields_table(schema, known) or f"{shape(schema)}\n"
    yield ""


def page() -> str:
    whole: dict[str, Any] = openapi_document()
    known: dict[str, Any] = whole["components"]["schemas"]
    parts = [
        (
            "The types of the gateway's APIs, from its OpenAPI document. [Wires](../wires.md) has "
            "what each wire can express. Fields that are not listed are accepted and ignored, or "
            "passed to a model of the same provider.\n"
        )
    ]
    for title, names in by_wire(whole).items():
        parts.append(f"## {title}\n")
        if title in WIRES:
            parts.append(f"[More about this API]({WIRES[title][1]}).\n")
        for name in names:
            parts += _schema(name, known[name], known)
    return markdown.page("Types of the wires", *parts)
