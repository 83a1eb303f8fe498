"""Writes the page about `windlass.toml`, from the types of its sections."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from scripts.reference import markdown
from scripts.reference.markdown import table
from scripts.reference.python_api import package

from windlass.gateway.config import values
from windlass.gateway.config.sections import description

SECTIONS = {
    "server": ("[server]", values.ServerConfig),
    "models": ("[models.NAME]", values.ModelConfig),
    "tools": ("[tools]", values.ToolsSection),
    "mcp": ("[mcp.NAME]", values.McpConfig),
    "keys": ("[[keys]]", values.KeyConfig),
    "limits": ("[limits]", values.LimitsConfig),
    "runs": ("[runs]", values.RunsConfig),
    "responses": ("[responses]", values.ResponsesConfig),
    "workers": ("[workers]", values.WorkersConfig),
}


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "needed"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return "none" if value is None else f"`{json.dumps(value)}`"


def _rows(title: str, kind: Any) -> Iterator[tuple[str, str, str, str]]:
    known = package()[f"gateway.config.values.{kind.__name__}"]
    for field in msgspec.structs.fields(kind):
        if field.name == "name" and "NAME" in title:
            continue
        docstring = known[field.name].docstring
        meaning = docstring.value if docstring else ""
        yield f"`{field.name}`", default_of(field), description(field.type), meaning


def page() -> str:
    assert set(SECTIONS) == set(values.ConfigFile.__struct_fields__), "a section is missing here"
    parts = [
        (
            "[Configuration](../configuration.md) explains these settings, with a "
            "complete example. "
            "`windlass check-config` checks a file.\n"
        )
    ]
    for title, kind in SECTIONS.values():
        parts.append(f"## `{title}`\n")
        text = (kind.__doc__ or "").split(": ", 1)[-1]
        parts.append(f"{text[:1].upper()}{text[1:]}\n")
        parts.append(table(("Key", "Default", "Value", "Meaning"), _rows(title, kind)))
    return markdown.page("windlass.toml", *parts)
