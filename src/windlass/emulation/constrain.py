"""Constrained decoding: a JSON Schema that leaves a model nothing to write but a call. Pure.

Where a server can hold the model to a schema (OpenAI's `response_format`, Gemini's response schema,
llama.cpp's grammar), a call that must come does come, even from a very small model.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from windlass.content import FunctionDeclaration, Schema
from windlass.emulation.prompt import Answer
from windlass.emulation.turn_reader import TextParser
from windlass.errors import ModelError
from windlass.events import ModelEvent, TextDelta
from windlass.model import Settings, ToolChoice
from windlass.schema import mapped, plain

Constrain = Literal["auto", "always", "never"]
"""When to constrain decoding: where a call must come, whenever a tool may be called, or never."""

_DEFINITIONS = "#/$defs/"
_REFUSED = re.compile(
    r"(?i)response_?format|response_?mime|json[ _]?(schema|mode|object)|response_?(json_?)?schema"
    r"|structured[ _]output|guided|grammar"
)


class Constraint(Struct, frozen=True):
    """What the server is asked to hold the model to, and how the model is told of it."""

    schema: Schema | None
    answer: Answer = "text"
    in_words: Schema | None = None
    """The caller's own schema, to be told to the model: it shares the answer with the calls."""


def constraint(
    tools: Sequence[FunctionDeclaration],
    choice: ToolChoice,
    settings: Settings,
    constrain: Constrain,
) -> Constraint:
    """The constraint of one request. `tools` are those that may be called."""
    wanted = settings.response_schema
    if not tools:
        return Constraint(wanted)
    if choice.mode == "required":
        if constrain == "never":
            return Constraint(None)
        return Constraint(call_schema(tools), "call_json")
    if wanted is not None:
        # The caller's schema alone would leave no room for a call.
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
    """A schema of one call of any of the tools, or of any of the `others`."""
    options: list[Schema] = []
    definitions: dict[str, Schema] = {}
    for number, schema in enumerate([*map(_one_call, tools), *map(plain, others)]):
        moved = _moved(schema, f"{number}.")
        definitions |= moved.pop("$defs", {})
        options.append(moved)
    root: Schema = options[0] if len(options) == 1 else {"type": "object", "anyOf": options}
    return {**root, "$defs": definitions} if definitions else root


def _one_call(tool: FunctionDeclaration) -> Schema:
    """The name comes first: decoding follows the order, and a call is told by its name."""
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
    """The schema with its definitions renamed: those of several schemas then stand together."""

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
    """Whether a server says that it cannot constrain decoding, or not to this schema."""
    return problem.status in (400, 404, 415, 422, 500, 501) and bool(
        _REFUSED.search(problem.message)
    )


class AnswerReader:
    """Reads `{"answer": text}` as the text; anything else is the parser's."""

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
