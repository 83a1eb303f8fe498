"""Constrained decoding: a JSON Schema that only allows a call. Pure.

If a server can constrain the output to a schema (OpenAI's `response_format`, Gemini's response
schema, llama.cpp's grammar), even a very small model writes the call that is required.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from windlass.content import FunctionDeclaration, Schema
from windlass.emulation.prompt import AnswerForm
from windlass.emulation.turn_reader import TextParser
from windlass.errors import ModelError
from windlass.events import ModelEvent, TextDelta
from windlass.model import Settings, ToolChoice
from windlass.schema import mapped, plain

Constrain = Literal["auto", "always", "never"]
"""When to constrain decoding: if a call is required, if a call is allowed, or never."""

_DEFINITIONS = "#/$defs/"
_REFUSED = re.compile(
    r"(?i)response_?format|response_?mime|json[ _]?(schema|mode|object)|response_?(json_?)?schema"
    r"|structured[ _]output|output_(config|format)|text\.format|guided|grammar"
)


class Constraint(Struct, frozen=True):
    """The schema for the server, and what the prompt says about it."""

    schema: Schema | None
    answer: AnswerForm = "text"
    prompted_schema: Schema | None = None
    """The caller's own schema, for the prompt, because the answer may also be a call."""


def constraint(
    tools: Sequence[FunctionDeclaration],
    choice: ToolChoice,
    settings: Settings,
    constrain: Constrain,
) -> Constraint:
    """Returns the constraint of one request. `tools` are those that may be called."""
    wanted = settings.response_schema
    if not tools:
        return Constraint(wanted)
    if choice.mode == "required":
        if constrain == "never":
            return Constraint(None)
        return Constraint(call_schema(tools), "call_json")
    if wanted is not None:
        # The caller's schema alone would not allow a call.
        if constrain == "never":
            return Constraint(None, "text", wanted)
        others = (wanted,) if wanted else ()
        return Constraint(call_schema(tools, others) if others else {}, "call_or_json", wanted)
    if constrain == "always":
        return Constraint(call_schema(tools, (_ANSWER,)), "call_or_answer_json")
    return Constraint(None)


_ANSWER: Schema = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def call_schema(tools: Sequence[FunctionDeclaration], others: Sequence[Schema] = ()) -> Schema:
    """Returns a schema that allows one call of any of the tools, or a value of `others`."""
    options: list[Schema] = []
    definitions: dict[str, Schema] = {}
    for number, schema in enumerate([*map(_one_call, tools), *map(plain, others)]):
        moved = _moved(schema, f"{number}.")
        definitions |= moved.pop("$defs", {})
        options.append(moved)
    root: Schema = options[0] if len(options) == 1 else {"type": "object", "anyOf": options}
    return {**root, "$defs": definitions} if definitions else root


def _one_call(tool: FunctionDeclaration) -> Schema:
    """Returns the schema of a call. The name comes first, because decoding follows this order."""
    parameters = dict(plain(tool.parameters))
    definitions = parameters.pop("$defs", None)
    schema: Schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [tool.name]}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _moved(schema: Schema, prefix: str) -> Schema:
    """Returns the schema with renamed definitions, so that several schemas can be combined."""

    def renamed(inner: Schema) -> Schema:
        result = mapped(inner, renamed)
        reference = result.get("$ref")
        if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
            result["$ref"] = f"{_DEFINITIONS}{prefix}{reference.removeprefix(_DEFINITIONS)}"
        if isinstance(result.get("$defs"), dict):
            definitions = cast("dict[str, Schema]", result["$defs"])
            result["$defs"] = {f"{prefix}{name}": value for name, value in definitions.items()}
        return result

    return renamed(schema)


def is_refusal(problem: ModelError) -> bool:
    """Whether the error says that the server cannot constrain decoding, or not to this schema."""
    return problem.status in (400, 404, 415, 422, 500, 501) and bool(
        _REFUSED.search(problem.message)
    )


class AnswerReader:
    """Reads `{"answer": text}` as text, and passes everything else to the parser."""

    def __init__(self, parser: TextParser) -> None:
        self._parser = parser
        self._pieces: list[str] = []

    def feed(self, text: str) -> list[ModelEvent]:
        self._pieces.append(text)
        return []

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        text = "".join(self._pieces)
        try:
            value: Any = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            value = None
        match value:
            case {"answer": str(answer)} if len(value) == 1:
                return [TextDelta(answer)]
            case _:
                return [*self._parser.feed(text), *self._parser.finish(truncated=truncated)]
