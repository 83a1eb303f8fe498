"""docs/worker-wire.md has every message, with the fields and the defaults of the code."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec

from windlass.content import FunctionResponse
from windlass.events import Outcome
from windlass.toolsets.remote import frames

PAGE = Path("docs/worker-wire.md").read_text()
FRAMES: dict[str, type[msgspec.Struct]] = {
    "announcement": frames.Announcement,
    "farewell": frames.Farewell,
    "progress": frames.Progress,
    "result": frames.Result,
    "busy": frames.Busy,
    "refused": frames.CallRefused,
    "pong": frames.Pong,
    "host_call": frames.HostCall,
    "call": frames.Call,
    "cancel": frames.Cancel,
}
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))


def fields_in(section: str) -> dict[str, Any]:
    """The fields in the first table of a text, with their defaults; ... for required ones."""
    _, _, table = section.partition("| Field | If absent | Meaning |\n|---|---|---|\n")
    fields: dict[str, Any] = {}
    for row in table.partition("\n\n")[0].splitlines():
        names, default = (cell.strip() for cell in row.split("|")[1:3])
        known = re.match(r"required$|`(?P<json>[^`]*)`|(?P<number>\d+)$", default)
        assert known is not None, row
        text = known["json"] or known["number"]
        for name in re.findall(r"`(\w+)`", names):
            fields[name] = ... if text is None else json.loads(text)
    return fields


def fields_of(kind: type[msgspec.Struct], *left_out: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name not in ("v", *left_out):
            default: Any = ... if field.required else field.default
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            found[field.name] = list(default) if default == () else default
    return found


def test_the_page_has_every_message_with_all_its_fields_and_defaults() -> None:
    assert SECTIONS.keys() == FRAMES.keys()
    for name, kind in FRAMES.items():
        assert fields_in(SECTIONS[name]) == fields_of(kind), name
    _, _, tool_table = SECTIONS["announcement"].partition("\nA tool:\n")
    assert fields_in(tool_table) == fields_of(frames.ToolSpec)
    _, _, response_table = SECTIONS["result"].partition("\n`response`:\n")
    assert fields_in(response_table) == fields_of(FunctionResponse, "extra")
    for outcome in get_args(Outcome):
        assert f"`{outcome}`" in SECTIONS["result"], outcome


def test_the_examples_of_the_page_are_valid_messages() -> None:
    read = 0
    for name, section in SECTIONS.items():
        for example in re.findall(r"```json\n(.*?)```", section, flags=re.DOTALL):
            for line in re.split(r"\n(?=\{)", example.strip()):
                msgspec.json.decode(line, type=FRAMES[name])
                read += 1
    assert read >= len(FRAMES)
