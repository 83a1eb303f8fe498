"""Writes the page about the gateway's HTTP API, from its OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any

from scripts.reference import markdown
from scripts.reference.markdown import table

from windlass.gateway.openapi.document import PROBLEMS
from windlass.gateway.routes.openapi import FAMILIES, openapi_document

TITLES = {
    "completions": "Chat completions",
    "messages": "Messages",
    "responses": "Responses",
    "conversations": "Conversations",
    "gemini": "Gemini",
    "runs": "Runs",
    "chats": "Chats",
    "tools": "Tools",
    "info": "Models, health and metrics",
}


def document() -> str:
    return json.dumps(openapi_document(), indent=1) + "\n"


TYPES_PAGE = "wire-types.md"


def shape(schema: dict[str, Any]) -> str:
    """Returns the name of a schema with a link, or its type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`]({TYPES_PAGE}#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(shape(each) for each in schema[several]))
    if schema.get("type") == "array":
        return f"a list of {shape(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = schema.get("type", "any")
    return " or ".join(f"`{each}`" for each in ([kind] if isinstance(kind, str) else kind))


def fields(schema: dict[str, Any], known: dict[str, Any]) -> list[tuple[str, str, str]]:
    while "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    needed = schema.get("required", [])
    return [
        (
            f"`{name}`" + (" (needed)" if name in needed else ""),
            shape(field),
            str(field.get("description", "")),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def fields_table(schema: dict[str, Any], known: dict[str, Any]) -> str:
    """Returns the fields of a schema as a table, with their meanings if there are any."""
    rows = fields(schema, known)
    if not rows:
        return ""
    described = any(text for *_, text in rows)
    head = ("Field", "Type", "Meaning") if described else ("Field", "Type")
    return table(head, rows if described else [each[:2] for each in rows])


def _operation(
    path: str, method: str, what: dict[str, Any], known: dict[str, Any]
) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    yield f"{what.get('summary', '')}\n"
    rows = [
        (f"`{each['name']}`", each["in"], shape(each["schema"]), each.get("description", ""))
        for each in what.get("parameters", [])
    ]
    if rows:
        yield table(("Parameter", "In", "Type", "Meaning"), rows)
        yield ""
    body = what.get("requestBody", {}).get("content", {}).get("application/json", {})
    if listed := fields_table(body.get("schema", {}), known):
        yield "Body:\n"
        yield listed
        yield ""
    statuses = []
    for status, answer in what.get("responses", {}).items():
        kinds = [
            f"{kind}: {shape(each.get('schema', each.get('itemSchema', {})))}"
            if kind == "application/json"
            else f"`{kind}`"
            for kind, each in answer.get("content", {}).items()
        ]
        if int(status) < 400:
            statuses.append((f"{status}", "; ".join(kinds) or answer.get("description", "")))
    failures = [status for status in what.get("responses", {}) if int(status) >= 400]
    if failures:
        statuses.append((", ".join(failures), "[an error](#errors)"))
    yield table(("Status", "Answer"), statuses)
    yield ""


def page() -> str:
    whole: dict[str, Any] = openapi_document()
    known: dict[str, Any] = whole["components"]["schemas"]
    parts = [
        (
            "The gateway serves this description as `/openapi.json`; "
            "[openapi.json](openapi.json) is the same file. Keys are sent as "
            "`Authorization: Bearer KEY` or `X-API-Key: KEY`.\n"
        ),
    ]
    for family in FAMILIES:
        title = TITLES[family.__name__.rpartition(".")[2]]
        parts.append(f"## {title}\n")
        for path in family.PATHS:
            for method, what in whole["paths"][path].items():
                if method in ("get", "post", "put", "patch", "delete"):
                    parts += _operation(path, method, what, known)
    parts += [
        "## Errors\n",
        (
            "An error has the form of the client's API. Each has a `code` that does not "
            "change, or a "
            "type that the API defines.\n"
        ),
        table(("Status", "Meaning"), ((str(status), text) for status, text in PROBLEMS.items())),
    ]
    return markdown.page("HTTP API", *parts)
