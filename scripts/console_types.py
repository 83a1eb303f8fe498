"""Writes the console's TypeScript types of the gateway's API.

They are made of the OpenAPI document, which is made of the event definitions, so that page and
server cannot
drift apart. `make console` writes the file; `--check` only compares it.
"""

import sys
from pathlib import Path
from typing import Any

from windlass.gateway.routes.openapi import openapi_document

FILE = Path(__file__).parent.parent / "console" / "src" / "wire" / "types.ts"
HEAD = "// Made by scripts/console_types.py of the gateway's OpenAPI document. Do not edit.\n"


def types() -> str:
    """Returns the text of the module."""
    schemas = openapi_document()["components"]["schemas"]
    return "\n".join([HEAD, *(_declared(name, schema) for name, schema in schemas.items())])


def _declared(name: str, schema: dict[str, Any]) -> str:
    return f"{_comment(schema, '')}export type {name} = {_type(schema, '')};\n"


def _type(schema: Any, indent: str) -> str:
    match schema:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"const": value}:
            return _literal(value)
        case {"enum": [*values]}:
            return " | ".join(_literal(value) for value in values)
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return " | ".join(dict.fromkeys(_grouped(option, indent) for option in options))
        case {"allOf": [*options]}:
            return " & ".join(_grouped(option, indent) for option in options)
        case {"type": "object", "properties": dict(fields)} if fields:
            return _object(fields, schema.get("required", ()), indent)
        case {"type": "object", "additionalProperties": dict(value)} if value:
            return f"Record<string, {_type(value, indent)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": "array", "items": items}:
            return f"Array<{_type(items, indent)}>"
        case {"type": "array"}:
            return "Array<unknown>"
        case {"type": [*names]}:
            return " | ".join(_type({"type": name}, indent) for name in names)
        case {"type": str(name)}:
            return {"integer": "number"}.get(name, name)
        case _:
            return "unknown"


def _object(fields: dict[str, Any], required: Any, indent: str) -> str:
    inner = indent + "  "
    lines = [
        f"{_comment(schema, inner)}{inner}{name}{'' if name in required else '?'}:"
        f" {_type(schema, inner)};"
        for name, schema in fields.items()
    ]
    return "\n".join(["{", *lines, f"{indent}}}"])


def _grouped(schema: Any, indent: str) -> str:
    made = _type(schema, indent)
    return f"({made})" if " | " in made or " & " in made else made


def _comment(schema: Any, indent: str) -> str:
    description = schema.get("description") if isinstance(schema, dict) else None
    return f"{indent}/** {' '.join(str(description).split())} */\n" if description else ""


def _literal(value: Any) -> str:
    return (
        "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value).lower()
    )


def main(arguments: list[str]) -> int:
    """Writes the file, or reports whether it is current."""
    made = types()
    if "--check" not in arguments:
        FILE.write_text(made)
    elif FILE.read_text() != made:
        sys.stderr.write("The console's types are not those of the gateway: run `make console`.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
